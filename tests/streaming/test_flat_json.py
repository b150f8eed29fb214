"""Flat JSON objects, which pyarrow reads at once, against msgspec's one at a time: the same rows and dead letters."""

import contextlib
import json
import random

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import msgspec

from kampong.streaming import Layout, Source
from kampong.streaming.formats import json_lines
from kampong.streaming.sources.blocks import Block, Place

VALUES = [
    "1",
    "1.5",
    "-0.0",
    "-0",
    "-0e3",
    "1e400",
    "1e-400",
    "123456789012345678901234567890",
    "0.1",
    "01",
    "1.",
    ".5",
    "true",
    "null",
    '"a"',
    "NaN",
    "-Infinity",
    "[1]",
    "{}",
    "1e308",
    "9007199254740993",
    "4.35",
    "+1",
    "1E+5",
    "1e101",
    '"2020-01-01"',
    '""',
    '"NA"',
    '"a\\u0041"',
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud83d\\ude00"',
    '"\\u0000"',
    '"\\n"',
    '"\\""',
    '"\\x"',
    '"{}"',
    '"a',
    'b"',
    "[[1],2]",
    '{"z":1}',
    "nul",
    "'",
    '"',
    ",",
    "",
]
BYTES = b'{}[]":,\\ \t\r\n\x00\x01\x7f\xff\xefaN0-e.'


def columns_of(batch):
    """Return what a batch holds, as bytes and texts."""
    X = batch.X.toarray() if hasattr(batch.X, "toarray") else batch.X
    rows = None if X is None else X.tobytes()
    labels = None if batch.y is None else batch.y.tolist()
    return rows, labels, batch.good.tolist(), batch.dead, batch.records, batch.unknown


def lines_of(rng, count):
    """Return objects as text, most of them plain, with values, keys and bytes that are not."""
    lines = []
    for i in range(count):
        values = {f"x{j}": json.dumps(rng.gauss(0, 10.0 ** rng.randrange(-8, 9))) for j in range(3)}
        values |= {"colour": f'"{rng.choice("uvwé")}"', "id": str(i), "kind": f'"{"ab"[i % 2]}"'}
        for _ in range(rng.random() < 0.03):
            values[rng.choice([*values, "other"])] = rng.choice(VALUES)
        if rng.random() < 0.02:
            values.pop(rng.choice(list(values)))
        line = ("{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}").encode()
        if rng.random() < 0.01:
            at = rng.randrange(len(line))
            line = line[:at] + bytes(rng.choices(BYTES, k=rng.randrange(3))) + line[at + rng.randrange(2) :]
        lines.append(line)
    return lines


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("label", ["kind", None])
def test_lines_read_at_once_are_those_read_one_by_one(tmp_path, monkeypatch, seed, label):
    rng, path = random.Random(seed), tmp_path / "a.jsonl"
    good = lines_of(random.Random(99), 40)
    path.write_bytes(b"\n".join(good) + b"\n")
    stream = Source(str(path), Layout(label=label, drop=("id",), number=("x0", "x1", "x2"))).open()
    schema, _ = stream.schema, list(stream)
    at_once = 0
    for _ in range(300):
        data = b"\n".join(lines_of(rng, rng.randrange(1, 20))) + rng.choice([b"", b"\n", b"\r\n", b"\n\n"])
        part = Block(data, 0, 0, Place())
        at_once += json_lines._flat_objects(schema, data) is not None
        found = columns_of(json_lines.JSON_LINES.parse_lines(schema, part))
        with monkeypatch.context() as patched:
            patched.setattr(json_lines, "_flat_objects", lambda *_: None)
            assert columns_of(json_lines.JSON_LINES.parse_lines(schema, part)) == found, data
    assert 60 < at_once < 290


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("label", ["kind", None])
def test_decoded_objects_are_read_as_their_lines(tmp_path, monkeypatch, seed, label):
    rng, path = random.Random(seed), tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines_of(random.Random(99), 40)) + b"\n")
    stream = Source(str(path), Layout(label=label, drop=("id",), number=("x0", "x1", "x2"))).open()
    schema, _ = stream.schema, list(stream)
    monkeypatch.setattr(json_lines, "_flat_objects", lambda *_: None)
    bad = 0
    for _ in range(200):
        lines = []
        for line in lines_of(rng, rng.randrange(1, 20)):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                lines += [line] * isinstance(msgspec.json.decode(line), dict)
        objects = [msgspec.json.decode(line) for line in lines]
        found = json_lines.JSON_LINES.parse_objects(schema, objects)
        expected = json_lines.JSON_LINES.parse_lines(schema, Block(b"\n".join(lines), 0, 0, Place()))
        assert columns_of(found)[:3] == columns_of(expected)[:3], lines
        assert [one[::3] for one in found.dead] == [one[::3] for one in expected.dead]
        assert (found.records, found.unknown) == (expected.records, expected.unknown)
        bad += len(found.dead)
    assert bad


