"""The limits of requests, as front and routers take them."""

from __future__ import annotations

import json

import pytest
from dsv4_gate.sizes import most_body
from dsv4_pd.plan.disk import paths
from dsv4_pd.plan.shipped import profiles
from support.plans import eight_cards, make, no_gpu


def flag(argv: tuple[str, ...], name: str) -> str | None:
    return argv[argv.index(name) + 1] if name in argv else None


def router(**environ: str) -> tuple[str, ...]:
    plan = make(environ, eight_cards() if "DSV4_PROFILE" not in environ else no_gpu())
    return next(program.argv for program in plan.programs if program.name == "router")


@pytest.mark.parametrize("name", ["sglang-router", "smg"])
def test_no_router_limits_what_the_front_limits(name: str) -> None:
    """Two limits in a row are no exact one, and sglang-router's loses what clients that leave had taken."""
    argv = router(DSV4_ROUTER=name, DSV4_QUEUE_SIZE="9", DSV4_MAX_CONCURRENT_REQUESTS="5")
    assert flag(argv, "--max-concurrent-requests") == "-1"
    assert not {"--queue-size", "--rate-limit-tokens-per-second"} & set(argv)


@pytest.mark.parametrize("name", ["sglang-router", "smg"])
def test_the_router_listens_on_loopback_alone(name: str) -> None:
    argv = router(DSV4_ROUTER=name, DSV4_HOST="0.0.0.0", DSV4_ROUTER_PORT="29100")
    assert (flag(argv, "--host"), flag(argv, "--port")) == ("127.0.0.1", "29100")


@pytest.mark.parametrize("name", ["sglang-router", "smg"])
@pytest.mark.parametrize("context", [4096, 524288])
def test_a_body_is_bounded_by_what_the_context_can_hold(name: str, context: int) -> None:
    """As the gate in the engines bounds it: a body that a router lets through and an engine refuses has cost a copy."""
    limit = flag(router(DSV4_ROUTER=name, DSV4_CONTEXT_LENGTH=str(context)), "--max-payload-size")
    assert limit is not None and int(limit) == most_body(context)


@pytest.mark.parametrize("profile", [None, "demo-cpu"])
def test_no_more_is_let_in_than_decode_holds(profile: str | None) -> None:
    """Decode has slots for what runs, and twice as many again where at most 32 run (SGLang's own default)."""
    environ = {"DSV4_PROFILE": profile} if profile else {}
    settings = make(environ, no_gpu() if profile else eight_cards()).settings
    running = settings.max_running_requests
    slots = running + (2 * running if running <= 32 else 0)
    plan = make(environ, no_gpu() if profile else eight_cards())
    config = next(file.text for file in plan.files if file.path.name == "front.json")
    assert json.loads(config)["max_concurrent"] == settings.max_concurrent_requests
    assert settings.max_concurrent_requests <= slots


@pytest.mark.parametrize("name", profiles.available(paths.profiles_dir()))
def test_every_profile_asks_for_the_gate(name: str) -> None:
    assert "dsv4-gate" in profiles.read_all(paths.profiles_dir())[name].engine_env["SGLANG_PLUGINS"].split(",")


@pytest.mark.parametrize("name", ["sglang-router", "smg"])
def test_nothing_that_clients_say_is_kept(name: str) -> None:
    """Both routers keep conversations in memory by default, open to every client; one of them without a bound."""
    assert flag(router(DSV4_ROUTER=name), "--history-backend") == "none"
