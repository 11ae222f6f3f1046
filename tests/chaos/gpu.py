"""A process of another user that holds a GPU's memory while a server of ours is down.

Written against CUDA's driver interface and not yet run: the machines of CI have no GPU.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from support.appliance import Appliance

from chaos import who
from chaos.broken import Broken

NOBODY = "65534"
# More than the guard lets a display or a monitor have (`gpus.FREE_BYTES`), on every card that it sees.
HOLD = """
import ctypes, sys, time
cuda, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
def check(code):
    if code: raise SystemExit(f"CUDA says {code}")
check(cuda.cuInit(0)); check(cuda.cuDeviceGetCount(ctypes.byref(found)))
for number in range(found.value):
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuDeviceGet(ctypes.byref(device), number))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)); check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(3 << 30)))
print("held", flush=True)
time.sleep(600)
"""


def available(_: Appliance) -> bool:
    """Whether there is a GPU, and we may become another user."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return False
    try:
        cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return False
    return not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(count)) and count.value > 0


def hold_memory(appliance: Appliance, choose: random.Random) -> str:
    """Another user takes 3 GiB of each card, decode dies, the memory is released seconds later: no restart is spent on
    waiting, and what serves on the CPU does not care.

    Raises:
        Broken: the memory could not be taken.
    """
    seconds = choose.uniform(10, 25)
    command = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--pdeathsig", "KILL", sys.executable,
               "-c", HOLD]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as holder:
        try:
            assert holder.stdout
            said = holder.stdout.readline().strip()
            if said != "held":
                raise Broken(f"no memory could be held on a GPU: {said}")
            (name,) = who.drawn(appliance, choose, "decode")
            os.kill(appliance.pid(name), signal.SIGKILL)
            time.sleep(seconds)
        finally:
            holder.kill()
    return f"kill -9 {name}, GPU memory held by another user for {seconds:.0f} s"
