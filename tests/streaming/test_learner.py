"""The learning loop: honest predictions, exact resume from anywhere, and a clear no to anything else."""

import gzip
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from sklearn.base import clone

import kampong
from kampong.estimators.stream_model import FisherModel, SubspaceModel
from kampong.files import CheckpointError, load
from kampong.files.contents import Contents, flatten
from kampong.predictor import Predictor
from kampong.statistics.scatter import WIDEST
from kampong.streaming import Layout, Source, formats, learn
from kampong.streaming.apply_model import apply
from kampong.streaming.errors import LearntError, OutputError, RecordError, ResumeError, SourceError, StreamError
from kampong.streaming.history.delays import Delay
from kampong.streaming.inspection import describe, merge_files
from kampong.streaming.sources import blocks, source
from stream_problems import without_clock, write_points

MODELS = [
    kampong.FisherDiscriminant(ridge=0.1),
    kampong.FisherDiscriminant(),
    kampong.FisherDiscriminant(half_life="auto"),
    kampong.MarginSubspace(2, epsilon=0.3, half_life=400),
    kampong.MarginSubspace(epsilon=0.1, solver="reservoir", reservoir_bytes=20_000),
    kampong.InterClassScatter(),
    kampong.SupervisedKampongMeasure(2, a=1.5),
]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "SMALLEST", 1024)
    monkeypatch.setattr(blocks, "LARGEST", 4096)


