"""A saved model that learns from no source: what a stream of the same rows gives, and a run that goes on with it."""

import copy

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import RecordError, StreamError
from kampong.streaming.formats.delimited import CSV
from kampong.streaming.increments import SERVED, Increments
from kampong.streaming.inspection import describe
from kampong.streaming.model_file import model_bytes, read_model, write_model
from kampong.streaming.sources.blocks import Block, Place
from stream_problems import write_csv, write_points, write_tables

HEADER = "x1,x2,x3,x4,kind"


def parsed(schema, lines):
    """Return lines of CSV as a batch with labels."""
    data = ("\n".join(lines) + "\n").encode()
    return CSV.parse(schema, Block(data, 0, 0, Place(line=len(lines))))


def opened(path):
    return Increments(str(path), *read_model(str(path))[:2])


def split(folder, first, second, rows=300):
    """Write the first rows and the further ones as two files; return the further lines."""
    good, _ = write_points(folder / "all.csv", rows + 200)
    (folder / first).write_text("\n".join([HEADER, *good[:rows]]) + "\n")
    (folder / second).write_text("\n".join([HEADER, *good[rows:]]) + "\n")
    return good[rows:]


@pytest.mark.parametrize(
    "model",
    [
        FisherDiscriminant(),
        FisherDiscriminant(half_life="auto"),
        FisherDiscriminant(half_life=100),
        MarginSubspace(),
        KernelFisherDiscriminant(),
    ],
    ids=["all rows", "auto", "half-life", "margin", "kernel"],
)
@pytest.mark.parametrize("size", [1, 7, 200])
def test_batches_are_learnt_as_a_stream_learns_them(tmp_path, model, size):
    more = split(tmp_path, "a.csv", "b.csv")
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind"))
    learn(source, copy.deepcopy(model), model_file=str(tmp_path / "m"))
    found = opened(tmp_path / "m")
    found.check()
    right = 0
    for start in range(0, len(more), size):
        right += found.learn(parsed(found.state.schema, more[start : start + size]))
    run = learn(Source(str(tmp_path / "b.csv"), Layout(label="kind")), model, model_file=str(tmp_path / "m"))
    found.settle()
    counters = found.state.counters
    assert (counters.rows, counters.records, counters.turns > 0) == (500, 500, True)
    assert counters.scored == run.counters.scored
    if "Kernel" in type(model).__name__:  # a run places landmarks again
        return
    assert counters.correct == run.counters.correct
    assert right == counters.correct - run.earlier.correct
    X = np.array([line.split(",")[:4] for line in more], dtype=float)
    expected = run.model.decision_function(X)
    np.testing.assert_allclose(found.model.estimator.decision_function(X), expected, rtol=1e-6, atol=1e-9)
    ours, theirs = found.state.course.history, run.history
    assert (ours.rows, ours.scored, ours.correct) == (theirs.rows, theirs.scored, theirs.correct)
    assert ours.measures() == theirs.measures()
    assert ours.delays.found() == theirs.delays.found()


