"""Sources: every format gives the same rows, bad records are found and said why, and no good one is lost."""

import dataclasses
import gzip
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction.text import HashingVectorizer

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow as pa
import pyarrow.parquet as pq

from kampong.files import CheckpointError, Contents
from kampong.files.contents import flatten
from kampong.streaming.columns.schema import Layout, Schema
from kampong.streaming.errors import ColumnError, SourceError
from kampong.streaming.formats.delimited import CSV
from kampong.streaming.formats.libsvm import LIBSVM
from kampong.streaming.model_file import read_model
from kampong.streaming.sources.blocks import Block, Place
from kampong.streaming.sources.source import Source
from reference_quotes import records_of
from stream_problems import points_of_many_sizes, write_csv, write_tables


def read(path, **options):
    """Return all rows, labels, dead letters, and the number of records."""
    batches = list(Source(str(path), Layout(**options)).open())
    good = [batch for batch in batches if batch.rows]
    X = [batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray() for batch in good]
    dead = [letter for batch in batches for letter in batch.dead]
    records = sum(batch.records for batch in batches)
    assert sum(batch.rows for batch in batches) + len(dead) == records
    return np.vstack(X), np.concatenate([batch.y for batch in good]), dead, records


@pytest.fixture
def table():
    return points_of_many_sizes()


def test_every_format_gives_the_same_rows(table, tmp_path):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    write_csv(tmp_path / "a.csv.gz", X, y, opener=gzip.open)
    write_csv(tmp_path / "a.tsv", X, y, delimiter="\t")
    arrow = write_tables(tmp_path, X, y)
    with pa.CompressedOutputStream(str(tmp_path / "a.csv.zst"), "zstd") as file:
        file.write((tmp_path / "a.csv").read_bytes())
    lines = [
        json.dumps({**{f"x{j}": float(v) for j, v in enumerate(row)}, "label": c}) for row, c in zip(X, y, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as file, pa.ipc.new_stream(file, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=900)
    names = ["a.csv", "a.csv.gz", "a.csv.zst", "a.tsv", "a.jsonl", "a.parquet", "folder", "a.arrow", "b.arrow"]
    for name in names:
        rows, labels, dead, records = read(tmp_path / name, label="label")
        np.testing.assert_array_equal(rows, X, err_msg=name)
        np.testing.assert_array_equal(labels, y, err_msg=name)
        assert not dead
        assert records == 3000


def test_without_a_header_columns_are_numbered(table, tmp_path):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y, header=False)
    rows, labels, _, _ = read(tmp_path / "a.csv", label="5", header=False)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize("zero_based", [False, True])
def test_libsvm_agrees_with_scikit_learn(tmp_path, zero_based):
    rng = np.random.default_rng(1)
    X = sparse.csr_array(rng.random((2000, 300)) < 0.05).astype(float)
    X.data = rng.normal(size=X.nnz) * 10.0 ** rng.integers(-30, 30, size=X.nnz)
    y = rng.integers(-3, 9, size=2000)
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=zero_based)
    theirs, labels = load_svmlight_file(str(tmp_path / "a.svm"), n_features=300, zero_based=zero_based)
    rows, mine, dead, _ = read(tmp_path / "a.svm", max_features=300, zero_based=zero_based)
    np.testing.assert_array_equal(rows, theirs.toarray())
    np.testing.assert_array_equal(mine, labels)
    assert not dead


@given(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100).map(repr),
        st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
        st.from_regex(r"[+-]?\.[0-9]{1,25}", fullmatch=True),
    )
)
def test_libsvm_numbers_are_rounded_as_python_does(text):
    data = f"1 1:{text}\n".encode()
    batch = LIBSVM.parse(Schema("libsvm", width=1, label="label", label_kind="integer"), Block(data, 0, 0, Place()))
    value = float(text)
    if abs(value) > 1e100:
        assert len(batch.dead) == 1
    else:
        assert batch.X[0, 0] == value


