"""Damaged sources of every format: each record is a row or a dead letter, or the source is refused in one line.

Bytes of small good files are changed at random, before or behind the compression, and read in a child process.
"""

import functools
import gzip
import io
import json
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.children import Finding
from fuzz.subjects import plain
from kampong.streaming.columns.schema import Layout
from kampong.streaming.errors import StreamError
from kampong.streaming.sources.source import Source

FORMATS = ("csv", "tsv", "jsonl", "libsvm", "arrow", "parquet", "gz", "zst")
MOST_STDERR = 4096
N = 40


@functools.cache
def good(kind):
    """Return a small good file of a format."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 3)).round(3), np.array(["ab", "cd", "ef"])[np.arange(N) % 3]
    words = np.array(["red", "green", "\u00e9t\u00e9"])[np.arange(N) % 3]
    if kind in ("csv", "tsv", "gz", "zst"):
        mark = "\t" if kind == "tsv" else ","
        lines = [mark.join(["x1", "x2", "x3", "word", "kind"])]
        lines += [mark.join([*map(str, row), f'"{word}"', label]) for row, word, label in zip(X, words, y, strict=True)]
        data = ("\n".join(lines) + "\n").encode()
        return {"gz": gzip.compress, "zst": _zstandard}.get(kind, bytes)(data)
    if kind == "jsonl":
        records = [{"x1": a, "x2": b, "x3": c, "kind": k} for (a, b, c), k in zip(X.tolist(), y.tolist(), strict=True)]
        return "".join(json.dumps(record) + "\n" for record in records).encode()
    if kind == "libsvm":
        lines = [f"{i % 3} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for i, row in enumerate(X.tolist())]
        return ("\n".join(lines) + "\n").encode()
    table = pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "word": pa.array(words).dictionary_encode(), "kind": y})
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink, row_group_size=16)
    else:
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table, max_chunksize=16)
    return sink.getvalue()


def _zstandard(data):
    return pa.compress(data, codec="zstd", asbytes=True)


def options(kind):
    """Return what a source of a format needs to be told."""
    if kind == "libsvm":
        return {"max_features": 3, "format": "libsvm"}
    return {"label": "kind", "format": {"gz": "csv", "zst": "csv"}.get(kind, kind), "category": ("word",)} | (
        {"category": ()} if kind == "jsonl" else {}
    )


def attempt_on(kind):
    """Return the attacker of one format."""

    def attempt(seed):
        return read(made(kind, seed), kind)

    return attempt


def made(kind, seed):
    """Return the damaged file of a seed."""
    return mutated(np.random.default_rng([seed, FORMATS.index(kind)]), kind)


def mutated(rng, kind):
    """Return a damaged file."""
    inside = kind in ("gz", "zst") and rng.random() < 0.5
    data = bytearray(good("csv") if inside else good(kind))
    for _ in range(int(rng.choice([1, 1, 2, 4, 16]))):
        _damage(rng, data)
    if inside:
        return {"gz": gzip.compress, "zst": _zstandard}[kind](bytes(data))
    return bytes(data)


TOKENS = (
    b"\n",
    b"\r",
    b'"',
    b",",
    b"\t",
    b"\0",
    b"\xff",
    b"\xc3",
    b"1e999",
    b"nan",
    b"{",
    b"[" * 50,
    b":",
    b"-",
    b"9" * 30,
)
NUMBERS = (0, 1, 127, 128, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1)


def _damage(rng, data):
    place = int(rng.integers(max(len(data), 1)))
    how = rng.choice(["flip", "byte", "insert", "delete", "copy", "cut", "number", "token"])
    if how == "flip" and data:
        data[place % len(data)] ^= 1 << int(rng.integers(8))
    elif how == "byte" and data:
        data[place % len(data)] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
    elif how == "insert":
        data[place:place] = rng.bytes(int(rng.integers(1, 9)))
    elif how == "delete":
        del data[place : place + int(rng.integers(1, 33))]
    elif how == "copy":
        other = int(rng.integers(max(len(data), 1)))
        data[place:place] = data[other : other + int(rng.integers(1, 65))]
    elif how == "cut" and rng.random() < 0.3:
        del data[place:]
    elif how == "number":
        size = int(rng.choice([2, 4, 8]))
        value = int(NUMBERS[rng.integers(len(NUMBERS))]) & (2 ** (8 * size) - 1)
        data[place : place + size] = value.to_bytes(size, "little")
    else:
        data[place:place] = TOKENS[rng.integers(len(TOKENS))]


def read(data, kind):
    """Read a source to its end; every record must be a row or a dead letter, and stderr must stay quiet."""
    with tempfile.TemporaryDirectory() as folder:
        path, said = Path(folder) / "source", Path(folder) / "stderr"
        path.write_bytes(data)
        records = rows = dead = 0
        before = os.dup(2)
        noise = os.open(said, os.O_CREAT | os.O_WRONLY)
        os.dup2(noise, 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for batch in Source(str(path), Layout(**options(kind))).open():
                    records, rows, dead = records + batch.records, rows + batch.rows, dead + len(batch.dead)
                    values = np.zeros(0) if batch.X is None else plain(batch.X)
                    if np.isinf(values).any():  # NaN is a missing value
                        raise Finding(f"{kind}: rows that are not finite")
            outcome = "read"
        except StreamError as error:
            if not str(error) or "\n" in str(error):
                raise Finding(f"{kind}: the message is {str(error)[:200]!r}") from None
            outcome = "refused"
        finally:
            os.dup2(before, 2)
            os.close(before)
            os.close(noise)
        if said.stat().st_size > MOST_STDERR:
            raise Finding(f"{kind}: {said.stat().st_size} bytes on stderr")
        if records != rows + dead:
            raise Finding(f"{kind}: {records} records, {rows} rows and {dead} dead letters")
    return outcome


def prepare():
    """Read every good file once."""
    for kind in FORMATS:
        assert read(good(kind), kind) == "read", kind
