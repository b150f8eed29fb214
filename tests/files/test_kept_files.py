"""Files that earlier versions wrote are read, and written again with the same bytes."""

from pathlib import Path

import numpy as np
import pytest

from kampong import load
from kampong.files import pack
from kampong.files.container import encode, read
from kampong.files.contents import Contents, flatten
from kampong.statistics.kinds import statistics_from, statistics_state

KEPT = Path(__file__).parent / "kept"
MODELS = ["kernel_scatter", "margin_recursion", "principal_recursion"]
STATISTICS = sorted(path.stem for path in KEPT.glob("*.kampong") if path.stem not in MODELS)
ROWS = np.array([[0.5, -1.0], [2.0, 0.25], [-1.5, 1.0]])


def test_every_kind_has_a_file():
    kinds = {read(KEPT / f"{name}.kampong")[1]["state"]["kind"] for name in STATISTICS}
    assert kinds == {"ClassMeans", "ClassScatter", "ClassReservoir", "SampledScatter", "PastRows"}


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_an_earlier_file_are_written_again_with_the_same_bytes(name):
    path = KEPT / f"{name}.kampong"
    arrays, facts = read(path)
    statistics = statistics_from(Contents(arrays, facts["state"], name), facts["n_features"])
    again, state = flatten(statistics_state(statistics))
    assert encode(again, {"state": state, "n_features": facts["n_features"]}) == path.read_bytes()


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_an_earlier_file_go_on(name):
    arrays, facts = read(KEPT / f"{name}.kampong")
    statistics = statistics_from(Contents(arrays, facts["state"], name), facts["n_features"])
    if statistics.refusal is not None:
        return
    before, rows = statistics.n_samples, ROWS[:, : statistics.n_features]
    y = np.eye(3, dtype=int) if statistics.multilabel else ["a", "b", "d"]
    assert statistics.update(rows, y).n_samples == before + 3
    assert np.isfinite(statistics.means).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_an_earlier_file_holds_the_same_state(name):
    path = KEPT / f"{name}.kampong"
    model = load(path)
    arrays, facts = read(path)
    again, after = pack(model)
    later = {key: getattr(type(model)(), key) for key in model.get_params() if key not in facts["model"]["parameters"]}
    facts["model"]["parameters"] |= later  # a parameter that came after the file has its default
    assert after["model"] == facts["model"]
    assert set(again) == set(arrays)
    for key, array in arrays.items():
        np.testing.assert_array_equal(again[key], array)
        assert again[key].dtype == array.dtype
    assert np.isfinite(model.transform(ROWS)).all()