def test_many_libsvm_numbers_are_rounded_as_python_does():
    rng = np.random.default_rng(0)
    texts = []
    for digits, power in zip(rng.integers(1, 22, 20_000), rng.integers(-30, 30, 20_000), strict=True):
        mantissa = "".join(map(str, rng.integers(0, 10, digits)))
        texts.append(f"{mantissa[:1]}.{mantissa[1:]}e{power}")
    texts += [repr(value) for value in rng.random(5000).tolist()]
    data = "".join(f"1 1:{text}\n" for text in texts).encode()
    batch = LIBSVM.parse(Schema("libsvm", width=1, label="label", label_kind="integer"), Block(data, 0, 0, Place()))
    np.testing.assert_array_equal(batch.X[:, 0], [float(text) for text in texts])


@given(st.binary(max_size=60).filter(lambda data: b"\n" not in data))
def test_libsvm_never_accepts_what_python_would_not(data):
    schema = Schema("libsvm", width=9, label="label", label_kind="integer")
    batch = LIBSVM.parse(schema, Block(b"1 " + data + b"\n", 0, 0, Place()))
    assert batch.records == 1
    if batch.rows:
        pairs = [
            part.split(b":") for part in data.split(b"#")[0].replace(b"\t", b" ").strip(b"\r \t").split(b" ") if part
        ]
        dense = np.zeros(9)
        for index, value in pairs:
            dense[int(index) - 1] = float(value)
        np.testing.assert_array_equal(batch.X[0], dense)


BAD_LIBSVM = {
    "1 0:1": "index 0",
    "1 10:1": "above --max-features 9",
    "1 2000000000:1": "above --max-features 9",
    "1 99999999999999999999999:1": "above --max-features 9",
    "1 3:1 2:1": "do not ascend",
    "1 3:1 3:1": "do not ascend",
    "1 3:": "not a number",
    "1 3:1x": "not a number",
    "1 3:nan": "not a number",
    "1 3:1e200": "1e+100",
    "1 3": "expected index:value",
    "1 -3:1": "expected index:value",
    "1 3 :1": "expected index:value",
    "1 3x:1": "not a whole number",
    "1,2 3:1": "label",
    "a 3:1": "label",
    "1.5 3:1": "1.5 is not a whole number",
    "1 qid:3 3:1": "expected index:value",
    "1 3:1\x002": "not a number",
}


def test_bad_libsvm_lines_say_why(tmp_path):
    good = ["1 1:2 # a comment", "2 9:1e-3\r", "", "# only a comment", "-1"]
    (tmp_path / "a.svm").write_text("\n".join(["1 1:2", *BAD_LIBSVM, *good]) + "\n", newline="")
    rows, labels, dead, records = read(tmp_path / "a.svm", max_features=9)
    assert len(rows) == 4
    assert labels.tolist() == [1, 1, 2, -1]
    assert records == 4 + len(BAD_LIBSVM)
    for line, (letter, (text, reason)) in enumerate(zip(dead, BAD_LIBSVM.items(), strict=True), 2):
        assert (letter.line, letter.text) == (line, text)
        assert reason in letter.reason


BAD_CSV = {
    "1,2": "2 columns, where 3",
    "1,2,a,4": "4 columns, where 3",
    "1,x,a": "'x', which is not a number",
    "1,0x10,a": "not a number",
    "1,1_0,a": "not a number",
    "1,,a": "column 'y' is empty",
    "nan,2,a": "column 'x'",
    "inf,2,a": "column 'x' holds inf",
    "1,-Infinity,a": "column 'y' holds -inf",
    "1,1e400,a": "column 'y' holds inf",
    "1,1e200,a": "1e+200, above",
    "1,2,": "the label 'kind' is empty",
    '1,2,"a': "a quote is not closed",
    '1,b"2,"a': "a quote is not closed",
    "1,2\0,a": "NUL",
    "1,2,a\rb": "carriage return",
    "1,2," + "z" * 300: "300 characters",
}


