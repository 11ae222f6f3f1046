"""The flags of a SGLang server -> our settings, what the plan does anyway, or a reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dsv4_pd.plan.flags.command_line import Flag
from dsv4_pd.plan.migrate.accounts import Fate, Ledger
from dsv4_pd.plan.programs import owned_flags

EXTRA = {"prefill": "DSV4_PREFILL_EXTRA_ARGS", "single": "DSV4_PREFILL_EXTRA_ARGS", "decode": "DSV4_DECODE_EXTRA_ARGS"}


@dataclass(frozen=True, slots=True)
class Server:
    """One server as its unit starts it. `role`: prefill, decode or single."""

    unit: str
    role: str
    flags: tuple[Flag, ...]
    environment: Mapping[str, str]

    def get(self, name: str, default: str = "") -> str:
        """The last value of a flag, as argparse has it."""
        return next((flag.value for flag in reversed(self.flags) if flag.name == name), default)


Row = Callable[[Ledger, Server, Flag], None]


def to(setting: str, aside: str = "") -> Row:
    """A setting with the flag's value; `{ROLE}` is the server's role, a whole server having prefill's."""

    def row(ledger: Ledger, server: Server, flag: Flag) -> None:
        role = "DECODE" if server.role == "decode" else "PREFILL"
        ledger.put(server.unit, flag.shown, setting.replace("{ROLE}", role), flag.value, aside)

    return row


def own(*values: str, otherwise: str) -> Row:
    """What the plan sets itself: the same for these values; for another one `otherwise` says why there is none."""

    def row(ledger: Ledger, server: Server, flag: Flag) -> None:
        same = not values or flag.value in values
        why = "the plan sets it" if same else otherwise
        ledger.note(server.unit, flag.shown, Fate.OWN if same else Fate.NONE, why)

    return row


def none(why: str) -> Row:
    """No equivalent."""
    return lambda ledger, server, flag: ledger.note(server.unit, flag.shown, Fate.NONE, why)


def default(why: str) -> Row:
    """What the product does anyway, whatever the value."""
    return lambda ledger, server, flag: ledger.note(server.unit, flag.shown, Fate.OWN, why)


def _key(ledger: Ledger, server: Server, flag: Flag) -> None:
    take_key(ledger, server.unit, flag)


def take_key(ledger: Ledger, unit: str, flag: Flag) -> None:
    """The clients' key goes into a file; the first one found is the API's."""
    ledger.secrets.add(flag.value)
    if ledger.key is None:
        ledger.key, ledger.key_origin = flag.value, f"{unit}, {flag.given}"
    same = ledger.key == flag.value
    why = "DSV4_API_KEY_FILE" if same else f"the key of {ledger.key_origin} is the API's; there is one for all programs"
    ledger.note(unit, flag.shown, Fate.SETTING if same else Fate.NONE, why)


def _rendezvous(ledger: Ledger, server: Server, flag: Flag) -> None:
    host, _, port = flag.value.rpartition(":")
    if host.strip("[]") in ("", "127.0.0.1", "localhost", "::1", "0.0.0.0") and port.isdecimal():
        role = "DECODE" if server.role == "decode" else "PREFILL"
        ledger.put(server.unit, flag.shown, f"DSV4_{role}_NCCL_PORT", port, "the servers meet on loopback")
    else:
        ledger.note(server.unit, flag.shown, Fate.NONE, "one host by design: a server is never spread over several")


def _bootstrap(ledger: Ledger, server: Server, flag: Flag) -> None:
    if server.role == "decode":
        ledger.note(server.unit, flag.shown, Fate.OWN, "decode takes it from each request; prefill alone listens on it")
    else:
        ledger.put(server.unit, flag.shown, "DSV4_BOOTSTRAP_PORT", flag.value)


def _batch(ledger: Ledger, server: Server, flag: Flag) -> None:
    """One number for both roles: decode's, because prefill has few at once whatever its limit is."""
    if server.role == "prefill" and flag.name == "--cuda-graph-max-bs-decode":
        ledger.note(server.unit, flag.shown, Fate.OWN, "prefill captures no graphs for decode")
        return
    limit = server.get("--max-running-requests")
    if flag.name != "--max-running-requests" and limit and limit != flag.value:
        ledger.note(server.unit, flag.shown, Fate.NONE, f"graphs are captured up to --max-running-requests, {limit}")
        return
    present = ledger.settings.get("DSV4_MAX_RUNNING_REQUESTS")
    if server.role == "prefill" and present not in (None, flag.value):
        ledger.note(server.unit, flag.shown, Fate.NONE, f"both roles have decode's DSV4_MAX_RUNNING_REQUESTS={present}")
        return
    ledger.put(server.unit, flag.shown, "DSV4_MAX_RUNNING_REQUESTS", flag.value)


