"""Checkpoint files: written whole or not at all; damage, lies and strangers are refused fast, in little memory."""

import errno
import hashlib
import importlib.util
import io
import json
import os
import pickle
import signal
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kampong.files import CheckpointError, read, write
from kampong.files.container import FORMAT, FRAME, LARGEST_HEADER, MAGIC

ARRAYS = {"means": np.arange(6.0).reshape(2, 3), "count": np.array(7), "none": np.zeros((0, 3), dtype=np.int8)}
FACTS = {"offset": 2**60, "name": "naïve \0 \ud800", "list": [None, True, 0.1, {"a": 1}]}

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
facts = st.dictionaries(st.text(), st.recursive(leaves, lambda f: st.lists(f) | st.dictionaries(st.text(), f)))


def seal(document, *, version=FORMAT, length=None, reserved=0):
    """Return a file with this document and the right digest: what an attacker would hand in."""
    length = len(document) if length is None else length
    start = FRAME.pack(MAGIC, version, reserved, length, 0, b"")[:32]
    return start + hashlib.sha256(start + document).digest() + document


def document(header, data=b""):
    """Return a safetensors document with this header, text or JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def metadata(facts="{}", columnwise="[]"):
    return {"__metadata__": {"kampong": f'{{"facts":{facts},"columnwise":{columnwise}}}'}}


def entry(dtype="F64", shape=(1,), place=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(place)}


def raw(text):
    """Return the header of one fact-free file with more raw JSON in it."""
    return json.dumps(metadata())[:-1].encode() + b"," + text + b"}"


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def refused(path):
    """Load a file that must be refused: quickly, in little memory, with a message that names it and helps."""
    began = time.process_time()
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert time.process_time() - began < 2.0
    tracemalloc.start()
    with pytest.raises(CheckpointError):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    message = str(caught.value)
    assert str(path) in message
    assert any(word in message for word in ("Restore", "Name a", "Install", "Check the path"))
    assert len(message) < 1000
    return message


@pytest.fixture(scope="module")
def one_path(tmp_path_factory):
    """Return a path that all examples of a test may write to."""
    return tmp_path_factory.mktemp("one") / "file"


@given(st.dictionaries(st.text().filter(lambda name: name != "__metadata__"), arrays, max_size=4), facts, st.booleans())
def test_what_comes_back_is_what_went_in(one_path, values, facts, columns_first):
    path = one_path
    values = {name: np.asfortranarray(value) if columns_first else value for name, value in values.items()}
    write(path, values, facts)
    found, known = read(path)
    assert known == facts
    assert set(found) == set(values)
    for name, value in values.items():
        back = found[name]
        little = value.astype(value.dtype.newbyteorder("<"))
        assert (back.dtype, back.shape, back.tobytes()) == (little.dtype, little.shape, little.tobytes())
        assert back.flags.c_contiguous == value.flags.c_contiguous
        assert back.flags.f_contiguous == value.flags.f_contiguous
        assert back.flags.writeable
    before = path.read_bytes()
    write(path, dict(reversed(values.items())), dict(reversed(facts.items())))
    assert path.read_bytes() == before


def test_any_safetensors_reader_reads_what_follows_the_frame(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    write(tmp_path / "file", ARRAYS, FACTS)
    found = safetensors.load((tmp_path / "file").read_bytes()[FRAME.size :])
    assert set(found) == set(ARRAYS)
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(found[name], value, strict=True)


@pytest.mark.parametrize(
    "value", [np.array(["a"]), np.array([object()]), np.array([1j]), np.zeros((1,) * 9), np.array([0], dtype="M8[s]")]
)
def test_arrays_that_no_file_can_hold_are_named(tmp_path, value):
    with pytest.raises(CheckpointError, match="'strange'"):
        write(tmp_path / "file", {"strange": value}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, object(), b"bytes", {"a": {2}}])
def test_facts_that_json_cannot_hold_are_named(tmp_path, value):
    with pytest.raises(CheckpointError, match=r"facts\.strange"):
        write(tmp_path / "file", {}, {"strange": value})


def test_an_array_cannot_have_the_name_of_the_facts(tmp_path):
    with pytest.raises(CheckpointError, match="another name"):
        write(tmp_path / "file", {"__metadata__": np.zeros(1)}, {})


def test_facts_past_the_limit_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(CheckpointError, match="Put long lists into arrays"):
        write(tmp_path / "file", {}, {"long": "x" * LARGEST_HEADER})
    assert not list(tmp_path.iterdir())


# Damage.


def test_no_truncation_and_no_extension_loads(tmp_path):
    path = tmp_path / "file"
    write(path, ARRAYS, FACTS)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="file: th") as caught:
            read(path)
        assert "Restore" in str(caught.value) or "Name a file" in str(caught.value)
    for more in (b"\0", b"\0" * 8, whole):
        path.write_bytes(whole + more)
        refused(path)
    path.write_bytes(whole)
    read(path)


def test_no_flipped_bit_loads(tmp_path):
    path = tmp_path / "file"
    write(path, ARRAYS, FACTS)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    frame = np.arange(8 * FRAME.size)
    for bit in np.concatenate([frame, rng.integers(0, 8 * len(whole), 2000)]):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "Restore" in str(caught.value) or "Name a file" in str(caught.value)


def test_a_newer_format_says_so_and_a_damaged_one_does_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(seal(document(metadata()), version=FORMAT + 1))
    assert "Install a newer kampong" in refused(path)
    broken = bytearray(path.read_bytes())
    broken[-1] ^= 1
    path.write_bytes(broken)
    assert "digest" in refused(path)


# Lies: the digest is right in all of these.

EIGHT = b"\0" * 8
HOSTILE = {
    "empty document": seal(b""),
    "format 0": seal(document(metadata()), version=0),
    "reserved bytes": seal(document(metadata()), reserved=1),
    "length of the frame": seal(document(metadata()), length=2**63),
    "header length 2**63": seal(struct.pack("<Q", 2**63) + b"{}"),
    "header length 2**64 - 1": seal(struct.pack("<Q", 2**64 - 1) + b"{}"),
    "header past the document": seal(struct.pack("<Q", 100) + b"{}"),
    "oversized header": seal(document(json.dumps(metadata()).encode() + b" " * LARGEST_HEADER)),
    "no JSON": seal(document(b"\xff\xfe{}")),
    "no object": seal(document(b"[]")),
    "deep JSON": seal(document(raw(b'"a":' + b"[" * 200_000 + b"]" * 200_000))),
    "deep objects": seal(document(raw(b'"a":' + b'{"":' * 200_000 + b"0" + b"}" * 200_000))),
    "deep facts": seal(document(metadata("[" * 200_000 + "]" * 200_000))),
    "wide JSON": seal(document(raw(b'"a":[' + b"[]," * ((LARGEST_HEADER - 200) // 3) + b"0]"))),
    "wide objects": seal(document(raw(b'"a":[' + b'{"a":0},' * ((LARGEST_HEADER - 200) // 8) + b"0]"))),
    "many arrays": seal(document(raw(b",".join(b'"%d":{}' % n for n in range(90_000))))),
    "a number of 5,000 digits": seal(document(raw(b'"a":' + b"9" * 5000))),
    "no facts": seal(document({"a": entry()}, EIGHT)),
    "facts that are no text": seal(document({"__metadata__": {"kampong": {}}})),
    "facts that are no object": seal(document(metadata("[]"))),
    "other metadata": seal(document({"__metadata__": {**metadata()["__metadata__"], "a": "b"}})),
    "NaN among the facts": seal(document(metadata('{"a":NaN}'))),
    "infinity among the facts": seal(document(metadata('{"a":1e999}'))),
    "a fact twice": seal(document(metadata('{"a":1,"a":2}'))),
    "an array twice": seal(document(raw(b'"a":%s,"a":%s' % ((json.dumps(entry()).encode(),) * 2)), EIGHT)),
    "a key twice": seal(document(raw(b'"a":{"dtype":"F64","dtype":"I64","shape":[1],"data_offsets":[0,8]}'), EIGHT)),
    "a shape that is too large": seal(document(metadata() | {"a": entry(shape=(2**40,))}, EIGHT)),
    "a shape that is too small": seal(document(metadata() | {"a": entry(shape=())}, EIGHT * 2)),
    "a shape whose product overflows": seal(document(metadata() | {"a": entry(shape=(2**32, 2**32), place=(0, 0))})),
    "no entries in an endless shape": seal(
        document(metadata() | {"a": entry(shape=(0, 2**47, 2**47, 2**47), place=(0, 0))})
    ),
    "nine axes": seal(document(metadata() | {"a": entry(shape=(1,) * 9)}, EIGHT)),
    "a negative shape": seal(document(metadata() | {"a": entry(shape=(-1, -1))}, EIGHT)),
    "a shape of true": seal(document(metadata() | {"a": entry(shape=(True,))}, EIGHT)),
    "a shape of floats": seal(document(metadata() | {"a": entry(shape=(1.0,))}, EIGHT)),
    "a shape that is no list": seal(document(metadata() | {"a": {**entry(), "shape": "1"}}, EIGHT)),
    "overlapping arrays": seal(document(metadata() | {"a": entry(), "b": entry()}, EIGHT)),
    "overlapping by half": seal(document(metadata() | {"a": entry(), "b": entry(place=(4, 12))}, EIGHT + b"\0" * 4)),
    "a gap": seal(document(metadata() | {"a": entry(), "b": entry(place=(16, 24))}, EIGHT * 3)),
    "bytes left over": seal(document(metadata() | {"a": entry()}, EIGHT * 2)),
    "bytes missing": seal(document(metadata() | {"a": entry()}, b"\0" * 7)),
    "a place beyond the end": seal(document(metadata() | {"a": entry(place=(2**40, 2**40 + 8))}, EIGHT)),
    "a place backwards": seal(document(metadata() | {"a": entry(place=(8, 0))}, EIGHT)),
    "an unknown dtype": seal(document(metadata() | {"a": entry(dtype="O")}, EIGHT)),
    "a dtype that is no text": seal(document(metadata() | {"a": entry(dtype=["F64"])}, EIGHT)),
    "an entry with more": seal(document(metadata() | {"a": {**entry(), "b": 1}}, EIGHT)),
    "an entry that is no object": seal(document(metadata() | {"a": [1]}, EIGHT)),
    "a boolean of 2": seal(document(metadata() | {"a": entry(dtype="BOOL", place=(0, 1))}, b"\2")),
    "columns of an array that is not there": seal(document(metadata(columnwise='["a"]'))),
    "columns that are no list": seal(document(metadata(columnwise='{"a":1}'))),
    "no checkpoint": b"",
    "text": b"offset,label\n1,2\n",
    "safetensors without a frame": document({"a": entry()}, EIGHT),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path, name):
    path = tmp_path / "file"
    path.write_bytes(HOSTILE[name])
    refused(path)


class Trap:
    """Whoever unpickles this creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_neither_pickles_nor_archives_are_opened(tmp_path):
    path, sprung = tmp_path / "file", tmp_path / "sprung"
    text = pickle.dumps(Trap(sprung))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("data.pkl", text)
        members.writestr("zeros", b"\0" * 10**7)
    for content in (text, archive.getvalue(), seal(text), seal(archive.getvalue()), MAGIC + text):
        path.write_bytes(content)
        refused(path)
    assert not sprung.exists()


