"""Words among numbers are values if they come back often, else mistakes; 64 KiB show it, not a first block."""

import json
import threading

import numpy as np
import pytest

from command import call
from kampong import FisherDiscriminant
from kampong.files import CheckpointError, read
from kampong.files import write as write_file
from kampong.files.contents import to_lines
from kampong.streaming import Layout, Source, learn
from kampong.streaming.columns.text_hashing import murmur
from kampong.streaming.inspection import describe, merge_files
from servers import facts_of
from stream_problems import without_clock

WIDTH = 64


def rows_of(count=400, seed=0):
    """Return hours, a second column, and a label that the words among the hours decide."""
    rng = np.random.default_rng(seed)
    hours = rng.choice(["<1", "1", "2", "3", "5+", ""], count)
    noise = rng.normal(size=count).round(4)
    labels = np.where((hours == "<1") | (hours == "5+"), "far", "near")
    return hours, noise, labels


def write(path, hours, noise, labels):
    """Write the rows as CSV, or as JSON lines with numbers where the cells hold some."""
    if path.suffix == ".csv":
        lines = [",".join(map(str, row)) for row in zip(hours, noise, labels, strict=True)]
        path.write_text("hours,noise,label\n" + "\n".join(lines) + "\n")
        return path
    records = [
        {"hours": int(hour) if hour.isdigit() else hour or None, "noise": float(more), "label": label}
        for hour, more, label in zip(hours, noise, labels, strict=True)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_word_is_a_hashed_value_and_a_missing_number(tmp_path, suffix):
    hours, noise, labels = rows_of()
    path = write(tmp_path / f"hours{suffix}", hours, noise, labels)
    stream = Source(str(path), Layout(label="label", hash_width=WIDTH)).open()
    schema, found = stream.schema, [(batch.X.toarray(), batch.dead) for batch in stream]
    X = np.concatenate([rows for rows, _ in found])
    assert not any(dead for _, dead in found)
    assert schema.worded == ("hours",)
    expected = np.zeros((len(hours), WIDTH))
    for i, hour in enumerate(hours.tolist()):
        if hour in ("<1", "5+"):
            token = np.frombuffer(f"hours={hour}".encode(), dtype=np.uint8)
            expected[i, murmur(token, 0, len(token)) % 2**32 % WIDTH] = 1.0
    numbers = np.array([float(hour) if hour.isdigit() else np.nan for hour in hours])
    np.testing.assert_array_equal(X[:, 0], numbers)
    np.testing.assert_array_equal(X[:, 1], noise)
    np.testing.assert_array_equal(X[:, -WIDTH:], expected)


def test_words_are_learnt_said_and_can_be_refused(tmp_path, capfd):
    path = write(tmp_path / "hours.csv", *rows_of())
    model = tmp_path / "hours.kampong"
    said = "".join(call(capfd, "learn", path, "--label", "label", "--model", model))
    assert "with words as values: hours" in said
    assert "column hours: the words among its numbers are values too ('<1', '5+')" in said or (
        "column hours: the words among its numbers are values too ('5+', '<1')" in said
    )
    assert "--as number:hours" in said
    assert "dead letters in" not in said
    scored = call(capfd, "score", path, "--model", model).out
    accuracy = next(line for line in scored.splitlines() if line.startswith("accuracy"))
    assert float(accuracy.split()[1]) > 0.97  # a number alone cannot tell <1 from 1, nor 5+ from a missing one
    refused = "--model", tmp_path / "numbers.kampong", "--as", "number:hours"
    said = "".join(call(capfd, "learn", path, "--label", "label", *refused))
    assert "column 'hours' holds" in said
    assert "which is not a number" in said


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["oops"] * 20, True),
        (["oops", "ouch"] * 10, True),
        (["oops"] * 19, False),  # below 5 % of 400
        ([f"oops {i}" for i in range(40)], False),
    ],
)
def test_only_words_that_come_back_often_are_values(tmp_path, words, values):
    hours, noise, labels = rows_of()
    hours = np.where(np.isin(hours, ["<1", "5+", ""]), "4", hours).astype("<U9")
    hours[10 : 10 + len(words)] = words
    path = write(tmp_path / "hours.csv", hours, noise, labels)
    result = learn(Source(str(path), Layout(label="label")), FisherDiscriminant(), model_file=str(tmp_path / "m"))
    assert result.counters.dead == (0 if values else len(words))
    assert result.schema.worded == (("hours",) if values else ())


