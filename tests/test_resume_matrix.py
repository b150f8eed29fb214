"""Every format times every kind of column, decay and late classes: a run that was stopped ends with the same bits."""

import gzip
import json
import threading

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

import kampong
from kampong.streaming import Layout, Source, blocks, learn
from kampong.streaming.formats import tables
from stream_problems import without_clock

ROWS, BAD = 2000, 20
NAMES = ("x1", "x2", "x3", "colour", "note", "kind")


def records(late):
    """Return good rows and bad ones among them, as values in the order of `NAMES`; None stands for nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, ROWS)
    if late:
        y[: ROWS // 2] = rng.integers(0, 2, ROWS // 2)  # the third class is not in the first half
    X = np.round(rng.normal(size=(ROWS, 3)) + 2 * np.eye(3)[y], 3).tolist()
    colours = rng.integers(0, 4, ROWS).tolist()
    found = [
        [*x, f"colour {c}", f"some {'abc'[k]} words" if i % 3 else f"more {'abc'[k]}", "abc"[k]]
        for i, (x, c, k) in enumerate(zip(X, colours, y.tolist(), strict=True))
    ]
    for place in np.linspace(100, ROWS - 1, BAD, dtype=int)[::-1]:
        found.insert(place, [*found[place][:5], None])  # a record without a class
    for i in range(7, len(found), 4):
        found[i][i % 3] = None  # a number that is missing
    return found


def write_delimited(path, rows, delimiter=",", opener=open):
    with opener(path, "wt") as file:
        for row in [NAMES, *rows]:
            file.write(delimiter.join("" if value is None else str(value) for value in row) + "\n")


def write_json(path, rows):
    path.write_text("\n".join(json.dumps(dict(zip(NAMES, row, strict=True))) for row in rows) + "\n")


def write_libsvm(path, rows):
    """Write the numbers alone; padded, since blocks of libsvm are large."""
    comment = "# " + 150 * "-"
    values = [[0 if value is None else value for value in row[:3]] for row in rows]
    lines = [
        f"{'x' if row[5] is None else 'abc'.index(row[5])} 1:{u} 2:{v} 4:{w} {comment}"
        for row, (u, v, w) in zip(rows, values, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def table_of(rows):
    return pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))


def write_parquet(path, rows):
    pq.write_table(table_of(rows), path, row_group_size=300)


def write_arrow(path, rows):
    table = table_of(rows)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)


FORMATS = {
    "csv": write_delimited,
    "tsv": lambda path, rows: write_delimited(path, rows, "\t"),
    "jsonl": write_json,
    "libsvm": write_libsvm,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "csv.gz": lambda path, rows: write_delimited(path, rows, opener=gzip.open),
}
PLAIN = {"drop": ("colour", "note")}
HASHED = {"hash_width": 32}
VARIANTS = {
    "plain": PLAIN,
    "drop": {"drop": ("x2", "note"), **HASHED},
    "text": {"text": ("note",), **HASHED},
    "tfidf": {"text": ("note",), "ngrams": 2, "tfidf": True, "missing": "mean"},
    "no mean": {"missing": "dead", **PLAIN},
    "category": {"category": ("x3",), "drop": ("note",), **HASHED},
    "half-life": PLAIN,
    "half-life auto": PLAIN,
    "late classes": PLAIN,
}
# Each number has a column that says where it is missing.
WIDTHS = {"plain": 6, "drop": 4 + 32, "text": 6 + 32, "category": 4 + 32, "half-life": 6, "late classes": 6}
WIDTHS |= {"tfidf": 3 + 2**18, "no mean": 3, "half-life auto": 6}
NO_COLUMNS = ("plain", "half-life", "half-life auto", "late classes")  # what makes sense for libsvm
CASES = [(name, variant) for name in FORMATS for variant in VARIANTS if name != "libsvm" or variant in NO_COLUMNS]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Write every format twice: with all classes from the start, and with one that comes late."""
    folder = tmp_path_factory.mktemp("sources")
    for late in (False, True):
        rows = records(late)
        for name, make in FORMATS.items():
            make(folder / f"{'late' if late else 'all'}.{name}", rows)
    return folder


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST", 16 * 1024)
    monkeypatch.setattr(tables, "LARGEST", 256)


def go(source, folder, name, variant, stops):
    """Learn the source, stopped after so many batches each time; return the last run, and all that was left."""
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
