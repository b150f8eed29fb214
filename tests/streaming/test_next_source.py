"""A finished model goes on with the next source: only what is new is learnt, and nothing written before is lost."""

import gzip
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import kampong
import stream_matrix as matrix
from command import call, command
from kampong.files import CheckpointError, Contents
from kampong.files.contents import flatten
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import LearntError, OutputError, ResumeError, SourceError
from kampong.streaming.inspection import describe
from kampong.streaming.sources import learnt as memory
from kampong.streaming.sources.learnt import Fingerprint, Learnt
from stream_problems import without_clock, write_points

DAYS = ("monday", "tuesday", "wednesday")
small_batches = matrix.small_batches


@pytest.fixture
def days(tmp_path, monkeypatch):
    """Write three files of points, some records of which are bad, and go to their folder."""
    monkeypatch.chdir(tmp_path)
    for seed, day in enumerate(DAYS):
        write_points(tmp_path / f"{day}.csv", 200, seed=seed, bad=0.05)
    return tmp_path


def model():
    return kampong.FisherDiscriminant(ridge=0.1)


def go(*paths, name="m", stops=(), layout=None, **options):
    """Learn files, stopped after this many batches each time; return the last run."""
    for size in [*stops, 10**9]:
        stop, seen = threading.Event(), []

        def watch(run, stop=stop, seen=seen, size=size):
            seen.append(run)
            if len(seen) == size:
                stop.set()

        source = Source(paths[0], layout or Layout(label="kind"), more=tuple(paths[1:]))
        given = {"model_file": name, "out": f"{name}.csv", **options}
        run = learn(source, given.pop("model", model)(), watch=watch, stop=stop, **given)
    return run


def left(name):
    """Return everything that a run has written, without its clock and the files that its last command named."""
    facts, *rest = without_clock(name)
    facts["stream"] = {key: value for key, value in facts["stream"].items() if key not in ("source", "place.files")}
    facts["stream"].pop("place.file")
    outputs = [Path(f"{name}{end}").read_bytes() for end in (".csv", ".dead.jsonl")]
    return facts, rest, outputs


CASES = [(name, variant) for name, variant in matrix.CASES if variant in ("plain", "tfidf", "half-life auto")]
CASES += [("csv", "category"), ("csv", "half-life"), ("csv", "no mean"), ("parquet", "drop"), ("jsonl", "late classes")]


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_two_commands_end_as_one_and_as_one_that_was_stopped(tmp_path, monkeypatch, name, variant):
    monkeypatch.chdir(tmp_path)
    rows = matrix.records(variant == "late classes")
    matrix.FORMATS[name](tmp_path / f"first.{name}", rows[:900])
    matrix.FORMATS[name](tmp_path / f"second.{name}", rows[900:])
    first, second = f"first.{name}", f"second.{name}"
    options = {"max_features": 4} if name == "libsvm" else {"label": "kind", **matrix.VARIANTS[variant]}
    half_life = {"half-life": 700.0, "half-life auto": "auto"}.get(variant)
    more = {
        "layout": Layout(**options),
        "model": lambda: kampong.FisherDiscriminant(ridge="rule", half_life=half_life),
    }
    go(first, second, name="whole", **more)
    go(first, name="twice", **more)
    run = go(second, name="twice", **more)
    go(first, name="stopped", stops=[2], **more)
    again = go(second, name="stopped", stops=[1, 2], **more)
    assert run.counters.records == len(rows) == again.counters.records
    assert left("twice") == left("stopped")
    assert left("twice")[2] == left("whole")[2]  # predictions and dead letters, to the byte
    digests = {one: kampong.load(one).state_digest() for one in ("whole", "twice", "stopped")}
    assert len(set(digests.values())) == 1
    with pytest.raises(LearntError, match="has learnt this already"):
        go(first, second, name="twice", **more)
    with pytest.raises(LearntError, match="has learnt this already"):
        go(second, name="whole", **more)


