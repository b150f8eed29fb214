"""Whatever was learnt can be saved and read back, and a save that a later run could not read replaces nothing."""

import csv
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kampong
from kampong import CheckpointError, FisherDiscriminant
from kampong.files.contents import digest_of
from kampong.statistics.all_rows import ClassRows, PastRows
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir, SampledScatter
from kampong.statistics.scatter import ClassScatter
from kampong.streaming import Layout, Source, learn
from kampong.streaming.inspection import merge_files
from kampong.streaming.model_file import read_model
from kampong.streaming.unlearn_records import unlearn
from problems import at_most, seeds

COLOURS = {"apple": "red", "pear": "green", "plum": "blue"}


def write_fruit(path, rows, seed, kinds=2):
    """Write rows whose category is constant within each class."""
    rng = random.Random(seed)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["weight", "size", "colour", "kind"])
        for _ in range(rows):
            kind = rng.choice(sorted(COLOURS)[:kinds])
            out.writerow([f"{rng.gauss(150, 20):.2f}", f"{rng.gauss(7, 1):.3f}", COLOURS[kind], kind])


@pytest.mark.parametrize("seed", range(24))
def test_a_category_that_is_constant_within_each_class_leaves_a_model_that_opens(tmp_path, seed):
    rows = (42, 42, 60, 200, 333, 1000)[seed % 6]
    write_fruit(tmp_path / "fruit.csv", rows, seed, kinds=2 + seed % 2)
    run = learn(str(tmp_path / "fruit.csv"), FisherDiscriminant(), label="kind", model_file=str(tmp_path / "m"))
    assert run.finished
    model, state, _ = read_model(str(tmp_path / "m"))
    assert state.counters.rows == rows
    assert model.state_digest() == run.model.state_digest()
    scatter = model._statistics._scatter
    diagonal = scatter.diagonal()
    bound = np.sqrt(np.outer(diagonal, diagonal))
    peak = np.sqrt(np.outer(model._statistics._peak_diagonal, model._statistics._peak_diagonal))
    assert diagonal.min() >= 0
    assert (np.abs(np.tril(scatter)) <= (1 + 1e-6) * bound + 1e-6 * peak).all()


# Any sequence of what a stream does, on every kind of statistics.

WIDTH = 6


def rows_of(rng, n, form, several):
    """Return rows with a column that is constant within each class, one far away, one empty, and their labels."""
    y = rng.integers(0, 3, n)
    X = rng.standard_normal((n, WIDTH)) * [1, 1e-3, 1e4, 1, 0, 1] + [0, 0, 0, 1e6, 0, 0]
    X[:, 0] = np.array([0.1, 1 / 3, 0.7])[y]
    X[:, 5] = y == 1
    if form == "float32":
        X = X.astype(np.float32)
    weights = rng.choice([0.0, 0.3, 1.0, 2.0, 1e-9, 1e9], n) if rng.random() < 0.5 else np.ones(n)
    weights[:1] = 1.0
    labels = (rng.random((n, 3)) < 0.5).astype(int) if several else np.array(["a", "b", "c"])[y]
    return (
        sparse.csr_array(np.hstack([X, np.zeros((n, 60))])) if form == "sparse" else np.pad(X, ((0, 0), (0, 60))),
        labels,
        weights,
    )


KINDS = {
    "ClassMeans": lambda seed: ClassMeans(66),
    "ClassScatter": lambda seed: ClassScatter(66),
    "ClassReservoir": lambda seed: ClassReservoir(66, budget=20_000, random_state=seed),
    "SampledScatter": lambda seed: SampledScatter(66, budget=20_000, random_state=seed),
}


def opens(statistics):
    """Check that statistics come back bit for bit."""
    back = type(statistics).from_arrays(statistics.to_arrays())
    assert digest_of(back.to_state()) == digest_of(statistics.to_state())
    return back


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=at_most(20))
@given(
    seed=seeds,
    several=st.booleans(),
    program=st.lists(
        st.sampled_from(["update", "row", "merge", "itself", "decay", "unlearn", "move", "reopen"]), max_size=9
    ),
)
def test_any_program_leaves_statistics_that_open(kind, seed, several, program):
    rng = np.random.default_rng(seed)
    statistics, learnt = KINDS[kind](0), []
    width = statistics.n_features
    for place, step in enumerate(["update", *program]):
        X, y, weights = rows_of(rng, 1 if step == "row" else 12, rng.choice(["dense", "float32", "sparse"]), several)
        if statistics.n_features > width:
            wider = statistics.n_features - width
            X = sparse.csr_array(sparse.hstack([sparse.csr_array(X), sparse.csr_array((X.shape[0], wider))]))
        if step in ("update", "row"):
            statistics.update(X, y, weights)
            learnt.append((X, y, weights))
        elif step == "merge":
            other = type(statistics)(statistics.n_features)
            if isinstance(other, ClassReservoir):
                other = type(statistics)(statistics.n_features, budget=20_000, random_state=place + 1)
            statistics = statistics.merge(other.update(X, y, weights))
            learnt.append((X, y, weights))
        elif step == "itself":
            statistics = statistics.merge(statistics)
        elif step == "decay":
            statistics.decay(float(rng.choice([0.5, 1e-3])))
            learnt = []  # what they weigh now is another number
        elif step == "unlearn" and learnt:
            statistics.unlearn(*learnt.pop(int(rng.integers(len(learnt)))))
        elif step == "move":
            columns = np.arange(statistics.n_features)
            statistics.move_columns(columns, statistics.n_features + 1)
            learnt = []
        elif step == "reopen":
            statistics = opens(statistics)
        opens(statistics)