def test_what_is_no_file_is_refused(tmp_path):
    loop, other = tmp_path / "loop", tmp_path / "other"
    loop.symlink_to(other)
    other.symlink_to(loop)
    refused(loop)
    refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe")
    refused(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError, match="absent"):
        read(tmp_path / "absent")


def test_a_huge_file_of_nothing_takes_no_memory(tmp_path):
    path = tmp_path / "file"
    size = 2**28
    with path.open("wb") as file:
        file.write(FRAME.pack(MAGIC, FORMAT, 0, size, 0, b""))
        file.truncate(FRAME.size + size)
    refused(path)
    with path.open("r+b") as file:
        file.truncate(2**37)
    assert "limit" in refused(path)


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    write(tmp_path / "file", ARRAYS, FACTS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        with pytest.raises(CheckpointError, match=r"Permission denied.*Check the path"):
            read(tmp_path / "file")


# Writing.


class Full(io.RawIOBase):
    """A file on a disk that is full after this many bytes."""

    def __init__(self, descriptor, room):
        super().__init__()
        self.file, self.room = io.FileIO(descriptor, "wb"), room

    def writable(self):
        return True

    def write(self, data):
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.file.write(bytes(data)[: self.room])
        self.room -= written
        return written

    def close(self):
        self.file.close()
        super().close()


@pytest.mark.parametrize("room", [0, 10, 64, 500, 100_000])
def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path, monkeypatch, room):
    path = tmp_path / "file"
    write(path, ARRAYS, FACTS)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda descriptor, mode: io.BufferedWriter(Full(descriptor, room)))
        with pytest.raises(CheckpointError, match=r"No space left.*still there.*Free some space") as caught:
            write(path, {"large": np.ones(10**5)}, {})
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("call", "number"),
    [("open", errno.EACCES), ("fsync", errno.ENOSPC), ("fsync", errno.EIO), ("rename", errno.EACCES)],
)
def test_a_write_that_fails_leaves_the_previous_checkpoint(tmp_path, monkeypatch, call, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    path = tmp_path / "file"
    write(path, ARRAYS, FACTS)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if call == "rename" else (os, call)), fail)
        with pytest.raises(CheckpointError, match="still there"):
            write(path, {}, {"new": 1})
    assert path.read_bytes() == before
    assert names(tmp_path) == ["file"]


