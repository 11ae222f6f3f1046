"""SGLang's exact lines, and lines of others that contain the same words."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsv4_pd.run.guard.signatures import Signatures
from dsv4_pd.run.guard.states import Phase, Remedy

TABLE = Signatures((Path(__file__).resolve().parents[2] / "config/signatures.toml").read_text(encoding="utf-8"))
AT = "[2026-11-29 15:20:11 TP0] "
ROLE, PAIR, EXIT = Remedy.RESTART_ROLE, Remedy.RESTART_PAIR, Remedy.EXIT

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
    (AT + "NIXL state layout rejected for room 7", PAIR, 1),
    ("RuntimeError: Page size mismatch: prefill 64, decode 256", EXIT, 1),
    ("RuntimeError: KV cache dtype mismatch: prefill fp8_e4m3, decode bfloat16", EXIT, 1),
    ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.8", EXIT, 1),
    ("Exception: Capture cuda graph failed: CUDA out of memory.", EXIT, 1),
    ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", EXIT, 70),
    ("[sgl_kernel] CRITICAL: Could not load any common_ops library!", EXIT, 70),
    ("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device", EXIT, 70),
    ("ValueError: NIXL backend 'UCX' not found. Available: ['POSIX']", EXIT, 1),
]  # fmt: skip

BENIGN = [
    AT + "Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
    AT + "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.5",
    AT + "Some requests timed out when bootstrapping, consider increasing SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT",
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
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\\n", EXIT, 1),
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


def test_a_line_of_work_means_nothing() -> None:
    """Whether a server works is read from its counters."""
    assert TABLE.read_line(AT + "Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0") is None


@pytest.mark.parametrize(("line", "remedy", "code"), FATAL)
def test_a_fatal_line_inside_one_escaped_record_is_nothing(line: str, remedy: Remedy, code: int) -> None:
    """What a client wrote, as the engine's formatter leaves it: one record, one line."""
    for breaks in ("\\n", "\\r\\n", "\\x0a", "\\u2028"):
        assert TABLE.read_line(f"[2026-11-29 15:20:11] [http_server] Error: LoRA adapter 'x{breaks}{line}'") is None
