"""The words of the old dialect may only become fewer, and the counts that say so are right."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = {"documents": 5, "package": 50}
"""How often they may stand there, all together. Lower a number when it can be lowered; never raise one."""


@pytest.fixture
def words(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.words")


def test_no_more_words_of_the_dialect(words):
    found = {
        "documents": words.occurrences(words.documents_of(ROOT)),
        "package": words.occurrences(words.sources_of(ROOT / "src")),
    }
    for place, most in MOST.items():
        there = {word.replace("_", " "): count for word, count in found[place].items() if count}
        assert found[place].total() <= most, f"{place} hold more words of the dialect than {most}: {there}"


def test_words_and_sentences_are_counted(words, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Held\nback rows judge it anew, past 8 columns: a label a row.\n\nA label per row; unjudged.")
    found = words.occurrences([page])
    assert {word for word, count in found.items() if count} == {"held_back", "judge", "anew", "past_#", "a per rate"}
    assert found.total() == 5
    text = "# Title\n\nThe cat sat. It ran to `its.own.house`.\n\n```python\nx = 1\n```\n\n| a | b |\n"
    count, length, ease = words.readability(words.without_code(text))
    assert (count, length) == (7, 3.5)
    assert ease == pytest.approx(206.835 - 1.015 * 3.5 - 84.6 * 1.0)


def test_a_readme_is_read_until_its_first_code_and_its_claims_are_counted(words):
    page = (
        "# Fast\n\n[One](a.md) two three.\n\nIt is [fast](b.md), 3 times.\n\n```python\nx = 1\n```\n\n- It is simple.\n"
    )
    assert words.seconds_to_code(page) == pytest.approx(60 / 238 * 8)
    assert words.claims(page) == [True, False]
    rest = "Title\n=====\n\n.. image:: a.png\n   :alt: b\n\nTwo words.\n\n.. code:: python\n\n    x = 1\n"
    assert words.seconds_to_code(rest) == pytest.approx(60 / 238 * 3)
    assert len(re.findall(words.WORD, words.plain(rest))) == 3