def test_stopped_merged_and_applied_it_is_one_model(tmp_path, capfd):
    path = write(tmp_path / "hours.csv", *rows_of(3000))
    source, stop = Source(str(path), Layout(label="label")), threading.Event()
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "whole"))
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "parts"), watch=lambda _: stop.set(), stop=stop)
    assert 0 < facts_of(tmp_path / "parts")["counters.records"] < 3000
    learn(source, FisherDiscriminant(), model_file=str(tmp_path / "parts"))
    assert without_clock(tmp_path / "parts") == without_clock(tmp_path / "whole")
    merge_files([str(tmp_path / "whole"), str(tmp_path / "parts")], str(tmp_path / "twice"))
    whole, twice = (call(capfd, "predict", path, "--model", tmp_path / name).out for name in ("whole", "twice"))
    assert len(whole.splitlines()) == 3001
    assert [line.split(",")[:2] for line in whole.splitlines()] == [line.split(",")[:2] for line in twice.splitlines()]


def test_a_model_file_that_lies_about_words_is_refused(tmp_path):
    path = write(tmp_path / "hours.csv", *rows_of())
    learn(Source(str(path), Layout(label="label")), FisherDiscriminant(), model_file=str(tmp_path / "m"))
    arrays, facts = read(tmp_path / "m")
    for words in (("noise",), ("minutes",), ("hours", "hours"), ()):
        write_file(tmp_path / "m", arrays | {"stream.schema.worded": to_lines(words)}, facts)
        with pytest.raises(CheckpointError, match=r"worded|hash_width"):
            describe(str(tmp_path / "m"))


def test_words_among_whole_labels_are_classes(tmp_path):
    rng = np.random.default_rng(1)
    labels = rng.choice(["8", "9", "10+", "<5"], 300)
    values = np.array([{"8": 0.0, "9": 3.0, "10+": 6.0, "<5": 9.0}[one] for one in labels]) + rng.normal(size=300) / 9
    path = tmp_path / "sleep.csv"
    lines = [f"{value:.5f},{label}" for value, label in zip(values, labels, strict=True)]
    path.write_text("value,label\n" + "\n".join(lines) + "\n")
    result = learn(Source(str(path), Layout(label="label")), FisherDiscriminant())
    assert (result.counters.rows, result.counters.dead) == (300, 0)
    assert result.counters.correct > 270


@pytest.mark.parametrize("kind", [".csv", "_with_a_header_of_5_KB.csv", ".jsonl", ".parquet"])
def test_more_than_the_first_block_shows_what_the_columns_are(tmp_path, kind):
    """Names are told from categories, and the values of a column from mistakes, by 64 KB and not by a first block."""
    rng = np.random.default_rng(2)
    count = 300
    names = [f"person {i:06d}" for i in range(count)]
    hours = np.where(np.arange(count) < 150, "4", rng.choice(["2", "5+"], count))
    values, labels = rng.normal(size=count), rng.choice(["a", "b"], count)
    path = tmp_path / f"people{kind}"
    value = "value" * (1000 if "header" in kind else 1)
    columns = {"name": names, "hours": hours.tolist(), value: values.tolist(), "label": labels.tolist()}
    if kind == ".parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").table(columns), path)
    elif kind.endswith(".csv"):
        rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        path.write_text(",".join(columns) + "\n" + "\n".join(rows) + "\n")
    else:
        records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        records = [{**record, "hours": int(record["hours"].rstrip("+"))} if record["hours"] != "5+" else record
                   for record in records]  # fmt: skip
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    stream = Source(str(path), Layout(label="label")).open()
    schema, batches = stream.schema, list(stream)
    assert schema.left_out == ("name",)
    assert schema.worded == (("hours",) if kind != ".parquet" else ())
    assert schema.categories == (() if kind != ".parquet" else ("hours",))
    assert sum(batch.rows for batch in batches) == count
    assert len(batches) > 1  # the blocks themselves stay small
