"""Where traces go, by table."""

from __future__ import annotations

import pytest
from dsv4_pd.errors import SettingsError
from dsv4_pd.settings import load, otlp
from support.plans import make, no_gpu

NAME, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
GOOD: dict[str, tuple[dict[str, str], str | None]] = {
    "nothing": ({}, None),
    "blank": ({NAME: ""}, None),
    "a url": ({NAME: "http://c:4317"}, "c:4317"),
    "quotes and a slash": ({NAME: '"http://c:5317/"'}, "c:5317"),
    "no scheme": ({NAME: "127.0.0.1:4317"}, "127.0.0.1:4317"),
    "no port": ({NAME: "http://c"}, "c:4317"),
    "IPv6": ({NAME: "http://[::1]:4317"}, "[::1]:4317"),
    "traces first": ({NAME: "http://all:1", TRACES: "http://traces:2"}, "traces:2"),
    "grpc": ({NAME: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "c:4317"),
    "no traces": ({NAME: "http://c:4317", "OTEL_TRACES_EXPORTER": "none"}, None),
    "disabled": ({NAME: "https://c/v1/traces", "OTEL_SDK_DISABLED": "true"}, None),
    "another protocol of nothing": ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, None),
}
BAD: dict[str, tuple[dict[str, str], str]] = {
    "TLS": ({NAME: "https://c:4317"}, f"{NAME}: found 'https://c:4317', expected the address of a collector's gRPC"),
    "a path": ({TRACES: "http://c:4318/v1/traces"}, f"{TRACES}: found 'http://c:4318/v1/traces'"),
    "no port": ({NAME: "http://c:99999"}, f"{NAME}: found"),
    "no host": ({NAME: "http://:4317"}, f"{NAME}: found"),
    "blanks": ({NAME: "http://a b:4317"}, f"{NAME}: found"),
    "HTTP": ({NAME: "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
             "OTEL_EXPORTER_OTLP_PROTOCOL: found 'http/protobuf', expected grpc"),
    "a switch": ({NAME: "true"}, "as http://HOST:4317"),
    "a number": ({NAME: "1"}, "as http://HOST:4317"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_endpoint(name: str) -> None:
    environ, wanted = GOOD[name]
    assert otlp.problems(environ) == []
    assert otlp.endpoint(environ) == wanted


@pytest.mark.parametrize("name", BAD)
def test_what_the_routers_can_not_do_is_refused(name: str) -> None:
    environ, words = BAD[name]
    with pytest.raises(SettingsError) as caught:
        load.load(environ)
    assert words in str(caught.value)


@pytest.mark.parametrize("router", ["smg", "sglang-router"])
@pytest.mark.parametrize(("level", "own"), [("info", "warn"), ("debug", "info"), ("error", "error")])
def test_the_routers_part_of_the_plan(router: str, level: str, own: str) -> None:
    """Its spans are written at info, so at the plan's own level for its log there would be none."""
    base = {"DSV4_PROFILE": "demo-cpu", "DSV4_ROUTER": router, "DSV4_LOG_LEVEL": level}
    without, traced = (
        next(program for program in make({**base, **environ}, no_gpu()).programs if program.name == "router")
        for environ in ({}, {NAME: "http://c:4317"})
    )
    added = [word for word in traced.argv if word not in without.argv]
    assert added == ["--enable-trace", "--otlp-traces-endpoint", "c:4317"]
    assert dict(traced.env)["RUST_LOG"] == f"{own},smg::otel-trace=info"
    assert "RUST_LOG" not in dict(without.env)


def test_smg_leaves_silent_streams_to_the_front() -> None:
    plan = make({"DSV4_PROFILE": "demo-cpu", "DSV4_ROUTER": "smg"}, no_gpu())
    argv = next(program.argv for program in plan.programs if program.name == "router")
    assert argv[argv.index("--sse-keepalive-secs") + 1] == "0"
