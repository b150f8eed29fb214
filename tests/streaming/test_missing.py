"""Numbers that are missing: the mean so far takes their place, a column says so where it is frequent, predict too."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

import kampong
from command import call
from kampong.streaming import Layout, Source, learn
from kampong.streaming.columns.column_memory import Memory
from kampong.streaming.columns.schema import infer

NAMES = ("u", "v", "w", "kind")


def rows_with_gaps(rows=900, share=0.2, seed=0):
    """Return rows of two classes; `u` and `v` often have gaps, where `v` is missing the class is mostly "b"."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = np.round(rng.normal(size=(rows, 3)) + 1.5 * y[:, None], 3)
    X[rng.random(rows) < share, 0] = np.nan
    X[rng.random(rows) < np.where(y == 1, 2 * share, 0.1 * share), 1] = np.nan
    return X, np.array(["a", "b"])[y]


def write_rows(path, X, y):
    values = [["" if value != value else repr(value) for value in row] for row in X.tolist()]
    path.write_text(
        "\n".join([",".join(NAMES), *(",".join([*row, k]) for row, k in zip(values, y, strict=True))]) + "\n"
    )


def naive(X, sizes):
    """Return what each batch looks like by the definition: means over everything up to the end of the batch."""
    done, start = [], 0
    for size in sizes:
        seen, block = X[: start + size], X[start : start + size].copy()
        for j in range(X.shape[1]):
            there = seen[~np.isnan(seen[:, j]), j]
            block[np.isnan(block[:, j]), j] = there.mean() if len(there) else 0.0
        done.append(block)
        start += size
    return np.concatenate(done)


def test_what_is_missing_becomes_the_mean_so_far_and_has_a_column_where_it_is_frequent(tmp_path):
    X, y = rows_with_gaps()
    write_rows(tmp_path / "a.csv", X, y)
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind"))
    stream = source.open()
    assert stream.schema.indicated == ("u", "v")
    assert stream.schema.summary() == (
        "columns: 3 number (u, v, w), with a column where missing: u, v; label kind (string)"
    )
    memory, batches = Memory(stream.schema, grows=True), []
    for batch in stream:
        before = batch.X.copy()
        batches.append(memory.take(batch))
        np.testing.assert_array_equal(batch.X, before)  # what was read stays as it is
    found = np.concatenate([batch.X for batch in batches])
    np.testing.assert_allclose(found[:, :3], naive(X, [batch.rows for batch in batches]), rtol=1e-12)
    np.testing.assert_array_equal(found[:, 3:], np.isnan(X[:, :2]))
    assert sum(batch.filled for batch in batches) == np.isnan(X).sum()
    np.testing.assert_allclose(memory.means, np.nanmean(X, axis=0), rtol=1e-12)
    np.testing.assert_array_equal(memory.counts, (~np.isnan(X)).sum(axis=0))
    assert [memory.name_of(j)[0] for j in range(5)] == ["u", "v", "w", "u is missing", "v is missing"]


def test_sparse_rows_are_filled_as_dense_ones_are(tmp_path):
    X, y = rows_with_gaps(300)
    write_rows(tmp_path / "a.csv", X, y)
    found = {}
    for name, more in (("dense", {"drop": "w"}), ("sparse", {"category": "w", "hash_width": 8})):
        stream = Source(str(tmp_path / "a.csv"), Layout(label="kind", missing="mean", **more)).open()
        memory = Memory(stream.schema, grows=True)
        parts = [memory.take(batch).X for batch in stream]
        found[name] = np.concatenate([part if name == "dense" else part.toarray() for part in parts])[:, :2]
    np.testing.assert_allclose(found["sparse"], found["dense"], rtol=1e-12)


