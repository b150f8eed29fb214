"""Quoted line breaks: one record wherever blocks end, and a stray quote never swallows what follows it."""

import csv
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
from kampong.streaming import Layout, Source, learn
from kampong.streaming.sources import blocks
from kampong.streaming.sources.blocks import Block, Blocks, Place
from kampong.streaming.sources.quoted_lines import joined_lines
from reference_quotes import records_of
from stream_problems import without_clock

PIECES = st.lists(st.sampled_from(['"', '""', ",", "\n", "\r\n", "a", "b c", ";"]), max_size=40).map("".join)


@given(PIECES)
def test_records_are_those_of_the_definition(text):
    data = text.encode() + b"\n"
    spans = joined_lines(data, b",", final=True).spans
    found = [record for _, _, record in Block(data, 0, 0, Place()).lines(spans)]
    assert found == [record for record in records_of(data) if record not in (b"", b"\r")]


@given(st.lists(st.lists(st.text('ab,\n\r" ;', max_size=8), min_size=2, max_size=3), min_size=1, max_size=8))
def test_what_python_writes_is_read_record_by_record(rows):
    import io

    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    data = file.getvalue().encode()
    spans = joined_lines(data, b",", final=True).spans
    assert [record for _, _, record in Block(data, 0, 0, Place()).lines(spans)] == records_of(data)
    assert len(records_of(data)) == len(rows)


def test_numbers_and_offsets_of_lines_count_the_lines_inside():
    data = b'1,a\n2,"b\n\nc"\n\n3,d\n4,"e\nf"\n5,g'
    spans = joined_lines(data, b",", final=True).spans
    lines = Block(data, 100, 7, Place()).lines(spans)
    assert lines == [
        (8, 100, b"1,a"),
        (9, 104, b'2,"b\n\nc"'),
        (13, 114, b"3,d"),
        (14, 118, b'4,"e\nf"'),
        (16, 126, b"5,g"),
    ]


def write_notes(path, rows=1200, *, stray=False):
    """Write records of two classes; the notes of every third hold line breaks, quotes and delimiters."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["x", "a\nname", "kind"])
        for i in range(rows):
            kind = int(rng.integers(2))
            words = f"word{kind} of {i}"
            note = f'{words}\n"quoted", and\n\nmore {"long " * int(rng.integers(30))}' if i % 3 == 0 else words
            writer.writerow([round(float(rng.normal() + kind), 3), note, "ab"[kind]])
            if stray and i % 100 == 50:
                file.write('7,"stray,a\n')
    return rows


@pytest.mark.parametrize("smallest", [64, 256, 4096])
@pytest.mark.parametrize("stray", [False, True])
def test_blocks_end_between_records(tmp_path, monkeypatch, smallest, stray):
    monkeypatch.setattr(blocks, "SMALLEST", smallest)
    monkeypatch.setattr(blocks, "LARGEST", 4 * smallest)
    write_notes(tmp_path / "a.csv", 300, stray=stray)
    data = (tmp_path / "a.csv").read_bytes()
    expected = records_of(data)
    found, at = [], 0
    for block in Blocks(str(tmp_path / "a.csv"), quoted=b","):
        assert block.offset == at
        found += records_of(block.data)
        at += len(block.data)
    assert at == len(data)
    assert found == expected
    command = "import sys; from kampong.streaming.sources import blocks\n"
    command += f"blocks.SMALLEST, blocks.LARGEST = {smallest}, {4 * smallest}\n"
    command += "print([block.offset for block in blocks.Blocks('-', quoted=b',')])"
    with (tmp_path / "a.csv").open("rb") as file:
        pipe = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        done = subprocess.run([sys.executable, "-c", command], stdin=pipe.stdout, capture_output=True, check=True)
        pipe.stdout.close()
        pipe.wait()
    offsets = [block.offset for block in Blocks(str(tmp_path / "a.csv"), quoted=b",")]
    assert eval(done.stdout) == offsets


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_every_record_is_learnt_and_a_stopped_run_ends_with_the_same_bits(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(blocks, "SMALLEST", 512)
    monkeypatch.setattr(blocks, "LARGEST", 2048)
    rows = write_notes(tmp_path / "a.csv")
    path = tmp_path / f"b.{ending}"
    with (tmp_path / "a.csv").open(newline="") as file, path.open("w", newline="") as other:
        csv.writer(other, delimiter="," if ending == "csv" else "\t", lineterminator="\r\n").writerows(csv.reader(file))
    source = Source(str(path), Layout(label="kind", text="a\nname"))
    for name, stops in (("whole", []), ("parts", [1, 2, 3, 1])):
        for size in [*stops, 10**9]:
            stop, batches = threading.Event(), []

            def watch(run, stop=stop, batches=batches, size=size):
                batches.append(run.counters.rows)
                if len(batches) == size:
                    stop.set()

            files = {"model_file": str(tmp_path / name), "out": str(tmp_path / f"{name}.csv")}
            run = learn(source, kampong.FisherDiscriminant(ridge=0.1), stop=stop, watch=watch, **files)
    assert (run.counters.rows, run.counters.dead) == (rows, 0)
    assert run.counters.accuracy > 0.9
    assert without_clock(tmp_path / "parts") == without_clock(tmp_path / "whole")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_stray_quote_costs_its_own_line(tmp_path):
    write_notes(tmp_path / "a.csv", stray=True)
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind", drop="a\nname"))
    batches = list(source.open())
    dead = [letter for batch in batches for letter in batch.dead]
    assert sum(batch.rows for batch in batches) == 1200
    assert [letter.text for letter in dead] == 12 * ['7,"stray,a']
    assert {letter.reason for letter in dead} == {"a quote is not closed in this line"}


def test_a_quote_without_an_end_is_given_up_after_many_lines(tmp_path):
    lines = ['1,"open,a', *(f"{i},text,{'ab'[i % 2]}" for i in range(3000))]
    (tmp_path / "a.csv").write_text("\n".join(["x,t,kind", *lines]) + "\n")
    batches = list(Source(str(tmp_path / "a.csv"), Layout(label="kind", drop="t")).open())
    assert sum(batch.rows for batch in batches) == 3000
    assert [letter.line for batch in batches for letter in batch.dead] == [2]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_the_delimiter_is_found(tmp_path, delimiter, header):
    rows = [["x", "y", "kind"]] if header else []
    rows += [[str(i % 7), f"{i}.5", "ab"[i % 2]] for i in range(30)]
    (tmp_path / "a.csv").write_text("\n".join(delimiter.join(row) for row in rows) + "\n")
    label = "kind" if header else "3"
    stream = Source(str(tmp_path / "a.csv"), Layout(label=label, header=header)).open()
    assert stream.schema.delimiter == delimiter
    (batch,) = list(stream)
    np.testing.assert_array_equal(batch.X, [[i % 7, i + 0.5] for i in range(30)])
    run = learn(
        Source(str(tmp_path / "a.csv"), Layout(label=label, header=header)),
        kampong.FisherDiscriminant(ridge=1.0),
        model_file=str(tmp_path / "m"),
    )
    assert run.counters.rows == 30


def test_decimal_commas_between_semicolons_are_not_columns(tmp_path):
    (tmp_path / "a.csv").write_text('x;"y, z";kind\n1;"a, b";u\n2;"c; d";v\n3;e;u\n')
    stream = Source(str(tmp_path / "a.csv"), Layout(label="kind")).open()
    assert (stream.schema.delimiter, stream.schema.columns) == (";", ("x", "y, z", "kind"))
    assert next(iter(stream)).rows == 3
