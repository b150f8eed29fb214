"""kill -9 at random times: the model and the outputs end as if nothing had happened, and broken resuming is noticed."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from kampong.files import read
from stream_problems import without_clock, write_points

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the driver forks, to start many runs quickly")

# Starts run after run in a forked child and kills it after a random time, until enough were killed; then lets one end.
# Where one ends by itself before, its files are put aside and a new stream begins. The first run, which nobody kills,
# says how long a run takes here and now: it comes after one in the parent, so that no child has anything to load.
DRIVER = """
import json, os, random, shutil, signal, sys, time
import kampong
from kampong.streaming import Layout, Source, errors, learn
from kampong.streaming.outputs import appended
from kampong.streaming.sources import blocks
options = json.loads(sys.argv[1])
FILES = ("m", "o.csv", "m.dead.jsonl")
blocks.SMALLEST, blocks.LARGEST = 512, 1024

def spoil(how):
    if how == "outputs":
        # what was written after the last save stays
        appended.Journal._cut_back = lambda self, committed: self._read(committed.length)
    if how == "offset":
        skip = blocks.Blocks._skip
        def too_far(self):
            skip(self)
            self._file.readline()
        blocks.Blocks._skip = too_far
        blocks.Blocks._digest = lambda _: "0" * 32  # the witness of the bytes before would notice

def run(folder, name="a.csv"):
    os.chdir(folder)
    source = Source(name, Layout(label="kind", **options["layout"]))
    learn(source, eval(options["model"]), model_file="m",
          out="o.csv", checkpoint_every=0.1, watch=lambda _: time.sleep(options["pause"]),
          label_delay=options["delay"], reject=options["reject"])

def go_on(folder):
    try:
        run(folder)
    except errors.LearntError:  # it was killed after its last save
        pass

def start(folder, broken=""):
    if options["before"] and not os.path.exists(f"{folder}/m"):
        for name in FILES:
            shutil.copy(f"{options['folder']}/before/{name}", folder)
    child = os.fork()
    if child == 0:
        try:
            spoil(broken)
            go_on(folder)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(3)
        os._exit(0)
    return child

def ended(child):
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit(3)
    return os.WIFEXITED(status)

def put_aside(folder, rounds):
    os.mkdir(f"{folder}/{rounds:04}")
    for name in FILES:
        os.rename(f"{folder}/{name}", f"{folder}/{rounds:04}/{name}")

def folder_of(name):
    os.mkdir(f"{options['folder']}/{name}")
    shutil.copy(f"{options['folder']}/a.csv", f"{options['folder']}/{name}/a.csv")
    return f"{options['folder']}/{name}"

run(folder_of("warm"))
if options["before"]:
    shutil.copy(f"{options['folder']}/b.csv", folder_of("before"))
    run(f"{options['folder']}/before", "b.csv")