def test_the_formats_agree_on_what_is_missing(tmp_path):
    X, y = rows_with_gaps(60)
    write_rows(tmp_path / "a.csv", X, y)
    records = [
        {**{n: v for n, v in zip(NAMES, row, strict=False) if v == v}, "kind": k}
        for row, k in zip(X.tolist(), y.tolist(), strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")  # absent keys
    columns = {n: [None if v != v else v for v in X[:, j].tolist()] for j, n in enumerate(NAMES[:3])}
    pq.write_table(pa.table({**columns, "kind": y}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        stream = Source(str(tmp_path / name), Layout(label="kind")).open()
        assert stream.schema.indicated == ("u", "v")
        rows = {name: j for j, name in enumerate(stream.schema.numbers)}
        (batch,) = list(stream)
        np.testing.assert_array_equal(batch.X[:, [rows[n] for n in NAMES[:3]]], X)
        assert batch.rows == 60


def test_predict_fills_in_what_learning_has_seen(tmp_path, capfd):
    X, y = rows_with_gaps()
    write_rows(tmp_path / "a.csv", X, y)
    call(capfd, "learn", tmp_path / "a.csv", "--label", "kind", "-m", tmp_path / "m", "-q")
    test = np.array([[0.3, np.nan, 1.0], [np.nan, 2.0, np.nan], [np.nan, np.nan, np.nan], [1.0, 1.0, 1.0]])
    write_rows(tmp_path / "new.csv", test, "abab")
    call(capfd, "project", tmp_path / "new.csv", "-m", tmp_path / "m", "-o", tmp_path / "p.csv")
    means = np.nanmean(X, axis=0)
    filled = np.hstack([np.where(np.isnan(test), means, test), np.isnan(test[:, :2])])
    points = np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1, ndmin=2)[:, 1:]
    np.testing.assert_allclose(points, kampong.load(tmp_path / "m").transform(filled), rtol=1e-9)


def test_missing_values_that_tell_the_class_are_learnt(tmp_path):
    X, y = rows_with_gaps(2000, share=0.4)
    X[:, [0, 2]] = 0.0  # only `v` and its gaps say anything
    write_rows(tmp_path / "a.csv", X, y)
    found = {}
    for missing in ("auto", "mean"):
        source = Source(str(tmp_path / "a.csv"), Layout(label="kind", missing=missing))
        found[missing] = learn(source, kampong.FisherDiscriminant(ridge=0.1)).counters.accuracy
    assert found["auto"] > found["mean"] + 0.03


def test_the_policy_dead_sets_records_aside_and_many_are_said_loudly(tmp_path, capfd):
    X, y = rows_with_gaps(200)
    write_rows(tmp_path / "a.csv", X, y)
    command = ("learn", tmp_path / "a.csv", "--label", "kind")
    said = call(capfd, *command, "-m", tmp_path / "m", "--missing", "dead").err
    dead = int(np.isnan(X).any(axis=1).sum())
    letters = tmp_path / "m.dead.jsonl"
    first = json.loads(letters.read_text().splitlines()[0])["reason"]
    assert (
        f"WARNING: {dead} of 200 records ({dead / 200:.0%}) could not be used; see {letters}. The first one: " in said
    )
    assert first in said
    assert "is empty" in first
    assert "WARNING" not in call(capfd, *command, "-m", tmp_path / "q", "--missing", "dead", "-q").err
    said = call(capfd, *command, "-m", tmp_path / "n").err
    assert "WARNING" not in said
    assert f"{np.isnan(X).sum()} missing numbers were filled in with the means of their columns." in said
    assert "columns: 3 number (u, v, w), with a column where missing: u, v; label kind (string)\n" in said
    said = call(capfd, "predict", tmp_path / "a.csv", "-m", tmp_path / "m", "-o", tmp_path / "p.csv").err
    assert f"WARNING: {dead} of 200 records" in said
    assert (
        "--missing 'no' is unknown. Use auto, mean, dead."
        in call(capfd, *command, "-m", tmp_path / "x", "--missing", "no", expect=2).err
    )


def test_json_keys_that_are_no_columns_are_ignored_and_counted(tmp_path, capfd):
    X, y = rows_with_gaps(80)
    lines = [json.dumps({"w": w, "kind": k}) for w, k in zip(X[:, 2].tolist(), y.tolist(), strict=True)]
    lines[50] = lines[50].replace("{", '{"later": [1, {"deep": 2}], ')
    lines[60] = '{"kind": "a", "w": "oops", "later": 1}'
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    said = call(capfd, "learn", tmp_path / "a.jsonl", "--label", "kind", "-m", tmp_path / "m").err
    assert "1 records had keys that are no columns; these keys were ignored." in said
    run = learn(str(tmp_path / "a.jsonl"), kampong.FisherDiscriminant(), label="kind")
    assert (run.counters.rows, run.counters.dead, run.counters.unknown) == (79, 1, 1)


@pytest.mark.parametrize("values", [["1.5", "2.25", "3", "4.125"], [0.5, 1.25, 2.0, 8.0]])
def test_a_continuous_target_is_refused(values):
    columns = {"x": [1, 2, 3, 4], "price": values}
    with pytest.raises(ValueError, match=r"holds numbers with fractions .* which is a continuous target") as raised:
        infer(Layout(label="price"), "csv", list(columns), columns, "a.csv")
    assert "cut the target into classes first" in str(raised.value)
    infer(Layout(label="price"), "csv", list(columns), columns, "a.csv", classes=["1.5", "2.25"])
    whole = {**columns, "price": ["1.0", "2", "3", "4"] * 5 + ["2.5"]}
    infer(Layout(label="price"), "csv", list(columns), {**whole, "x": [1] * 21}, "a.csv")  # one broken label is dead


def test_numbers_with_a_decimal_comma_are_numbers(tmp_path, capfd):
    """As categories they would be learnt as words, and the accuracy would be that of guessing."""
    lines = [f"{i % 7},5;{i % 3};{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "a.csv").write_text("amount;rate;kind\n" + "\n".join(lines) + "\n")
    command = ("learn", tmp_path / "a.csv", "--label", "kind", "-m", tmp_path / "m")
    assert "2 number (amount, rate), decimal comma; label kind" in call(capfd, *command).err
    (tmp_path / "m").unlink()
    assert "1 category (amount)" in call(capfd, *command, "--category", "amount").err
    columns = {"x": ["1,5", "a", "b", "c", "d"], "y": ["a", "b"] * 2 + ["a"]}  # one of many is a number
    assert infer(Layout(label="y"), "csv", ["x", "y"], columns, "a.csv").categories == ("x",)


def test_several_columns_are_dropped_at_once(tmp_path, capfd):
    X, y = rows_with_gaps(80)
    write_rows(tmp_path / "a.csv", X, y)
    command = ("learn", tmp_path / "a.csv", "--label", "kind", "-m")
    said = call(capfd, *command, tmp_path / "m", "--drop", "u, v").err
    assert "columns: 1 number (w), 2 dropped (u, v); label kind (string)" in said
    assert "no column is named 'x,y'" in call(capfd, *command, tmp_path / "n", "--drop", '"x,y",u', expect=2).err


def table(tmp_path, header, rows):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_columns_that_look_like_no_feature_are_named_at_the_start(tmp_path, capfd):
    rows = [
        f"C{i:04},2024-{1 + i % 12:02}-{1 + i % 28:02},{i + 1},{'red' if i % 3 else 'blue'},{i % 7 * 0.5},{'ab'[i % 2]}"
        for i in range(60)
    ]
    path = table(tmp_path, "customer,joined,number,colour,size,label", rows)
    printed = call(capfd, "learn", path, "--label", "label", "-m", tmp_path / "m")
    said = [line for line in printed.err.splitlines() if line.startswith("WARNING: column")]
    assert said == [
        "WARNING: column customer: nearly every record has a value of its own (C0000, C0001, …), so it is left out. "
        "--as text:customer learns from its words, --as category:customer from its values.",
        "WARNING: column number: its numbers name the rows (1, 2, …), so it is left out. Keep it with --as "
        "number:number.",
    ]
    assert "1 date (joined: ymd)" in printed.err
    more = ["--drop", "customer,number", "--category", "joined"]
    printed = call(capfd, "learn", path, "--label", "label", "-m", tmp_path / "n", *more)
    assert "WARNING" not in printed.err


@pytest.mark.parametrize("column", ["colour", "price", "note"])
def test_ordinary_columns_are_not_named(tmp_path, capfd, column):
    values = {"colour": "red", "price": "{}", "note": "seen {}"}
    rows = [f"{values[column].format(i // 2)},{i % 5},{'ab'[i % 2]}" for i in range(60)]
    path = table(tmp_path, f"{column},size,label", rows)
    printed = call(capfd, "learn", path, "--label", "label", "-m", tmp_path / "m")
    assert "WARNING" not in printed.err
