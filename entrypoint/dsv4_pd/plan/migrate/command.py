"""What a command line starts: which program, with which flags, below whatever wraps it. Reads scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dsv4_pd.plan.migrate import shell
from dsv4_pd.plan.migrate.unit import Unit

Kind = Literal["engine", "router"]
_MODULES: dict[str, Kind] = {
    "sglang.launch_server": "engine",
    "sglang_router.launch_router": "router",
    "smg.launch_router": "router",
    "sglang_router": "router",
}
_SCRIPTS: dict[str, Kind] = {
    "sglang/launch_server.py": "engine",
    "sglang_router/launch_router.py": "router",
}
_CONTAINERS = ("docker", "podman", "nerdctl")
_PROGRAMS: dict[tuple[str, ...], Kind] = {
    ("sglang", "serve"): "engine",
    ("sglang-router", "launch"): "router",
    ("sgl-model-gateway", "launch"): "router",
    ("smg", "launch"): "router",
    ("sglang-router",): "router",
    ("smg",): "router",
}
# wrapper -> options that take a value
_WRAPPERS: dict[str, frozenset[str]] = {
    "env": frozenset({"-u", "-C", "-S"}),
    "numactl": frozenset({"-N", "-m", "-C", "-p", "-i"}),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n"}),
    "taskset": frozenset(),
    "chrt": frozenset(),
    "stdbuf": frozenset({"-o", "-e", "-i"}),
    "setsid": frozenset(),
    "nohup": frozenset(),
    "exec": frozenset({"-a"}),
    "time": frozenset(),
    "sudo": frozenset({"-u", "-g"}),
    "unbuffer": frozenset(),
}
_POSITIONAL = {"taskset": 1, "chrt": 1}  # words before the command that are no options


@dataclass(frozen=True, slots=True)
class Started:
    """One program of SGLang that a unit starts. `wrappers`: each as it is written, with the words that are its own."""

    unit: str
    kind: Kind
    words: tuple[str, ...]
    environment: dict[str, str]
    origins: dict[str, str] = field(default_factory=dict)
    wrappers: tuple[tuple[str, ...], ...] = ()


def started(unit: Unit, root: Path) -> tuple[list[Started], list[str]]:
    """(programs of SGLang, remarks on what else its commands are), by following wrappers, shells and scripts."""
    found: list[Started] = []
    remarks: list[str] = []
    for command in unit.commands:
        _follow(list(command), unit, dict(unit.environment), dict(unit.origins), [], found, remarks, root)
    return found, remarks


def _follow(
    words: list[str], unit: Unit, environment: dict[str, str], origins: dict[str, str],
    wrappers: list[tuple[str, ...]], found: list[Started], remarks: list[str], root: Path,
) -> None:  # fmt: skip
    words, own, more = unwrapped(words)
    if words and Path(words[0]).name in _CONTAINERS:
        words, options, passed = contained(words)
        own, more = [*own, options], more | passed
    environment = environment | more
    origins = origins | dict.fromkeys(more, str(unit.path))
    wrappers = wrappers + own
    if not words:
        return
    if recognised := program(words):
        kind, rest = recognised
        found.append(Started(unit.name, kind, tuple(rest), environment, origins, tuple(wrappers)))
        return
    script = _script(words, environment, unit, root)
    if script is None:
        remarks.append(f"{unit.name}: {Path(words[0]).name} is no program of SGLang; it is not carried over")
        return
    remarks += [
        f"{unit.name}: its shell text has `{name}`, which is not followed: look at it yourself"
        for name in script.skipped
    ]
    for command in script.commands:
        inner = origins | {name: origin or str(unit.path) for name, origin in script.sources.items()}
        _follow(command, unit, script.variables, inner, wrappers, found, remarks, root)


def _script(words: list[str], environment: dict[str, str], unit: Unit, root: Path) -> shell.Script | None:
    """The shell text that the words run, where it is `sh -c TEXT`, `sh FILE` or a script itself."""
    name, rest = Path(words[0]).name, words[1:]
    if name in shell.SHELLS:
        while rest and rest[0].startswith("-"):
            if rest[0].endswith("c") and not rest[0].startswith("--") and len(rest) > 1:
                return shell.read(rest[1], environment, root, str(unit.path))
            rest = rest[1:]
        words = rest
    if not words:
        return None
    try:
        text = (root / words[0].lstrip("/")).read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return None
    first = text.partition("\n")[0]
    if name not in shell.SHELLS and not (first.startswith("#!") and first.rstrip().endswith(shell.SHELLS)):
        return None
    return shell.read(text, environment, root, words[0])


def program(words: list[str]) -> tuple[Kind, list[str]] | None:
    """(what it is, its own arguments), or None.

    >>> program(["/opt/venv/bin/python3.11", "-u", "-m", "sglang.launch_server", "--port", "1"])
    ('engine', ['--port', '1'])
    >>> program(["/usr/bin/sglang", "serve", "m"])
    ('engine', ['m'])
    """
    name = Path(words[0]).name
    if name.startswith(("python", "pypy")):
        for position, word in enumerate(words[1:], 1):
            if word == "-m" and position + 1 < len(words):
                kind = _MODULES.get(words[position + 1])
                return (kind, words[position + 2 :]) if kind else None
            if not word.startswith("-"):  # a script, or a console script with its interpreter in front
                kind = _SCRIPTS.get("/".join(Path(word).parts[-2:]))
                return (kind, words[position + 1 :]) if kind else program(words[position:])
        return None
    for head, kind in _PROGRAMS.items():
        if (name, *words[1 : len(head)]) == head:
            return kind, words[len(head) :]
    return None


def contained(words: list[str]) -> tuple[list[str], tuple[str, ...], dict[str, str]]:
    """(the program inside `docker run …`, the command without its image's words, variables that it sets).

    >>> contained(["docker", "run", "-e", "A=1", "img:1", "python3", "-m", "sglang.launch_server"])
    (['python3', '-m', 'sglang.launch_server'], ('docker', 'run', '-e', 'A', 'img:1'), {'A': '1'})
    """
    inside = next((number for number in range(1, len(words)) if program(words[number:])), len(words))
    variables: dict[str, str] = {}
    shown: list[str] = []
    for before, word in zip(["", *words], words[:inside], strict=False):
        option, _, given = word.partition("=") if word.startswith("--env=") else ("", "", word)
        if before in ("-e", "--env") or option:
            name, _, value = given.partition("=")
            variables[name] = value
            shown.append(f"{option}={name}" if option else name)
        else:
            shown.append(word)
    return (words[inside:] or words), (Path(words[0]).name, *shown[1:]), variables


def unwrapped(words: list[str]) -> tuple[list[str], list[tuple[str, ...]], dict[str, str]]:
    """(the command itself, wrappers with their own words, variables that `env` sets).

    >>> unwrapped(["/usr/bin/numactl", "--membind=0", "env", "A=1", "python", "x"])
    (['python', 'x'], [('numactl', '--membind=0'), ('env', 'A=1')], {'A': '1'})
    """
    wrappers: list[tuple[str, ...]] = []
    variables: dict[str, str] = {}
    while words and (name := Path(words[0]).name) in _WRAPPERS:
        own, rest = [name], words[1:]
        positional = _POSITIONAL.get(name, 0)
        while rest and (rest[0].startswith("-") or positional or (name == "env" and "=" in rest[0])):
            word = rest.pop(0)
            own.append(word)
            if name == "env" and "=" in word and not word.startswith("-"):
                key, _, value = word.partition("=")
                variables[key] = value
            elif word in _WRAPPERS[name] and rest:
                own.append(rest.pop(0))
            elif not word.startswith("-"):
                positional -= 1
        wrappers.append(tuple(own))
        words = rest
    return words, wrappers, variables