def _chunk(ledger: Ledger, server: Server, flag: Flag) -> None:
    if server.role == "decode" and ledger.chunk not in (None, flag.value):
        ledger.note(server.unit, flag.shown, Fate.NONE, "decode prefills nothing; prefill's value stands for both")
    elif not flag.value.isdecimal() or flag.value == "0":
        ledger.note(server.unit, flag.shown, Fate.NONE, "prefill in chunks can't be switched off")
    else:
        ledger.put(server.unit, flag.shown, "DSV4_CHUNKED_PREFILL_SIZE", flag.value)


def _speculative(ledger: Ledger, server: Server, flag: Flag) -> None:
    found = {"EAGLE": "eagle", "EAGLE3": "eagle", "NEXTN": "eagle", "DSPARK": "dspark"}.get(flag.value.upper())
    if found:
        aside = "the engine's spelling of NEXTN for this model" if flag.value.upper() == "NEXTN" else ""
        ledger.put(server.unit, flag.shown, "DSV4_SPECULATIVE", found, aside)
    else:
        ledger.note(server.unit, flag.shown, Fate.NONE, "this model has drafts for EAGLE or DSpark alone")


def _draft(same: str) -> Row:
    why = "DSV4_SPECULATIVE=eagle takes 3 steps, top-k 1, 4 tokens; DSpark's are the checkpoint's"
    return own(same, otherwise=why)


def _template(ledger: Ledger, server: Server, flag: Flag) -> None:
    if flag.value.endswith(".jinja"):
        ledger.put(server.unit, flag.shown, "DSV4_CHAT_TEMPLATE", flag.value, "once, for every server")
    else:
        why = (
            "names and JSON files are templates of other models, without tools; unset, the model's own encoder is used"
        )
        ledger.note(server.unit, flag.shown, Fate.NONE, why)


def _offload(ledger: Ledger, server: Server, flag: Flag) -> None:
    """The old size is that of one rank."""
    if server.role == "decode":
        ledger.note(server.unit, flag.shown, Fate.NONE, "decode has no prefix cache in this engine")
    elif flag.name == "--hicache-size" and flag.value.isdecimal():
        ranks = int(server.get("--tp-size", "1"))
        aside = f"{flag.value} GB for each of {ranks} ranks"
        ledger.put(server.unit, flag.shown, "DSV4_KV_OFFLOAD_GB", str(int(flag.value) * ranks), aside)
    elif flag.name == "--enable-hierarchical-cache" and server.get("--hicache-size"):
        ledger.note(server.unit, flag.shown, Fate.SETTING, "DSV4_KV_OFFLOAD_GB")
    else:
        why = "set DSV4_KV_OFFLOAD_GB, in GB of the host: `dsv4-pd plan` shows which share of the cards' KV that is"
        ledger.note(server.unit, flag.shown, Fate.NONE, why)


def _level(ledger: Ledger, server: Server, flag: Flag) -> None:
    level = {"warn": "warning", "critical": "error"}.get(flag.value.lower(), flag.value.lower())
    if level in ("debug", "info", "warning", "error"):
        ledger.put(server.unit, flag.shown, "DSV4_LOG_LEVEL", level)
    else:
        ledger.note(server.unit, flag.shown, Fate.NONE, "DSV4_LOG_LEVEL knows debug, info, warning and error")


def _one_host(ledger: Ledger, server: Server, flag: Flag) -> None:
    alone = {"--nnodes": "1", "--node-rank": "0"}[flag.name] == flag.value
    why = "one host" if alone else "one host by design: a server is never spread over several"
    ledger.note(server.unit, flag.shown, Fate.OWN if alone else Fate.NONE, why)


def _placed(ledger: Ledger, server: Server, flag: Flag) -> None:
    role = "DECODE" if server.role == "decode" else "PREFILL"
    ledger.note(server.unit, flag.shown, Fate.SETTING, f"DSV4_LAYOUT, DSV4_{role}_GPUS")