def sources_of(folder, kind):
    """Return two sources of one kind."""
    X = np.random.default_rng(0).normal(size=(3000, 4))
    y = np.where(X[:, 0] > 0, "a", "b")
    if kind == "csv":
        write_csv(folder / "1.csv", X[:1500], y[:1500])
        write_csv(folder / "2.csv", X[1500:], y[1500:])
        return Source(str(folder / "1.csv"), Layout(label="label")), Source(
            str(folder / "2.csv"), Layout(label="label")
        )
    write_tables(folder, X, y)
    first, second = folder / "folder" / "0.parquet", folder / "folder" / "1.parquet"
    return Source(str(first), Layout(label="label")), Source(str(second), Layout(label="label"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_run_goes_on_with_a_model_that_learnt_from_requests(tmp_path, kind):
    first, second = sources_of(tmp_path, kind)
    path = str(tmp_path / "m")
    before = learn(first, FisherDiscriminant(half_life="auto"), model_file=path).counters.rows
    found = opened(path)
    schema = found.state.schema
    for _ in range(3):
        found.learn(parsed(schema, ["1,2,3,4,a", "-1,2,3,4,b"]))
        write_model(path, *found.packed({"id": "x", "number": 1}))
        found = opened(path)
    assert describe(path)["stream"]["learnt"][-1]["name"] == SERVED
    assert describe(path)["stream"]["learnt"][-1]["rows"] == 6
    run = learn(second, FisherDiscriminant(half_life="auto"), model_file=path)
    assert run.counters.rows == before + 6 + (1500 if kind == "csv" else 1000)
    assert run.earlier.rows == before + 6


def test_saving_in_between_changes_nothing(tmp_path):
    more = split(tmp_path, "a.csv", "b.csv")
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind"))
    learn(source, FisherDiscriminant(half_life="auto"), model_file=str(tmp_path / "m"))
    one, other = opened(tmp_path / "m"), opened(tmp_path / "m")
    for start in range(0, len(more), 5):
        one.learn(parsed(one.state.schema, more[start : start + 5]))
        other.learn(parsed(one.state.schema, more[start : start + 5]))
        if start % 40 == 0:
            copied = other.copy()
            copied.settle()
            write_model(str(tmp_path / "m"), *copied.packed())
            other = opened(tmp_path / "m")
    one.settle()
    other.settle()
    assert one.model.estimator.state_digest() == other.model.estimator.state_digest()
    assert one.model.estimator.to_bytes() == other.model.estimator.to_bytes()


def test_new_words_and_missing_numbers_widen_the_model(tmp_path):
    (tmp_path / "a.csv").write_text("\n".join(["x,note,kind", *["1,red car,a", "2,blue sky,b"] * 40]) + "\n")
    (tmp_path / "b.csv").write_text(
        "\n".join(["x,note,kind", *[f"3,new{i} word{i},a" for i in range(60)], ",,b"]) + "\n"
    )
    layout = Layout(label="kind", text=("note",))
    path = str(tmp_path / "m")
    learn(Source(str(tmp_path / "a.csv"), layout), FisherDiscriminant(half_life="auto"), model_file=path)
    found = opened(path)
    width = found.model.estimator.n_features_in_
    lines = (tmp_path / "b.csv").read_text().splitlines()[1:]
    found.learn(parsed(found.state.schema, lines))
    assert found.model.estimator.n_features_in_ > width
    assert found.state.counters.filled == 1
    write_model(path, *found.packed())
    assert opened(path).rows == 141


def test_rows_are_taken_out_and_models_merged_or_nothing_changes(tmp_path):
    more = split(tmp_path, "a.csv", "b.csv")
    path = str(tmp_path / "m")
    run = learn(Source(str(tmp_path / "a.csv"), Layout(label="kind")), FisherDiscriminant(), model_file=path)
    found = opened(path)
    X = np.array([line.split(",")[:4] for line in more], dtype=float)
    expected = run.model.predict_proba(X)
    batch = parsed(found.state.schema, more)
    found.learn(batch)
    receipt = found.unlearn(batch)
    assert (receipt.rows, receipt.exact) == (200, True)
    np.testing.assert_allclose(found.model.estimator.predict_proba(X), expected, atol=1e-7)
    digest = found.model.estimator.state_digest()
    with pytest.raises(StreamError, match=r"are not among those learnt.*The model is as before"):
        found.unlearn(parsed(found.state.schema, ["900,900,900,900,a"]))
    with pytest.raises(RecordError, match="numbers are missing"):
        found.unlearn(parsed(found.state.schema, [",2,3,4,a"]))
    with pytest.raises(StreamError, match="nothing would be left of the model"):
        found.unlearn(parsed(found.state.schema, (tmp_path / "a.csv").read_text().splitlines()[1:]))
    with pytest.raises(kampong.CheckpointError):
        found.merge(b"no model")
    (tmp_path / "c.csv").write_text("\n".join(["y,kind", *["1,a", "2,b"] * 20]) + "\n")
    learn(
        Source(str(tmp_path / "c.csv"), Layout(label="kind")), FisherDiscriminant(), model_file=str(tmp_path / "other")
    )
    with pytest.raises(StreamError, match="its columns are not those of"):
        found.merge((tmp_path / "other").read_bytes())
    assert found.model.estimator.state_digest() == digest
    learn(Source(str(tmp_path / "b.csv"), Layout(label="kind")), FisherDiscriminant(), model_file=str(tmp_path / "b"))
    assert found.merge((tmp_path / "b").read_bytes()) == 200
    assert found.rows == 700  # those that were taken out have been learnt too
    found.learn(parsed(found.state.schema, more[:3]))
    write_model(path, *found.packed())
    assert opened(path).rows == 703


def test_a_model_saved_from_python_learns_by_itself(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = FisherDiscriminant().fit(X, X[:, 0] > 0)
    found = Increments("m", model, None)
    found.check()
    twin = kampong.from_bytes(model.to_bytes())
    schema = copy.copy(opened_schema())
    batch = parsed(schema, ["1,2,True", "-1,2,False"])
    batch.y = batch.y == "True"
    assert found.learn(batch) == 0
    twin.partial_fit([[1.0, 2.0], [-1.0, 2.0]], [True, False])
    assert found.model.estimator.state_digest() == twin.state_digest()
    assert found.rows == 62
    assert model_bytes(*found.packed())


def opened_schema():
    from kampong.streaming.columns.schema import Schema

    return Schema(format="csv", columns=("x", "y", "kind"), numbers=("x", "y"), label="kind", width=2)


def test_models_that_cannot_go_on_are_refused(tmp_path):
    split(tmp_path, "a.csv", "b.csv")
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind"))
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "late"), label_delay=5)
    with pytest.raises(StreamError, match="learnt with --label-delay, so its rows wait for those that follow"):
        opened(tmp_path / "late").check()
    with pytest.raises(StreamError, match="has learnt nothing yet"):
        Increments("m", FisherDiscriminant(), None).check()
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "m"), max_classes=3)
    found = opened(tmp_path / "m")
    with pytest.raises(StreamError, match="there would be 4 classes, more than the 3 that --max-classes allowed"):
        found.learn(parsed(found.state.schema, ["1,2,3,4,new"]))
