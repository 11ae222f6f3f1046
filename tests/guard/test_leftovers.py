"""What a dead program left: processes and shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dsv4_pd.run.guard.watch import tree
from dsv4_pd.run.supervision import family


def person(**known: Any) -> family.Process:
    return family.Process(**{"parent": 1, "group": 1, "session": 1, "started": 1, **known})


def test_what_a_dead_program_left_is_found_however_it_hides() -> None:
    """supervisord (10) leads the session; decode (30, group 30) is down, prefill (20) lives; the guard is 40."""
    ours = {"mark": "m", "session": 10}
    people = {
        1: person(),
        10: person(group=10, session=10, mark="m"),
        20: person(parent=10, group=20, program="prefill", **ours),
        21: person(parent=20, group=21, session=21),  # its scheduler, in a session and a group of its own, no mark
        22: person(parent=21, group=20, session=10),  # and that one's child
        31: person(parent=1, group=30, program="decode", **ours),  # decode's, by name
        32: person(parent=1, group=30, session=10),  # decode's, by its group's death: it wrote over its environment
        33: person(parent=1, group=33, session=33, mark="m", program="decode"),  # decode's, in another session
        40: person(parent=10, group=40, program="guard", **ours),
        50: person(parent=1, group=50, session=50, mark="m"),  # the link test's, which `serve` started
        60: person(parent=1, group=60, session=60, mark="other", program="decode"),  # another appliance's
        61: person(parent=1, group=61, session=61, program="decode"),
    }
    assert family.leftovers(people, "m", 10, "decode", living={20, 40}) == {31, 32, 33}
    assert family.leftovers(people, "m", 10, "router", living={20, 40}) == {32}
    assert family.programs(people, "m", 10, me=40) == {20, 21, 22, 31, 32, 33}
    assert family.leftovers(people, "", 0, "decode", living={20, 40}) == frozenset(), "without a mark nothing is ours"


def test_files_below_dev_shm_are_found_by_who_maps_them_and_removed() -> None:
    name = Path(f"/dev/shm/dsv4-test-{os.getpid()}")
    name.write_bytes(b"x" * 4096)
    code = f"import mmap, time; f = open('{name}', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); print('up', flush=True); time.sleep(60)"  # noqa: E501
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert user.stdout
        user.stdout.readline()
        found = tree.shared_memory(frozenset({user.pid}))
        assert str(name) in found
        tree.unlink(found)
        assert not name.exists()
    finally:
        user.kill()
        user.wait()
        name.unlink(missing_ok=True)


def test_semaphores_of_python_are_found_though_they_were_mapped_under_another_name() -> None:
    code = (
        "import multiprocessing as m, time; s = m.get_context('spawn').Lock(); print('up', flush=True); time.sleep(60)"
    )
    before = set(Path("/dev/shm").iterdir())
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert user.stdout
        user.stdout.readline()
        fresh = {str(path) for path in set(Path("/dev/shm").iterdir()) - before if path.name.startswith("sem.mp-")}
        found = tree.shared_memory(frozenset({user.pid}))
        assert found & fresh
    finally:
        os.killpg(user.pid, 9)
        user.wait()
        tree.unlink(found)
