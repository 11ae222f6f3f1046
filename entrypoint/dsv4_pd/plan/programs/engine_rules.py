"""Rules of the engine that hold between settings, profile and model: mirrored, so that a start is refused at once.

Each is the engine's own (SGLang 0.5.23, where its comment says), but for the one that says otherwise; `plan --resolve`
asks the engine itself, and a test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dsv4_pd.errors import Problem
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.flags.extra_args import engine_flags
from dsv4_pd.plan.memory import offload
from dsv4_pd.plan.memory.model import PAGE
from dsv4_pd.plan.model import checkpoint
from dsv4_pd.plan.model.files import is_commit, is_folder
from dsv4_pd.plan.placement.members import layout_of
from dsv4_pd.plan.shipped.profiles import Profile
from dsv4_pd.settings.schema import Settings, env_name

# Of the engine's flags that are the operator's (owned_flags.py has the others): what a pair's roles must agree on. Some
# of them the engine compares itself, at the first request (disaggregation/common/conn.py).
ALIKE = frozenset(
    ["--quantization", "--json-model-override-args", "--hf-chat-template-name", "--default-chat-template-kwargs",
     "--tokenizer-mode", "--disaggregation-enable-kv-checksum", "--dsv4-attn-backend",
     "--enable-deepseek-v4-fp4-indexer",
     "--speculative-dspark-block-size", "--speculative-draft-kv-cache-dtype", "--speculative-draft-model-path",
     "--enable-page-major-kv-layout", "--disaggregation-decode-allocation-policy",
     "--speculative-draft-model-revision", "--speculative-draft-model-quantization"]
)  # fmt: skip
Flags = Mapping[str, tuple[str, ...]]
_TRUST = "--trust-remote-code"
_OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


@dataclass(frozen=True, slots=True)
class CrossRule:
    """`wrong` says what was found, what was expected, and the remedy; None where the rule is kept."""

    field: str
    accepts: str
    wrong: Callable[[Settings, Profile, Surroundings], tuple[str, str, str] | None]


def _served_name(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """check_server_args of arg_groups/validation_hook.py."""
    name = settings.served_model_name or settings.model
    if ":" not in name:
        return None
    remedy = "set DSV4_SERVED_MODEL_NAME to a name without a colon"
    return f"{name!r}, the model's own name" if not settings.served_model_name else repr(name), "no colon in it", remedy


def _chunk(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """check_server_args: divisible by the page size, which is forced for this model on a GPU."""
    size = settings.chunked_prefill_size
    if profile.device != "cuda" or size % PAGE == 0:
        return None
    nearest = max(PAGE, round(size / PAGE) * PAGE)
    return str(size), f"a multiple of {PAGE}, the KV page", f"set DSV4_CHUNKED_PREFILL_SIZE={nearest}"


def _context(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """ModelConfig._derive_context_length of configs/model_config.py."""
    if around.model_context is None or around.environ.get(_OVERRIDE, "").lower() in ("1", "true", "yes", "y"):
        return None
    most = around.model_context
    if settings.context_length <= most:
        return None
    return str(settings.context_length), f"at most {most}, the model's own", f"set DSV4_CONTEXT_LENGTH={most}"


def _template(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """load_chat_template of parser/template_manager.py, which ends the server after the whole load."""
    why = around.unreadable.get("chat_template")
    found = f"{str(settings.chat_template)!r}, which can't be read ({why})"
    return (found, "a file that the servers can read", "in a container, mount it") if why else None


def _alike(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """Prompts and numbers are the same for both roles of a pair, or decode continues what nobody asked for."""
    if layout_of(settings, profile).kind != "pd":
        return None
    prefill, decode = _shared(settings.prefill_extra_args), _shared(settings.decode_extra_args)
    differ = sorted(flag for flag in {*prefill, *decode} if prefill.get(flag) != decode.get(flag))
    if not differ:
        return None
    found = f"{', '.join(differ)}: not as in DSV4_PREFILL_EXTRA_ARGS"
    return found, "the same for prefill and decode", "give it to both, with the same value, or to none"


def _remote_code(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
    """Ours, not the engine's: with the flag, Python files of the model's repository run in every server."""
    if is_folder(settings.model) or is_commit(settings.model_revision):
        return None
    places = [
        env_name(name) for name in ("prefill_extra_args", "decode_extra_args") if _trusts(getattr(settings, name))
    ]
    if any(
        key.replace("_", "-") == _TRUST[2:] and on for table in profile.engine.values() for key, on in table.items()
    ):
        places.append(f"the profile {profile.name}")
    if not places:
        return None
    revision = repr(settings.model_revision) if settings.model_revision else "unset"
    found = (
        f"{revision}, with {_TRUST} in {' and '.join(places)}: whatever is pushed to {settings.model} would run here"
    )
    return found, "a commit, 40 hexadecimal digits", f"set DSV4_MODEL_REVISION to one, or remove {_TRUST}"


def _trusts(text: str) -> bool:
    """Whether extra arguments hold the flag, abbreviated or in full."""
    return _TRUST in engine_flags(text)


def _shared(text: str) -> dict[str, tuple[str, ...]]:
    """Flags that both roles must have alike -> their values."""
    return {name: values for name, values in engine_flags(text).items() if name in ALIKE}


def _nvfp4(field: str, accepts: str, wrong: Callable[[Flags], tuple[str, str, str] | None]) -> CrossRule:
    """A rule on a server's extra arguments that holds where the experts are NVFP4."""

    def found(settings: Settings, profile: Profile, around: Surroundings) -> tuple[str, str, str] | None:
        if profile.device != "cuda" or not checkpoint.has_nvfp4_experts(around.config or {}):
            return None
        return wrong(engine_flags(getattr(settings, field)))

    return CrossRule(field, accepts, found)