whole, before = folder_of("whole"), time.perf_counter()
ended(start(whole))
longest = options["longest"] * (time.perf_counter() - before)
put_aside(whole, 0)
counts = {}
for name, broken, goal in options["streams"]:
    folder, rng, kills, rounds = folder_of(name), random.Random(options["seed"]), 0, 0
    while kills < goal:
        child = start(folder, broken)
        time.sleep(rng.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        if ended(child):
            put_aside(folder, rounds)
            rounds += 1
        else:
            kills += 1
    ended(start(folder, broken))
    put_aside(folder, rounds)
    counts[name] = kills
print(json.dumps(counts))
"""


MARGIN = "kampong.MarginSubspace(2, epsilon=0.2)"
DRIFT = "kampong.FisherDiscriminant(half_life='auto')"
EVERYBODY = "kampong.FisherDiscriminant(half_life='auto', effort=100.0)"
KERNEL = "kampong.KernelFisherDiscriminant()"


TEXT = "kampong.FisherDiscriminant(ridge=0.1)"
LAYOUT = {"text": "note", "ngrams": 2, "tfidf": True}


def write_wide(path, rows):
    """Write records of 150 columns, some of them bad, whose classes change their places half-way."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, rows)
    X = rng.normal(size=(rows, 150)) + 2 * np.eye(3, 150)[(kinds + (np.arange(rows) > rows // 2)) % 3]
    lines = [",".join([*map("{:.2f}".format, row), "abc"[kind]]) for row, kind in zip(X.tolist(), kinds, strict=True)]
    lines[40::50] = ["1,2,stray"] * len(lines[40::50])
    path.write_text("\n".join([",".join([*(f"x{j}" for j in range(150)), "kind"]), *lines]) + "\n")


def write_everything(path, rows):
    """Write records with numbers that are missing, text whose words keep coming, line breaks in it, and bad ones."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["x", "y", "note", "kind"])
        for i in range(rows):
            kind = int(rng.integers(2))
            x, y = np.round(rng.normal(size=2) + kind, 3).tolist()
            note = f"word{rng.integers(rows)} of {'ab'[kind]}{rng.integers(3)}"
            note = f'{note}\n"said" {"more " * int(rng.integers(40))}' if i % 3 == 0 else note
            writer.writerow(["" if i % 7 == 0 else x, "" if i % 11 == 0 else y, note, "ab"[kind]])
            if i % 50 == 20:
                file.write('1,2,"stray,a\n')


# What is kept beside the subspace: how the records are written, their layout, the model, and a name in its file.
STREAMS = {
    "a contest follows drift": (None, {}, EVERYBODY, "model.learnt.contest.contest.fourier."),
    "landmarks are placed again": (None, {}, KERNEL, "model.learnt.statistics.kept."),
    "a contest of 150 columns": (write_wide, {}, DRIFT, "model.learnt.contest.contest.softmax."),
    "a contest of text": (write_everything, {"text": "note"}, DRIFT, "model.learnt.contest.contest.wide_softmax."),
}


def drive(
    folder,
    streams,
    *,
    rows,
    longest,
    seed=0,
    pause=0.004,
    model=MARGIN,
    write=None,
    layout=None,
    before=False,
    delay=0,
    reject=0.0,
):
    """Return what each stream left, a list of rounds, beside the one that nobody killed."""
    if write is None:
        write_points(folder / "a.csv", rows, bad=0.05)
    else:
        write(folder / "a.csv", rows)
    options = {"folder": str(folder), "streams": streams, "seed": seed, "longest": longest, "pause": pause}
    options |= {"model": model, "layout": layout or {}, "before": before, "delay": delay, "reject": reject}
    if before:
        write_points(folder / "b.csv", rows, seed=1, bad=0.05)
    code = [sys.executable, "-c", DRIVER, json.dumps(options)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: kills for name, _, kills in streams}
    (whole,) = _rounds(folder / "whole")
    return whole, {name: _rounds(folder / name) for name, *_ in streams}


def _rounds(folder):
    return [_contents(one) for one in sorted(folder.iterdir()) if one.is_dir()]


def _contents(folder):
    facts, *rest = without_clock(folder / "m")
    return facts, rest, (folder / "o.csv").read_bytes(), (folder / "m.dead.jsonl").read_bytes()


def test_killed_twenty_times_and_nothing_is_lost(tmp_path):
    streams = [("killed", "", 20), ("outputs", "outputs", 6), ("offset", "offset", 6)]
    whole, rounds = drive(tmp_path, streams, rows=3000, longest=0.7)
    assert all(one == whole for one in rounds["killed"])
    for broken in ("outputs", "offset"):
        assert any(one != whole for one in rounds[broken])


@pytest.mark.parametrize("model", [MARGIN, DRIFT, KERNEL])
def test_killed_ten_times_in_the_middle_of_a_second_file(tmp_path, model):
    whole, rounds = drive(tmp_path, [("killed", "", 10)], rows=1500, longest=0.7, model=model, before=True)
    assert all(one == whole for one in rounds["killed"])
    assert [whole[0]["stream"][f"learnt.{name}"] for name in ("count", "rows")] == [2, 3000]
    assert whole[2].count(b"\n") == 3001  # the rows of both files, and one header


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("model", [MARGIN, DRIFT, KERNEL])
def test_killed_a_hundred_times_in_the_middle_of_a_second_file(tmp_path, model, seed):
    options = {"rows": 6000, "longest": 0.3, "seed": seed, "model": model, "before": True}
    whole, rounds = drive(tmp_path, [("killed", "", 100)], **options)
    assert all(one == whole for one in rounds["killed"])


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)], ids=["ten times", "a hundred times"])
def test_killed_while_rows_wait_for_their_labels(tmp_path, kills):
    options = {"model": TEXT, "write": write_everything, "layout": {"text": "note"}, "delay": 150}
    whole, rounds = drive(tmp_path, [("killed", "", kills)], rows=70 * kills, longest=0.7, **options)
    assert all(one == whole for one in rounds["killed"])
    assert [whole[0]["stream"][f"counters.{name}"] for name in ("rows", "waiting")] == [70 * kills, 0]


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)], ids=["ten times", "a hundred times"])
def test_killed_while_rows_that_look_like_no_class_are_listed(tmp_path, kills):
    whole, rounds = drive(tmp_path, [("killed", "", kills)], rows=1500, longest=0.7, model=DRIFT, reject=0.05)
    assert all(one == whole for one in rounds["killed"])
    assert whole[0]["stream"]["rejected.rejected"] > 20
    assert len(read(tmp_path / "whole" / "0000" / "m")[0]["stream.rejected.rows"]) > 5


def kill(folder, name, kills, rows, **more):
    """Kill a stream of those above so often, and compare."""
    write, layout, model, beside = STREAMS[name]
    options = {"write": write, "layout": layout, "model": model, **more}
    whole, rounds = drive(folder, [("killed", "", kills)], rows=rows, **options)
    assert any(one.startswith(beside) for one in read(folder / "whole" / "0000" / "m")[0])
    assert all(one == whole for one in rounds["killed"])


@pytest.mark.parametrize(("name", "rows"), list(zip(STREAMS, (1500, 1500, 300, 700), strict=True)))
def test_killed_while_more_than_the_subspace_is_kept(tmp_path, name, rows):
    kill(tmp_path, name, 8, rows, longest=0.7)


def test_killed_twenty_times_among_missing_numbers_words_and_quoted_line_breaks(tmp_path):
    options = {"model": TEXT, "write": write_everything, "layout": LAYOUT}
    whole, rounds = drive(tmp_path, [("killed", "", 20)], rows=700, longest=0.7, **options)
    assert all(one == whole for one in rounds["killed"])
    counters = {name: whole[0]["stream"][f"counters.{name}"] for name in ("rows", "dead", "filled")}
    assert counters == {"rows": 700, "dead": 14, "filled": 100 + 64}


# Thirteen hundred kills in all; each test is a minute or two, so that they can be spread over time.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_a_hundred_times_among_missing_numbers_words_and_quoted_line_breaks(tmp_path, seed):
    options = {"model": TEXT, "write": write_everything, "layout": LAYOUT, "seed": seed}
    whole, rounds = drive(tmp_path, [("killed", "", 100)], rows=3000, longest=0.3, **options)
    assert all(one == whole for one in rounds["killed"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), list(zip(STREAMS, (6000, 6000, 1500, 3000), strict=True)))
def test_killed_a_hundred_times(tmp_path, name, rows):
    kill(tmp_path, name, 100, rows, longest=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_killed_a_hundred_times_and_nothing_is_lost(tmp_path, seed):
    whole, rounds = drive(tmp_path, [("killed", "", 100)], rows=20_000, longest=0.2, seed=seed)
    assert all(one == whole for one in rounds["killed"])
