"""Sources: every format gives the same rows, bad records are found, no good one is lost, hostile input is refused."""

import dataclasses
import gzip
import json
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction.text import HashingVectorizer

pa = pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import pyarrow.parquet as pq  # noqa: E402

from kampong.streaming import blocks, delimited, libsvm  # noqa: E402
from kampong.streaming.blocks import Block, Blocks, Place  # noqa: E402
from kampong.streaming.errors import ColumnError, ResumeError, SourceError  # noqa: E402
from kampong.streaming.schema import Layout, Schema  # noqa: E402
from kampong.streaming.sources import Source  # noqa: E402


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
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * 10.0 ** rng.integers(-6, 7, size=(3000, 4))
    return X, rng.choice(["a", "b c", "d,e"], size=3000)


def write_csv(path, X, y, *, delimiter=",", header=True, opener=open):
    names = delimiter.join([f"x{j}" for j in range(X.shape[1])] + ["label"]) + "\n"
    with opener(path, "wt") as file:
        file.write(names if header else "")
        for row, label in zip(X.tolist(), y, strict=True):
            file.write(delimiter.join([*map(repr, row), f'"{label}"' if delimiter in label else label]) + "\n")


def test_every_format_gives_the_same_rows(table, tmp_path):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    write_csv(tmp_path / "a.csv.gz", X, y, opener=gzip.open)
    write_csv(tmp_path / "a.tsv", X, y, delimiter="\t")
    columns = {**{f"x{j}": X[:, j] for j in range(4)}, "label": y}
    arrow = pa.table(columns)
    with pa.CompressedOutputStream(str(tmp_path / "a.csv.zst"), "zstd") as file:
        file.write((tmp_path / "a.csv").read_bytes())
    lines = [
        json.dumps({**{f"x{j}": float(v) for j, v in enumerate(row)}, "label": c}) for row, c in zip(X, y, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    pq.write_table(arrow, tmp_path / "a.parquet", row_group_size=700)
    (tmp_path / "folder").mkdir()
    for i in range(3):
        pq.write_table(arrow.slice(1000 * i, 1000), tmp_path / "folder" / f"{i}.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=900)
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
    batch = libsvm.parse(Schema("libsvm", width=1, label="label", label_kind="integer"), Block(data, 0, 0, Place()))
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
    batch = libsvm.parse(Schema("libsvm", width=1, label="label", label_kind="integer"), Block(data, 0, 0, Place()))
    np.testing.assert_array_equal(batch.X[:, 0], [float(text) for text in texts])


@given(st.binary(max_size=60).filter(lambda data: b"\n" not in data))
def test_libsvm_never_accepts_what_python_would_not(data):
    schema = Schema("libsvm", width=9, label="label", label_kind="integer")
    batch = libsvm.parse(schema, Block(b"1 " + data + b"\n", 0, 0, Place()))
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
    "1 3:": "no number",
    "1 3:1x": "no number",
    "1 3:nan": "no number",
    "1 3:1e200": "1e+100",
    "1 3": "expected index:value",
    "1 -3:1": "expected index:value",
    "1 3 :1": "expected index:value",
    "1 3x:1": "no whole number",
    "1,2 3:1": "label",
    "a 3:1": "label",
    "1.5 3:1": "1.5 is no whole number",
    "1 qid:3 3:1": "expected index:value",
    "1 3:1\x002": "no number",
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
    "1,x,a": "'x', which is no number",
    "1,0x10,a": "no number",
    "1,1_0,a": "no number",
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
        rows, labels, dead, records = read(tmp_path / "a.csv", label="kind")
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
    assert rows.ravel().tolist() == [2, 3]
    assert labels.tolist() == ["b", "a"]
    assert records == 6
    assert len(dead) == 4


@given(st.lists(st.text(st.sampled_from('12.,"ab\r\0e- '), max_size=12), min_size=1, max_size=12))
def test_a_block_is_read_as_its_lines_one_by_one(lines):
    """The fast way over a block and the careful one, line by line, agree on every record."""
    schema = Schema("csv", ("x", "c", "k"), ("x",), ("c",), label="k", hash_width=8, width=9, sparse=True)
    data = "\n".join(lines).encode() + b"\n"
    whole = delimited.parse(schema, Block(data, 0, 0, Place()))
    alone = [delimited.parse(schema, Block(line.encode() + b"\n", 0, 0, Place())) for line in lines]
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
    rows, labels, dead, records = read(tmp_path / "a.jsonl", label="k")
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
    rows, labels, dead, records = read(tmp_path / "a.parquet", label="k")
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


# Where blocks are cut.


@given(st.integers(0, 2**32), st.integers(1, 400))
def test_blocks_join_to_the_source_and_start_anywhere(seed, size):
    import tempfile
    from pathlib import Path

    rng = np.random.default_rng(seed)
    lines = [b"x" * int(n) for n in rng.integers(0, size, 500)]
    data = b"\n".join(lines)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SMALLEST", 256)
        patch.setattr(blocks, "LARGEST", 4096)
        path = Path(folder) / "a"
        path.write_bytes(data)
        found = list(Blocks(str(path)))
        assert b"".join(block.data for block in found) == data
        assert all(block.data.endswith(b"\n") for block in found[:-1])
        for block in found:
            assert data[: block.offset].count(b"\n") == block.line
        middle = found[int(rng.integers(len(found)))]
        again = list(Blocks(str(path), place=middle.end))
        assert again == found[found.index(middle) + 1 :]


def test_blocks_do_not_depend_on_how_bytes_arrive(tmp_path, table):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    code = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from kampong.streaming.blocks import Blocks\n"
        "print([(b.offset, len(b.data), b.end) for b in Blocks('-')])"
    )
    whole = [(b.offset, len(b.data), b.end) for b in Blocks(str(tmp_path / "a.csv"))]
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        data = (tmp_path / "a.csv").read_bytes()
        rng = np.random.default_rng(0)
        while data:
            cut = int(rng.integers(1, 30_000))
            process.stdin.write(data[:cut])
            process.stdin.flush()
            data = data[cut:]
        printed, _ = process.communicate()
    assert printed.decode().strip() == repr(whole)


def test_another_source_is_not_resumed(tmp_path, table):
    X, y = table
    write_csv(tmp_path / "a.csv", X, y)
    stream = Source(str(tmp_path / "a.csv"), Layout(label="label")).open()
    places = [batch.place for batch in stream]
    data = (tmp_path / "a.csv").read_bytes()
    offset = places[2]["offset"]
    for changed, message in [
        (data[: offset - 10], "shorter"),
        (b"y" + data[1:], "not the one"),
        (data[: offset - 5] + b"9" + data[offset - 4 :], "not the one"),
    ]:
        (tmp_path / "b.csv").write_bytes(changed)
        (tmp_path / "b.csv.gz").write_bytes(gzip.compress(changed))
        for name in ("b.csv", "b.csv.gz"):
            with pytest.raises(ResumeError, match=message):
                Source(str(tmp_path / name)).open(schema=stream.schema, place=places[2])


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "folder", "a.arrow"])
def test_a_source_goes_on_at_any_place(tmp_path, table, name):
    X, y = table
    arrow = pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "label": y})
    write_csv(tmp_path / "a.csv", X, y)
    write_csv(tmp_path / "a.csv.gz", X, y, opener=gzip.open)
    pq.write_table(arrow, tmp_path / "a.parquet", row_group_size=700)
    (tmp_path / "folder").mkdir()
    for i in range(3):
        pq.write_table(arrow.slice(1000 * i, 1000), tmp_path / "folder" / f"{i}.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=900)
    source = Source(str(tmp_path / name), Layout(label="label"))
    stream = source.open()
    batches = list(stream)
    assert len(batches) > 4
    for i in range(len(batches)):
        again = list(source.open(schema=stream.schema, place=batches[i].place))
        assert [batch.place for batch in again] == [batch.place for batch in batches[i + 1 :]]
        for one, other in zip(again, batches[i + 1 :], strict=True):
            np.testing.assert_array_equal(one.X, other.X)
            np.testing.assert_array_equal(one.y, other.y)


def test_a_changed_folder_is_not_resumed(tmp_path):
    for i in range(2):
        pq.write_table(pa.table({"x": np.arange(900.0), "k": ["a", "b", "c"] * 300}), tmp_path / f"{i}.parquet")
    source = Source(str(tmp_path), Layout(label="k"))
    stream = source.open()
    place = list(stream)[5].place
    pq.write_table(pa.table({"x": [1.0], "k": ["a"]}), tmp_path / "2.parquet")
    assert list(source.open(schema=stream.schema, place=place))  # more files at the end are welcome
    pq.write_table(pa.table({"x": [1.0], "k": ["a"]}), tmp_path / "#.parquet")
    with pytest.raises(ResumeError, match="not those"):
        source.open(schema=stream.schema, place=place)


# Hostile input: a clear message, little time, little memory.


HOSTILE = """
import json, sys, time
from pathlib import Path
from kampong.streaming.errors import StreamError
from kampong.streaming.schema import Layout
from kampong.streaming.sources import Source
def peak():  # what getrusage says would include the parent's
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
list(Source(sys.argv[1], Layout(label="k")).open())  # everything is loaded and compiled
before, start = peak(), time.process_time()
message, records, dead = "", 0, []
try:
    for batch in Source(sys.argv[2], Layout(**json.loads(sys.argv[3]))).open():
        records += batch.records
        dead += [letter.reason for letter in batch.dead]
except StreamError as error:
    message = str(error)
more = peak() - before
print(json.dumps([message, records, dead[:3], more, time.process_time() - start]))
"""


def hostile(tmp_path, name, data, **options):
    (tmp_path / "calm.csv").write_text("x,k\n1,a\n2,b\n")
    path = tmp_path / name
    if isinstance(data, bytes):
        path.write_bytes(data)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, tmp_path / "calm.csv", path, json.dumps({"label": "k", **options})],
        capture_output=True,
        text=True,
        check=True,
    )
    assert time.perf_counter() - start < 60
    message, records, dead, megabytes, seconds = json.loads(done.stdout)
    assert megabytes < 200
    assert seconds < 2
    return message, records, dead