def test_only_what_is_new_is_learnt(days):
    go("monday.csv")
    run = go("monday.csv", "tuesday.csv")
    assert (run.skipped, run.counters.rows, run.earlier.rows) == (("monday.csv",), 400, 200)
    assert [(one.name, one.rows) for one in run.learnt.sources] == [("monday.csv", 200), ("tuesday.csv", 200)]
    (days / "week").mkdir()
    for day in DAYS:
        (days / "week" / f"{day}.csv").write_bytes((days / f"{day}.csv").read_bytes())
    run = go("week")
    assert (len(run.skipped), run.counters.rows) == (2, 600)
    go("monday.csv", "tuesday.csv", "wednesday.csv", name="whole")
    assert (days / "m.csv").read_bytes() == (days / "whole.csv").read_bytes()
    go("week", name="folder", stops=[1, 1, 1])
    assert kampong.load("folder").state_digest() == kampong.load("m").state_digest()
    facts = describe("m")["stream"]
    assert [(one["name"], one["rows"]) for one in facts["learnt"]][2:] == [("week/wednesday.csv", 200)]


def test_the_same_bytes_under_another_name_are_recognised_and_again_learns_them(days):
    go("monday.csv")
    (days / "copy.csv").write_bytes((days / "monday.csv").read_bytes())
    with gzip.open(days / "packed.csv.gz", "wb") as file:
        file.write((days / "monday.csv").read_bytes())
    before = (days / "m").read_bytes(), (days / "m.csv").read_bytes()
    for name in ("copy.csv", "packed.csv.gz"):
        with pytest.raises(LearntError, match=rf"^{name}: m has learnt this already \(200 rows in all\)"):
            go(name)
    assert before == ((days / "m").read_bytes(), (days / "m.csv").read_bytes())
    run = go("copy.csv", "copy.csv", again=True, stops=[3, 1])
    assert run.counters.rows == 600
    assert go("tuesday.csv", "tuesday.csv").counters.rows == 800  # named twice, learnt once
    changed = (days / "monday.csv").read_bytes().replace(b"\n1,2,3\n", b"\n1,2,4\n", 1)
    assert len(changed) == len((days / "monday.csv").read_bytes())
    (days / "monday.csv").write_bytes(changed)
    assert go("monday.csv").counters.rows == 1000  # another file of the same name and length


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_has_grown_goes_on_where_it_ended(days, packed):
    lines = (days / "monday.csv").read_bytes().splitlines(keepends=True)
    name = "log.csv.gz" if packed else "log.csv"

    def write(count):
        data = b"".join(lines[:count])
        (days / name).write_bytes(gzip.compress(data) if packed else data)

    rows = []
    for count in (80, 150, len(lines)):
        write(count)
        rows.append(go("tuesday.csv", name).counters.rows)
    assert rows[-1] == 400
    assert sorted(set(rows)) == rows
    X = kampong.load("m").class_counts_
    go("tuesday.csv", "monday.csv", name="whole")
    np.testing.assert_array_equal(X, kampong.load("whole").class_counts_)
    letters = [line.split(b'"line": ')[1].split(b",")[0] for line in (days / "m.dead.jsonl").read_bytes().splitlines()]
    whole = [
        line.split(b'"line": ')[1].split(b",")[0] for line in (days / "whole.dead.jsonl").read_bytes().splitlines()
    ]
    assert letters == whole


def test_a_line_that_was_learnt_before_its_end_came_is_refused(days):
    data = (days / "monday.csv").read_bytes()
    (days / "log.csv").write_bytes(data[:-3])
    go("log.csv")
    (days / "log.csv").write_bytes(data)
    with pytest.raises(ResumeError, match="the last line had no end when it was learnt, and has grown since"):
        go("log.csv")