def test_predictions_come_before_learning(tmp_path, small_blocks):
    """Row by row: what predicts a row is the model of the last row number at which the schedule renews it."""
    write_points(tmp_path / "a.csv", 600)
    ridge = {"ridge": 0.1}
    run = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(**ridge), label="kind", out=str(tmp_path / "o.csv"))
    model, correct, scored, lines = kampong.FisherDiscriminant(**ridge), 0, 0, ["row,label,predicted,z1,z2"]
    frozen, row, known = None, 0, set()
    for batch in Source(str(tmp_path / "a.csv"), Layout(label="kind")).open():
        for x, label in zip(batch.X, batch.y.tolist(), strict=True):
            given = ",,"
            if frozen is not None:
                (z,), (predicted,) = frozen.answers(x[None])
                scored, correct = scored + 1, correct + (predicted == label)
                given = f'"{predicted}",{z[0]},{z[1] if len(z) > 1 else ""}'
            elif len(known) == 1:
                scored, correct, given = scored + 1, correct + (known == {label}), f'"{min(known)}",,'
            row += 1
            lines.append(f'{row},"{label}",{given}')
            model.partial_fit(x[None], [label])
            # after every row up to the 64th, every second up to the 128th, and so on; and when a class is new
            every = max(2 ** int(np.log2(row)) // 32, 1)
            if len(known | {label}) >= 2 and (row % every == 0 or label not in known):
                frozen = model.freeze()
            known.add(label)
    assert (run.counters.rows, run.counters.scored, run.counters.correct) == (600, scored, correct)
    assert scored == 599
    assert run.counters.accuracy > 0.7
    np.testing.assert_allclose(run.model.components_, model.components_, rtol=1e-9)
    written = (tmp_path / "o.csv").read_text().splitlines()
    assert len(written) == len(lines)
    for mine, theirs in zip(written, lines, strict=True):
        assert mine.split(",")[:3] == theirs.split(",")[:3]
    mine, theirs = ([float(line.split(",")[3]) for line in part[-500:]] for part in (written, lines))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


def test_paths_are_taken_as_their_text(tmp_path):
    """A path of pathlib gives what its text gives, and is kept as text."""
    write_points(tmp_path / "a.csv", 200)
    write_points(tmp_path / "b.csv", 100)
    written = []
    for kind in (str, Path):
        model, out, dead = (kind(tmp_path / name) for name in ("m", "o.csv", "d.jsonl"))
        source = Source(kind(tmp_path / "a.csv"), Layout(label="kind"), more=(kind(tmp_path / "b.csv"),))
        assert source.files(formats.get("csv")) == [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
        learn(source, kampong.FisherDiscriminant(ridge=0.1), model_file=model, out=out, dead_letters=dead)
        written.append((without_clock(tmp_path / "m"), (tmp_path / "o.csv").read_bytes()))
        (tmp_path / "m").unlink()
        run = learn(kind(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind", model_file=model)
        assert run.counters.rows == 200
        (tmp_path / "m").unlink()
    assert written[0] == written[1]


@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("half_life", [None, "auto"])
@pytest.mark.parametrize("classes", [(), ("a", "b")])
def test_while_one_class_alone_has_come_it_is_predicted(tmp_path, half_life, delay, classes):
    labels = "aaaaabbabab"
    lines = [f"{i},{i % 3},{label}" for i, label in enumerate(labels)]
    (tmp_path / "a.csv").write_text("\n".join(["x,z,kind", *lines]) + "\n")
    rows, out = Source(str(tmp_path / "a.csv"), Layout(label="kind")), tmp_path / "o.csv"
    model = kampong.FisherDiscriminant(ridge=0.1, half_life=half_life)
    run = learn(rows, model, out=str(out), classes=classes, label_delay=delay)
    said = [line.split(",")[2] for line in out.read_text().splitlines()[1:]]
    assert said[: 1 + delay] == [""] * (1 + delay)  # no label has come before these rows
    assert said[1 + delay : 6] == ['"a"'] * (5 - delay)
    assert (run.counters.scored, run.counters.unscored) == (len(labels) - 1 - delay, 1 + delay)


@pytest.mark.parametrize("model", [MODELS[i] for i in (0, 1, 5, 6)], ids=str)
def test_a_stream_learns_what_fit_learns(tmp_path, small_blocks, model):
    write_points(tmp_path / "a.csv")
    run = learn(str(tmp_path / "a.csv"), clone(model), label="kind")
    batches = list(Source(str(tmp_path / "a.csv"), Layout(label="kind")).open())
    fitted = clone(model).fit(np.vstack([b.X for b in batches]), np.concatenate([b.y for b in batches]))
    np.testing.assert_allclose(run.model.components_, fitted.components_, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_run_stopped_anywhere_ends_as_if_it_had_not_been(tmp_path, small_blocks, model):
    write_points(tmp_path / "a.csv", bad=0.03)

    def go(name, stops):
        options = {"label": "kind", "model_file": str(tmp_path / name), "out": str(tmp_path / f"{name}.csv")}
        done = 0
        for size in [*stops, 10**9]:
            stop = threading.Event()
            seen = []

            def watch(run, stop=stop, seen=seen, size=size):
                seen.append(run.counters.records)
                if len(seen) == size:
                    stop.set()

            run = learn(str(tmp_path / "a.csv"), clone(model), watch=watch, stop=stop, **options)
            done += len(seen)
            assert run.stopped == (not run.finished)
        assert run.finished
        assert run.resumed == bool(stops)
        return done, [without_clock(tmp_path / name), *((tmp_path / (name + end)).read_bytes() for end in ENDS)]

    batches, whole = go("m", [])
    assert batches > 10
    rng = np.random.default_rng(0)
    again, parts = go("n", rng.integers(1, 4, 5).tolist())
    assert again == batches
    assert whole == parts
    single, one_by_one = go("o", [1] * (batches - 1))
    assert single == batches
    assert whole == one_by_one


ENDS = (".csv", ".dead.jsonl")


def test_bad_records_change_nothing_but_their_count(tmp_path):
    good, spoilt = write_points(tmp_path / "bad.csv", 20_000, bad=0.01)
    write_points(tmp_path / "clean.csv", 20_000)
    (tmp_path / "clean.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *good]) + "\n")
    bad = learn(
        str(tmp_path / "bad.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind", model_file=str(tmp_path / "m")
    )
    clean = learn(str(tmp_path / "clean.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind")
    assert len(spoilt) > 100
    assert (bad.counters.rows, bad.counters.dead, bad.counters.records) == (20_000, len(spoilt), 20_000 + len(spoilt))
    np.testing.assert_array_equal(bad.model.class_counts_, clean.model.class_counts_)
    np.testing.assert_allclose(bad.model.class_means_, clean.model.class_means_, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(bad.model.components_, clean.model.components_, rtol=1e-9, atol=1e-12)
    assert len((tmp_path / "m.dead.jsonl").read_text().splitlines()) == len(spoilt)


@pytest.mark.slow
def test_one_in_a_hundred_of_a_million_is_bad(tmp_path):
    good, spoilt = write_points(tmp_path / "bad.csv", 1_000_000, bad=0.01)
    (tmp_path / "clean.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *good]) + "\n")
    bad, clean = (
        learn(str(tmp_path / name), kampong.FisherDiscriminant(ridge=0.1), label="kind")
        for name in ("bad.csv", "clean.csv")
    )
    assert (bad.counters.rows, bad.counters.dead) == (len(good), len(spoilt))
    np.testing.assert_allclose(bad.model.class_means_, clean.model.class_means_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bad.model.components_, clean.model.components_, rtol=1e-8, atol=1e-10)


def stopped_run(tmp_path, **options):
    write_points(tmp_path / "a.csv")
    stop = threading.Event()
    return learn(
        str(tmp_path / "a.csv"),
        kampong.FisherDiscriminant(ridge=0.1),
        label="kind",
        model_file=str(tmp_path / "m"),
        out=str(tmp_path / "o.csv"),
        stop=stop,
        watch=lambda _: stop.set(),
        **options,
    )


def test_other_options_are_refused(tmp_path, small_blocks):
    stopped_run(tmp_path)
    same = {"label": "kind", "model_file": str(tmp_path / "m"), "out": str(tmp_path / "o.csv")}
    path = str(tmp_path / "a.csv")
    with pytest.raises(ResumeError, match=r"ridge was 0\.1 and is now 0\.2"):
        learn(path, kampong.FisherDiscriminant(ridge=0.2), **same)
    with pytest.raises(ResumeError, match=r"model was 'FisherDiscriminant' and is now 'InterClassScatter'"):
        learn(path, kampong.InterClassScatter(), **same)
    with pytest.raises(ResumeError, match=r"label was 'kind' and is now 'x1'"):
        learn(path, kampong.FisherDiscriminant(ridge=0.1), **{**same, "label": "x1"})
    with pytest.raises(ResumeError, match="strict was False and is now True"):
        learn(path, kampong.FisherDiscriminant(ridge=0.1), strict=True, **same)
    with pytest.raises(ResumeError, match="out was 'csv' and is now ''"):
        learn(path, kampong.FisherDiscriminant(ridge=0.1), **{**same, "out": ""})
    (tmp_path / "o.csv").write_text("short")
    with pytest.raises(ResumeError, match="has 5 bytes, but"):
        learn(path, kampong.FisherDiscriminant(ridge=0.1), **same)
    kampong.FisherDiscriminant(ridge=0.1).save(tmp_path / "m")
    with pytest.raises(ResumeError, match="does not hold a run that can go on"):
        learn(path, kampong.FisherDiscriminant(ridge=0.1), **same)
    (tmp_path / "m").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError):
        learn(path, kampong.FisherDiscriminant(ridge=0.1), **same)


def test_a_changed_source_is_refused(tmp_path, small_blocks):
    stopped_run(tmp_path)
    same = {"label": "kind", "model_file": str(tmp_path / "m"), "out": str(tmp_path / "o.csv")}
    path = tmp_path / "a.csv"
    path.write_text(path.read_text().replace("x1", "y1"))
    with pytest.raises(ResumeError, match="not the one"):
        learn(str(path), kampong.FisherDiscriminant(ridge=0.1), **same)


def test_a_finished_run_has_nothing_to_do_until_its_source_grows(tmp_path):
    write_points(tmp_path / "a.csv", 300)
    options = {"label": "kind", "model_file": str(tmp_path / "m")}
    learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), **options)
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(LearntError, match=r"a.csv: .*m has learnt this already \(300 rows in all\)"):
        learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), **options)
    assert (tmp_path / "m").read_bytes() == before
    with (tmp_path / "a.csv").open("a") as file:
        file.write("1,2,3,4,a\n" * 10)
    stop = threading.Event()
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind"), follow=True)
    more = learn(
        source, kampong.FisherDiscriminant(), model_file=str(tmp_path / "m"), stop=stop, watch=lambda _: stop.set()
    )
    assert more.counters.rows == 310


def test_a_run_stopped_before_its_first_batch_goes_on(tmp_path, monkeypatch):
    write_points(tmp_path / "a.csv", 300)
    stop, options = threading.Event(), {"label": "kind", "model_file": str(tmp_path / "m")}
    stop.set()
    with monkeypatch.context() as patch:
        patch.setattr(source.Stream, "_next", lambda *_: None)  # nothing came in time
        first = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge="rule"), stop=stop, **options)
    assert (first.stopped, first.place, first.counters.records) == (True, None, 0)
    assert describe(str(tmp_path / "m"))["stream"]["place"] is None
    again = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge="rule"), **options)
    assert (again.resumed, again.finished, again.counters.rows) == (True, True, 300)
    learn(
        str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge="rule"), **options | {"model_file": f"{tmp_path}/n"}
    )
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")