def _runner(given: Flags) -> tuple[str, str, str] | None:
    """ModelOptNvFp4FusedMoEMethod of layers/quantization/modelopt_quant.py fails at the first forward."""
    served = checkpoint.NVFP4_RUNNERS
    runner = " ".join(given.get("--moe-runner-backend", served[:1]))
    if runner in served:
        return None
    expected = f"{', '.join(served[:-1])} or {served[-1]} for NVFP4 experts"
    return f"--moe-runner-backend {runner}", expected, f"remove it: the plan sets {served[0]}"


def _quantization(given: Flags) -> tuple[str, str, str] | None:
    """handle_moe_kernel_config of arg_groups/moe_hook.py wants none named beside flashinfer_cutlass; with another one
    the loader takes the experts for something else.
    """
    if (named := given.get("--quantization")) is None:
        return None
    return " ".join(["--quantization", *named]), "none for NVFP4 experts: the engine reads config.json", "remove it"


_RUNNERS = "for NVFP4 experts no runner but flashinfer_cutlass, flashinfer_cutedsl or marlin"
_NOT_NAMED = "and no quantization"
RULES = (
    CrossRule("served_model_name", "the model's name has no colon, or a name is given", _served_name),
    CrossRule("chunked_prefill_size", f"on a GPU a multiple of {PAGE}, the KV page", _chunk),
    CrossRule("decode_extra_args", "what shapes prompts and numbers is the same in both roles", _alike),
    _nvfp4("prefill_extra_args", _RUNNERS, _runner),
    _nvfp4("prefill_extra_args", _NOT_NAMED, _quantization),
    _nvfp4("decode_extra_args", _RUNNERS, _runner),
    _nvfp4("decode_extra_args", _NOT_NAMED, _quantization),
    CrossRule("model_revision", "with remote code, a commit: what runs here is then what was looked at", _remote_code),
    CrossRule("chat_template", "a file that can be read", _template),
    CrossRule("kv_offload_gb", "on GPUs, with a model of known shape", offload.refusal),
    CrossRule("context_length", "at most the context of the model's config.json", _context),
)


def problems(settings: Settings, profile: Profile, around: Surroundings) -> list[Problem]:
    """Every rule that is broken."""
    return [Problem(env_name(rule.field), *found) for rule in RULES if (found := rule.wrong(settings, profile, around))]


def server_context(settings: Settings) -> int:
    """The engine's own context length: with it, exactly the setting is usable.

    Of its context the engine keeps six tokens to itself (tp_worker.py get_worker_info: one, and five of the input). It
    is given a page more, so that a length in pages stays one, and the gate holds the setting's limit exactly.
    """
    return settings.context_length + PAGE


def context_env(settings: Settings, around: Surroundings) -> dict[str, str]:
    """The limit for the gate; and leave for that page, where the setting is all that the model has."""
    env = {"DSV4_CONTEXT_LIMIT": str(settings.context_length)}
    beyond = around.model_context is not None and server_context(settings) > around.model_context
    return env | ({_OVERRIDE: "1"} if beyond else {})