@pytest.mark.parametrize("wide", [False, True], ids=["", "a header of 6 KiB"])
def test_pipes_go_on_and_are_recognised(tmp_path, wide):
    names = [f"{'x' * (400 if wide else 1)}{j}" for j in range(15)]
    rng = np.random.default_rng(0)

    def feed(seed):
        y = np.random.default_rng(seed).integers(0, 2, 300)
        X = np.round(rng.normal(size=(300, 15)) + y[:, None], 2).tolist()
        lines = [",".join([*map(str, row), "ab"[kind]]) for row, kind in zip(X, y, strict=True)]
        return ("\n".join([",".join([*names, "kind"]), *lines]) + "\n").encode()

    def pipe(data, *more, expect=0):
        arguments = ("learn", "-", "-m", "m", "--format", "csv", "--ridge", "rule", *more)
        return command(*arguments, cwd=tmp_path, input=data, text=False, expect=expect).stderr.decode()

    first, second = feed(1), feed(2)
    pipe(first, "--label", "kind")
    assert "-: m has learnt this already (300 rows in all)" in pipe(first, expect=6)
    assert "600 rows (300 of them new)" in pipe(second)
    assert "900 rows (300 of them new)" in pipe(first, "--live")  # a feed is never the same twice
    assert "1,200 rows (300 of them new)" in pipe(second.split(b"\n", 1)[1], "--live")  # nor needs it its header again
    wrong = b",".join([b"kind", *second.split(b"\n", 1)[0].split(b",")[:-1]]) + b"\n"
    assert "its columns are not those that the model was learnt from" in pipe(wrong, "--live", expect=3)


def test_other_columns_formats_and_delimiters_are_refused_and_nothing_changes(days):
    go("monday.csv")
    before = (days / "m").read_bytes(), (days / "m.csv").read_bytes(), (days / "m.dead.jsonl").read_bytes()
    (days / "a.csv").write_text("x1,x2,x4,x3,kind\n1,2,3,4,a\n")
    (days / "e.csv").write_text("x1,x2,x3,y,z,kind\n1,2,3,4,5,a\n")
    (days / "b.csv").write_text("x1;x2;x3;x4;kind\n1;2;3;4;a\n")
    (days / "c.jsonl").write_text('{"x1": 1, "x2": 2, "x3": 3, "x4": 4, "kind": "a"}\n')
    (days / "d.csv").write_text("")
    for name, message in [
        ("a.csv", r"columns are not those that the model was learnt from: they come in another order \(x1, x2, x4, x3"),
        ("e.csv", "e.csv: its columns are not .*: missing: 'x4'; new: 'y', 'z'. Give files of the same columns"),
        ("b.csv", "b.csv: its columns are separated by ';'"),
        ("c.jsonl", "c.jsonl: this is jsonl, and m was learnt from csv"),
        ("d.csv", "d.csv: the source holds no record"),
    ]:
        with pytest.raises(SourceError, match=message):
            go(name)
    with pytest.raises(ResumeError, match=r"ridge was 0\.1 and is now 0\.5"):
        go("tuesday.csv", model=lambda: kampong.FisherDiscriminant(ridge=0.5))
    assert before == tuple((days / f"m{end}").read_bytes() for end in ("", ".csv", ".dead.jsonl"))
    assert go("tuesday.csv", layout=Layout(), strict=False, max_classes=7).counters.rows == 400


def test_a_started_source_must_end_before_another(days):
    go("monday.csv")
    stop = threading.Event()
    learn("tuesday.csv", model(), model_file="m", out="m.csv", stop=stop, watch=lambda _: stop.set())
    assert not describe("m")["stream"]["finished"]
    with pytest.raises(
        ResumeError, match=r"Give the same source to finish it first; or learn the other .* and merge both"
    ):
        go("wednesday.csv")
    run = go("tuesday.csv", "wednesday.csv")
    assert (run.counters.rows, [one.name for one in run.learnt.sources]) == (600, [f"{day}.csv" for day in DAYS])


