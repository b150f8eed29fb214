"""The walkthroughs of the guide to sources, typed as they stand: a server, a producer, a learner that is killed."""

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
NEEDED = {"red": ("redis", "redis-server"), "nat": ("nats", "nats-server"), "kaf": ("confluent_kafka", "bash")}


@pytest.mark.slow
@pytest.mark.parametrize("model", list(NEEDED))
def test_a_walkthrough_learns_every_record_once(tmp_path, model):
    package, server = NEEDED[model]
    pytest.importorskip(package)
    program(server)
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (block,) = [one for one in blocks if f"-m {model}\n" in one]
    places = [str(Path(sys.executable).parent), os.environ["PATH"]]
    (tmp_path / "kampong").write_text(f'#!/bin/sh\nexec {sys.executable} -m kampong "$@"\n')
    (tmp_path / "kampong").chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(tmp_path), *places]), "NO_COLOR": "1"}
    with (tmp_path / "said").open("wb") as said:
        shell = subprocess.Popen(
            ["bash", "-c", block], cwd=tmp_path, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        try:
            assert shell.wait(500) == 0, (tmp_path / "said").read_text()
        finally:
            os.killpg(shell.pid, signal.SIGKILL)  # the server too
    counters = describe(str(tmp_path / model))["stream"]["counters"]
    assert (counters["records"], counters["rows"]) == (20_000, 20_000)
