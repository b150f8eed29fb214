"""Hostile input to a source: a clear message, little time, little memory."""

import gzip
import json
import resource
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa

from kampong.streaming.columns.schema import Layout
from kampong.streaming.sources.source import Source

# Reads sources in forked children, so that each has its own clock and peak of memory but nothing to load or compile.
READER = """
import json, os, signal, sys, time
from pathlib import Path
from kampong.streaming.errors import StreamError
from kampong.streaming.columns.schema import Layout
from kampong.streaming.sources.source import Source

def peak():  # what getrusage says would include the parent's
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

def read(path, options):
    before, start = peak(), time.process_time()
    message, records, dead = "", 0, []
    try:
        for batch in Source(path, Layout(**options)).open():
            records += batch.records
            dead += [letter.reason for letter in batch.dead]
    except StreamError as error:
        message = str(error)
    more = peak() - before
    return message, records, dead[:3], more, time.process_time() - start

for path in sys.argv[1:]:
    read(path, {"label": "k", "max_features": 9})
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        print(json.dumps(read(*json.loads(line))), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps(f"the reader ended with {os.waitstatus_to_exitcode(status)}"), flush=True)
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    if sys.platform != "linux":
        pytest.skip("peak memory is read from /proc")
    folder = tmp_path_factory.mktemp("calm")
    calm = {"a.csv": "x,k\n1,a\n2,b\n", "a.svm": "1 1:1\n2 2:1\n", "a.jsonl": '{"x": 1, "k": "a"}\n'}
    for name, text in calm.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-c", READER, *(folder / name for name in calm)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.fixture
def hostile(tmp_path, reader):
    def read(name, data, **options):
        path = tmp_path / name
        if isinstance(data, bytes):
            path.write_bytes(data)
        reader.stdin.write(json.dumps([str(path), {"label": "k", **options}]) + "\n")
        reader.stdin.flush()
        answer = json.loads(reader.stdout.readline())
        assert isinstance(answer, list), answer
        message, records, dead, megabytes, seconds = answer
        assert megabytes < 200
        assert seconds < 2
        return message, records, dead

    return read


def gzip_bomb(path, size, piece=b"0" * 2**20):
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(size // len(piece)):
            file.write(piece)


def test_zip_bombs_are_refused(tmp_path, hostile):
    gzip_bomb(tmp_path / "bomb.csv.gz", 150 * 2**20)
    message, _, _ = hostile("bomb.csv.gz", None)
    assert "no end within" in message or "first line" in message
    with gzip.open(tmp_path / "late.csv.gz", "wb", compresslevel=9) as file:
        file.write(b"x,k\n1,a\n2,b\n")
        for _ in range(150):
            file.write(b"0" * 2**20)
    message, _, _ = hostile("late.csv.gz", None)
    assert "no end within" in message
    with pa.CompressedOutputStream(str(tmp_path / "bomb.jsonl.zst"), "zstd") as file:
        for _ in range(500):
            file.write(b"[" * 2**20)
    message, _, _ = hostile("bomb.jsonl.zst", None)
    assert "no end within" in message
    gzip_bomb(tmp_path / "blank.csv.gz", 150 * 2**20, b"\n" * 2**20)
    message, _, _ = hostile("blank.csv.gz", None)
    assert message


def test_an_overlong_line_is_a_dead_letter(hostile):
    data = b"x,k\n1,a\n" + b"2" * (20 * 2**20) + b",b\n3,b\n"
    message, records, dead = hostile("long.csv", data)
    assert (message, records) == ("", 3)
    assert "20,971,5" in dead[0]


def test_deep_json_is_a_dead_letter(hostile):
    deep = b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b', "k": "a"}\n'
    message, records, dead = hostile("deep.jsonl", b'{"x": 1, "k": "b"}\n' + deep + deep[:-3] + b"\n")
    assert (message, records, len(dead)) == ("", 3, 2)
    message, _, _ = hostile("only.jsonl", deep)
    assert "no JSON object" in message


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("huge.svm", b"1 1:1\n1 2000000000:1\n2 1:2\n", "above --max-features"),
        ("nul.csv", b"x,k\n1,a\n\0\0\0,b\n2,b\n", "NUL"),
        ("latin.csv", b"x,k\n1,a\n2,\xe9\n", "UTF-8"),
        ("nul.jsonl", b'{"x": 1, "k": "a"}\n\0\n{"x": 2, "k": "b"}\n', "not a record"),
    ],
)
def test_hostile_records_are_dead_letters(hostile, name, data, expected):
    message, _, dead = hostile(name, data, max_features=100)
    assert message == ""
    assert expected in dead[0]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("wide.csv", b",".join(b"c%d" % i for i in range(100_000)) + b"\n1\n", "columns; a table may have"),
        ("random.csv", bytes(range(256)) * 4000, "first line"),
        ("cut.csv.gz", gzip.compress(b"x,k\n" + b"1,a\n" * 100_000)[:200], "damaged or cut short"),
        ("not.parquet", b"PAR1" + b"\xff" * 100_000 + b"PAR1", "reading stopped"),
        ("not.arrow", b"ARROW1\0\0" + b"\xff" * 1000, "reading stopped"),
        ("empty.csv", b"", "no record"),
        ("header.csv", b"x,k\n", "no record"),
        ("nowidth.svm", b"1 1:1 77:2\n", "go up to 77"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "data",  # a name goes into the environment
)
def test_hostile_files_are_refused(hostile, name, data, expected):
    message, _, _ = hostile(name, data)
    assert expected in message


def test_memory_of_a_source_does_not_grow(tmp_path):
    """A file of many blocks is never in memory as a whole."""
    with (tmp_path / "a.csv").open("w") as file:
        file.write("x,y,k\n")
        for _ in range(120):
            file.write("1.25,2.5,a\n-1.25,1.5,b\n" * 50_000)
    rows, half = 0, 0
    for batch in Source(str(tmp_path / "a.csv"), Layout(label="k")).open():
        rows += batch.rows
        if rows < 6_000_000:  # blocks have their largest size long before
            half = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert rows == 12_000_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - half
    assert 1024 * grown < 6_000_000 * 2 * 8  # the numbers of the second half alone