@pytest.mark.parametrize(
    "escape", ["u0041", "u0000", "ud800", "udc00", "ud83d\\ude00", "u007b", "n", "/", "\\", '"', "x"]
)
def test_escaped_characters_are_the_same_at_once_and_one_by_one(tmp_path, monkeypatch, escape):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines_of(random.Random(99), 40)) + b"\n")
    stream = Source(str(path), Layout(label="kind", drop=("id",), number=("x0", "x1", "x2"))).open()
    schema, _ = stream.schema, list(stream)
    at_once = 0
    plain = '{"x0": 1, "x1": 2, "x2": 3, "colour": "u", "id": 1, "kind": "a"}'
    for old, new in (('"u"', '"u%s"'), ('"a"', '"%sa"'), ('"id"', '"id%s"'), ("2,", '"%s",')):
        part = Block(plain.replace(old, new % f"\\{escape}").encode() + b"\n", 0, 0, Place())
        at_once += json_lines._flat_objects(schema, part.data) is not None
        found = columns_of(json_lines.JSON_LINES.parse_lines(schema, part))
        with monkeypatch.context() as patched:
            patched.setattr(json_lines, "_flat_objects", lambda *_: None)
            assert columns_of(json_lines.JSON_LINES.parse_lines(schema, part)) == found, part.data
    assert bool(at_once) == (escape not in ("ud800", "udc00", "x"))  # these are no text


def test_a_column_of_nested_objects_may_be_dropped(tmp_path):
    path = tmp_path / "a.jsonl"
    records = [{"id": i, "place": {"x": i % 7, "name": "n"}, "y": i / 2, "kind": "ab"[i % 2]} for i in range(50)]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    (batch,) = Source(str(path), Layout(label="kind", drop=("id", "place.name"), number=("place.x", "y"))).open()
    assert (batch.rows, batch.unknown) == (50, 0)
    np.testing.assert_array_equal(batch.X, [[one["place"]["x"], one["y"]] for one in records])


def test_zero_has_no_sign_however_it_is_written_and_read(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    zeros = ("-0", "-0.0", "0", "0.0", "-0e5", "1e-400", "-1e-400")
    path.write_text("".join(f'{{"x": {zeros[i % 7]}, "y": {i}, "kind": "{"ab"[i % 2]}"}}\n' for i in range(70)))
    layout = Layout(label="kind", number=("x",))
    for at_once in (True, False):
        stream = Source(str(path), layout).open()
        X = np.concatenate([batch.X for batch in stream])
        assert (json_lines._flat_objects(stream.schema, path.read_bytes()) is not None) == at_once
        assert len(X) == 70
        assert not np.signbit(X[:, 0]).any()
        monkeypatch.setattr(json_lines, "_flat_objects", lambda *_: None)


def test_lines_of_plain_objects_are_read_at_once(tmp_path):
    path, rng = tmp_path / "a.jsonl", np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    records = [{**{f"x{j}": x for j, x in enumerate(row)}, "kind": "ab"[i % 2]} for i, row in enumerate(X.tolist())]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    stream = Source(str(path), Layout(label="kind")).open()
    assert json_lines._flat_objects(stream.schema, path.read_bytes()) is not None
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in stream]), X)