def test_many_columns_are_saved(tmp_path):
    """Their names alone take more than the facts of a file may."""
    names = [f"a column with a rather long name, number {i:05}" for i in range(20_000)]
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, [*rng.integers(0, 9, len(names)), "ab"[i % 2]])) for i in range(6)]
    lines = [",".join(f'"{name}"' for name in [*names, "kind"]), *rows]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    learn(str(tmp_path / "a.csv"), kampong.InterClassScatter(), label="kind", model_file=str(tmp_path / "m"))
    assert describe(str(tmp_path / "m"))["columns"]["numbers"] == names


def test_a_model_file_is_a_model(tmp_path):
    write_points(tmp_path / "a.csv", 300)
    run = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="kind", model_file=str(tmp_path / "m"))
    np.testing.assert_array_equal(load(tmp_path / "m").components_, run.model.components_)
    facts = describe(str(tmp_path / "m"))
    assert facts["classes"] == ["a", "b", "c"]
    assert facts["columns"]["numbers"] == ["x1", "x2", "x3", "x4"]
    assert facts["stream"]["counters"]["rows"] == 300


def test_strict_stops_at_the_first_bad_record_and_goes_on_when_it_is_mended(tmp_path, small_blocks):
    write_points(tmp_path / "a.csv")
    clean = (tmp_path / "a.csv").read_text()
    lines = clean.splitlines()
    position = 800
    lines[position] = "x" * len(lines[position])
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    options = {"label": "kind", "model_file": str(tmp_path / "m"), "strict": True}
    with pytest.raises(RecordError, match=f"line {position + 1}"):
        learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), **options)
    (tmp_path / "a.csv").write_text(clean)
    run = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), **options)
    assert run.resumed
    assert run.counters.rows == 1500