def test_an_interrupt_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    path = tmp_path / "file"
    write(path, ARRAYS, FACTS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write(path, {}, {"new": 1})
    assert names(tmp_path) == ["file"]
    assert read(path)[1] == FACTS


def test_file_and_folder_are_flushed_in_order(tmp_path, monkeypatch):
    path, calls = tmp_path / "file", []
    flush, replace = os.fsync, Path.replace

    def note_flush(descriptor):
        status = os.fstat(descriptor)
        calls.append("folder" if stat.S_ISDIR(status.st_mode) else status.st_size)
        flush(descriptor)

    def note_replace(source, target):
        calls.append("rename")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", note_flush)
    monkeypatch.setattr(Path, "replace", note_replace)
    write(path, ARRAYS, FACTS)
    assert calls == [path.stat().st_size, "rename", "folder"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    for path in (tmp_path / "absent" / "file", tmp_path):
        with pytest.raises(CheckpointError, match="could not be written") as caught:
            write(path, ARRAYS, FACTS)
        assert str(path) in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    mask = os.umask(0o027)
    try:
        write(path, ARRAYS, FACTS)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    write(link, {}, {"new": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert link.is_symlink()
    assert read(path)[1] == {"new": 1}


WRITER = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("file", sys.argv[1])
file = importlib.util.module_from_spec(spec)
spec.loader.exec_module(file)
number = 0
while True:
    number += 1
    file.write(sys.argv[2], {"numbers": np.full(200_000, number)}, {"number": number})
    print(number, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX")
def test_a_kill_at_any_time_leaves_a_whole_checkpoint(tmp_path):
    path, source = tmp_path / "file", importlib.util.find_spec("kampong.files.container").origin
    rng = np.random.default_rng(0)
    left = 0
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", WRITER, source, str(path)], stdout=subprocess.PIPE) as writer:
            writer.stdout.readline()
            time.sleep(rng.uniform(0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said = writer.stdout.read().split()
        arrays, facts = read(path)
        assert (arrays["numbers"] == facts["number"]).all()
        assert facts["number"] >= int(said[-1] if said else 1)
        left += len(names(tmp_path)) - 1
        assert len(names(tmp_path)) <= 2
    assert left
    write(path, ARRAYS, FACTS)
    assert names(tmp_path) == ["file"]


def test_the_temporary_file_of_a_writer_at_work_stays(tmp_path, monkeypatch):
    path = tmp_path / "file"
    flush = os.fsync

    def write_another(descriptor):
        monkeypatch.setattr(os, "fsync", flush)
        write(path, {}, {"first": True})
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", write_another)
    write(path, {}, {"second": True})
    assert read(path)[1] == {"second": True}
    assert names(tmp_path) == ["file"]
