"""Numbers set by hand: those outside settings.py are counted, room by room, and may only become fewer."""

import importlib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CEILINGS = {
    "_core": 3,
    "criteria.py": 2,
    "estimators": 4,
    "heads": 28,
    "margin": 4,
    "merging.py": 1,
    "online": 1,
    "recursions": 4,
    "report": 1,
    "selection": 6,
    "solvers": 3,
    "statistics": 4,
    "streaming": 7,
}
"""How many numbers a room may hold that are neither a layout nor a limit. Lower a ceiling when one has gone."""


@pytest.fixture
def counts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.counts")


def test_no_room_gains_a_number(counts):
    found = counts.tuned(counts.parsed())
    held = Counter(path.parts[0] for path, _ in found)
    for room, count in held.items():
        names = ", ".join(f"{path}: {name}" for path, name in found if path.parts[0] == room)
        assert count <= CEILINGS.get(room, 0), (
            f"{room} holds {count} tuned numbers, before at most {CEILINGS.get(room, 0)}: {names}. Use a rule without "
            "a number, put it into settings.py with the benchmark that set it, or name it in benchmarks/counts.py if "
            "it is a layout or a limit, or if a paper sets it."
        )


def test_every_number_that_is_listed_exists_and_is_listed_once(counts):
    groups = [counts.LAYOUTS, counts.LIMITS, counts.PUBLISHED, counts.SPEED]
    held = set(counts.numbers(counts.parsed()))
    assert counts.listed(*groups) - held == set()
    assert len(counts.listed(*groups)) == sum(len(counts.listed(group)) for group in groups)


def test_the_fields_of_settings_do_not_become_more(counts):
    assert len(counts.fields(counts.parsed())) <= 60


def test_a_number_is_found_and_a_limit_is_not(counts):
    fields = "E = (array('a', high=3), plain('b', int, 1))"
    tree = counts.ast.parse(f"A, B = 1, 2.5\nC: int = 2**4\nD = 'word'\n{fields}\nlower = 3\nLARGEST = 1e150\n")
    trees = {Path("data/validation.py"): tree, Path("selection/settings.py"): tree}
    assert [name for _, name in counts.tuned(trees)] == ["A", "B", "C"]
    assert [name for _, name in counts.numbers(trees)] == ["A", "B", "C", "LARGEST"]
