"""At temperature 0 the pair says what a single server says: the KV cache that decode got is the one prefill made."""

from __future__ import annotations

from dsv4_pd.client.api import Api
from dsv4_pd.verify.base import Result, Subject, failed, passed, skipped
from dsv4_pd.verify.reference import Answers, ask, key_of, load, save, single_answers


def check(subject: Subject) -> Result:
    """The pair's answers against a single server's: live, started for this, or recorded by an earlier verify."""
    status = subject.status
    mine = ask(subject.api, subject.options.seed)
    if any(text is None for text in mine.values()):
        return failed("a question was not answered", "see check generation")
    if status.get("mode") != "pd":
        where = save(subject, key_of(status), mine)
        return skipped(f"whole servers answer here; what they say is now the reference ({where})", "verify a pair next")
    reference, source = _reference(subject, key_of(status))
    if reference is None:
        return skipped(source, "run verify once with DSV4_LAYOUT=single on this host, or give --single-url")
    return judge(mine, reference, source)


def judge(mine: Answers, reference: Answers, source: str) -> Result:
    """The verdict on two sets of answers."""
    for question, text in reference.items():
        if mine.get(question) != text:
            return failed(
                f"{question[:40]!r}: the pair says {str(mine.get(question))[:60]!r}, "
                f"single {str(text)[:60]!r} ({source})",
                "the KV cache arrives damaged or the roles differ: dsv4-pd doctor --link, then DSV4_KERNELS=stock",
                pair=mine,
                single=reference,
            )
    return passed(f"{len(reference)} answers equal to single mode's, token for token ({source})", answers=mine)


def _reference(subject: Subject, key: str) -> tuple[Answers | None, str]:
    if url := subject.options.single_url:
        api = subject.api
        return ask(Api(url, api.model, api.key), subject.options.seed), f"live at {url}"
    if recorded := load(subject, key):
        return recorded, "recorded by an earlier verify of whole servers"
    if subject.options.start_single:
        return single_answers(subject), "a single server started for this"
    return None, "nothing to compare with: no whole server's answers of this model are recorded"