def gzip_bomb(path, size, piece=b"0" * 2**20):
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(size // len(piece)):
            file.write(piece)


def test_zip_bombs_are_refused(tmp_path):
    gzip_bomb(tmp_path / "bomb.csv.gz", 150 * 2**20)
    message, _, _ = hostile(tmp_path, "bomb.csv.gz", None)
    assert "no end within" in message or "first line" in message
    with gzip.open(tmp_path / "late.csv.gz", "wb", compresslevel=9) as file:
        file.write(b"x,k\n1,a\n2,b\n")
        for _ in range(150):
            file.write(b"0" * 2**20)
    message, _, _ = hostile(tmp_path, "late.csv.gz", None)
    assert "no end within" in message
    with pa.CompressedOutputStream(str(tmp_path / "bomb.jsonl.zst"), "zstd") as file:
        for _ in range(500):
            file.write(b"[" * 2**20)
    message, _, _ = hostile(tmp_path, "bomb.jsonl.zst", None)
    assert "no end within" in message
    gzip_bomb(tmp_path / "blank.csv.gz", 150 * 2**20, b"\n" * 2**20)
    message, _, _ = hostile(tmp_path, "blank.csv.gz", None)
    assert message


def test_an_overlong_line_is_a_dead_letter(tmp_path):
    data = b"x,k\n1,a\n" + b"2" * (20 * 2**20) + b",b\n3,b\n"
    message, records, dead = hostile(tmp_path, "long.csv", data)
    assert (message, records) == ("", 3)
    assert "20,971,5" in dead[0]


def test_deep_json_is_a_dead_letter(tmp_path):
    deep = b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b', "k": "a"}\n'
    message, records, dead = hostile(tmp_path, "deep.jsonl", b'{"x": 1, "k": "b"}\n' + deep + deep[:-3] + b"\n")
    assert (message, records, len(dead)) == ("", 3, 2)
    message, _, _ = hostile(tmp_path, "only.jsonl", deep)
    assert "no JSON object" in message


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("huge.svm", b"1 1:1\n1 2000000000:1\n2 1:2\n", "above --max-features"),
        ("nul.csv", b"x,k\n1,a\n\0\0\0,b\n2,b\n", "NUL"),
        ("latin.csv", b"x,k\n1,a\n2,\xe9\n", "UTF-8"),
        ("nul.jsonl", b'{"x": 1, "k": "a"}\n\0\n{"x": 2, "k": "b"}\n', "not a record"),
    ],
)
def test_hostile_records_are_dead_letters(tmp_path, name, data, expected):
    message, _, dead = hostile(tmp_path, name, data, max_features=100)
    assert message == ""
    assert expected in dead[0]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("wide.csv", b",".join(b"c%d" % i for i in range(100_000)) + b"\n1\n", "columns; a table may have"),
        ("random.csv", bytes(range(256)) * 4000, "first line"),
        ("cut.csv.gz", gzip.compress(b"x,k\n" + b"1,a\n" * 100_000)[:200], "damaged or cut short"),
        ("not.parquet", b"PAR1" + b"\xff" * 100_000 + b"PAR1", "reading stopped"),
        ("not.arrow", b"ARROW1\0\0" + b"\xff" * 1000, "reading stopped"),
        ("empty.csv", b"", "no record"),
        ("header.csv", b"x,k\n", "no record"),
        ("same.csv", b"x,x,k\n1,2,a\n", "two columns are named 'x'"),
        ("nowidth.svm", b"1 1:1 77:2\n", "go up to 77"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "data",  # a name goes into the environment
)
def test_hostile_files_are_refused(tmp_path, name, data, expected):
    message, _, _ = hostile(tmp_path, name, data)
    assert expected in message


