"""A source format of one's own, written in this file and registered: found, learnt, resumed, applied and listed."""

import gzip
import json
import re
import signal
import sys
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import pyarrow as pa

import kampong
from kampong.files import CheckpointError
from kampong.streaming import Layout, Source, formats, learn
from kampong.streaming.apply_model import apply
from kampong.streaming.columns.records import encode, joined
from kampong.streaming.columns.schema import infer
from kampong.streaming.errors import SourceError
from kampong.streaming.formats.format import LineFormat, RecordFormat, first_line
from kampong.streaming.inspection import describe
from stream_problems import without_clock

LINE = re.compile(r"(?P<label>[^|]*)\|(?P<pairs>\w+=[^;=]*(;\w+=[^;=]*)*)\r?")


class Pairs(LineFormat):
    """Lines such as `rose|length=1.5;width=2`."""

    name, endings = "pairs", (".pairs",)

    def recognises(self, first):
        return bool(cut(first_line(first)))

    def describe(self, source, columns, part, classes):
        records = [record for _, _, line in part.lines() if (record := cut(line))]
        columns = list(dict.fromkeys(name for record in records for name in record))
        values = {name: [record.get(name) for record in records] for name in columns}
        return infer(source.layout, self.name, columns, values, source.path, classes)

    def parse_lines(self, schema, block):
        lines, rows, dead = block.lines(), [], {}
        for i, (_, _, line) in enumerate(lines):
            record = cut(line)
            try:
                rows.append([float(record[name]) if name in schema.numeric else record[name] for name in schema.used])
            except (KeyError, ValueError) as error:
                dead[i] = f"no pairs of these names: {error}"
        kinds = [pa.float64() if name in schema.numeric else pa.string() for name in schema.used]
        cells = zip(*rows, strict=True) if rows else [()] * len(kinds)
        arrays = [pa.array(column, kind) for column, kind in zip(cells, kinds, strict=True)]
        encoded = encode(schema, dict(zip(schema.used, arrays, strict=True)), len(rows))
        kept = np.delete(np.arange(len(lines)), list(dead))
        return joined(schema, encoded, kept, dead, len(lines), lambda: lines)


def cut(line):
    """Return the values of a line by name; nothing where it is no such line."""
    found = LINE.fullmatch(line.decode("utf-8", "replace"))
    return {"label": found["label"], **dict(pair.split("=") for pair in found["pairs"].split(";"))} if found else {}


class ShortPairs(RecordFormat):
    """The same lines, read by one method."""

    name, endings = "short", (".short",)

    def record(self, line):
        if record := cut(line):
            return record
        raise ValueError("no pairs")


@pytest.fixture(autouse=True)
def registered():
    before = formats.names()
    formats.register(Pairs())
    yield
    formats.unregister("pairs")
    assert formats.names() == before


