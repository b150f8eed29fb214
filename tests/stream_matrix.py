"""The same records in every format and with every kind of column, for tests of stopped and continued runs."""

import gzip
import json

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

from kampong.streaming.formats import tables
from kampong.streaming.sources import blocks

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

WIDTHS = {"plain": 6, "drop": 4 + 32, "text": 6 + 32, "category": 4 + 32, "half-life": 6, "late classes": 6}

NO_COLUMNS = ("plain", "half-life", "half-life auto", "late classes")  # what makes sense for libsvm

CASES = [(name, variant) for name in FORMATS for variant in VARIANTS if name != "libsvm" or variant in NO_COLUMNS]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST", 16 * 1024)
    monkeypatch.setattr(tables, "LARGEST", 256)
