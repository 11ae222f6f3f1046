"""The environment of the plugin, read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dsv4_hooks.record import FOLDER_VARIABLE, folder_of


class KernelSettingsError(ValueError):
    """Setting, value found, values expected, what to do."""


@dataclass(frozen=True, slots=True)
class PluginSettings:
    enabled: bool
    record_folder: Path | None


def load(environ: Mapping[str, str] = os.environ) -> PluginSettings:
    """Unset and empty are the same: the appliance passes blanks through."""
    kernels = environ.get("DSV4_KERNELS", "") or "auto"
    if kernels not in ("auto", "stock"):
        raise KernelSettingsError(f"DSV4_KERNELS={kernels!r}, expected auto or stock: correct it or leave it out")
    return PluginSettings(kernels == "auto", folder_of(environ.get(FOLDER_VARIABLE)))
