"""Long and lopsided streams: counts, means, scatter and directions against two passes in higher precision."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["half_life_of_ten", "merged_in_ten_shapes", "ten_thousand_classes", "one_in_a_million", "single_precision"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shrink", [50, pytest.param(1, marks=pytest.mark.slow)])
def test_the_errors_are_of_rounding(monkeypatch, name, shrink):
    monkeypatch.syspath_prepend(str(ROOT))
    _, errors = getattr(importlib.import_module("benchmarks.long_streams"), name)(shrink)
    assert errors["counts"] < 1e-14
    assert errors["means"] < 1e-13
    assert errors["within"] < 1e-13
    assert errors.get("directions", 0.0) < 1e-10  # the offset costs the eigenproblem some digits


def test_the_reference_tells_a_lost_row(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.long_streams")
    X, y = module._rows(1000, 0)
    errors = module._Reference.of(X, y).errors(module.ClassScatter(module.D).update(X, y))
    assert max(errors.values()) < 1e-14
    odd = X.copy()
    odd[17] += 1e-6
    errors = module._Reference.of(X, y).errors(module.ClassScatter(module.D).update(odd, y))
    assert errors["means"] > 1e-10
    assert errors["within"] > 1e-10
