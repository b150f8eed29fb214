"""The walkthroughs of the guide to sources, typed as they stand: a server, a producer, a learner that is killed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kampong.streaming.inspection import describe
from servers import program

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "sources.md"
NEEDED = {  # by the model: a package, a program
    "m": ("sqlite3", "bash"),
    "duck": ("duckdb", "bash"),
    "pg": ("adbc_driver_postgresql", "psql"),
    "red": ("redis", "redis-server"),
    "nat": ("nats", "nats-server"),
    "kaf": ("confluent_kafka", "bash"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", list(NEEDED))
def test_a_walkthrough_learns_every_record_once(tmp_path, model):
    package, server = pytest.importorskip(NEEDED[model][0]), NEEDED[model][1]
    program(server)
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (block,) = [one for one in blocks if f"-m {model}\n" in one]
    places = [str(Path(sys.executable).parent), os.environ["PATH"]]
    (tmp_path / "kampong").write_text(f'#!/bin/sh\nexec {sys.executable} -m kampong "$@"\n')
    (tmp_path / "kampong").chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(tmp_path), *places]), "NO_COLOR": "1"}
    with (tmp_path / "said").open("wb") as said:
        where = {"cwd": tmp_path, "env": environment, "start_new_session": True}
        shell = subprocess.Popen([*_no_root(server), "bash", "-c", block], stdout=said, stderr=said, **where)
        try:
            assert shell.wait(500) == 0, (tmp_path / "said").read_text()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # the server too
            for path in tmp_path.glob("*/postmaster.pid"):  # one that has left the group
                os.kill(int(path.read_text().split()[0]), signal.SIGINT)
    counters = describe(str(tmp_path / model))["stream"]["counters"]
    rows = 20_000
    if model == "duck":  # its query leaves some out
        with package.connect(tmp_path / "rows.duckdb", read_only=True) as base:
            rows = base.execute("SELECT count(*) FROM rows WHERE x < 1.9").fetchone()[0]
    assert (counters["records"], counters["rows"]) == (rows, rows)


def _no_root(server):
    """Return what is typed before a command so that its server does not see that it runs as root, which it refuses."""
    if server != "psql" or os.geteuid():
        return []
    found = [program("unshare"), "--user", "--map-user=1000", "--map-group=1000"]
    if subprocess.run([*found, "true"], check=False, capture_output=True).returncode:
        pytest.skip("PostgreSQL does not run as root")
    return found
