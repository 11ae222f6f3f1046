"""Programs to supervisord's configuration, pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from dsv4_pd.errors import Problem, SettingsError
from dsv4_pd.plan.disk.paths import Paths
from dsv4_pd.plan.programs.program import Program

_LOG_BYTES = 8 * 1024 * 1024  # twice that per program at most, on tmpfs
_HEAD = """\
[supervisord]
nodaemon=true
umask=077
silent=true
logfile={logs}/supervisord.log
logfile_maxbytes={bytes}
logfile_backups=1
pidfile={run}/supervisord.pid
childlogdir={logs}
minfds=1024
minprocs=64
identifier=dsv4-pd

[unix_http_server]
file={socket}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{socket}
"""


def render(programs: Iterable[Program], paths: Paths) -> str:
    """The whole configuration text; no secret stands in it."""
    head = _HEAD.format(
        logs=_escape(str(paths.logs)),
        run=_escape(str(paths.run)),
        socket=_escape(str(paths.supervisor_socket)),
        bytes=_LOG_BYTES,
    )
    return head + "".join("\n" + _section(program) for program in programs)


def _section(program: Program) -> str:
    kind = "eventlistener" if program.name == "guard" else "program"
    lines = [
        f"[{kind}:{program.name}]",
        f"command={_escape(shlex.join(program.argv))}",
        f"environment={_environment(program.env)}",
        # The guard starts what is down: so SAFE loads nothing, and its back-off is the only one.
        f"autostart={str(kind == 'eventlistener').lower()}",
        f"autorestart={str(program.autorestart).lower()}",
        "startsecs=1",
        f"startretries={3 if program.autorestart else 0}",
        "stopsignal=TERM",
        # TERM goes to the main process alone: a scheduler that gets it too looks like a crash to the engine.
        "stopasgroup=false",
        "killasgroup=true",
        f"stopwaitsecs={program.stop_wait_s}",
    ]
    return "\n".join(lines + (_guard_lines(program) if kind == "eventlistener" else _log_lines(program))) + "\n"


def _log_lines(program: Program) -> list[str]:
    return [
        "redirect_stderr=true",
        f"stdout_logfile={_escape(str(program.log_path))}",
        f"stdout_logfile_maxbytes={_LOG_BYTES}",
        "stdout_logfile_backups=1",
    ]


def _guard_lines(program: Program) -> list[str]:
    """Standard output is the event protocol; the guard logs to standard error."""
    return [
        "events=PROCESS_STATE",
        "buffer_size=1000",
        "priority=-1",
        f"stderr_logfile={_escape(str(program.log_path))}",
        f"stderr_logfile_maxbytes={_LOG_BYTES}",
        "stderr_logfile_backups=1",
        "stdout_logfile=NONE",
    ]


def _environment(env: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f"{key}={_quote(key, value)}" for key, value in env)


def _quote(name: str, value: str) -> str:
    """supervisord splits its environment line at quotes and knows no escape for one.

    Raises:
        SettingsError: for a value that holds both kinds of quotes.

    >>> print(_quote("X", 'a"b%c'))
    'a"b%%c'
    """
    mark = '"' if '"' not in value else "'"
    if mark in value:
        raise SettingsError([Problem(name, repr(value), "a value with one kind of quotes", "remove the others")])
    return f"{mark}{_escape(value)}{mark}"


def _escape(text: str) -> str:
    """supervisord expands `%`."""
    return text.replace("%", "%%")