def test_bad_csv_lines_say_why_and_no_good_one_is_lost(tmp_path):
    good = ["1,2,a", "3,4.5e-1,b", '" 5 ",.5,"a"', "+6,7.,b\r"]
    for bad in [*([text] for text in BAD_CSV), list(BAD_CSV)]:  # each alone, and all in one block
        lines = ["x,y,kind", good[0], *bad, "", good[1], *good[2:]]
        (tmp_path / "a.csv").write_bytes("\n".join(lines).encode())
        rows, labels, dead, records = read(tmp_path / "a.csv", label="kind", missing="dead")
        np.testing.assert_array_equal(rows, [[1, 2], [3, 0.45], [5, 0.5], [6, 7]])
        assert labels.tolist() == ["a", "b", "a", "b"]
        assert records == 4 + len(bad)
        assert [letter.line for letter in dead] == [3 + i for i in range(len(bad))]
        for letter, text in zip(dead, bad, strict=True):
            assert BAD_CSV[text] in letter.reason, text
            offset = len("\n".join(lines[: letter.line - 1]).encode()) + 1
            assert letter.offset == offset


def test_invalid_utf8_is_a_dead_letter(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"x,kind\n1,a\n2,\xff\xfe\n3,b\n\xff,b\n4,\xc3\xa9\n")
    rows, labels, dead, _ = read(tmp_path / "a.csv", label="kind")
    assert rows.ravel().tolist() == [1, 3, 4]
    assert labels.tolist() == ["a", "b", "é"]
    assert ["UTF-8" in letter.reason for letter in dead] == [True, True]


def test_a_long_quoted_field_is_read(tmp_path):
    lines = ["x,note,kind", '1,"' + "word " * 60_000 + '",a', '2,"b",b', '3,"' + "c" * 300_000 + '",a']
    for bad in ([], ["oops"]):
        (tmp_path / "a.csv").write_text("\n".join([*lines, *bad, lines[1]]))
        rows, _, dead, _ = read(tmp_path / "a.csv", label="kind", drop=("note",))
        assert rows.ravel().tolist() == [1, 2, 3, 1]
        assert len(dead) == len(bad)


def test_a_quoted_newline_never_shifts_a_column(tmp_path):
    (tmp_path / "a.csv").write_text('x,note,kind\n1,"one\ntwo",a\n2,"b, c",b\n3,"""q""",a\n4,"u\nv,w",b\n')
    rows, labels, dead, records = read(tmp_path / "a.csv", label="kind", drop=("note",))
    assert rows.ravel().tolist() == [1, 2, 3, 4]
    assert labels.tolist() == ["a", "b", "a", "b"]
    assert records == 4
    assert not dead


FIELDS = st.sampled_from(["1", "2.5", "", "a", '"b"', '"q,r"', '"u\nv"', '"u\r\n\nv"', '"s""t"', '"', 'x"y', '"z\n'])
LINES = st.lists(FIELDS, min_size=2, max_size=4).map(",".join)


@given(st.lists(st.text(st.sampled_from('12.,"ab\r\0e- '), max_size=12) | LINES, min_size=1, max_size=12))
def test_a_block_is_read_as_its_records_one_by_one(lines):
    """The fast way over a block and the careful one, record by record, agree on every record."""
    schema = Schema("csv", ("x", "c", "k"), ("x",), ("c",), label="k", hash_width=8, width=9, sparse=True)
    data = "\n".join(lines).encode() + b"\n"
    whole = CSV.parse(schema, Block(data, 0, 0, Place()))
    alone = [CSV.parse(schema, Block(record + b"\n", 0, 0, Place())) for record in records_of(data)]
    assert whole.records == sum(batch.records for batch in alone)
    assert [letter.reason for letter in whole.dead] == [letter.reason for batch in alone for letter in batch.dead]
    rows = [batch.X.toarray() for batch in alone if batch.rows]
    if whole.rows:
        np.testing.assert_array_equal(whole.X.toarray(), np.vstack(rows))
        assert whole.y.tolist() == [label for batch in alone if batch.rows for label in batch.y.tolist()]
    else:
        assert not rows


