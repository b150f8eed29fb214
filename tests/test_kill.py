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
# Where one ends by itself before, its files are put aside and a new stream begins.
DRIVER = """
import json, os, random, signal, sys, time
import kampong
from kampong.streaming import blocks, learn
options = json.loads(sys.argv[1])
blocks.SMALLEST, blocks.LARGEST = 512, 1024
if options["broken"] == "outputs":
    os.truncate = lambda *_: None
if options["broken"] == "offset":
    skip = blocks.Blocks._skip
    def too_far(self):
        skip(self)
        self._file.readline()
    blocks.Blocks._skip = too_far
    blocks._digest = lambda _: ""  # the witness of the bytes before would notice

def run(folder):
    learn(f"{folder}/a.csv", kampong.MarginSubspace(2, epsilon=0.2), label="kind", model_file=f"{folder}/m",
          out=f"{folder}/o.csv", checkpoint_every=0.1, watch=lambda _: time.sleep(options["pause"]))

def put_aside():
    os.mkdir(f"{options['folder']}/{rounds}")
    for name in ("m", "o.csv", "m.dead.jsonl"):
        os.rename(f"{options['folder']}/{name}", f"{options['folder']}/{rounds}/{name}")

rng, kills, rounds = random.Random(options["seed"]), 0, 0
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
        put_aside()
        rounds += 1
    else:
        kills += 1
run(options["folder"])
put_aside()
print(kills)
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
    rounds = [] if done.returncode else [_contents(one) for one in sorted(folder.iterdir()) if one.is_dir()]
    return rounds, int(done.stdout or 0), done.stderr


def _contents(folder):
    facts, *rest = without_clock(folder / "m")
    facts["stream"].pop("source")  # each run has a folder of its own
    return facts, rest, (folder / "o.csv").read_bytes(), (folder / "m.dead.jsonl").read_bytes()


def check(tmp_path, kills, rows):
    (whole,), none, _ = drive(tmp_path / "whole", kills=0, rows=rows, pause=0)
    assert none == 0
    rounds, count, errors = drive(tmp_path / "killed", kills=kills, rows=rows)
    assert rounds, errors
    assert count == kills
    assert all(one == whole for one in rounds)
    return whole


def test_killed_twenty_times_and_nothing_is_lost(tmp_path):
    whole = check(tmp_path, 20, 3000)
    for broken in ("outputs", "offset"):
        rounds, count, errors = drive(tmp_path / broken, kills=6, broken=broken, rows=3000)
        assert count == 6, errors
        assert any(one != whole for one in rounds)


@pytest.mark.slow
def test_killed_two_hundred_times_and_nothing_is_lost(tmp_path):
    check(tmp_path, 200, 20_000)