def test_a_followed_file_gives_its_new_lines(tmp_path):
    import threading

    path = tmp_path / "a.csv"
    path.write_text("x,k\n1,a\n2,b\n3")
    stop, seen = threading.Event(), []

    def append():
        time.sleep(0.5)
        with path.open("a") as file:
            file.write("0,c\n")

    threading.Thread(target=append).start()
    for batch in Source(str(path), Layout(label="k"), follow=True).open(stop=stop):
        seen += zip(batch.X.ravel().tolist(), batch.y.tolist(), strict=True)
        if len(seen) == 3:
            stop.set()
    assert seen == [(1.0, "a"), (2.0, "b"), (30.0, "c")]


def test_schemas_survive_json():
    schema = Schema("csv", ("a", "b"), ("a",), label="b", width=1, classes=("u", "v"))
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    with pytest.raises(ColumnError, match="does not describe"):
        Schema.from_json({"format": "csv"})
    assert dataclasses.asdict(schema)["label"] == "b"


def test_memory_of_a_source_does_not_grow(tmp_path):
    """A file of many blocks is never in memory as a whole."""
    with (tmp_path / "a.csv").open("w") as file:
        file.write("x,y,k\n")
        for _ in range(40):
            file.write("1.25,2.5,a\n-1.25,1.5,b\n" * 50_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = sum(batch.rows for batch in Source(str(tmp_path / "a.csv"), Layout(label="k")).open())
    assert rows == 4_000_000
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 150


def test_unreadable_sources_say_so(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        Source(str(tmp_path / "absent.csv"), Layout(label="k")).open()
    with pytest.raises(SourceError, match="stdin has no name"):
        Source("-", Layout(label="k")).open()
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="no Parquet file"):
        Source(str(tmp_path / "folder"), Layout(label="k")).open()