BAD_JSON = {
    '{"x": 1, "k": "a"}': "missing required field `y`",
    '{"x": 1, "y": "2", "k": "a"}': "$.y",
    '{"x": 1, "y": null, "k": "a"}': "column 'y' is empty",
    '{"x": 1, "y": 2, "k": null}': "label 'k' is empty",
    '{"x": 1, "y": 2, "k": "a", "z": 3}': "unknown field `z`",
    '{"x": 1, "y": [2], "k": "a"}': "array",
    '{"x": 1, "y": 1e999, "k": "a"}': "not a record",
    '{"x": 1, "y": NaN, "k": "a"}': "not a record",
    "[1, 2]": "not a record",
    "nonsense": "not a record",
    '{"x": 1, "y": 2, "k": "a"} {}': "not a record",
}


def test_bad_json_lines_say_why(tmp_path):
    good = ['{"x": 1, "y": 2.5, "k": "a"}', '{"k": "b", "y": true, "x": -3}'] * 9
    (tmp_path / "a.jsonl").write_text("\n".join([*good, *BAD_JSON, ""]))
    rows, labels, dead, records = read(tmp_path / "a.jsonl", label="k", missing="dead")
    np.testing.assert_array_equal(rows, [[1, 2.5], [-3, 1]] * 9)
    assert labels.tolist() == ["a", "b"] * 9
    assert records == 18 + len(BAD_JSON)
    for letter, (text, reason) in zip(dead, BAD_JSON.items(), strict=True):
        assert letter.text == text
        assert reason in letter.reason


def test_bad_rows_of_a_table_are_dead_letters(tmp_path):
    table = pa.table(
        {"x": [1.0, None, float("nan"), 4.0], "k": ["a", "b", "a", None], "flag": [True, False, True, True]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows, labels, dead, records = read(tmp_path / "a.parquet", label="k", missing="dead")
    np.testing.assert_array_equal(rows, [[1.0, 1.0]])
    assert (labels.tolist(), records, [letter.line for letter in dead]) == (["a"], 4, [2, 3, 4])


def test_words_and_categories_are_hashed(tmp_path):
    texts = ["the cat sat", "a dog", "", "the dog"]
    lines = [f'{i},"{text}",{kind},{"ab"[i % 2]}' for i, (text, kind) in enumerate(zip(texts, "uvuv", strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(["n,words,kind,label", *lines]))
    rows, _, _, _ = read(tmp_path / "a.csv", label="label", text=("words",), hash_width=64)
    assert rows.shape == (4, 65)
    np.testing.assert_array_equal(rows[:, 0], range(4))
    words = HashingVectorizer(n_features=64).transform(texts).toarray()
    categories = rows[:, 1:] - words
    np.testing.assert_allclose(categories.sum(axis=1), 1.0)
    np.testing.assert_array_equal(categories[0], categories[2])
    assert not np.array_equal(categories[0], categories[1])


def test_an_undeclared_class_is_a_dead_letter(tmp_path):
    (tmp_path / "a.csv").write_text("x,k\n1,0\n2,1\n3,7\n4,1.0\n5,x\n6,1.5\n")
    batch = next(iter(Source(str(tmp_path / "a.csv"), Layout(label="k")).open(classes=["0", "1"])))
    assert batch.y.tolist() == [0, 1, 1]
    assert [letter.line for letter in batch.dead] == [4, 6, 7]


def test_a_wrong_column_name_brings_the_nearest(tmp_path):
    (tmp_path / "a.csv").write_text("length,species\n1,a\n2,b\n")
    with pytest.raises(ColumnError, match=r"no column is named 'specie'\. Did you mean 'species'"):
        Source(str(tmp_path / "a.csv"), Layout(label="specie")).open()
    with pytest.raises(ColumnError, match=r"--text: no column is named 'Length'\. Did you mean 'length'"):
        Source(str(tmp_path / "a.csv"), Layout(label="species", text=("Length",))).open()


def test_schemas_survive_a_model_file():
    schema = Schema("csv", ("a", "b"), ("a",), label="b", width=1, classes=("u", "v"))
    arrays, facts = flatten(schema.to_state())
    assert Schema.from_state(Contents(arrays, facts, "the schema")) == schema
    with pytest.raises(CheckpointError, match="the state of the schema is not valid: the array columns is missing"):
        Schema.from_state(Contents({}, {"format": "csv"}, "the schema"))
    assert dataclasses.asdict(schema)["label"] == "b"


def test_a_layout_takes_lists_and_single_names():
    assert Layout(drop=["a", "b"], text="c") == Layout(drop=("a", "b"), text=("c",))


@pytest.mark.parametrize(("name", "change"), [("csv", bytes), ("jsonl", gzip.compress), ("libsvm", bytes)])
def test_the_first_line_of_stdin_shows_its_format(tmp_path, name, change):
    lines = {
        "csv": ["x,kind", *(f"{i % 7},{'ab'[i % 2]}" for i in range(400))],
        "jsonl": [f'{{"x": {i % 7}, "kind": "{"ab"[i % 2]}"}}' for i in range(400)],
        "libsvm": [f"{i % 2} 1:{i % 7}" for i in range(400)],
    }[name]
    data = change("".join(f"{line}\n" for line in lines).encode())
    more = ["--max-features", "1"] if name == "libsvm" else ["--label", "kind"]
    command = [sys.executable, "-m", "kampong", "learn", "-", "-m", tmp_path / "m", *more]
    for code in (0, 6):  # the second time nothing is new
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
    assert read_model(str(tmp_path / "m"))[1].counters.rows == 400


def test_unreadable_sources_say_so(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        Source(str(tmp_path / "absent.csv"), Layout(label="k")).open()
    with pytest.raises(SourceError, match="stdin has no file name"):
        Source("-", Layout(label="k")).open()
    with pytest.raises(SourceError, match="first bytes of a feed are not waited for"):
        Source("-", Layout(label="k"), live=True).open()
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="the folder holds no file of a known format"):
        Source(str(tmp_path / "folder"), Layout(label="k")).open()


@pytest.mark.parametrize("kind", ["fixed", "list", "large"])
def test_a_column_of_lists_is_a_column_a_number(tmp_path, kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)).astype(np.float16), np.arange(300) % 3
    values = pa.array(X.ravel())
    ends = np.arange(0, 1501, 5)
    lists = {
        "fixed": lambda: pa.FixedSizeListArray.from_arrays(values, 5),
        "list": lambda: pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values),
        "large": lambda: pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values),
    }[kind]()
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"embedding": lists, "label": pa.array(y)}), path)
    stream = Source(str(path), Layout(label="label")).open()
    found = list(stream)
    assert stream.schema.numbers == tuple(f"embedding.{j}" for j in range(1, 6))
    np.testing.assert_array_equal(np.vstack([batch.X for batch in found]), X.astype(float))
    np.testing.assert_array_equal(np.concatenate([batch.y for batch in found]), y)


