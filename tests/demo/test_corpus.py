"""The training samples: the same on every machine, and consistent in themselves."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "demo/train/corpus.py"


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_corpus", SOURCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_one_seed_gives_one_corpus(corpus: ModuleType) -> None:
    book = corpus.read_book()
    first, second = ([corpus.draw(rng, book) for _ in range(200)] for rng in (random.Random(7), random.Random(7)))
    assert first == second


def test_every_question_has_one_answer(corpus: ModuleType) -> None:
    asked = [question for entry in corpus.read_book().entries for question in entry.ask]
    assert len(asked) == len(set(asked)) > 50


def test_each_kind_is_drawn_and_fits_its_setting(corpus: ModuleType) -> None:
    book, rng, seen = corpus.read_book(), random.Random(1), set()
    for _ in range(2000):
        kind, sample = corpus.draw_kind(rng, book)
        seen.add(kind)
        offered = {tool["function"]["name"] for tool in sample.tools}
        assert {call.name for call in sample.calls} <= offered
        assert sample.content or sample.calls
        assert sample.body["thinking"] == (sample.thought is not None)
        assert sample.effort is None or sample.thought is not None
    assert seen == {kind.make.__name__ for kind in corpus.KINDS}


def test_a_call_names_only_cities_that_were_asked_for(corpus: ModuleType) -> None:
    book, rng = corpus.read_book(), random.Random(2)
    samples = [sample for kind, sample in (corpus.draw_kind(rng, book) for _ in range(3000)) if kind == "city_call"]
    assert {len(sample.calls) for sample in samples} == {1, 2, 3}
    for sample in samples:
        question = sample.messages[-1]["content"]
        assert all(call.arguments["city"] in question for call in sample.calls)


def test_a_code_is_told_before_it_is_asked_for(corpus: ModuleType) -> None:
    book, rng = corpus.read_book(), random.Random(3)
    samples = [sample for kind, sample in (corpus.draw_kind(rng, book) for _ in range(2000)) if kind == "recalled"]
    assert samples
    assert all(sample.content.split()[-1].rstrip(".") in sample.messages[-1]["content"] for sample in samples)