def test_a_damaged_source_is_learnt_up_to_the_damage_and_goes_on_when_mended(tmp_path, small_blocks):
    write_points(tmp_path / "a.csv", 3000)
    whole = gzip.compress((tmp_path / "a.csv").read_bytes())
    options = {"label": "kind", "out": str(tmp_path / "o.csv"), "model_file": str(tmp_path / "m")}
    path = tmp_path / "a.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="damaged or cut short"):
        learn(str(path), kampong.FisherDiscriminant(ridge=0.1), **options)
    path.write_bytes(whole)
    run = learn(str(path), kampong.FisherDiscriminant(ridge=0.1), **options)
    assert run.resumed
    assert run.counters.rows == 3000
    learn(str(path), kampong.FisherDiscriminant(ridge=0.1), **{**options, "model_file": str(tmp_path / "n")})
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")


def test_a_label_that_is_no_label_is_noticed(tmp_path):
    (tmp_path / "a.csv").write_text("x,id\n" + "".join(f"{i},n{i}\n" for i in range(3000)))
    with pytest.raises(StreamError, match=r"more than 1,000 classes .*'id' the label"):
        learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="id")
    (tmp_path / "b.csv").write_text("x,k\n" + "a,\n" * 2000)
    with pytest.raises(SourceError, match="none of the first"):
        learn(str(tmp_path / "b.csv"), kampong.FisherDiscriminant(), label="k")


