"""SGLang's exact lines, and lines of others that contain the same words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import ROOT
from dsv4_pd.plan.guard.config import MemoryBudget
from dsv4_pd.run.guard.decide.states import Phase, Remedy
from dsv4_pd.run.guard.watch.advice import advice
from dsv4_pd.run.guard.watch.record import Watch
from dsv4_pd.run.guard.watch.signatures import Signatures, message_of
from support.signature_sources import ISSUE, ONLY_WITH_CUDA, ROWS, name, written

TABLE = Signatures((ROOT / "config/signatures.toml").read_text(encoding="utf-8"))
AT = "[2026-11-29 15:20:11 TP0] "
ROLE, PAIR, EXIT, EXPLAIN = Remedy.RESTART_ROLE, Remedy.RESTART_PAIR, Remedy.EXIT, Remedy.EXPLAIN
OOM = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 94.97 GiB of which 512.00 MiB is "
    "free. Including non-PyTorch memory, this process has 94.45 GiB memory in use."
)

# As torch, NCCL and the engine write them: public reports of the first two, modelopt_quant.py of the engine.
COUNT = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error?"
)
NCCL = "[E1130 20:27:21.426415540 ProcessGroupNCCL.cpp:629]"
THREAD = f"{NCCL} [PG ID 2 PG GUID 3 Rank 2] Process group watchdog thread terminated with exception:"
NVFP4 = (
    "Unsupported moe_runner_backend for NVFP4 MoE: MoeRunnerBackend.TRITON. Use --moe-runner-backend "
    "flashinfer_cutlass instead."
)

FATAL = [
    (AT + "Scheduler hit an exception: Traceback (most recent call last):", ROLE, 1),
    ("[2026-11-29 15:20:11] Received sigquit from a child process. It usually means the child failed.", ROLE, 1),
    ("[2026-11-29 15:20:11] SIGQUIT received. signum=3", ROLE, 1),
    ("[2026-11-29 15:20:11] Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT",
     ROLE, 1),
    (AT + "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", ROLE, 1),
    ("[2026-11-29 15:20:11] Disaggregation warmup failed (mode=prefill): 500", ROLE, 1),
    (AT + "Prefill instance failed to register to bootstrap server after 5 retries", ROLE, 1),
    (AT + "NIXL create_backend('UCX', {}) did not return within 60s", ROLE, 1),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", ROLE, 1),
    ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", ROLE, 1),
    ("[2026-11-29 15:20:11] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30001): "
     "address already in use", ROLE, 75),
    (AT + "NIXL memory registration failed for src_addrs", ROLE, 1),
    ("[2026-11-29 15:20:11] Initialization failed. warmup error: Traceback (most recent call last):", ROLE, 1),
    ("RuntimeError: CUDA error: operation not supported on global/shared address space", ROLE, 1),
    ("RuntimeError: Prefill out of memory. Try to lower your batch size.", ROLE, 1),
    (AT + "Decode out of memory. Try to lower your batch size.", ROLE, 1),
    ("[2026-11-29 15:20:11] Port is already in use. dist_init_port=30335 port_base=30336", ROLE, 75),
    ("ValueError: nccl_port at 30335 is not available in 60 seconds. ", ROLE, 75),
    (AT + "NIXL state layout rejected for room 7", PAIR, 1),
    ("RuntimeError: KV layout mismatch: prefill server has kv_layout=x, but decode server has kv_layout=y", EXIT, 1),
    ("RuntimeError: Page size mismatch: prefill 64, decode 256", EXIT, 1),
    ("RuntimeError: KV cache dtype mismatch: prefill fp8_e4m3, decode bfloat16", EXIT, 1),
    ("RuntimeError: DeepSeek-V4.1 DSpark PD layout mismatch (block_size): both servers must use the same", EXIT, 1),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.8", EXIT, 2),
    ("Exception: Capture cuda graph failed: CUDA out of memory.", EXIT, 2),
    ("Exception: Capture cuda graph failed: an illegal memory access", EXIT, 1),
    ("Exception: Capture prefill CUDA graph failed: an illegal memory access", EXIT, 1),
    ("sglang serve: error: unrecognized arguments: --no-such-flag 1", EXIT, 2),
    ("sglang serve: error: argument --stream-interval: invalid int value: 'x'", EXIT, 2),
    (f"torch.OutOfMemoryError: {OOM}", EXIT, 2),
    (f"torch.cuda.OutOfMemoryError: {OOM}", EXIT, 2),
    (f"RuntimeError: {OOM}", EXIT, 2),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", EXIT, 2),
    ("torch.AcceleratorError: CUDA error: out of memory", EXIT, 2),
    ("RuntimeError: CUDA driver error: out of memory", EXIT, 2),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", EXIT, 2),
    ("RuntimeError: Triton Error [CUDA]: out of memory", EXIT, 2),
    ("ValueError: Not enough host memory for V4 paged pool deepseek_v4_c4. Requesting 90.00 GB", EXIT, 2),
    ("ValueError: Not enough host memory for V4 state pool c4. Requesting 90.00 GB", EXIT, 2),
    ("ValueError: Not enough host memory available. Requesting 90.00 GB but only have 8.00 GB free.", EXIT, 2),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:127] data. DefaultCPUAllocator: can't allocate memory: you tried to "
     "allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)", EXIT, 2),
    ("torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)", EXIT, 2),
    ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", EXIT, 2),
    (f"{COUNT} Error 2: out of memory", EXIT, 2),
    ("Cuda failure 2 'out of memory'", EXIT, 2),
    ("ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 'out of memory'", EXIT, 2),
    ("torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:275, unhandled cuda error, NCCL version "
     "2.27.3 Cuda failure 2 'out of memory'", EXIT, 2),
    ("RuntimeError: unable to write to file </torch_4242_1804289383_0>: No space left on device (28)", EXIT, 2),
    ("RuntimeError: unable to resize file </torch_4242_18_0> to the right size: No space left on device (28)", EXIT, 2),
    ("OSError: [Errno 28] No space left on device: '/psm_4f1a'", EXIT, 2),
    ("OSError: [Errno 28] No space left on device", EXIT, 2),
    ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", EXIT, 70),
    ("RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution", EXIT, 70),
    ("Exception: Capture cuda graph failed: CUDA error: uncorrectable ECC error encountered", EXIT, 70),
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", EXIT, 75),
    ("torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", EXIT, 75),
    (f"{COUNT} Error 46: CUDA-capable device(s) is/are busy or unavailable", EXIT, 75),
    ("RuntimeError: CUDA error: system not yet initialized", EXIT, 70),
    (f"{COUNT} Error 802: system not yet initialized", EXIT, 70),
    (f"{COUNT} Error 803: system has unsupported display driver / cuda driver combination", EXIT, 70),
    ("RuntimeError: No CUDA GPUs are available", EXIT, 70),
    ("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available.", EXIT, 70),
    ("torch.AcceleratorError: CUDA error: invalid device ordinal", EXIT, 70),
    ("/v/torch/cuda/__init__.py:184: UserWarning: CUDA initialization: CUDA unknown error - this may be due to an "
     "incorrectly set up environment", EXPLAIN, 1),
    ("torch.AcceleratorError: CUDA error: an illegal instruction was encountered", ROLE, 1),
    (f"[rank0]:{NCCL} [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST)",
     ROLE, 1),
    (f"[rank2]:{NCCL} [PG ID 2 PG GUID 3 Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
     ROLE, 1),
    (f"[rank2]:{THREAD} CUDA error: an illegal memory access was encountered", ROLE, 1),
    (f"[rank2]:{THREAD} CUDA error: uncorrectable ECC error encountered", EXIT, 70),
    (f"[rank2]:{THREAD} CUDA error: device-side assert triggered", EXIT, 1),
    (f"{THREAD} [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", ROLE, 1),
    (f"[rank2]:{THREAD} NCCL communicator was aborted on rank 2.", ROLE, 1),
    ("[rank2]:[E ProcessGroupNCCL.cpp:1182] [Rank 2] NCCL watchdog thread terminated with exception: x", ROLE, 1),
    ("tvm.error.InternalError: Failed to set the allowed dynamic shared memory size to 143808", EXIT, 1),
    ("Exception: Capture cuda graph failed: Failed to set the allowed dynamic shared memory size to 143808", EXIT, 1),
    ("tvm.error.InternalError: Tensor match failed for Tensor<32, 6>[strides=<6, 1>, dtype=int64]", ROLE, 1),
    (f"NotImplementedError: {NVFP4}", EXIT, 2),
    (f"Exception: Capture cuda graph failed: {NVFP4}", EXIT, 2),
    ("NotImplementedError: moe_runner_backend=cutlass is not supported for NVFP4 MoE. Use --moe-runner-backend flash",
     EXIT, 2),
    ("ValueError: Current platform does not support NVFP4 quantization with the selected MoE backend. Please use "
     "Blackwell and above, or use moe_runner_backend=marlin on SM80+.", EXIT, 2),
    ("ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.", EXIT, 1),
    ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", EXIT, 1),
    ("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", EXIT, 1),
    ("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", EXIT, 1),
    ("torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
     "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3", EXIT, 1),
    ("torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:275, "
     "invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.27.3", EXIT, 1),
    ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting", ROLE, 1),
    ("torch.AcceleratorError: CUDA error: device-side assert triggered", EXIT, 1),
    ("RuntimeError: CUDA error: device-side assert triggered", EXIT, 1),
    ("box:4242:4711 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'", EXPLAIN, 1),
    ("[2026-07-23 04:16:01] box-2:2619531:2620804 [1] misc/strongstream.cc:424 (ncclStrongStreamSynchronize) NCCL WARN "
     "Cuda failure 'unspecified launch failure'", EXPLAIN, 1),
    ("/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:93: operator(): block: [6,0,0], thread: [64,0,0] Assertion "
     "`index out of bounds` failed.", EXPLAIN, 1),
    ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", EXIT, 70),
    ("[sgl_kernel] CRITICAL: Could not load any common_ops library!", EXIT, 70),
    ("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device", EXIT, 70),
    ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", EXIT, 70),
    ("ValueError: NIXL backend 'UCX' not found. Available: ['POSIX']", EXIT, 1),
]  # fmt: skip

BENIGN = [
    "[rank0]:[W1130 20:27:21.42 ProcessGroupNCCL.cpp:4751] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier",
    f"[rank0]:{NCCL} [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL preparing to dump debug info",
    AT + "Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
    AT + "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.5",
    AT + "Some requests timed out when bootstrapping, consider increasing SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT",
    AT + "Some requests fail to receive KV Cache transfer done signal after bootstrapping. If a greater mean TTFT",
    AT + "NIXL transport error for room 6037474969565495683",
    AT + "Lost connection with prefill instance (bootstrap_addr: 127.0.0.1:8998), 3 requests affected",
    AT + "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
    "[2026-11-29 15:20:11] Receive: obj=GenerateReqInfo(text='SIGQUIT received. Scheduler hit an exception: x')",
    "[2026-11-29 15:20:11] Finish: out={'text': 'RuntimeError: Not enough memory. Please try to increase'}",
    "I read: RuntimeError: Found no NVIDIA driver on your system",
    "[2026-11-29 15:20:11] INFO: 127.0.0.1:5 - \"GET /Scheduler hit an exception: HTTP/1.1\" 404 Not Found",
    "",
]  # fmt: skip

MILESTONES = [
    (AT + "Init parallel begin.", Phase.START, None),
    ("[2026-11-29 15:20:11] Start of pd disaggregation warmup ...", Phase.WARMUP, None),
    ("[2026-11-29 15:20:11] End of disaggregation warmup", Phase.WARMUP, None),
    (
        AT + "Preparing DSv4 MXFP4 experts for FlashInfer SM120 CUTLASS W4A8 (layer: model.layers.3.mlp.experts)...",
        Phase.WEIGHTS,
        None,
    ),
    (AT + "Load weight begin. avail mem=90.11 GB", Phase.WEIGHTS, None),
    ("Loading safetensors checkpoint shards:  43% Completed | 20/46 [00:51<01:02,  2.41s/it]", Phase.WEIGHTS, 43),
    ("Multi-thread loading shards:  87% Completed | 40/46 [00:51<00:02,  2.41s/it]", Phase.WEIGHTS, 87),
    (AT + "Load weight end. elapsed=51.2 s, type=DeepseekV4ForCausalLM", Phase.KV, None),
    (AT + "Memory pool end. avail mem=9.35 GB", Phase.GRAPHS, None),
    ("Capturing batches (bs=16 avail_mem=8.81 GB):  25%|##5       | 2/8 [00:03<00:10,  1.7s/it]", Phase.GRAPHS, 25),
    (AT + "max_total_num_tokens=1048576, chunked_prefill_size=8192, available_gpu_mem=9.00 GB", Phase.WARMUP, None),
]


@pytest.mark.parametrize(("line", "remedy", "code"), FATAL)
def test_fatal_lines(line: str, remedy: Remedy, code: int) -> None:
    meaning = TABLE.read_line(line)
    assert meaning
    assert meaning.complaint
    assert (meaning.complaint.remedy, meaning.complaint.exit_code) == (remedy, code)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{THREAD} CUDA error: uncorrectable ECC error encountered", "an uncorrectable ECC error; reset the card"),
        (f"{THREAD} NCCL communicator was aborted on rank 2.", "NCCL's watchdog ended it: NCCL communicator was abor"),
        (
            f"{COUNT} Error 803: system has unsupported display driver",
            "(error 803, system has unsupported display driv",
        ),
        ("OSError: [Errno 28] No space left on device: '/psm_4f1a'", "or in /dev/shm: '/psm_4f1a'"),
        (f"Exception: Capture cuda graph failed: {NVFP4}", "take it out of DSV4_PREFILL_EXTRA_ARGS"),
    ],
)
def test_the_cause_says_what_the_line_tells(line: str, words: str) -> None:
    meaning = TABLE.read_line(line)
    assert meaning and meaning.complaint
    assert words in meaning.complaint.cause


def test_a_crashed_child_s_exit_code_is_told() -> None:
    meaning = TABLE.read_line("[2026-11-29 15:20:11] Subprocess scheduler_0 (pid=7) crashed with exit code -9. Trig")
    assert meaning
    assert meaning.complaint
    assert meaning.complaint.cause == "a child process crashed with exit code -9"


@pytest.mark.parametrize("line", BENIGN)
def test_benign_lines(line: str) -> None:
    meaning = TABLE.read_line(line)
    assert meaning is None or meaning.complaint is None


@pytest.mark.parametrize(("line", "phase", "percent"), MILESTONES)
def test_milestones(line: str, phase: Phase, percent: int | None) -> None:
    meaning = TABLE.read_line(line)
    assert meaning
    assert (meaning.phase, meaning.percent) == (phase, percent)


ESCAPED = AT + 'Scheduler hit an exception: Traceback (most recent call last):\\n  File "x.py", line 1\\n'


@pytest.mark.parametrize(
    ("raised", "remedy", "code"),
    [
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\\n", EXIT, 2),
        (f"torch.OutOfMemoryError: {OOM}\\n", EXIT, 2),
        (
            "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:275, unhandled cuda error (run with "
            "NCCL_DEBUG=INFO for details), NCCL version 2.27.3\\nncclUnhandledCudaError: Call to CUDA function failed."
            "\\nLast error:\\nCuda failure 2 'out of memory'\\n",
            EXIT,
            2,
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.hpp:275, unhandled cuda error (run with "
            "NCCL_DEBUG=INFO for details), NCCL version 2.27.3\\nncclUnhandledCudaError: Call to CUDA function failed."
            "\\nLast error:\\nCuda failure 217 'peer access is not supported between these two devices'\\n",
            EXIT,
            1,
        ),
        (
            "torch.AcceleratorError: CUDA error: device-side assert triggered\\nSearch for `cudaErrorAssert' in https://x"
            "\\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\\n",
            EXIT,
            1,
        ),
        ("torch.AcceleratorError: CUDA error: no kernel image is available for execution", EXIT, 70),
        ("ValueError: whatever", ROLE, 1),
        ("AssertionError\\n", ROLE, 1),
    ],
)
def test_what_was_raised_is_read_of_a_record_that_carries_its_traceback_on_one_line(
    raised: str, remedy: Remedy, code: int
) -> None:
    meaning = TABLE.read_line(ESCAPED + raised)
    assert meaning
    assert meaning.complaint
    assert (meaning.complaint.remedy, meaning.complaint.exit_code) == (remedy, code)


def test_what_was_missing_is_read_from_torch_s_own_words() -> None:
    meaning = TABLE.read_line(f"torch.OutOfMemoryError: {OOM}")
    assert meaning
    assert meaning.complaint
    assert meaning.complaint.memory and meaning.complaint.short == 2 << 30
    assert meaning.complaint.cause == "out of GPU memory for 2.50 GiB, 512.00 MiB free"


BUDGET = MemoryBudget("DSV4_DECODE_MEM_FRACTION", 0.85, 0.6, 95 * 2.0**30, 37.6 * 2.0**30, "DSV4_MAX_RUNNING_REQUESTS")


@pytest.mark.parametrize(
    ("phase", "short", "words"),
    [
        (
            Phase.GRAPHS,
            2 << 30,
            "(2.0 GiB short); lower DSV4_DECODE_MEM_FRACTION from 0.85 to 0.81, or DSV4_MAX_RUNNING",
        ),
        (Phase.KV, 0, "; lower DSV4_DECODE_MEM_FRACTION from 0.85 to 0.83"),
        (Phase.WARMUP, 30 << 30, "less than 0.6 does not hold the longest request: lower DSV4_MAX_RUNNING_REQUESTS"),
        (Phase.WEIGHTS, 2 << 30, "37.6 GiB of weights on a card of 95.0: end what else holds memory there"),
    ],
)
def test_advice_says_which_setting_and_by_how_much(phase: Phase, short: float, words: str) -> None:
    assert words in advice(BUDGET, phase, short)
    assert "lower the role's memory fraction" in advice(None, Phase.KV, 0), "a model that the memory model doesn't know"


def test_the_lowered_fraction_gives_back_what_was_missing() -> None:
    for gib in range(1, 20):
        found = re.search(r"from 0.85 to ([\d.]+)", advice(BUDGET, Phase.GRAPHS, gib * 2.0**30))
        assert found
        assert (0.85 - float(found[1])) * BUDGET.card > gib * 2**30


def test_a_watch_adds_the_advice_and_a_fatal_line_goes_before_one_that_explains() -> None:
    watch = Watch("decode", TABLE, BUDGET)
    watch.on_event("RUNNING", 10.0, 7)
    watch.on_lines(["box:1:2 [0] NCCL WARN something"], 11.0)
    assert watch.view().complaint and watch.view().complaint.remedy is EXPLAIN  # type: ignore[union-attr]
    watch.on_lines([AT + "Memory pool end. avail mem=0.35 GB", f"torch.OutOfMemoryError: {OOM}"], 12.0)
    said = watch.view().complaint
    assert said and said.remedy is EXIT and "from 0.85 to 0.81" in said.cause
    watch.on_lines(["box:1:2 [0] NCCL WARN something else"], 13.0)
    assert watch.view().complaint == said


def test_a_line_of_work_means_nothing() -> None:
    """Whether a server works is read from its counters."""
    assert TABLE.read_line(AT + "Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0") is None


@pytest.mark.parametrize(("line", "remedy", "code"), FATAL)
def test_a_fatal_line_inside_one_escaped_record_is_nothing(line: str, remedy: Remedy, code: int) -> None:
    """What a client wrote, as the engine's formatter leaves it: one record, one line."""
    for breaks in ("\\n", "\\r\\n", "\\x0a", "\\u2028"):
        assert TABLE.read_line(f"[2026-11-29 15:20:11] [http_server] Error: LoRA adapter 'x{breaks}{line}'") is None


# --- where each line comes from

SAMPLES = [line for line, *_ in FATAL] + BENIGN + [line for line, *_ in MILESTONES]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_each_row_has_a_source_that_a_reader_can_look_up(row: dict[str, Any]) -> None:
    """What no CPU machine has installed is shown by a public report."""
    places = [place for place, _ in written(row)]
    assert any(ISSUE.fullmatch(place) or not ONLY_WITH_CUDA.match(place) for place in places)
    assert any(words for _, words in written(row))


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_words_of_each_source_stand_in_a_line_that_the_row_matches(row: dict[str, Any]) -> None:
    pattern = re.compile(row.get("regex") or re.escape(row["text"]))
    matched = [line for line in SAMPLES if pattern.match(message_of(line)) or pattern.match(line)]
    assert matched, "no line of this file is read by it"
    for place, words in written(row):
        parts = [part.strip() for part in re.split(r"\{[^}]*\}", words)]  # as an f-string has them
        assert any(all(part in line for part in parts) for line in matched), (place, words)
