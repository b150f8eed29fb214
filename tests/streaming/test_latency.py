"""A slow pipe is answered at once: rows that come at 50 a second are in the output within two seconds."""

import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

from kampong.streaming import Layout, Source
from stream_problems import write_points

FIRST, SLOW, PACE = 2000, 100, 50
LATEST = 2.0


class Watcher(threading.Thread):
    """Notes when each line of a file appears."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.seen, self.ended = path, [], threading.Event()

    def run(self):
        while not self.ended.is_set():
            count = self.path.read_bytes().count(b"\n") if self.path.exists() else 0
            time.sleep(0.02)
            self.seen += [time.monotonic()] * (count - len(self.seen))

    def wait_for(self, lines, seconds=60.0):
        late = time.monotonic() + seconds
        while len(self.seen) < lines and time.monotonic() < late:
            time.sleep(0.02)
        assert len(self.seen) >= lines


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    folder = tmp_path_factory.mktemp("points")
    write_points(folder / "a.csv", FIRST + SLOW)
    subprocess.run(
        [sys.executable, "-m", "kampong", "learn", "a.csv", "--label", "kind", "-m", "model", "-q"],
        cwd=folder,
        check=True,
    )
    return folder


@pytest.mark.parametrize("verb", ["learn", "predict"])
def test_rows_of_a_slow_pipe_are_answered_within_two_seconds(points, tmp_path, verb):
    lines = (points / "a.csv").read_bytes().splitlines(keepends=True)
    out = tmp_path / "out.csv"
    options = ["--label", "kind", "-m", tmp_path / "m", "--live"] if verb == "learn" else ["-m", points / "model"]
    command = [sys.executable, "-m", "kampong", verb, "-", "--format", "csv", "-q", "--out", out, *options]
    with subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE) as process:
        watcher = Watcher(out)
        watcher.start()
        process.stdin.write(b"".join(lines[: FIRST + 1]))
        process.stdin.flush()
        watcher.wait_for(FIRST + 1)  # all that came at once is there, though the pipe is still open
        written = []
        for line in lines[FIRST + 1 :]:
            process.stdin.write(line)
            process.stdin.flush()
            written.append(time.monotonic())
            time.sleep(1 / PACE)
        watcher.wait_for(len(lines))
        process.stdin.close()
        watcher.ended.set()
    late = [seen - then for seen, then in zip(watcher.seen[FIRST + 1 :], written, strict=True)]
    assert process.returncode == 0
    assert max(late) < LATEST, f"the latest row came after {max(late):.1f} s"


def test_a_silent_pipe_gives_its_whole_lines_and_keeps_the_rest(tmp_path):
    """In this process: a named pipe, and half a line that stays until it is whole."""
    import os

    path = tmp_path / "pipe"
    os.mkfifo(path)
    go_on = threading.Event()

    def write():
        with path.open("wb", buffering=0) as pipe:
            pipe.write(b"x,kind\n1,a\n2,b\n3")
            go_on.wait(30)
            pipe.write(b"0,c\n")

    threading.Thread(target=write, daemon=True).start()
    rows = []
    for batch in Source(str(path), Layout(label="kind", format="csv")).open():
        rows.append(batch.X.ravel().tolist())
        go_on.set()
    assert rows == [[1.0, 2.0], [30.0]]
