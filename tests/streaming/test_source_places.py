"""Where a source is cut into blocks, and that reading goes on from any place of the same source and of no other."""

import gzip
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

from kampong.streaming.columns.schema import Layout
from kampong.streaming.errors import ResumeError
from kampong.streaming.sources import blocks
from kampong.streaming.sources.blocks import Blocks
from kampong.streaming.sources.source import Source
from stream_problems import points_of_many_sizes, write_csv, write_tables


@pytest.fixture
def table():
    return points_of_many_sizes()


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_blocks_join_to_the_source_and_start_anywhere(seed, size):
    rng = np.random.default_rng(seed)
    lines = [b"x" * int(n) for n in rng.integers(0, size, 500)]
    data = b"\n".join(lines)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SMALLEST", 256)
        patch.setattr(blocks, "LARGEST", 4096)
        path = Path(folder) / "a"
        path.write_bytes(data)
        found = list(Blocks(str(path)))
        assert b"".join(block.data for block in found) == data
        assert all(block.data.endswith(b"\n") for block in found[:-1])
        for block in found:
            assert data[: block.offset].count(b"\n") == block.line
        middle = found[int(rng.integers(len(found)))]
        again = list(Blocks(str(path), place=middle.end))
        assert again == found[found.index(middle) + 1 :]


def test_blocks_do_not_depend_on_how_bytes_arrive(tmp_path, table):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    code = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from kampong.streaming.sources.blocks import Blocks\n"
        "print([(b.offset, len(b.data), b.end) for b in Blocks('-')])"
    )
    whole = [(b.offset, len(b.data), b.end) for b in Blocks(str(tmp_path / "a.csv"))]
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        data = (tmp_path / "a.csv").read_bytes()
        rng = np.random.default_rng(0)
        while data:
            cut = int(rng.integers(1, 30_000))
            process.stdin.write(data[:cut])
            process.stdin.flush()
            data = data[cut:]
        printed, _ = process.communicate()
    assert printed.decode().strip() == repr(whole)


def test_another_source_is_not_resumed(tmp_path, table):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    stream = Source(str(tmp_path / "a.csv"), Layout(label="label")).open()
    places = [batch.place for batch in stream]
    data = (tmp_path / "a.csv").read_bytes()
    offset = places[2]["offset"]
    for changed, message in [
        (data[: offset - 10], "shorter"),
        (b"y" + data[1:], "not the one"),
        (data[: offset - 5] + b"9" + data[offset - 4 :], "not the one"),
    ]:
        (tmp_path / "b.csv").write_bytes(changed)
        (tmp_path / "b.csv.gz").write_bytes(gzip.compress(changed))
        for name in ("b.csv", "b.csv.gz"):
            with pytest.raises(ResumeError, match=message):
                Source(str(tmp_path / name)).open(schema=stream.schema, place=places[2])


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "folder", "a.arrow"])
def test_a_source_goes_on_at_any_place(tmp_path, table, name):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    write_csv(tmp_path / "a.csv.gz", X, y, opener=gzip.open)
    write_tables(tmp_path, X, y)
    source = Source(str(tmp_path / name), Layout(label="label"))
    stream = source.open()
    batches = list(stream)
    assert len(batches) > 4
    for i in range(len(batches)):
        again = list(source.open(schema=stream.schema, place=batches[i].place))
        assert [batch.place for batch in again] == [batch.place for batch in batches[i + 1 :]]
        for one, other in zip(again, batches[i + 1 :], strict=True):
            np.testing.assert_array_equal(one.X, other.X)
            np.testing.assert_array_equal(one.y, other.y)


def test_a_changed_folder_is_not_resumed(tmp_path):
    for i in range(2):
        pq.write_table(pa.table({"x": np.arange(900.0), "k": ["a", "b", "c"] * 300}), tmp_path / f"{i}.parquet")
    source = Source(str(tmp_path), Layout(label="k"))
    stream = source.open()
    place = list(stream)[5].place
    pq.write_table(pa.table({"x": [1.0], "k": ["a"]}), tmp_path / "2.parquet")
    assert list(source.open(schema=stream.schema, place=place))  # more files at the end are welcome
    pq.write_table(pa.table({"x": [1.0], "k": ["a"]}), tmp_path / "#.parquet")
    with pytest.raises(ResumeError, match="not those"):
        source.open(schema=stream.schema, place=place)


def test_a_followed_file_gives_its_new_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,k\n1,a\n2,b\n3")
    stop, seen = threading.Event(), []

    def append():
        time.sleep(0.5)
        with path.open("a") as file:
            file.write("0,c\n")

    threading.Thread(target=append).start()
    for batch in Source(str(path), Layout(label="k"), follow=True).open(stop=stop):
        seen += zip(batch.X.ravel().tolist(), batch.y.tolist(), strict=True)
        if len(seen) == 3:
            stop.set()
    assert seen == [(1.0, "a"), (2.0, "b"), (30.0, "c")]
