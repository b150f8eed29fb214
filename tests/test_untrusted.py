"""Damaged sources of every format: each record is a row or a dead letter, or one line says what is wrong."""

import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import numpy as np
import pyarrow as pa

from fuzz import sources
from fuzz.children import campaign
from kampong.streaming.errors import SourceError
from kampong.streaming.schema import Layout
from kampong.streaming.sources import Source

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