@pytest.mark.parametrize(("last", "text"), [([1.0], "a list of 1"), (None, "nothing"), ([], "a list of 0")])
def test_lists_of_other_lengths_are_refused(tmp_path, last, text):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"embedding": [[1.0, 2.0], [3.0, 4.0], last], "label": [0, 1, 0]}), path)
    with pytest.raises(SourceError, match=rf"row 3 of the column 'embedding' holds {text}, where the first row has 2"):
        Source(str(path), Layout(label="label")).open()


@pytest.mark.parametrize("kind", ["struct<a: int64>", "map<string, int64>", "list<item: string>"])
def test_a_column_of_objects_is_named_with_its_file(tmp_path, kind):
    held = {"struct": ({"a": 1}, pa.struct({"a": pa.int64()})), "map": ([("a", 1)], pa.map_(pa.string(), pa.int64()))}
    value, found = held.get(kind.partition("<")[0], (["a"], pa.list_(pa.string())))
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"x": [1.0, 2.0] * 50, "inside": pa.array([value] * 100, found), "kind": ["a", "b"] * 50}), path
    )
    message = rf"rows\.parquet: column 'inside' holds {re.escape(kind.partition('<')[0])}<.*--drop inside"
    with pytest.raises(SourceError, match=message):
        Source(str(path), Layout(label="kind")).open()
    assert sum(batch.rows for batch in Source(str(path), Layout(label="kind", drop=("inside",))).open()) == 100
