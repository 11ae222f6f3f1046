"""What NVML's words mean and how to fix it: cause -> words -> remedy, each with its source. No remedy is a default.

`plan`, `doctor` and the guard read the same table, and docs/troubleshooting.md prints it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why NVML, or one card, does not answer."""

    name: str
    words: str  # regular expression, matched anywhere, in any case
    meaning: str
    host: str  # what to do where we run on the host itself
    container: str  # the same from inside a container
    source: str
    code: int | None = None  # nvmlReturn_t, where NVML has one for it

    def remedy(self, in_container: bool) -> str:
        """What to do."""
        return self.container if in_container else self.host


_RESET = (
    "read the Xid lines of the host's kernel log (dmesg | grep -i xid), then reset the card "
    "(nvidia-smi --gpu-reset -i N) or reboot the host; one that comes back lost needs its power and slot checked"
)
_REBOOT = "reboot the host (or stop what uses the GPUs and reload the nvidia modules), then start the container again"
_DEVICES = "start the container with --gpus all, or compose's GPU devices; NVIDIA_VISIBLE_DEVICES must not be void"
CAUSES = (
    Cause(
        "driver updated under its module",
        r"(?:driver/library|nvml/rm) version mismatch",
        "the driver's libraries were updated while its old kernel module runs on",
        _REBOOT,
        _REBOOT,
        "NVIDIA/nvidia-container-toolkit#394; NVIDIA/nvidia-docker#365",
        code=18,
    ),
    Cause(
        "card off the bus",
        r"gpu is lost|fallen off",
        "the card fell off the PCIe bus (Xid 79)",
        _RESET,
        _RESET,
        "NVIDIA Xid catalogue, 79; NVIDIA/dcgm-exporter#604",
        code=15,
    ),
    Cause(
        "card gone",
        r"^not found$",
        "the driver has no card of this index or UUID any more: it fell off the PCIe bus, or was taken away",
        _RESET,
        _RESET,
        "nvml.h NVML_ERROR_NOT_FOUND; NVIDIA/dcgm-exporter#348",
        code=6,
    ),
    Cause(
        "card needs a reset",
        r"requires (?:restart|reset)|reset required|invalid state",
        "the card stopped after an error and waits for a reset",
        _RESET,
        _RESET,
        "nvml.h NVML_ERROR_RESET_REQUIRED; NVIDIA Xid catalogue",
        code=16,
    ),
    Cause(
        "devices revoked",
        r"^unknown error$",
        "the container lost its GPUs (systemctl daemon-reload on the host does that)",
        f"of a container: docker compose up -d --force-recreate; where nvidia-smi on the host says it too: {_RESET}",
        "re-create the container: docker compose up -d --force-recreate",
        "NVIDIA/nvidia-container-toolkit#48 and #1227",
        code=999,
    ),
    Cause(
        "module not loaded",
        r"driver not loaded|uninitialized",
        "the nvidia kernel module is not loaded",
        "sudo modprobe nvidia; where that fails, dmesg says why (Secure Boot; dkms status for the module)",
        "on the host: sudo modprobe nvidia; where that fails, dmesg says why; then start the container again",
        "nvml.h NVML_ERROR_DRIVER_NOT_LOADED; NVIDIA driver README, chapter 8",
        code=9,
    ),
    Cause(
        "library not there",
        r"shared library|libnvidia-ml",
        "the driver's library is not there",
        "sudo apt install nvidia-open && sudo reboot; DSV4_PROFILE=demo-cpu runs without a GPU",
        f"{_DEVICES}; the toolkit mounts the library (nvidia-ctk runtime configure, then restart Docker)",
        "nvml.h NVML_ERROR_LIBRARY_NOT_FOUND; NVIDIA Container Toolkit installation guide",
        code=12,
    ),
    Cause(
        "no permission",
        r"insufficient permissions|permission denied",
        "this user may not open the device files",
        "add the user to the group of /dev/nvidia* (ls -l /dev/nvidia*), or set NVreg_DeviceFileMode=0666",
        "a rootless engine, or SELinux: `dsv4-pd doctor` says which (check device-access)",
        "nvml.h NVML_ERROR_NO_PERMISSION; NVIDIA driver README (NVreg_DeviceFileMode)",
        code=4,
    ),
    Cause(
        "blocked by the operating system",
        r"operating system has blocked",
        "the operating system's security policy keeps the driver's calls from the device",
        "look for denials: sudo ausearch -m avc -ts recent, or dmesg | grep DENIED",
        "SELinux: sudo setsebool -P container_use_devices on, or --security-opt label=disable",
        "nvml.h NVML_ERROR_OPERATING_SYSTEM; container_selinux(8)",
        code=17,
    ),
    Cause(
        "card without power or interrupts",
        r"external power|interrupt request",
        "the card has no external power, or no interrupt",
        "check the card's power cables, and the board's BIOS (Above 4G decoding, resizable BAR)",
        "on the host: check the card's power cables, and the board's BIOS (Above 4G decoding, resizable BAR)",
        "nvml.h NVML_ERROR_INSUFFICIENT_POWER, NVML_ERROR_IRQ_ISSUE",
    ),
    Cause(
        "corrupted infoROM",
        r"infoROM",
        "the card's own memory of its settings is damaged",
        "have the card replaced; it may work on, unchecked",
        "have the card replaced; it may work on, unchecked",
        "nvml.h NVML_ERROR_CORRUPTED_INFOROM",
        code=14,
    ),
    Cause(
        "card hangs",
        r"did not answer within|^timeout$",
        "a call into the driver does not return",
        _RESET,
        _RESET,
        "NVIDIA/open-gpu-kernel-modules issues on hangs after Xid 119 and 120 (GSP)",
        code=10,
    ),
    Cause(
        "host memory",
        r"insufficient memory",
        "the host has no memory left for the driver",
        "free memory on the host (free -h), then start again",
        "free memory on the host, or raise the container's limit, then start again",
        "nvml.h NVML_ERROR_MEMORY",
        code=20,
    ),
    Cause(
        "no card listed",
        r"lists no GPU|no devices were found",
        "the driver lists no GPU",
        "lspci -d 10de: shows whether the board sees the card; dmesg | grep -i nvrm says why the driver left it out "
        "(a card bound to vfio-pci, or one that the driver does not know)",
        f"where nvidia-smi on the host lists cards: {_DEVICES}; where it lists none: dmesg | grep -i nvrm on the host",
        "NVIDIA driver README, chapter 8 (No devices were found)",
    ),
    Cause(
        "no device file",
        r"no NVIDIA device file",
        "no NVIDIA device file",
        "sudo apt install nvidia-open && sudo reboot; DSV4_PROFILE=demo-cpu runs without a GPU",
        _DEVICES,
        "NVIDIA Container Toolkit documentation (NVIDIA_VISIBLE_DEVICES, CDI)",
    ),
    Cause(
        "reader ended",
        r"the NVML reader ended",
        "the driver's library ended the process that asked it",
        "its last words are above; nvidia-smi does the same where the driver is broken: reinstall it",
        "its last words are above; where nvidia-smi on the host works, the container's library is another version: "
        "start the container again",
        "our own bounded reader (host/nvml_reader.py)",
    ),
)


