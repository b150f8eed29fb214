"""Files that earlier versions wrote are read, and written again with the same bytes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kampong import FisherDiscriminant, load
from kampong.files import pack
from kampong.files.container import encode, read
from kampong.files.contents import Contents, flatten
from kampong.statistics.kinds import statistics_from, statistics_state

KEPT = Path(__file__).parent / "kept"
MODELS = ["kernel_scatter", "margin_recursion", "principal_recursion"]
STREAMS = ["stream_format_9"]
STATISTICS = sorted(path.stem for path in KEPT.glob("*.kampong") if path.stem not in (*MODELS, *STREAMS))
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


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_of_an_earlier_file_goes_on_as_one_of_today(name, tmp_path):
    """The first file has 24 rows of two columns and two classes; both runs go on with 12 more."""
    pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
    from kampong.streaming import Layout, Source, learn

    lines = [f"{i % 7},{i % 3 + 4 * (i % 2)},{'ab'[i % 2]}" for i in range(36)]
    for file, rows in (("first.csv", lines[:24]), ("more.csv", lines[24:])):
        (tmp_path / file).write_text("\n".join(["length,width,kind", *rows]) + "\n")
    old, new = tmp_path / "old.kampong", tmp_path / "new.kampong"
    old.write_bytes((KEPT / f"{name}.kampong").read_bytes())
    learn(Source(str(tmp_path / "first.csv"), Layout(label="kind")), FisherDiscriminant(ridge=0.1), model_file=str(new))
    runs = [
        learn(
            Source(str(tmp_path / "more.csv"), Layout(label="kind")), FisherDiscriminant(ridge=0.1), model_file=str(one)
        )
        for one in (old, new)
    ]
    assert [run.counters.rows for run in runs] == [36, 36]
    then = runs[1].counters  # the second row, wrong today, was not predicted after one class alone
    assert runs[0].counters == replace(then, scored=then.scored - 1)
    np.testing.assert_allclose(*[run.model.predict_proba(ROWS[:, :2]) for run in runs], rtol=1e-9)
