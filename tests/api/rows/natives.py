"""/generate, the engine's own form."""

from __future__ import annotations

from api import checks
from api.case import BIG, LONG, native

NATIVES = (
    native("plain"),
    native("`stream`", stream=True, check=checks.native_stream),
    native("`n: 2`", sampling={"n": 2}, check=checks.answers(2)),
    native("a list of texts", 400, text=["a", "b"]),
    native("`input_ids`", input_ids=[5, 6, 7]),
    native("a list of `input_ids`", input_ids=[[5, 6, 7], [8, 9]], check=checks.answers(2)),
    native("`input_ids` outside the vocabulary", 400, input_ids=[5, 999999999]),
    native("empty text", 400, text=""),
    native("input too long", 400, text=LONG),
    native("input of 900,000 bytes", 400, text="word " * 180_000),
    native("100,000 `input_ids`", 400, input_ids=[5] * 100_000),
    native("`stop_regex`", sampling={"stop_regex": "[ae]"}, check=checks.ignored),
    native("`stop` with a string of 5,000 bytes", 400, sampling={"stop": ["x" * 5000]}),
    native("`return_logprob` from the start of the prompt", return_logprob=True, logprob_start_len=0,
           top_logprobs_num=2, check=checks.prompt_logprobs),
    native("`logprob_start_len: -9`", 400, return_logprob=True, logprob_start_len=-9),
    native("`top_logprobs_num: 100000`", 400, return_logprob=True, top_logprobs_num=100000),
    native("`max_new_tokens: 0`", sampling={"max_new_tokens": 0}),
    native("`top_k` of 41 bits", 400, sampling={"top_k": BIG}),
    native("`beam_width: 2`", sampling={"beam_width": 2}, check=checks.ignored),
    native("`input_embeds`", 400, input_embeds=[[0.1, 0.2]]),
    native("`session_params`", 400, session_params={"id": "x"}),
    native("`lora_path`", 400, lora_path="x"),
    native("`image_data`", 400, image_data="http://example.org/x.png"),
    native("`return_hidden_states`", 400, return_hidden_states=True),
    native("`return_routed_experts`", 200, smg=400, check=checks.ignored, return_routed_experts=True),
    native("`custom_logit_processor`", 400, custom_logit_processor="x"),
    native("`data_parallel_rank: 3`", 400, data_parallel_rank=3),
)  # fmt: skip
