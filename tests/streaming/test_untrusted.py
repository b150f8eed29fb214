"""Damaged sources of every format: each record is a row or a dead letter, or one line says what is wrong."""

import io
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from command import command
from fuzz import sources
from fuzz.children import campaign
from kampong.streaming.columns.schema import Layout
from kampong.streaming.errors import SourceError
from kampong.streaming.formats import sandboxed_reader
from kampong.streaming.formats.format import LineFormat
from kampong.streaming.formats.tables import PARQUET
from kampong.streaming.sources.source import Source

if sys.platform != "linux":
    pytest.skip("the attackers fork, and read peaks from /proc", allow_module_level=True)


@pytest.mark.parametrize("kind", sources.FORMATS)
def test_damaged_sources_are_read_or_refused(kind):
    assert sources.read(sources.good(kind), kind) == "read"
    outcome = campaign(sources.attempt_on(kind), range(10**6, 10**6 + 120))
    assert outcome.findings == {}


def test_offsets_out_of_bounds_are_found_before_they_are_used(tmp_path):
    offsets = pa.py_buffer(np.array([0, 2, 2**30, 4], dtype=np.int32).tobytes())
    lying = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"abcd"))
    batch = pa.record_batch({"x": pa.array([1.0, 2.0, 3.0]), "kind": lying})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as raw, pa.ipc.new_stream(raw, batch.schema) as stream:
        stream.write_batch(batch)
    with pytest.raises(SourceError, match="reading stopped at row 1"):
        list(Source(str(tmp_path / "a.arrow"), Layout(label="kind", format="arrow")).open())