def test_classes_may_be_declared(tmp_path):
    write_points(tmp_path / "a.csv", 300)
    run = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="kind", classes=["a", "b", "z"])
    assert run.model.classes_.tolist() == ["a", "b", "z"]
    assert run.counters.dead > 50
    assert run.counters.records == 300


def test_an_output_that_cannot_be_written_says_so(tmp_path):
    write_points(tmp_path / "a.csv", 300)
    with pytest.raises(OutputError, match="there is no folder"):
        learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="kind", out=str(tmp_path / "no" / "o.csv"))


def test_a_predictor_survives_its_state():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 3, 200)
    model = kampong.MarginSubspace(epsilon=0.01).partial_fit(X, y, classes=[0, 1, 2, 3])
    frozen = model.freeze()
    model.partial_fit(X + 1.0, y)
    again = Predictor.from_state(Contents(*flatten(frozen.to_state()), "a predictor"), 5)
    fresh = kampong.MarginSubspace(epsilon=0.01).partial_fit(X, y, classes=[0, 1, 2, 3])
    np.testing.assert_array_equal(again.answers(X)[1], fresh.predict(X))
    np.testing.assert_array_equal(again.points(X), fresh.transform(X))
    assert np.isneginf(again.head.offsets[3])
    assert again.criterion == kampong.criteria.MarginCriterion(0.01)
    assert kampong.MarginSubspace().partial_fit(X, np.zeros(200, dtype=int)).freeze() is None


def test_a_model_is_applied_by_column_names(tmp_path):
    write_points(tmp_path / "a.csv", 500)
    run = learn(
        str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind", model_file=str(tmp_path / "m")
    )
    rows = [line.split(",") for line in (tmp_path / "a.csv").read_text().splitlines()]
    order = [3, 0, 2, 1]
    (tmp_path / "b.csv").write_text("\n".join(",".join([row[i] for i in order]) for row in rows))
    X = np.array([row[:4] for row in rows[1:]], dtype=float)
    done = apply(Source(str(tmp_path / "b.csv")), str(tmp_path / "m"), "predict", out=str(tmp_path / "p.csv"))
    assert done.rows == 500
    predicted = [line.split(",")[1].strip('"') for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    assert predicted == run.model.predict(X).tolist()
    apply(Source(str(tmp_path / "a.csv")), str(tmp_path / "m"), "project", out=str(tmp_path / "z.csv"))
    points = np.loadtxt(tmp_path / "z.csv", delimiter=",", skiprows=1)[:, 1:]
    np.testing.assert_allclose(points, run.model.transform(X), rtol=1e-13, atol=1e-15)


def test_merged_files_are_one_stream(tmp_path):
    good, _ = write_points(tmp_path / "a.csv", 1000)
    head = "x1,x2,x3,x4,kind"
    for name, part in (("u", good[:400]), ("v", good[400:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *part]))
        learn(
            str(tmp_path / f"{name}.csv"),
            kampong.FisherDiscriminant(ridge=0.1),
            label="kind",
            model_file=str(tmp_path / name),
        )
    merged = merge_files([str(tmp_path / "u"), str(tmp_path / "v")], str(tmp_path / "w"))
    whole = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind")
    np.testing.assert_allclose(merged.components_, whole.model.components_, rtol=1e-8, atol=1e-12)
    assert describe(str(tmp_path / "w"))["stream"]["counters"]["rows"] == 1000
    with pytest.raises(ResumeError, match="merged"):
        learn(
            str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind", model_file=str(tmp_path / "w")
        )
    (tmp_path / "x.csv").write_text("y1,kind\n1,a\n2,b\n3,a\n")
    learn(str(tmp_path / "x.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind", model_file=str(tmp_path / "x"))
    with pytest.raises(StreamError, match="columns are not those"):
        merge_files([str(tmp_path / "u"), str(tmp_path / "x")], str(tmp_path / "y"))


@pytest.mark.parametrize("delay", [0, 40])
def test_rows_refused_in_mid_batch_are_not_counted_twice(tmp_path, monkeypatch, small_blocks, delay):
    write_points(tmp_path / "a.csv", bad=0.03)
    step = SubspaceModel.predict_then_learn

    def refuses(self, X, y, *more):
        if self.fitted and 700 <= self.estimator.n_samples_seen_ < 760:
            raise ValueError("such rows are not learnt")
        return step(self, X, y, *more)

    def go(name):
        options = {"label": "kind", "model_file": str(tmp_path / name), "out": str(tmp_path / f"{name}.csv")}
        options |= {"checkpoint_every": 0.0, "label_delay": delay, "reject": 0.01}
        return learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), **options)

    with monkeypatch.context() as patch:
        patch.setattr(SubspaceModel, "predict_then_learn", refuses)
        with pytest.raises(StreamError, match=r"a\.csv: such rows are not learnt"):
            go("m")
    assert 0 < load(tmp_path / "m").n_samples_seen_ <= 700
    go("m")
    go("n")
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")
    for end in ENDS:
        assert (tmp_path / f"m{end}").read_bytes() == (tmp_path / f"n{end}").read_bytes()