def test_outputs_of_earlier_sources_stay(days):
    go("monday.csv", out="p.csv")
    first, letters = (days / "p.csv").read_bytes(), (days / "m.dead.jsonl").read_bytes()
    go("tuesday.csv", out="p.csv")
    assert (days / "p.csv").read_bytes().startswith(first)
    assert (days / "m.dead.jsonl").read_bytes().startswith(letters)
    assert (days / "p.csv").read_bytes().count(b"row,label") == 1
    (days / "notes.csv").write_text("my notes\n")
    with pytest.raises(OutputError, match=r"notes.csv: the file holds something else .* and is left as it is"):
        go("wednesday.csv", out="notes.csv")
    assert (days / "notes.csv").read_text() == "my notes\n"
    assert describe("m")["stream"]["finished"]
    go("wednesday.csv", out="q.jsonl")
    assert (days / "q.jsonl").read_bytes().startswith(b'{"row":')
    rows = [int(line.split(b",")[0]) for line in (days / "p.csv").read_bytes().splitlines()[1:]]
    assert sorted(set(rows)) == rows


@pytest.mark.parametrize("name", ["o.csv", "o.jsonl"])
@pytest.mark.parametrize("longer", [0, 1, 5000])
def test_an_output_that_was_replaced_is_refused_and_stays(days, name, longer):
    stop = threading.Event()
    options = {"label": "kind", "model_file": "m", "out": name}
    learn("monday.csv", model(), stop=stop, watch=lambda _: stop.set(), **options)
    data = (days / name).read_bytes()
    middle = len(data) // 2
    other = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :] + b"x" * longer
    (days / name).write_bytes(other)
    with pytest.raises(ResumeError, match=f"{name}: its first {len(data):,} bytes are not those that were written"):
        learn("monday.csv", model(), **options)
    assert (days / name).read_bytes() == other
    (days / name).write_bytes(data + b"x" * longer)  # what was written after the last save
    assert learn("monday.csv", model(), **options).finished
    assert (days / name).read_bytes().startswith(data)
    assert b"xxx" not in (days / name).read_bytes()