def cause_of(words: str, code: int | None = None) -> Cause | None:
    """The cause of NVML's code, or the first whose words are in the text; None for one that we don't know.

    >>> cause_of("Driver/library version mismatch").name, cause_of("other words", 15).name
    ('driver updated under its module', 'card off the bus')
    """
    if by_code := [cause for cause in CAUSES if code is not None and cause.code == code]:
        return by_code[0]
    return next((cause for cause in CAUSES if re.search(cause.words, words.strip(), re.IGNORECASE)), None)


def explained(words: str, in_container: bool, code: int | None = None) -> tuple[str, str]:
    """(what was said and what it means, what to do). Of unknown words only that they are unknown is said.

    >>> explained("xyzzy", True)
    ('xyzzy', 'no known cause has these words; compare with nvidia-smi on the host, and report them')
    """
    cause = cause_of(words, code)
    if cause is None:
        return words, "no known cause has these words; compare with nvidia-smi on the host, and report them"
    said = words if cause.meaning in words else f"{words}: {cause.meaning}"
    return said, cause.remedy(in_container)


def remedies(words: Iterable[tuple[str, int | None]], in_container: bool) -> str:
    """The remedies of several cards, of each its words and its code, each once."""
    return "; ".join(dict.fromkeys(explained(each, in_container, code)[1] for each, code in words))
