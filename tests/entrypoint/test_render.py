"""The rendered configuration, read back by supervisord's own parser."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.programs.supervisord_conf import render
from supervisor.options import ServerOptions
from support.plans import eight_cards, make


def parsed(environ: dict[str, str], run: Path) -> dict[str, Any]:
    plan = make(environ, eight_cards(), run=run)
    folders.make(plan.paths)
    plan.paths.supervisor_conf.write_text(render(plan.programs, plan.paths))
    options = ServerOptions()
    options.realize(["-c", str(plan.paths.supervisor_conf)])
    return {config.name: config for group in options.process_group_configs for config in group.process_configs}


def test_supervisord_reads_back_what_was_planned(tmp_path: Path) -> None:
    text = "--crash-dump-folder '/a b/%(here)s \"q\" \\ $x'"
    plan = make({"DSV4_DECODE_EXTRA_ARGS": text, "NO_PROXY": 'a"b\\c%d,e= f'}, eight_cards(), run=tmp_path)
    read = parsed({"DSV4_DECODE_EXTRA_ARGS": text, "NO_PROXY": 'a"b\\c%d,e= f'}, tmp_path)
    assert set(read) == {program.name for program in plan.programs}
    for program in plan.programs:
        assert tuple(shlex.split(read[program.name].command)) == program.argv
        assert read[program.name].environment == dict(program.env)


def test_a_value_that_supervisord_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="NO_PROXY"):
        parsed({"NO_PROXY": "a\"b'c"}, tmp_path)


def test_signals_reach_the_main_process_alone_and_the_kill_reaches_all(tmp_path: Path) -> None:
    read = parsed({}, tmp_path)
    for config in read.values():
        assert (config.stopasgroup, config.killasgroup) == (False, True)
    assert read["prefill"].autorestart is False or str(read["prefill"].autorestart).lower() == "false"


@pytest.mark.parametrize("program", ["prefill", "decode", "router"])
def test_logs_are_capped(tmp_path: Path, program: str) -> None:
    config = parsed({}, tmp_path)[program]
    assert config.stdout_logfile_maxbytes == 8 * 2**20 and config.stdout_logfile_backups == 1
    assert config.redirect_stderr