@pytest.mark.parametrize("name", ["csv", "csv.gz", "jsonl", "parquet", "arrow"])
def test_a_byte_changed_anywhere_in_what_was_learnt_is_noticed(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    matrix.FORMATS[name](tmp_path / f"a.{name}", matrix.records(late=False))
    options = {"model_file": "m"}
    source, stop = Source(f"a.{name}", Layout(label="kind", **matrix.PLAIN)), threading.Event()

    def watch(run):
        if run.counters.records > 1000:
            stop.set()

    place = learn(source, model(), stop=stop, watch=watch, **options).place
    data = (tmp_path / f"a.{name}").read_bytes()
    plain = gzip.decompress(data) if name == "csv.gz" else data
    assert place.get("offset", len(plain)) > 20_000
    rng = np.random.default_rng(0)
    for at in rng.integers(0, place.get("offset", len(plain)), 8).tolist():
        changed = plain[:at] + bytes([plain[at] ^ 1]) + plain[at + 1 :]
        (tmp_path / f"a.{name}").write_bytes(gzip.compress(changed) if name == "csv.gz" else changed)
        with pytest.raises(ResumeError, match=r"not the one|not those"):
            learn(source, model(), **options)
    (tmp_path / f"a.{name}").write_bytes(data)
    assert learn(source, model(), **options).finished


def test_memory_of_sources_is_bounded_and_read_back(monkeypatch):
    monkeypatch.setattr(memory, "MOST", 50)
    found = Learnt()
    for i in range(120):
        found.add(f"{i}.csv", Fingerprint(i + 1, f"{i:032x}", f"{i:032x}", 1), 10 * (i + 1), i)
        state = flatten(found.to_state())
        assert Learnt.from_state(Contents(*state, "it")) == found
    assert [len(found.sources), found.count, found.rows, found.dead] == [50, 120, 1200, 119]
    arrays, facts = flatten(found.to_state())
    for lie in ({"count": 49}, {"rows": 1}, {"dead": -1}, {"count": True}):
        with pytest.raises(CheckpointError, match=next(iter(lie))):
            Learnt.from_state(Contents(arrays, facts | lie, "it"))


def test_one_class_is_warned_of_and_predicts_nothing(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("x,y,kind\n" + "".join(f"{i},{i % 3},a\n" for i in range(50)))
    (tmp_path / "two.csv").write_text("x,y,kind\n" + "".join(f"{-i},{i % 3},b\n" for i in range(1, 50)))
    (tmp_path / "old.csv").write_text("kept")
    said = call(capfd, "learn", "one.csv", "-l", "kind", "-m", "m").err
    assert "WARNING: only the class 'a' has come. Nothing can be predicted before there are two." in said
    for name, *more in (
        ["predict"],
        ["predict", "--probabilities"],
        ["project"],
        ["score"],
        ["predict", "-o", "old.csv"],
    ):
        printed = call(capfd, name, "one.csv", "-m", "m", *more, expect=3)
        assert printed.out == ""
        assert "m: this model knows only the class 'a', and needs two to tell apart." in printed.err
    assert (tmp_path / "old.csv").read_text() == "kept"
    assert "only the class" not in call(capfd, "learn", "two.csv", "-m", "m").err
    assert call(capfd, "predict", "two.csv", "-m", "m").out.count("\n") == 50


def test_what_is_not_said_of_the_columns_is_as_before(days):
    layout = Layout(label="kind", drop=("x2",), number=("x1",), decimal=".", date_order="dmy")
    go("monday.csv", layout=layout)
    assert go("tuesday.csv", layout=Layout()).schema.numbers == ("x1", "x3", "x4")
    with pytest.raises(ResumeError, match=r"drop was \('x2',\) and is now \('x3',\)"):
        go("wednesday.csv", layout=Layout(drop=("x3",)))
    go("wednesday.csv", layout=Layout(drop=("x2",)))
    for day in DAYS:
        go(f"{day}.csv", layout=layout, name="apart")
    assert left("m") == left("apart")


def test_a_week_on_the_command_line(days, capfd):
    arguments = ("-m", "m", "-o", "p.csv")
    call(capfd, "learn", "monday.csv", "-l", "kind", *arguments)
    said = call(capfd, "learn", "monday.csv", *arguments, expect=6).err
    assert "monday.csv: m has learnt this already (200 rows in all). Give other files, or --again" in said
    said = call(capfd, "learn", "monday.csv", "tuesday.csv", *arguments).err
    assert "monday.csv: learnt before, and left out." in said
    assert "m: 400 rows (200 of them new)" in said
    assert "m: 600 rows (200 of them new)" in call(capfd, "learn", "tuesday.csv", "--again", *arguments).err
    shown = " ".join(call(capfd, "inspect", "m").out.split())
    assert shown.count("tuesday.csv (200 rows)") == 2
    report = call(capfd, "report", "m", "-o", "r.html")
    assert "600 rows" in report.err
    assert "monday.csv, tuesday.csv" in (days / "r.html").read_text()
    assert "6 everything given has been learnt before" in " ".join(call(capfd, "--help").out.split())


def test_a_week_in_a_shell_with_a_named_pipe(days):
    os.mkfifo(days / "pipe.csv")
    start = [sys.executable, "-m", "kampong", "learn", "pipe.csv", "-l", "kind", "-m", "m", "--half-life", "none"]
    for day, code in (("monday", 0), ("tuesday", 0), ("monday", 6)):
        with subprocess.Popen(["sh", "-c", f"cat {day}.csv > pipe.csv"], cwd=days) as writer:
            done = subprocess.run(start, cwd=days, capture_output=True, timeout=120, check=False)
            writer.kill()  # it waits for ever where nobody reads
        assert done.returncode == code, done.stderr