def test_bytes_that_are_no_text_make_no_noise(tmp_path):
    lines = ["x,y,kind"] + [f"{i},{i},a" for i in range(50)]
    data = "\n".join(lines).encode() + b"\n" + b"".join(b"\xff\xfe,%d\n" % i for i in range(2000))
    (tmp_path / "a.csv").write_bytes(data)
    code = (
        "import sys; from kampong.streaming import Layout, Source; "
        "print(sum(len(b.dead) for b in Source(sys.argv[1], Layout(label='kind')).open()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2000"
    assert len(done.stderr) < 1000


# Tables in a process of their own.

N = 3000


def table():
    """Return columns of every kind that rows can be made of, with holes."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    holes = np.arange(N) % 7 == 0
    words = pa.array(np.where(holes, None, np.array(["red", "green", "\u00e9t\u00e9"])[y]))
    columns = {
        "double": rng.normal(size=N) + y,
        "single": pa.array((rng.normal(size=N) + y).astype(np.float32), mask=holes),
        "half": rng.normal(size=N).astype(np.float16),
        "small": pa.array((np.arange(N) % 5).astype(np.int8), mask=holes),
        "large": (np.arange(N) % 9).astype(np.uint64),
        "truth": pa.array(np.arange(N) % 2 == 0, mask=holes),
        "word": words,
        "code": words.dictionary_encode(),
        "day": pa.array(np.arange(N) % 4, pa.int32()).cast(pa.date32()),
        "nothing": pa.nulls(N),
        "point": pa.array(rng.normal(size=(N, 3)).tolist(), pa.list_(pa.float32(), 3)),
        "kind": pa.array(y, pa.uint8()),
    }
    return pa.table(columns)


def save(path):
    if path.suffix == ".parquet":
        pq.write_table(table(), path, row_group_size=1100)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table().schema) as file:
            file.write_table(table().slice(5), max_chunksize=700)  # a slice has offsets of its own
    elif path.suffix == ".npz":
        np.savez(path, X=np.random.default_rng(0).normal(size=(N, 3)), kind=np.array(["a", "bb"])[np.arange(N) % 2])
    else:
        np.save(path, np.random.default_rng(0).integers(0, 4, size=(N, 3)))
    return str(path)


def batches(path, place=None, **more):
    layout = Layout(label={"npy": "3"}.get(path[-3:], "kind"), category=() if ".np" in path else ("single", "word"))
    source = Source(path, layout, **more)
    stream = source.open()
    if place:
        schema, first = stream.schema, next(iter(stream))
        stream = source.open(schema=schema, place=first.place)
    return [(sources.plain(one.X), one.y, one.place, one.records, len(one.dead)) for one in stream]


@pytest.mark.parametrize("place", [False, True], ids=["from the start", "from a place"])
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.npy", "a.npz"])
def test_a_table_read_apart_is_the_same_table(tmp_path, name, place):
    path = save(tmp_path / name)
    found, expected = batches(path, place, untrusted=True), batches(path, place)
    assert len(found) == len(expected) > 3
    for mine, theirs in zip(found, expected, strict=True):
        assert np.array_equal(mine[0], theirs[0], equal_nan=True)
        assert np.array_equal(mine[1], theirs[1])
        assert mine[2:] == theirs[2:]


def test_stdin_is_read_apart_too(tmp_path):
    sink = io.BytesIO()
    data = table().select(["double", "large", "kind"])
    with pa.ipc.new_stream(sink, data.schema) as stream:
        stream.write_table(data)
    shared = ("learn", "-", "--format", "arrow", "--label", "kind", "--quiet")
    for name, more in (("apart", ["--untrusted"]), ("here", [])):
        command(*shared, "--model", tmp_path / name, *more, input=sink.getvalue(), text=False)
    found = [command("inspect", tmp_path / name, "--json").stdout for name in ("apart", "here")]
    mine, theirs = (re.sub(r'"rows_per_second": [0-9.]+', "", text) for text in found)
    assert mine == theirs


def from_child(monkeypatch, tmp_path, code):
    """Read a table whose reader runs this code instead."""
    monkeypatch.setattr(sandboxed_reader, "START", code)
    path = save(tmp_path / "a.parquet")
    return lambda: list(Source(path, Layout(label="kind"), untrusted=True).open())


def test_a_crash_of_the_reader_is_one_line(monkeypatch, tmp_path):
    read = from_child(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(
        SourceError, match=r"a.parquet: reading stopped at row 1: it crashed its reader \(SIGSEGV\), whi"
    ):
        read()


def test_a_reader_that_hangs_is_ended(monkeypatch, tmp_path):
    code = "from kampong.streaming.formats import sandboxed_reader as s; s.SECONDS = 0.1; s._limit()\nwhile True: pass"
    read = from_child(monkeypatch, tmp_path, code)
    with pytest.raises(SourceError, match="more than 60 s of processor for one batch"):
        read()


def test_a_reader_that_wants_too_much_memory_is_refused(monkeypatch, tmp_path):
    """A small file of zeros that Arrow would make large."""
    path, zeros = tmp_path / "a.arrow", pa.array(np.zeros(2**24))
    batch = pa.record_batch({"x": zeros, "kind": zeros})
    with pa.ipc.new_file(path, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_batch(batch)
    assert path.stat().st_size < 2**16
    limit = "from kampong.streaming.formats import sandboxed_reader as s; s.MEMORY = 2**26; s.serve()"
    monkeypatch.setattr(sandboxed_reader, "START", limit)
    with pytest.raises(SourceError, match=r"row 1: it takes more memory than this process may have\. Write it with"):
        list(Source(str(path), Layout(label="kind"), untrusted=True).open())
    monkeypatch.setattr(sandboxed_reader, "START", limit.replace("MEMORY = 2**26", "LARGEST_BATCH = 2**26"))
    with pytest.raises(SourceError, match=r"a batch of 16,777,216 rows takes \d+ MiB, and --untrusted allows 64"):
        list(Source(str(path), Layout(label="kind"), untrusted=True).open())


def test_a_damaged_table_is_refused_in_one_line(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    options = ("--label", "kind", "--model", tmp_path / "m", "--untrusted")
    said = command("learn", tmp_path / "a.parquet", *options, expect=3).stderr
    assert said.count("\n") == 1
    assert "a.parquet: reading stopped at row 1" in said


def message(header, *data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return sandboxed_reader.LENGTH.pack(len(text)) + text + b"".join(data)


def answers(content):
    """Return what the process that asks makes of these bytes."""
    child = sandboxed_reader._Child.__new__(sandboxed_reader._Child)
    child.path, child.rows = "a", 0
    child.process = SimpleNamespace(stdout=io.BytesIO(content), wait=lambda: 0)
    return list(child)


GOOD = [
    message(
        {"kind": "batch", "start": 0, "rows": 2, "columns": [["x", "float64", 16], ["w", "text", 3], ["t", "bool", 2]]},
        b"\1\1" + np.array([1.0, 2.0]).tobytes(),
        b"\1\1" + np.array([1, 2], dtype="<u4").tobytes() + b"abc",
        b"\1\0" + b"\1\0",
    ),
    message({"kind": "end"}),
]


def test_what_a_reader_says_is_understood():
    ((start, batch),) = answers(b"".join(GOOD))
    assert start == 0
    assert batch.to_pydict() == {"x": [1.0, 2.0], "w": ["a", "bc"], "t": [True, None]}


LIES = {
    "no JSON": message(b"{"),
    "a list": message([1]),
    "endless": sandboxed_reader.LENGTH.pack(2**60),
    "no columns": message({"kind": "batch", "start": 0, "rows": 1}),
    "rows below 0": message({"kind": "batch", "start": 0, "rows": -1, "columns": []}),
    "rows without end": message({"kind": "batch", "start": 0, "rows": 2**40, "columns": [["x", "unusable", 0]]}),
    "another size": message({"kind": "batch", "start": 0, "rows": 1, "columns": [["x", "float64", 16]]}, bytes(17)),
    "no such kind": message({"kind": "batch", "start": 0, "rows": 1, "columns": [["x", "O", 8]]}, bytes(9)),
    "texts too long": message(
        {"kind": "batch", "start": 0, "rows": 1, "columns": [["x", "text", 3]]}, b"\1\xff\xff\xff\xffabc"
    ),
    "no text": message({"kind": "batch", "start": 0, "rows": 1, "columns": [["x", "text", 1]]}, b"\1\1\0\0\0\xff"),
    "no name": message({"kind": "batch", "start": 0, "rows": 1, "columns": [["\ud800", "bool", 1]]}, b"\1\1"),
    "cut short": GOOD[0][:-1],
}


@pytest.mark.parametrize("lie", LIES)
def test_a_reader_that_lies_is_refused(lie):
    with pytest.raises(SourceError, match="reading stopped at row 1"):
        answers(LIES[lie])


@given(st.data())
def test_whatever_a_reader_says_is_a_batch_or_an_error(data):
    content = bytearray(b"".join(GOOD))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    try:
        for _, batch in answers(bytes(content)):
            batch.validate(full=True)
    except SourceError:
        pass


def test_a_format_that_does_not_say_that_it_withstands_any_bytes_is_refused(tmp_path, monkeypatch):
    assert LineFormat.from_strangers
    monkeypatch.setattr(type(PARQUET), "from_strangers", False)
    with pytest.raises(SourceError, match="--untrusted allows formats that withstand any bytes, and parquet does not"):
        Source(save(tmp_path / "a.parquet"), Layout(label="kind"), untrusted=True).open()