@given(seed=seeds)
@settings(max_examples=at_most(10))
def test_rows_that_are_no_longer_kept_open(seed):
    X, y, weights = rows_of(np.random.default_rng(seed), 20, "dense", False)
    past = ClassRows(66).update(X, y, weights).without_rows()
    assert isinstance(opens(past), PastRows)


def test_several_labels_taken_out_in_parts_leave_counts_that_agree():
    """A row without labels of weight 3, taken out as three rows, must not leave fewer rows than a class has."""
    X, y = np.array([[1.0, 2.0], [2.0, 1.0], [5.0, 5.0]]), np.array([[1, 0], [1, 0], [0, 0]])
    statistics = ClassMeans(2).update(X, y, [2.0, 1.0, 3.0])
    for _ in range(3):
        statistics.unlearn(X[2:], y[2:])
    assert statistics.n_samples >= statistics._numbers.max() == 2
    opens(statistics)


# A save that could not be read replaces nothing.


def spoil(monkeypatch):
    """Let every state hold a negative weight, as an error of ours might."""
    honest = ClassMeans.to_state
    monkeypatch.setattr(ClassMeans, "to_state", lambda self: {**honest(self), "counts": -honest(self)["counts"]})


def test_no_way_of_saving_replaces_a_file_by_one_that_cannot_be_read(tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = np.arange(40) % 2
    model = FisherDiscriminant(half_life=None).fit(X, y)
    places = {name: str(tmp_path / name) for name in ("saved", "streamed", "merged", "second")}
    write_fruit(tmp_path / "one.csv", 60, 1)
    write_fruit(tmp_path / "two.csv", 60, 2)
    (tmp_path / "few.csv").write_text("".join((tmp_path / "one.csv").read_text().splitlines(keepends=True)[:9]))
    few = Source(str(tmp_path / "few.csv"), Layout(label="kind"))

    def stream(path, source):
        rows = Source(str(tmp_path / source), Layout(label="kind"))
        seed = {"one.csv": 1, "two.csv": 2}[source]
        return learn(rows, FisherDiscriminant(half_life=None, random_state=seed), model_file=path)

    stream(places["streamed"], "one.csv")
    stream(places["second"], "two.csv")
    model.save(places["saved"])
    merge_files([places["streamed"], places["second"]], places["merged"])
    before = {name: (tmp_path / name).read_bytes() for name in places}
    spoil(monkeypatch)
    said = "a later run could not read it: the state of FisherDiscriminant, statistics is not valid: counts lies in"
    ways = {
        "save": lambda: model.save(places["saved"]),
        "bytes": model.to_bytes,
        "merge": lambda: merge_files([places["streamed"], places["second"]], places["merged"]),
        "unlearn": lambda: unlearn(few, places["streamed"], str(tmp_path / "receipt.json")),
        "stream": lambda: stream(str(tmp_path / "new"), "one.csv"),
    }
    for name, way in ways.items():
        with pytest.raises(CheckpointError, match=said) as caught:
            way()
        assert "An earlier file is as it was" in str(caught.value), name
    assert {name: (tmp_path / name).read_bytes() for name in places} == before
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob(".kampong-*"))


def test_the_check_of_a_save_changes_neither_the_model_nor_the_bytes(tmp_path):
    X = np.random.default_rng(0).standard_normal((300, 4))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    for model in (FisherDiscriminant(), kampong.KernelFisherDiscriminant(landmarks=20), kampong.MarginRecursion(2)):
        model.partial_fit(X, y)
        first = model.to_bytes()
        model.save(tmp_path / "m")
        assert (tmp_path / "m").read_bytes() == first == model.to_bytes() == kampong.load(tmp_path / "m").to_bytes()
