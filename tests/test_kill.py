"""kill -9 at random times: the model and the outputs end as if nothing had happened, and broken resuming is noticed."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from stream_problems import without_clock, write_points

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks, to start many runs quickly")

# Starts run after run in a forked child and kills it after a random time, until enough were killed; then lets one end.
DRIVER = """
import json, os, random, signal, sys, time
import kampong
from kampong.streaming import blocks, dead_letters, learn, learner
options = json.loads(sys.argv[1])
blocks.SMALLEST, blocks.LARGEST = 512, 1024
if options["broken"] == "outputs":
    os.truncate = lambda *_: None
if options["broken"] == "offset":
    resume = learner._Learner._resume
    def forget(self, *state):
        resume(self, *state)
        self.run.place = None
    learner._Learner._resume = forget

def run(folder):
    learn(f"{folder}/a.csv", kampong.MarginSubspace(2, epsilon=0.2), label="kind", model_file=f"{folder}/m",
          out=f"{folder}/o.csv", checkpoint_every=0.1, watch=lambda _: time.sleep(options["pause"]))

rng, kills = random.Random(options["seed"]), 0
while kills < options["kills"]:
    child = os.fork()
    if child == 0:
        try:
            run(options["folder"])
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(3)
        os._exit(0)
    time.sleep(rng.uniform(0.0, options["longest"]))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        if os.WEXITSTATUS(status):
            sys.exit(3)
        break
    kills += 1
run(options["folder"])
print(json.dumps(kills))
"""


def drive(folder, *, kills, seed=0, broken="", rows=1500, longest=1.5, pause=0.004):
    folder.mkdir()
    write_points(folder / "a.csv", rows, bad=0.05)
    options = {
        "folder": str(folder),
        "kills": kills,
        "seed": seed,
        "broken": broken,
        "longest": longest,
        "pause": pause,
    }
    code = [sys.executable, "-c", DRIVER, json.dumps(options)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=1200, check=False)
    ends = ("o.csv", "m.dead.jsonl")
    result = None if done.returncode else [without_clock(folder / "m"), *((folder / end).read_bytes() for end in ends)]
    if result is not None:
        result[0][0]["stream"].pop("source")  # each run has a folder of its own
    return result, int(done.stdout or 0), done.stderr


def check(tmp_path, kills, rows):
    whole, none, _ = drive(tmp_path / "whole", kills=0, rows=rows, pause=0)
    assert none == 0
    killed, count, errors = drive(tmp_path / "killed", kills=kills, rows=rows)
    assert killed is not None, errors
    assert count == kills
    assert killed == whole
    return whole


def test_killed_twenty_times_and_nothing_is_lost(tmp_path):
    whole = check(tmp_path, 20, 3000)
    for broken in ("outputs", "offset"):
        wrong, count, errors = drive(tmp_path / broken, kills=6, broken=broken, rows=3000)
        assert count > 0, errors
        assert wrong != whole


@pytest.mark.slow
def test_killed_two_hundred_times_and_nothing_is_lost(tmp_path):
    check(tmp_path, 200, 20_000)
