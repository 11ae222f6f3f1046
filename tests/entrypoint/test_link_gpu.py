"""The KV-link test between two real GPUs, with the plan and the variables that the servers get."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import VENVS
from dsv4_pd.doctor.link import run
from dsv4_pd.doctor.link.report import LinkReport
from dsv4_pd.host.numa import Permission
from dsv4_pd.plan.around.surroundings import Surroundings
from dsv4_pd.plan.disk import folders
from dsv4_pd.plan.disk.paths import profiles_dir, share_dir
from dsv4_pd.plan.placement import place as placement
from dsv4_pd.plan.plan import complete
from dsv4_pd.plan.programs.build import programs
from dsv4_pd.plan.shipped import profiles
from dsv4_pd.settings.schema import Settings
from support.machines import read_facts

ENGINE = VENVS / "engine" / "bin" / "python"
PYTHON = ENGINE if ENGINE.exists() else Path(sys.executable)  # any interpreter with torch and NIXL
pytestmark = pytest.mark.gpu


def moved(folder: Path, **environ: str) -> LinkReport:
    """One rank on each of the first two cards."""
    if PYTHON != ENGINE and not importlib.util.find_spec("nixl_cu13"):
        pytest.skip("needs NIXL")
    facts = read_facts()
    if len(facts.gpus) < 2:
        pytest.skip("needs two GPUs")
    shipped = profiles.read_all(profiles_dir())["rtx-pro-6000-4x"]
    assert shipped.gpus
    need = replace(shipped.gpus, count=2, compute_capability=facts.gpus[0].compute_capability)
    profile = replace(shipped, gpus=need, tensor_parallel={"prefill": 1, "decode": 1})
    settings = complete(Settings(run_dir=folder / "run", state_dir=folder / "state"), profile, {}, share_dir())
    outside = {**os.environ, **environ}
    plan = placement.place(settings, profile, facts)
    around = Surroundings(folders.resolve(settings, outside), share_dir(), outside, Permission("none"))
    around.paths.temp.mkdir(parents=True)
    report = run.measure(PYTHON, plan, programs(settings, profile, plan, around), outside)
    assert report is not None
    print(report.text())
    assert not report.error and not report.corrupt, report
    return report


def test_the_servers_own_variables_take_the_direct_path(tmp_path: Path) -> None:
    report = moved(tmp_path)
    assert report.transport == "cuda_ipc/cuda"
    assert not report.slow, report


@pytest.mark.parametrize(
    "harm", [{"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, {"UCX_TLS": "cuda_copy,sm,tcp,self"}], ids=str
)
def test_what_loses_the_direct_path_is_called_slow_and_tcp(tmp_path: Path, harm: dict[str, str]) -> None:
    report = moved(tmp_path, **harm)
    assert report.over_tcp and report.slow, report