def write_roses(folder, rows=1200, bad=()):
    """Write the same rows as pairs and as CSV, the pairs with bad lines among them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, rows)
    X = np.round(rng.normal(size=(rows, 3)) + 2 * np.eye(3)[y], 3).tolist()
    good = [f"{'abc'[c]}|length={u};width={v};height={w}" for c, (u, v, w) in zip(y, X, strict=True)]
    lines = [*good[:5], *bad, *good[5:]]
    (folder / "a.pairs").write_text("\n".join(lines) + "\n")
    table = [f"{w},{u},{'abc'[c]},{v}" for c, (u, v, w) in zip(y, X, strict=True)]
    (folder / "a.csv").write_text("\n".join(["height,length,label,width", *table]) + "\n")
    return np.array(X), np.array(list("abc"))[y]


def read(source):
    batches = list(source.open())
    return np.vstack([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])


def test_it_is_found_by_its_ending_its_name_and_its_first_bytes(tmp_path):
    X, y = write_roses(tmp_path)
    data = (tmp_path / "a.pairs").read_bytes()
    (tmp_path / "a.pairs.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.txt").write_bytes(data)
    (tmp_path / "a.jsonl").write_bytes(data)
    for name, stated in [("a.pairs", "auto"), ("a.pairs.gz", "auto"), ("a.txt", "auto"), ("a.jsonl", "pairs")]:
        source = Source(str(tmp_path / name), Layout(label="label", format=stated))
        assert source.format() == "pairs"
        rows, labels = read(source)
        np.testing.assert_array_equal(rows, X)
        np.testing.assert_array_equal(labels, y)
    others = {"jsonl": b'{"x": 1}\n', "libsvm": b"1 1:2\n", "csv": b"x,y\n"}
    for name, data in others.items():
        (tmp_path / "b.txt").write_bytes(data)
        assert Source(str(tmp_path / "b.txt")).format() == name


def learnt(folder, name, *, stops=(), source="a.pairs", **options):
    """Learn the stream, stopped after this many batches each time; return the last run."""
    for size in [*stops, 10**9]:
        stop, seen = threading.Event(), []

        def watch(run, stop=stop, seen=seen, size=size):
            seen.append(run)
            if len(seen) == size:
                stop.set()

        run = learn(
            Source(str(folder / source), Layout(label="label", **options)),
            kampong.FisherDiscriminant(ridge="rule"),
            model_file=str(folder / name),
            out=str(folder / f"{name}.csv"),
            watch=watch,
            stop=stop,
        )
    return run


def test_it_is_learnt_stopped_and_resumed_with_the_same_bits(tmp_path):
    bad = ["nonsense", "a|length=1", "b|length=x;width=1;height=2", "|length=1;width=2;height=3"]
    write_roses(tmp_path, bad=bad)
    whole, parts = learnt(tmp_path, "m"), learnt(tmp_path, "n", stops=[1, 2, 1])
    assert parts.resumed
    assert (whole.counters.rows, whole.counters.dead, whole.counters.records) == (1200, 4, 1204)
    assert whole.history.n_batches > 5
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")
    for end in (".csv", ".dead.jsonl"):
        assert (tmp_path / f"m{end}").read_bytes() == (tmp_path / f"n{end}").read_bytes()
    letters = (tmp_path / "m.dead.jsonl").read_text().splitlines()
    assert [f'"line": {line},' in letter for line, letter in enumerate(letters, 6)] == [True] * 4
    reasons = ["no pairs of these names", "'width'", "'x'", "the label 'label' is empty"]
    assert [reason in letter for reason, letter in zip(reasons, letters, strict=True)] == [True] * 4
    table = learnt(tmp_path, "t", source="a.csv")
    order = [1, 2, 0]  # the columns of the other file come in another order
    np.testing.assert_allclose(whole.model.class_means_, table.model.class_means_[:, order], rtol=1e-12)


def test_a_dropped_and_a_hashed_column_survive_a_stop(tmp_path):
    write_roses(tmp_path)
    options = {"drop": ("width",), "category": ("height",), "hash_width": 16}
    whole = learnt(tmp_path, "m", **options)
    learnt(tmp_path, "n", stops=[2], **options)
    assert whole.schema.width == 17
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")


def test_a_model_of_it_predicts_from_it_and_from_another_format(tmp_path):
    X, _ = write_roses(tmp_path, bad=["nonsense"])
    run = learnt(tmp_path, "m")
    for source, records in [("a.pairs", 1201), ("a.csv", 1200)]:
        done = apply(Source(str(tmp_path / source)), str(tmp_path / "m"), "predict", out=str(tmp_path / "p.csv"))
        assert (done.rows, done.records, done.dead) == (1200, records, records - 1200)
        predicted = [line.split(",")[1].strip('"') for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
        assert predicted == run.model.predict(X).tolist()
    learnt(tmp_path, "t", source="a.csv")
    done = apply(Source(str(tmp_path / "a.pairs")), str(tmp_path / "t"), "predict", out=str(tmp_path / "q.csv"))
    assert (done.rows, done.dead) == (1200, 1)
    assert (tmp_path / "q.csv").read_text().count("\n") == 1201


def test_help_and_messages_list_it(tmp_path, capfd):
    from kampong.cli import main

    for command in ("learn", "predict", "project"):
        with mock.patch.object(sys, "argv", ["kampong", command, "--help"]), pytest.raises(SystemExit):
            main()
        printed = " ".join(re.sub(r"[│╭╰]", " ", capfd.readouterr().out).split())
        assert "csv, tsv, jsonl, libsvm, parquet, arrow, npy, npz, pairs, or auto." in printed
    write_roses(tmp_path)
    with pytest.raises(SourceError, match=r"--format 'xml' is unknown\. Use one of csv.*npz, pairs\."):
        Source(str(tmp_path / "a.pairs"), Layout(format="xml")).open()
    arguments = ["kampong", "learn", str(tmp_path / "a.pairs"), "--format", "pairs", "-l", "label", "-m"]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with mock.patch.object(sys, "argv", [*arguments, str(tmp_path / "m")]), pytest.raises(SystemExit) as ended:
        main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert not ended.value.code
    assert "1,200 rows" in capfd.readouterr().err


@pytest.fixture
def short():
    formats.register(ShortPairs())
    yield
    formats.unregister("short")


BAD = [
    ("nonsense", "no pairs"),
    ("a|length=1;width=2", "column 'height' is empty"),
    ("b|length=x;width=1;height=2", "column 'length' holds 'x', which is not a number"),
    ("b|length=1_0;width=1;height=2", "column 'length' holds '1_0', which is not a number"),
    ("c|length=inf;width=1;height=2", "column 'length' holds inf"),
    ("|length=1;width=2;height=3", "the label 'label' is empty"),
]


def test_one_method_is_enough_for_a_format_of_lines(tmp_path, short):
    X, y = write_roses(tmp_path, bad=[line for line, _ in BAD])
    (tmp_path / "a.short").write_bytes((tmp_path / "a.pairs").read_bytes())
    rows, labels = read(Source(str(tmp_path / "a.short"), Layout(label="label", missing="dead")))
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)
    whole = learnt(tmp_path, "m", source="a.short", missing="dead")
    learnt(tmp_path, "n", stops=[1, 2], source="a.short", missing="dead")
    assert (whole.counters.rows, whole.counters.dead) == (1200, len(BAD))
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")
    assert (tmp_path / "m.dead.jsonl").read_bytes() == (tmp_path / "n.dead.jsonl").read_bytes()
    letters = [json.loads(line) for line in (tmp_path / "m.dead.jsonl").read_text().splitlines()]
    assert [(letter["line"], letter["reason"]) for letter in letters] == [
        (line, reason) for line, (_, reason) in enumerate(BAD, 6)
    ]
    means = np.array([X[y == label].mean(axis=0) for label in "abc"])
    np.testing.assert_allclose(whole.model.class_means_, means, rtol=1e-10)


def test_what_is_missing_in_a_record_is_filled_as_in_csv(tmp_path, short):
    lines = [f"{'ab'[i % 2]}|length={i % 2 + i / 99};width={'NA' if i % 5 == 1 else i % 7}" for i in range(60)]
    (tmp_path / "a.short").write_text("\n".join(lines))
    cells = [re.sub(r"[|;](length|width)=", ",", line) for line in lines]
    (tmp_path / "a.csv").write_text("\n".join(["label,length,width", *cells]))
    models = []
    for name in ("a.short", "a.csv"):  # one block each
        source = Source(str(tmp_path / name), Layout(label="label", missing="mean"))
        models.append(learn(source, kampong.FisherDiscriminant(ridge=1.0)))
    assert [run.counters.rows for run in models] == [60, 60]
    np.testing.assert_allclose(models[0].model.class_means_, models[1].model.class_means_, rtol=1e-12)


def test_a_source_without_a_record_says_why(tmp_path, short):
    (tmp_path / "a.short").write_text("nonsense\nmore nonsense\n")
    with pytest.raises(SourceError, match=r"the first lines hold no record of the format short: no pairs\."):
        learnt(tmp_path, "m", source="a.short")


def test_names_are_taken_once():
    for name in ("pairs", "csv", "auto", ""):
        taken = Pairs()
        taken.name = name
        with pytest.raises(ValueError, match=r"register: a format cannot be named .*Give it another name"):
            formats.register(taken)


def test_without_it_its_model_is_refused_by_name(tmp_path):
    write_roses(tmp_path)
    learnt(tmp_path, "m")
    formats.unregister("pairs")
    try:
        with pytest.raises(CheckpointError, match=r"format is 'pairs', expected one of 'csv'"):
            describe(str(tmp_path / "m"))
        with pytest.raises(SourceError, match="unknown"):
            formats.unregister("pairs")
    finally:
        formats.register(Pairs())


def test_no_other_file_lists_the_formats():
    home = Path(formats.__file__).parent
    names = {"tsv", "libsvm", "parquet", "arrow"}  # JSON lines and CSV are outputs too
    for path in sorted(home.parents[1].rglob("*.py")):
        if home not in path.parents:
            found = {name for name in names if re.search(rf"['\"]{name}['\"]", path.read_text(encoding="utf-8"))}
            assert len(found) < 2, path
