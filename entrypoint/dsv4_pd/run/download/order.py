"""What a start has to fetch: from settings and environment to a task, or to the word that nothing has to be done."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from dsv4_pd.errors import SettingsError
from dsv4_pd.plan.model import record as model_record
from dsv4_pd.plan.model.files import find, hub_cache, is_folder, offline
from dsv4_pd.run.download.causes import Asked
from dsv4_pd.run.download.job import Job, Task
from dsv4_pd.run.download.progress import Progress
from dsv4_pd.run.download.remote import Remote
from dsv4_pd.run.download.store import Store
from dsv4_pd.settings import hub_environ, hub_token
from dsv4_pd.settings.proxies import Proxies

_HUB = "https://huggingface.co"


def needed(model: str, revision: str | None, environ: Mapping[str, str], state: Path) -> bool:
    """Whether the model has to be fetched or checked before a server may open it; a folder is the operator's own."""
    if is_folder(model):
        return False
    here = find(model, revision, environ)
    return here is None or not model_record.read(Store(hub_cache(environ), model).base, state).holds(here)


def task(model: str, revision: str | None, environ: Mapping[str, str], state: Path, stall_s: float) -> Task:
    """The download of a model by its name on the Hub."""
    cache = hub_cache(environ)
    asked = Asked(
        model=model,
        revision=revision or "main",
        endpoint=environ.get(hub_environ.ENDPOINT) or _HUB,
        cache=str(cache),
        has_token=bool(_token(environ)),
        proxies=Proxies.read(environ),
    )
    here = find(model, revision, environ)
    return Task(asked, Store(cache, model), state, stall_s, here, offline(environ))


def job(wanted: Task, environ: Mapping[str, str], progress: Progress) -> Job:
    """The job of a task; when it first asks the Hub, the way there is looked at, and huggingface_hub loaded."""

    def remote() -> Remote:
        if wrong := hub_environ.way_problems(environ):
            raise SettingsError(wrong)
        return Remote(wanted.asked, _token(environ))

    return Job(wanted, remote, progress)


def _token(environ: Mapping[str, str]) -> str | None:
    if found := hub_token.token(environ):
        return found
    from huggingface_hub import get_token

    with contextlib.suppress(OSError):  # HF_HOME can't be read: the download will say so
        return get_token()
    return None
