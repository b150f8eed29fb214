"""`.npz` files as a source: the rows that NumPy reads, a batch at a time, whatever a file claims to hold."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="sources need the `stream` extra")

from kampong.streaming import Layout, Source
from kampong.streaming.errors import SourceError
from kampong.streaming.formats import arrays
from stream_problems import rows_of

MIB = 2**20


def write(path, members, compression=zipfile.ZIP_DEFLATED):
    """Write a `.npz` file of headers and repeated bytes: (shape, dtype, column by column, bytes, how often)."""
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, (shape, dtype, by_columns, data, times) in members.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
                header = {"descr": dtype, "fortran_order": by_columns, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                for _ in range(times):
                    stream.write(data)


def read_all(path):
    """Return how many rows a file gives, and the peak of memory on the way."""
    tracemalloc.start()
    try:
        rows = sum(batch.num_rows for _, batch in arrays.NPZ.checked_batches(path, 0))
        return rows, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("labels", [False, True])
def test_a_small_file_of_many_zeros_takes_the_memory_of_a_batch(tmp_path, monkeypatch, labels):
    monkeypatch.setattr(arrays, "BATCH_BYTES", MIB)
    n = 128 * 1024
    members = {"X": ((n, 128), "<f8", False, bytes(MIB), 128)}
    if labels:
        members["y"] = ((n,), "<U4", False, bytes(MIB), 2)
    write(tmp_path / "zeros.npz", members)
    assert (tmp_path / "zeros.npz").stat().st_size < MIB
    rows, peak = read_all(tmp_path / "zeros.npz")
    assert rows == n
    assert peak < 16 * MIB


LIES = {
    "rows": ({"X": ((10**15, 4), "<f8", False, bytes(3200), 1)}, r"X\.npy ends before its last row"),
    "columns": ({"X": ((4, 10**15), "<f8", False, bytes(3200), 1)}, r"a row takes 8,000,000,000,000,000 bytes"),
    "text": (
        {"X": ((100, 4), "<f8", False, bytes(3200), 1), "y": ((100,), "<U99999999", False, b"x", 1)},
        r"a row takes 400,000,028 bytes, and a batch may take 67,108,864",
    ),
    "columns first": (
        {"X": ((10**7, 100), "<f8", True, bytes(3200), 1)},
        r"the array 'X' lies column by column, so that reading a row takes all of its 8,000,000,000 bytes",
    ),
    "negative": ({"X": ((-1, 4), "<f8", False, bytes(32), 1)}, r"an array of shape \(-1, 4\)"),
    "objects": ({"X": ((1, 4), "|O", False, bytes(32), 1)}, r"something other than numbers, truths and texts"),
}


@pytest.mark.parametrize("case", LIES)
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_lies_takes_no_memory(tmp_path, case, compression):
    members, text = LIES[case]
    write(tmp_path / "lie.npz", members, compression)
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match=text):
            list(arrays.NPZ.checked_batches(tmp_path / "lie.npz", 0))
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<u1", "<i8", "|b1", "<f2"])
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
def test_the_rows_are_those_that_numpy_reads(tmp_path, dtype, by_columns, compressed):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(9000, 3)).astype(dtype)
    X = np.asfortranarray(X) if by_columns else X
    y = rng.choice(["a", "bcd", "é"], 9000)
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "rows.npz", X=X, y=y, other=np.arange(5))
    found, labels = rows_of(Source(str(tmp_path / "rows.npz"), Layout(label="y")))
    np.testing.assert_array_equal(found, X.astype(float))
    np.testing.assert_array_equal(labels, y)
    for skip in (1, 4000, 8192, 8193, 8999):
        batches = list(arrays.NPZ.checked_batches(tmp_path / "rows.npz", skip))
        start = batches[0][0]
        assert start <= skip
        assert start + sum(batch.num_rows for _, batch in batches) == 9000
        np.testing.assert_array_equal(
            np.concatenate([batch.column("1").to_numpy(zero_copy_only=False) for _, batch in batches]).astype(float),
            X[start:, 0].astype(float),
        )


def test_wide_rows_come_in_smaller_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "BATCH_BYTES", 80 * 100)
    X = np.random.default_rng(0).normal(size=(1000, 10))
    np.savez(tmp_path / "rows.npz", X=X)
    np.save(tmp_path / "rows.npy", X)
    for kind, name in ((arrays.NPZ, "rows.npz"), (arrays.NPY, "rows.npy")):
        batches = list(kind.checked_batches(tmp_path / name, 250))
        assert [(start, batch.num_rows) for start, batch in batches] == [(s, 100) for s in range(200, 1000, 100)]
        np.testing.assert_array_equal(np.concatenate([np.asarray(b.column("10")) for _, b in batches]), X[200:, 9])


def test_damaged_files_are_named(tmp_path):
    whole = io.BytesIO()
    np.savez_compressed(whole, X=np.random.default_rng(0).normal(size=(500, 4)))
    for place in range(0, len(whole.getvalue()), 997):
        data = bytearray(whole.getvalue())
        data[place] ^= 0xFF
        (tmp_path / "a.npz").write_bytes(data)
        rows, said = 500, "a.npz: "
        try:
            rows = sum(batch.num_rows for _, batch in arrays.NPZ.checked_batches(tmp_path / "a.npz", 0))
        except SourceError as error:
            said = str(error)
        assert rows == 500
        assert "a.npz: " in said
