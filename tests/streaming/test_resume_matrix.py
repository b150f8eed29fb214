"""Every format times every kind of column, decay and late classes: a run that was stopped ends with the same bits."""

import threading

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
import stream_matrix
from kampong.streaming import Layout, Source, learn
from stream_matrix import CASES, FORMATS, PLAIN, VARIANTS, WIDTHS, records
from stream_problems import without_clock

small_batches = stream_matrix.small_batches

ROWS, BAD = 2000, 20


# Each number has a column that says where it is missing.
WIDTHS |= {"tfidf": 3 + 2**18, "no mean": 3, "half-life auto": 6}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Write every format twice: with all classes from the start, and with one that comes late."""
    folder = tmp_path_factory.mktemp("sources")
    for late in (False, True):
        rows = records(late)
        for name, make in FORMATS.items():
            make(folder / f"{'late' if late else 'all'}.{name}", rows)
    return folder


def go(source, folder, name, variant, stops):
    """Learn the source, stopped after this many batches each time; return the last run, and all that was left."""
    seen = []
    for size in [*stops, 10**9]:
        stop, batches = threading.Event(), []

        def watch(run, stop=stop, batches=batches, size=size):
            batches.append(run.counters.records)
            if len(batches) == size:
                stop.set()

        half_life = {"half-life": 700.0, "half-life auto": "auto"}.get(variant)
        run = learn(
            source,
            kampong.FisherDiscriminant(ridge="rule", half_life=half_life),
            model_file=str(folder / name),
            out=str(folder / f"{name}.csv"),
            watch=watch,
            stop=stop,
        )
        seen += batches
    left = [without_clock(folder / name), *((folder / (name + end)).read_bytes() for end in (".csv", ".dead.jsonl"))]
    return run, seen, left


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_a_stopped_run_ends_with_the_same_bits(sources, tmp_path, name, variant):
    path = sources / f"{'late' if variant == 'late classes' else 'all'}.{name}"
    options = {"max_features": 4} if name == "libsvm" else {"label": "kind", **VARIANTS[variant]}
    source = Source(str(path), Layout(**options))
    whole, batches, expected = go(source, tmp_path, "whole", variant, [])
    assert len(batches) >= 6
    counters = whole.counters
    assert counters.records == ROWS + BAD == counters.rows + counters.dead
    assert (counters.rows == ROWS) == (counters.filled > 0 or name == "libsvm") == (variant != "no mean")
    assert counters.accuracy > 0.6
    assert whole.schema.width == (4 if name == "libsvm" else WIDTHS[variant])
    assert whole.schema.format == name.removesuffix(".gz")
    again, seen, left = go(source, tmp_path, "parts", variant, [1, 2, 1])
    assert again.resumed
    assert seen == batches
    assert left == expected
    assert len(expected[1].splitlines()) == counters.rows + 1
    assert len(expected[2].splitlines()) == counters.dead


def test_a_class_that_comes_late_comes_after_a_stop(sources, tmp_path):
    """The matrix has stops on both sides of the first row of the late class; here it is seen."""
    source = Source(str(sources / "late.csv"), Layout(label="kind", **PLAIN))
    stop, found = threading.Event(), []

    def watch(run):
        found.append(run.model.classes_.tolist())
        stop.set()

    options = {"model_file": str(tmp_path / "m"), "watch": watch}
    learn(source, kampong.FisherDiscriminant(ridge="rule"), stop=stop, **options)
    run = learn(source, kampong.FisherDiscriminant(ridge="rule"), **options)
    assert found[0] == found[1] == ["a", "b"]
    assert run.model.classes_.tolist() == ["a", "b", "c"]
    assert run.counters.rows == ROWS