def test_rows_refused_at_the_end_of_the_source_name_it(tmp_path, monkeypatch):
    write_points(tmp_path / "a.csv", 300)

    def refuses(self, X, y, *more):
        raise ValueError("such rows are not learnt")

    monkeypatch.setattr(SubspaceModel, "predict_then_learn", refuses)
    with pytest.raises(StreamError, match=r"a\.csv: such rows are not learnt"):
        learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="kind", label_delay=500)


def test_a_strict_run_that_stops_in_its_second_file_remembers_the_first_once(tmp_path):
    write_points(tmp_path / "a.csv", 300)
    write_points(tmp_path / "b.csv", 300, seed=1)
    clean = (tmp_path / "b.csv").read_text()
    (tmp_path / "b.csv").write_text(clean.replace("\n", "\nx,1,2,3,a\n", 1))
    files, model = (
        Source(str(tmp_path / "a.csv"), Layout(label="kind"), more=(str(tmp_path / "b.csv"),)),
        tmp_path / "m",
    )
    options = {"model_file": str(model), "strict": True}
    with pytest.raises(RecordError):
        learn(files, kampong.FisherDiscriminant(), **options)
    (tmp_path / "b.csv").write_text(clean)
    run = learn(files, kampong.FisherDiscriminant(), **options)
    assert [(one.name, one.rows) for one in run.learnt.sources] == [(name, 300) for name in files.name.split(", ")]


def test_a_predictor_solved_beside_the_stream_comes_at_its_row_under_any_cut(tmp_path, monkeypatch):
    """A wide model that follows drift begins to solve at row 1,024; the result predicts from row 2,048 on.

    Copies for late labels end pieces there too, so they are left out here.
    """
    rng, lines = np.random.default_rng(0), []
    for label in rng.integers(0, 2, 2200).tolist():
        columns = np.unique(rng.integers(1, 5000, 5) + 3000 * label)
        lines.append(f"{label} " + " ".join(f"{column}:1" for column in columns) + f" {WIDEST + 9}:1")
    (tmp_path / "a.libsvm").write_text("\n".join(lines) + "\n")
    layout, step, asked = Layout(max_features=WIDEST + 9), FisherModel.predict_then_learn, []

    def records(self, X, y, predictor, *more):
        asked.append((len(y), 0 if predictor is None else predictor.n_rows))
        return step(self, X, y, predictor, *more)

    monkeypatch.setattr(FisherModel, "predict_then_learn", records)
    monkeypatch.setattr(Delay, "due", property(lambda self: 10**9, lambda self, due: None), raising=False)
    for size in (2000, 7000, 10**7):
        asked.clear()
        monkeypatch.setattr(blocks, "SMALLEST", size)
        monkeypatch.setattr(blocks, "LARGEST", size)
        learn(Source(str(tmp_path / "a.libsvm"), layout), kampong.FisherDiscriminant(half_life="auto"))
        knows = np.repeat(*np.array(asked).T[::-1])
        assert np.flatnonzero(knows == 1024).tolist() == list(range(2048, 2200))