_TYPES = "both roles must agree, and this engine has one that its kernels for the model take"
_EXPERTS = "the plan picks it by the format of the checkpoint's experts"
_LOOPBACK = "the servers listen on loopback; what clients reach is the router's DSV4_HOST"
ROWS: Mapping[str, Row] = {
    "--model-path": to("DSV4_MODEL"),
    "--revision": to("DSV4_MODEL_REVISION"),
    "--served-model-name": to("DSV4_SERVED_MODEL_NAME"),
    "--chat-template": _template,
    "--host": own("127.0.0.1", "localhost", otherwise=_LOOPBACK),
    "--port": to("DSV4_{ROLE}_PORT"),
    "--nccl-port": to("DSV4_{ROLE}_NCCL_PORT"),
    "--dist-init-addr": _rendezvous,
    "--nnodes": _one_host,
    "--node-rank": _one_host,
    "--disaggregation-mode": lambda ledger, server, flag: ledger.note(
        server.unit, flag.shown, Fate.SETTING, "DSV4_LAYOUT"
    ),
    "--disaggregation-transfer-backend": own("nixl", otherwise="NIXL is the one that the appliance carries and tests"),
    "--disaggregation-bootstrap-port": _bootstrap,
    "--tp-size": _placed,
    "--base-gpu-id": _placed,
    "--gpu-id-step": _placed,
    "--numa-node": default("DSV4_NUMA=auto binds each server to its cards' node"),
    "--mem-fraction-static": to("DSV4_{ROLE}_MEM_FRACTION"),
    "--context-length": to("DSV4_CONTEXT_LENGTH", "exactly so many are usable: the engine is given a page more"),
    "--chunked-prefill-size": _chunk,
    "--max-running-requests": _batch,
    "--cuda-graph-max-bs-decode": _batch,
    "--swa-full-tokens-ratio": to("DSV4_SWA_FULL_TOKENS_RATIO"),
    "--speculative-algorithm": _speculative,
    "--speculative-num-steps": _draft("3"),
    "--speculative-eagle-topk": _draft("1"),
    "--speculative-num-draft-tokens": _draft("4"),
    "--speculative-draft-model-path": none("the draft is the block inside the checkpoint"),
    "--reasoning-parser": own("deepseek-v4", otherwise="the model's own parser is deepseek-v4"),
    "--tool-call-parser": own("deepseekv4", otherwise="the model's own parser is deepseekv4"),
    "--tokenizer-path": default("the model's own"),
    "--page-size": own("256", otherwise=_TYPES + ": 256 tokens"),
    "--kv-cache-dtype": own("auto", "fp8_e4m3", otherwise=_TYPES + ": fp8_e4m3"),
    "--enable-metrics": default("the plan sets it"),
    "--enable-cache-report": default("the plan sets it"),
    "--trust-remote-code": none("the engine has the model itself; another model's code runs only from a pinned commit"),
    "--device": own("cuda", otherwise="the profile decides"),
    "--log-level": _level,
    "--log-level-http": default("request lines of the servers are left out; the router's and the guard's stand"),
    "--api-key": _key,
    "--admin-api-key": none("the servers' administration is reached by the guard alone"),
    "--enable-hierarchical-cache": _offload,
    "--hicache-ratio": _offload,
    "--hicache-size": _offload,
    "--moe-runner-backend": none(_EXPERTS),
    "--speculative-moe-runner-backend": none(_EXPERTS),
    "--disable-cuda-graph": none("it halves decode; `--disable-decode-cuda-graph` in DSV4_DECODE_EXTRA_ARGS does it"),
    "--config": none("its file is another place for flags: give them on the command line, and run this again"),
}  # fmt: skip


def account(ledger: Ledger, server: Server, flag: Flag, owned: Mapping[str, str]) -> None:
    """One flag: a row of its own, else handed on where the engine knows it and the plan does not set it."""
    if flag.secret:
        ledger.secrets.update(flag.values)
    if row := ROWS.get(flag.name):
        row(ledger, server, flag)
    elif taken := owned_flags.taken(flag.name, owned):
        ledger.note(server.unit, flag.shown, Fate.NONE, f"the plan decides: {taken[0][1]}")
    elif not flag.known:
        ledger.note(server.unit, flag.shown, Fate.NONE, "SGLang 0.5.23 has no such flag")
    elif flag.secret:
        ledger.note(server.unit, flag.shown, Fate.NONE, "a secret is not written into extra arguments")
    else:
        ledger.pass_on(server.unit, flag.shown, EXTRA[server.role], [flag.name, *flag.values])
