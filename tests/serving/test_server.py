"""The server: what it answers is what the library says, what is bad is refused, and who may ask what."""

import csv
import http.client
import io
import json
import os
import re
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec", reason="the server needs the `stream` extra")
pytest.importorskip("pyarrow", reason="the server needs the `stream` extra")
pytest.importorskip("tornado", reason="the server needs the `stream` extra")

import kampong
from command import call, command
from kampong import FisherDiscriminant
from kampong.serving import learning_model, server
from kampong.streaming import Layout, Source, learn
from kampong.streaming.model_file import read_model
from serving_problems import COLUMNS, LEARN, READ, Process, Running, served_file
from stream_problems import write_points

ROW = {"x1": 2.5, "x2": 0.1, "x3": -0.2, "x4": 0.3}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Return a server that only predicts, its client, its model, and rows."""
    path, rows = served_file(tmp_path_factory.mktemp("served"))
    with Running(path, largest=200_000) as running:
        client = running.client()
        yield running, client, kampong.load(path), rows
        client.close()


def matrix(rows):
    return np.array([[row[name] for name in COLUMNS] for row in rows])


def test_predictions_are_those_of_the_model(reader):
    _, client, model, rows = reader
    status, answer = client.ask("POST", "/predict?probabilities=all&set=0.9", rows)
    assert status == 200
    X = matrix(rows)
    assert [row["predicted"] for row in answer["rows"]] == model.predict(X).tolist()
    chances = [[row["probabilities"][label] for label in "abc"] for row in answer["rows"]]
    np.testing.assert_array_equal(chances, model.predict_proba(X))
    members = [[label in row["set"] for label in "abc"] for row in answer["rows"]]
    np.testing.assert_array_equal(members, model.predict_set(X, 0.1))
    assert [row["row"] for row in answer["rows"]] == list(range(1, 401))


@pytest.mark.parametrize("form", ["object", "rows", "lists", "lines", "curl"])
def test_rows_may_come_in_several_forms(reader, form):
    _, client, model, rows = reader
    three, kind = rows[:3], "application/json"
    body = {
        "object": three[0],
        "rows": {"rows": three},
        "lists": [[row[name] for name in COLUMNS] for row in three],
        "lines": "\n".join(json.dumps(dict(reversed(row.items()))) for row in three),
        "curl": json.dumps(three),
    }[form]
    kind = {"lines": "application/x-ndjson", "curl": "application/x-www-form-urlencoded"}.get(form, kind)
    status, answer = client.ask("POST", "/predict", body, Content_Type=kind)
    expected = model.predict(matrix(three)).tolist()
    assert status == 200
    assert [row["predicted"] for row in answer["rows"]] == expected[: len(answer["rows"])]


def test_csv_is_answered_as_the_command_line_does(reader, tmp_path):
    running, client, _, rows = reader
    path = tmp_path / "new.csv"
    with path.open("w") as file:
        writer = csv.DictWriter(file, ["x4", "x3", "x2", "x1"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    model = next(iter(running.models.values())).path
    out = command("predict", path, "--model", model, "--probabilities", "all", "--set", "0.9").stdout
    query = "/predict?probabilities=all&set=0.9"
    client.close()  # the command may take so long that the server has closed an idle connection
    status, answer = client.ask("POST", query, path.read_bytes(), Content_Type="text/csv")
    assert status == 200
    expected, found = (list(csv.DictReader(io.StringIO(text))) for text in (out, answer))
    assert len(found) == 400
    for mine, theirs in zip(found, expected, strict=True):
        assert set(mine) == set(theirs)
        for name in mine:
            same = mine[name] == theirs[name]
            assert same or float(mine[name]) == pytest.approx(float(theirs[name]), rel=1e-12), name


BAD = [
    ("", 400, "The request has no body. Send rows as JSON or as CSV."),
    ("{", 400, "The body is not JSON: Input data was truncated."),
    ("[" * 100_000, 400, "The body is not JSON: it is nested too deeply."),
    ("[]", 400, "The request holds no rows. Send at least one."),
    ("3", 400, "The body is a number; send a list of rows, or one row as an object."),
    ("[3]", 400, "row 1: this is a number; a row is an object, or a list of values."),
    ("[null]", 400, "row 1: this is null; a row is an object, or a list of values."),
    ("[[1, 2]]", 400, "row 1: 2 values, where the model needs 4: x1, x2, x3, x4. Or send objects with the names"),
    ('{"x1": 1, "x2": 2, "x3": 3, "X4": 4}', 400, "the request: no column is named 'x4'. Did you mean 'X4'?"),
    ('{"x1": 1, "x2": 2, "x3": 3, "x4": "many"}', 400, "row 1: not a record of these columns: Expected `"),
    ('{"x1": 1, "x2": 2, "x3": 3, "x4": [1]}', 400, "row 1: not a record of these columns"),
    ('{"x1": 1, "x2": 2, "x3": 3, "x4": 1e150}', 400, "row 1: column 'x4' holds 1e+150, above 1e+100 in magnitude"),
    ('{"x1": 1, "x2": 2, "x3": 3, "x4": NaN}', 400, "The body is not JSON"),
    ('{"x1": 1, "x2": 2, "x3": 3, "x4": 1' + 400 * "0" + "}", 400, "row 1: not a record of these columns: Number out"),
    ('{"x1": 1, "x2": 2, "x3": 3, "x4": 1' + 5000 * "0" + "}", 400, "The body is not JSON"),
    ("\udcff", 400, "The body is not JSON"),
]


@pytest.mark.parametrize(("body", "status", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_request_is_told_what_is_wrong(reader, body, status, message):
    _, client, _, _ = reader
    found, answer = client.ask("POST", "/predict", body.encode("utf-8", "surrogateescape"))
    assert found == status
    assert message in answer["error"]


def test_a_whole_number_of_many_digits_is_a_number(reader):
    _, client, _, _ = reader
    answers = [
        client.ask("POST", "/predict?probabilities=all", f"[[1, 2, 3, {text}]]") for text in ("1" + 30 * "0", "1e30")
    ]
    assert answers[0] == answers[1]
    assert answers[0][0] == 200


def test_bad_rows_are_listed_and_none_is_used(reader):
    _, client, _, _ = reader
    body = [ROW, {**ROW, "x1": "a"}, ROW, {**ROW, "x2": 1e101}]
    status, answer = client.ask("POST", "/predict", body)
    assert status == 400
    assert [one["row"] for one in answer["rows"]] == [2, 4]
    assert "No row of the request was used; 2 of 4 are bad." in answer["error"]
    status, answer = client.ask("POST", "/predict", "x1,x2,x3,x4\n1,2,3,4\n1,2,3\n", Content_Type="text/csv")
    assert (status, answer["error"][:43]) == (400, "row 2: 3 columns, where 4 are expected. No ")
    status, answer = client.ask("POST", "/predict", "x1,x2,x3\n1,2,3\n", Content_Type="text/csv")
    assert (status, "no column is named 'x4'" in answer["error"]) == (400, True)


def test_other_mistakes_are_told_apart(reader):
    _, client, _, _ = reader
    asked = [
        ("POST", "/predict?model=rose", ROW, {}, 404, "There is no model 'rose'. There are: points."),
        ("POST", "/predict?probabilities=some", ROW, {}, 400, "probabilities is 'some'; it can be best or all."),
        (
            "POST",
            "/predict?proba=all",
            ROW,
            {},
            400,
            "There is no option 'proba' here. There are model, probabilities, set.",
        ),
        ("POST", "/predict?set=much", ROW, {}, 400, "set is 'much'; it is a share such as 0.9."),
        ("POST", "/predict?set=7", ROW, {}, 400, "set is the share of sets that are right, from 0 to 1; got 7."),
        (
            "POST",
            "/predict",
            ROW,
            {"Content_Type": "text/xml"},
            415,
            "Content-Type is 'text/xml'; send application/json",
        ),
        ("GET", "/predict", None, {}, 405, "GET is not for /predict."),
        ("GET", "/nothing", None, {}, 404, "There is nothing at this address."),
        ("POST", "/v2/models/points/versions/9/infer", {}, {}, 404, "version '9' is not here; the only one is 1."),
        ("GET", "/v2/models/rose", None, {}, 404, "There is no model 'rose'."),
    ]
    for method, path, body, headers, status, message in asked:
        found, answer = client.ask(method, path, body, **headers)
        assert (found, message in answer["error"]) == (status, True), (path, answer)


def test_a_large_body_is_refused_and_the_connection_goes_on(reader):
    _, client, _, rows = reader
    for size in (200_001, 30_000_000):
        status, answer = client.ask("POST", "/predict", b"x" * size)
        assert status == 413
        assert f"The body has {size:,} bytes; at most 200,000 are allowed (--max-request-bytes)." in answer["error"]
    assert client.ask("POST", "/predict", rows)[0] == 200


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(COLUMNS),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from([*COLUMNS, "rows", "z"]), inner),
    max_leaves=12,
)


@settings(max_examples=150)
@given(value=VALUES, cut=st.integers(0, 40), path=st.sampled_from(["/predict", "/predict?set=0.5"]))
def test_any_json_is_answered_or_refused(reader, value, cut, path):
    _, client, _, _ = reader
    body = json.dumps(value).encode()
    for one in (body, body[:cut]):
        assert client.ask("POST", path, one)[0] in (200, 400)


@settings(max_examples=100)
@given(body=st.binary(max_size=60), kind=st.sampled_from(["text/csv", "application/x-ndjson", "application/json", ""]))
def test_any_bytes_are_answered_or_refused(reader, body, kind):
    _, client, _, _ = reader
    assert client.ask("POST", "/predict", b"x1,x2,x3,x4\n1,2,3,4\n" + body, Content_Type=kind)[0] in (200, 400)


TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from([*COLUMNS, "X", 3]),
        "shape": st.lists(st.integers(-1, 5), max_size=3) | st.none(),
        "datatype": st.sampled_from(["FP64", "BYTES", "INT8", "BOOL", "X", None]),
        "data": VALUES | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8),
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": st.integers(-1, 20)}),
    },
)


@settings(max_examples=200)
@given(
    inputs=st.lists(TENSORS, max_size=5) | VALUES,
    outputs=st.lists(st.fixed_dictionaries({"name": st.sampled_from(["predicted", "set", "x"])}), max_size=2) | VALUES,
    parameters=st.fixed_dictionaries({}, optional={"set": VALUES}) | VALUES,
    length=st.none() | st.integers(-3, 400),
)
def test_any_tensors_are_answered_or_refused(reader, inputs, outputs, parameters, length):
    _, client, _, _ = reader
    headers = {} if length is None else {"Inference_Header_Content_Length": str(length)}
    body = {"inputs": inputs, "outputs": outputs, "parameters": parameters}
    assert client.ask("POST", "/v2/models/points/infer", body, **headers)[0] in (200, 400)


def test_the_open_inference_protocol(reader):
    _, client, model, rows = reader
    assert client.ask("GET", "/v2")[1]["name"] == "kampong"
    assert client.ask("GET", "/v2/models/points/ready") == (200, {"name": "points", "ready": True})
    about = client.ask("GET", "/v2/models/points")[1]
    assert [(one["name"], one["datatype"], one["shape"]) for one in about["inputs"]] == [
        (name, "FP64", [-1]) for name in COLUMNS
    ]
    assert {one["name"]: one["shape"] for one in about["outputs"]}["probabilities"] == [-1, 3]
    X = matrix(rows)
    whole = [{"name": "X", "shape": [400, 4], "datatype": "FP64", "data": X.ravel().tolist()}]
    nested = [{"name": "X", "shape": [400, 4], "datatype": "FP64", "data": X.tolist()}]
    apart = [
        {"name": name, "shape": [400], "datatype": "FP64", "data": X[:, j].tolist()} for j, name in enumerate(COLUMNS)
    ]
    for inputs in (whole, nested, apart[::-1]):
        status, answer = client.ask("POST", "/v2/models/points/infer", {"id": "seven", "inputs": inputs})
        assert (status, answer["id"], answer["model_name"]) == (200, "seven", "points")
        found = {one["name"]: one for one in answer["outputs"]}
        assert found["predicted"]["data"] == model.predict(X).tolist()
        assert found["probabilities"]["shape"] == [400, 3]
        np.testing.assert_array_equal(np.reshape(found["probabilities"]["data"], (400, 3)), model.predict_proba(X))
    names = [{"name": "set"}, {"name": "classes"}]
    body = {"inputs": whole, "outputs": names, "parameters": {"set": 0.8}}
    answer = client.ask("POST", "/v2/models/points/versions/1/infer", body)[1]
    found = {one["name"]: one for one in answer["outputs"]}
    assert found["classes"]["data"] == ["a", "b", "c"]
    np.testing.assert_array_equal(np.reshape(found["set"]["data"], (400, 3)), model.predict_set(X, 0.2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [2, 4]}, "input 'X': 4 values do not have the shape [2, 4]."),
        (
            {"shape": [4]},
            "input 'X': 1 columns, and the model has 4. Send a tensor of all columns, or one for each: x1",
        ),
        ({"shape": [2, 2]}, "input 'X': 2 columns, and the model has 4."),
        ({"shape": "4"}, "input 'X': shape is '4'; give [rows] for a column, or [rows, columns]."),
        ({"datatype": "FLOAT"}, "input 'X': datatype is 'FLOAT'; there are BOOL, UINT8"),
        ({"datatype": "BYTES"}, "input 'X': datatype is BYTES, and data holds something else."),
        ({"data": ["a", "b", "c", "d"]}, "input 'X': datatype is FP64, and data holds something else."),
        ({"data": 3}, "input 'X': data is no list."),
        ({"name": "x1", "shape": [1], "data": [1]}, "the model needs a tensor named 'x2', and there are 'x1'."),
    ],
)
def test_bad_tensors_are_told_what_is_wrong(reader, change, message):
    _, client, _, _ = reader
    one = {"name": "X", "shape": [1, 4], "datatype": "FP64", "data": [1, 2, 3, 4], **change}
    status, answer = client.ask("POST", "/v2/models/points/infer", {"inputs": [one]})
    assert (status, message in answer["error"]) == (400, True), answer


def test_a_client_of_triton_is_answered(reader):
    triton = pytest.importorskip("tritonclient.http", reason="a client of the Open Inference Protocol, for this test")
    running, _, model, rows = reader
    X = matrix(rows)

    def headers():  # the client adds to them
        return {"Authorization": f"Bearer {READ}"}

    with triton.InferenceServerClient(f"127.0.0.1:{running.port}") as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("points", headers=headers())
        assert client.get_model_metadata("points", headers=headers())["inputs"][0]["name"] == "x1"
        for kind, binary in (("FP64", True), ("FP64", False), ("FP32", True)):
            tensor = triton.InferInput("X", list(X.shape), kind)
            given = X.astype(np.float32 if kind == "FP32" else np.float64)
            tensor.set_data_from_numpy(given, binary_data=binary)
            found = client.infer("points", [tensor], headers=headers())
            assert found.as_numpy("predicted").astype(str).tolist() == model.predict(given.astype(float)).tolist()
            np.testing.assert_array_equal(found.as_numpy("probabilities"), model.predict_proba(given.astype(float)))


def test_words_and_categories_come_as_bytes_too(tmp_path):
    lines = [
        f"{i % 5},{'red car' if i % 2 else 'blue sky'},{'ab'[i % 2]},{'yes' if i % 2 else 'no'}" for i in range(80)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["size,note,shop,answer", *lines]) + "\n")
    path = str(tmp_path / "t.kampong")
    source = Source(str(tmp_path / "t.csv"), Layout(label="answer", text=("note",)))
    learn(source, FisherDiscriminant(), model_file=path)
    row = {"size": None, "note": "red car", "shop": "b"}
    packed = b"".join(len(text).to_bytes(4, "little") + text for text in (b"red car", b"blue sky"))
    header = json.dumps(
        {
            "inputs": [
                {"name": "size", "shape": [2, 1], "datatype": "INT32", "data": [1, 4]},
                {"name": "shop", "shape": [2], "datatype": "BYTES", "data": ["b", "a"]},
                {"name": "note", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(packed)}},
            ]
        }
    ).encode()
    with Running(path) as running:
        client = running.client()
        assert client.ask("POST", "/predict", row)[1]["rows"] == [{"row": 1, "predicted": "yes"}]
        status, answer = client.ask(
            "POST", "/v2/models/t/infer", header + packed, Inference_Header_Content_Length=str(len(header))
        )
        assert (status, answer["outputs"][0]["data"]) == (200, ["yes", "no"])
        about = client.ask("GET", "/v2/models/t")[1]["inputs"]
        assert {one["name"]: one["datatype"] for one in about} == {"size": "FP64", "note": "BYTES", "shop": "BYTES"}
        client.close()


def test_a_model_saved_from_python_is_served_by_the_names_of_its_columns(tmp_path):
    pandas = pytest.importorskip("pandas", reason="columns with names come from pandas")
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = (X[:, 0] > 0).astype(int)
    kampong.FisherDiscriminant().fit(pandas.DataFrame(X, columns=["a", "b"]), y).save(tmp_path / "named.kampong")
    kampong.FisherDiscriminant().fit(X, y).save(tmp_path / "plain.kampong")
    with Running(str(tmp_path / "named.kampong"), str(tmp_path / "plain.kampong"), learns=True) as running:
        client, teacher = running.client(), running.client(LEARN)
        assert client.ask("POST", "/predict?model=named", {"a": 5, "b": 1})[1]["rows"][0]["predicted"] == 1
        assert client.ask("POST", "/predict?model=plain", [[-5, 1]])[1]["rows"][0]["predicted"] == 0
        status, answer = client.ask("POST", "/predict", [[-5, 1]])
        assert (status, answer["error"]) == (400, "Say which model, with ?model=NAME. There are: named, plain.")
        status, answer = teacher.ask("POST", "/learn?model=plain", {"x0": 1, "x1": 2, "label": 1})
        assert (status, answer["learnt"]) == (200, 81)
        status, answer = teacher.ask("POST", "/learn?model=named", {"a": 1, "b": 2})
        assert (status, "no column is named 'label'" in answer["error"]) == (400, True)
        for one in (client, teacher):
            one.close()
    assert kampong.load(tmp_path / "plain.kampong").n_samples_seen_ == 81


# Learning.


def asked_to_change():
    """Return a strategy of requests that learn, unlearn or merge: rows with one thing wrong, any JSON, or any bytes."""
    row = st.fixed_dictionaries(
        {}, optional={name: st.floats() | st.integers() | VALUES for name in COLUMNS} | {"kind": st.text() | VALUES}
    )
    body = st.lists(row, max_size=3).map(json.dumps) | VALUES.map(json.dumps) | st.binary(max_size=60)
    kind = st.sampled_from(["application/json", "application/x-ndjson", "text/csv", "text/plain", ""])
    return st.tuples(st.sampled_from(["/learn", "/unlearn", "/merge", "/learn?id=1", "/learn?x=1"]), body, kind)


def test_any_change_is_learnt_as_a_whole_or_refused_and_changes_nothing(tmp_path):
    path, rows = served_file(tmp_path)
    with Running(path, learns=True, largest=200_000) as running:
        teacher, learner = running.client(LEARN), running.models["points"].learner

        @settings(max_examples=150, deadline=None)
        @given(asked=asked_to_change())
        def check(asked):
            where, body, kind = asked
            before = learner.number, learner.rows
            status, answer = teacher.ask("POST", where, body, Content_Type=kind)
            assert status == 200 or 400 <= status < 500, answer
            if status != 200:
                assert len(answer["error"]) > 10
                assert (learner.number, learner.rows) == before
            elif not answer.get("repeated"):
                assert learner.number == before[0] + 1

        check()
        status, answer = teacher.ask("POST", "/learn", "[" + "1," * 100_000 + "1]")
        assert (status, "at most 200,000 are allowed" in answer["error"]) == (413, True)
        assert teacher.ask("POST", "/learn", rows[:1])[0] == 200
        teacher.close()


def test_rows_are_learnt_taken_out_and_merged(tmp_path):
    path, rows = served_file(tmp_path)
    other, _ = served_file(tmp_path, seed=5, name="other")
    before, X = kampong.load(path), matrix(rows)
    with Running(path, learns=True) as running:
        client, teacher = running.client(), running.client(LEARN)
        first = teacher.ask("POST", "/learn", rows[:50], Idempotency_Key="one")
        assert first[0] == 200
        assert (first[1]["rows"], first[1]["learnt"], first[1]["version"]) == (50, 350, "1")
        assert teacher.ask("POST", "/learn", rows[:50], Idempotency_Key="one")[1] == {**first[1], "repeated": True}
        status, answer = teacher.ask("POST", "/learn?id=one", rows[:51])
        assert (status, "belongs to another request" in answer["error"]) == (409, True)
        status, answer = teacher.ask("POST", "/learn", rows[:2], Idempotency_Key="x" * 300)
        assert (status, "has 300 characters; 200 are allowed" in answer["error"]) == (400, True)
        text = "x1,x2,x3,x4,kind\n" + "\n".join(",".join(map(str, row.values())) for row in rows[50:60])
        assert teacher.ask("POST", "/learn", text, Content_Type="text/csv")[1]["learnt"] == 360
        status, answer = teacher.ask("POST", "/unlearn", rows[:50], Idempotency_Key="out")
        assert (status, answer["receipt"]["rows"], answer["receipt"]["exact"]) == (200, 50, True)
        assert teacher.ask("POST", "/unlearn", rows[:50], Idempotency_Key="out")[1]["receipt"] == answer["receipt"]
        assert teacher.ask("POST", "/unlearn", [{**rows[0], "x1": 900.0}])[0] == 400
        assert teacher.ask("POST", "/merge", Path(other).read_bytes())[1]["learnt"] == 660
        assert teacher.ask("POST", "/merge", b"no model")[0] == 400
        for bad in ([{**rows[0], "kind": ""}], [rows[0], {**rows[1], "x1": "a"}], [[1, 2, 3, 4]], rows[0] | {"z": 1}):
            assert teacher.ask("POST", "/learn", bad)[0] in ((200, 400) if "z" in bad else (400,))
        status, answer = client.ask("POST", "/learn", rows[:1])
        assert (status, answer["error"]) == (403, "This token is for reading. Learning needs the token for learning.")
        wait_for(client, "5")
        found = client.ask("POST", "/predict?probabilities=all", rows)[1]["rows"]
        for one in (client, teacher):
            one.close()
    after = kampong.load(path)
    chances = [[row["probabilities"][label] for label in "abc"] for row in found]
    np.testing.assert_array_equal(chances, after.predict_proba(X))
    before.partial_fit(X[50:60], [row["kind"] for row in rows[50:60]])
    fitted = before.merge(kampong.load(other)).partial_fit(X[:1], [rows[0]["kind"]])
    np.testing.assert_allclose(after.predict_proba(X), fitted.predict_proba(X), rtol=1e-6, atol=1e-8)
    assert len(Path(f"{path}.journal").read_text().splitlines()) == 3  # its head, and two answers


def test_too_many_requests_are_put_off_and_a_large_journal_is_emptied(tmp_path, monkeypatch):
    path, rows = served_file(tmp_path)
    with Running(path, learns=True) as running:
        teacher = running.client(LEARN)
        with monkeypatch.context() as context:
            context.setattr(learning_model, "WAITING_BYTES", 3)
            status, answer = teacher.ask("POST", "/learn", rows[0])
        assert (status, "Too many requests wait to be learnt" in answer["error"]) == (503, True)
        monkeypatch.setattr(learning_model, "FULL", 3)
        assert teacher.ask("POST", "/learn", rows[0])[0] == 200
        for _ in range(600):
            if not running.models["points"].unsaved:
                break
            time.sleep(0.05)
        assert read_model(path)[1].counters.rows == 301
        assert running.models["points"]._waiting == 0
        teacher.close()
    assert Path(f"{path}.journal").stat().st_mode & 0o077 == 0


def test_a_signed_model_is_served_with_its_key(tmp_path):
    key = tmp_path / "key"
    command("key", key)
    write_points(tmp_path / "a.csv", 200)
    path = str(tmp_path / "points.kampong")
    source = Source(str(tmp_path / "a.csv"), Layout(label="kind"))
    learn(source, FisherDiscriminant(), model_file=path, key=str(key))
    with pytest.raises(kampong.CheckpointError):
        Running(path)
    with Running(path, learns=True, key=str(key)) as running:
        teacher = running.client(LEARN)
        assert teacher.ask("POST", "/learn", {**ROW, "kind": "a"})[0] == 200
        assert teacher.ask("POST", "/merge", Path(path).read_bytes())[1]["learnt"] == 401
        teacher.close()
    assert kampong.load(path, key=str(key)).n_samples_seen_ == 401


def test_a_model_of_one_class_learns_another_before_it_predicts(tmp_path):
    (tmp_path / "a.csv").write_text("x,y,kind\n1,2,a\n2,3,a\n0,1,a\n")
    path = str(tmp_path / "one.kampong")
    learn(Source(str(tmp_path / "a.csv"), Layout(label="kind")), FisherDiscriminant(), model_file=path)
    with Running(path, learns=True) as running:
        teacher = running.client(LEARN)
        status, answer = teacher.ask("POST", "/predict", [[1, 2]])
        assert (status, "knows fewer than two classes, so nothing can be predicted" in answer["error"]) == (409, True)
        teacher.ask("POST", "/learn", [[9, 9, "b"], [8, 9, "b"], [9, 8, "b"]])
        for _ in range(600):
            status, answer = teacher.ask("POST", "/predict", [[9, 9]])
            if status == 200:
                break
            time.sleep(0.05)
        assert answer["rows"][0]["predicted"] == "b"
        teacher.close()


def wait_for(client, version):
    """Wait until predictions come from a version."""
    for _ in range(600):
        if client.ask("GET", "/v2/models/points")[1]["versions"] == [version]:
            return
        time.sleep(0.05)
    raise AssertionError(version)


def test_a_disk_that_cannot_be_written_loses_nothing_and_learns_nothing(tmp_path, monkeypatch):
    path, rows = served_file(tmp_path)
    with Running(path, learns=True) as running:
        teacher = running.client(LEARN)
        assert teacher.ask("POST", "/learn", rows[0])[0] == 200
        with monkeypatch.context() as context:
            context.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            context.setattr(learning_model._log, "disabled", True)
            status, answer = teacher.ask("POST", "/learn", rows[1], Idempotency_Key="again")
        assert (status, "No space left on device. Nothing of the request was learnt." in answer["error"]) == (503, True)
        answer = teacher.ask("POST", "/learn", rows[1], Idempotency_Key="again")
        assert (answer[0], answer[1]["learnt"], "repeated" in answer[1]) == (200, 302, False)
        teacher.close()
    twin = kampong.load(served_file(tmp_path / "..", name=f"{tmp_path.name}_twin")[0])
    for row in rows[:2]:
        twin.partial_fit(matrix([row]), [row["kind"]])
    assert kampong.load(path).state_digest() == twin.state_digest()


def test_a_request_is_known_again_if_the_server_ends_between_the_save_and_the_journal(tmp_path, monkeypatch):
    path, rows = served_file(tmp_path)
    with monkeypatch.context() as context:
        model = learning_model.LearningModel("points", path, checkpoint_every=3600.0)
        first = model.submit("learn", "json", json.dumps(rows[:2]).encode(), "one").result(60)
        context.setattr(learning_model._log, "disabled", True)
        context.setattr(model._journal, "compact", lambda *_: (_ for _ in ()).throw(OSError("killed here")))
        model.stop()
    assert read_model(path)[1].counters.rows == 302
    again = learning_model.LearningModel("points", path, checkpoint_every=3600.0)
    answer = again.submit("learn", "json", json.dumps(rows[:2]).encode(), "one").result(60)
    assert answer == {**first, "repeated": True}
    assert again.submit("learn", "json", json.dumps(rows[2:3]).encode(), "two").result(60)["version"] == "2"
    again.stop()
    assert read_model(path)[1].counters.rows == 303


def test_a_model_that_refuses_a_row_half_way_is_as_before(tmp_path, monkeypatch):
    path, rows = served_file(tmp_path, half_life="auto")
    with Running(path, learns=True) as running:
        learner, teacher = running.models["points"], running.client(LEARN)
        teacher.ask("POST", "/learn", rows[:5])
        digest = learner._learnt.model.estimator.state_digest()
        learns = type(learner._learnt)._note

        def fail(self, *given):
            learns(self, *given)
            raise ValueError("this row is not wanted")

        with monkeypatch.context() as context:
            context.setattr(type(learner._learnt), "_note", fail)
            status, answer = teacher.ask("POST", "/learn", rows[5])
            assert status == 500  # the replay of what was learnt fails too
        status, answer = teacher.ask("POST", "/learn", rows[5])
        assert (status, answer["learnt"]) == (200, 306)
        teacher.close()
    assert digest
    twin = read_model(path)[1]
    assert twin.counters.rows == 306


def test_a_server_that_does_not_learn_says_so_and_reads_its_file_again(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LOOK", 0.05)
    path, rows = served_file(tmp_path)
    with Running(path) as running:
        client, teacher = running.client(), running.client(LEARN)
        status, answer = teacher.ask("POST", "/learn", rows[:1])
        assert (status, answer["error"]) == (
            405,
            "points: this server only predicts. Start it with --learn to change models.",
        )
        learn(
            Source(str(tmp_path / "points.csv"), Layout(label="kind")),
            FisherDiscriminant(),
            model_file=path,
            again=True,
        )
        wait_for(client, "2")
        assert client.ask("POST", "/predict?probabilities=all", rows[0])[1]["version"] == "2"
        Path(path).write_bytes(b"damaged")
        time.sleep(0.3)
        assert client.ask("POST", "/predict", rows[0])[0] == 200
        for one in (client, teacher):
            one.close()


# Who may ask.


def test_tokens_for_reading_and_learning_are_apart(reader):
    running, _, _, _ = reader
    none, wrong, teacher = running.client(""), running.client("something else"), running.client(LEARN)
    for path in ("/", "/predict", "/v2", "/metrics", "/openapi.json", "/nothing", "/v2/models/points/infer"):
        status, answer = none.ask("GET", path)
        assert (status, "Send the header 'Authorization: Bearer TOKEN'" in answer["error"]) == (401, True)
        assert wrong.ask("GET", path) == (403, {"error": "This token is not one of this server."})
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert none.ask("GET", path)[0] == 200
    assert teacher.ask("POST", "/predict", ROW)[0] == 200
    assert none.ask("POST", "/learn", ROW)[0] == 401
    for one in (none, wrong, teacher):
        one.close()


def test_the_address_that_is_printed_opens_the_page_and_teaches_nothing(reader):
    running, _, _, _ = reader
    client = running.client("")
    client.connection.request("GET", running.service.address(with_token=True).partition(str(running.port))[2])
    answer = client.connection.getresponse()
    answer.read()
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert answer.status == 302
    assert "HttpOnly" in answer.headers["Set-Cookie"]
    status, page = client.ask("GET", "/", Cookie=cookie)
    assert (status, "kampong serve" in page, "points" in page) == (200, True, True)
    assert client.ask("POST", "/learn", ROW, Cookie=cookie)[0] == 401
    assert client.ask("GET", "/", Cookie=cookie, Origin="http://elsewhere.example")[0] == 401
    client.close()


def test_without_a_token_other_sites_and_other_names_of_the_host_are_refused(tmp_path):
    path, rows = served_file(tmp_path)
    with Running(path, learns=True, token=None, learn_token=None) as running:
        client = running.client("")
        assert client.ask("POST", "/learn", rows[0])[0] == 200
        assert client.ask("POST", "/learn", rows[0], Origin="http://elsewhere.example")[0] == 403
        assert client.ask("POST", "/predict", rows[0], Host="elsewhere.example")[0] == 403
        client.close()


def test_tls(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the certificate")
    names = [
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    words = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    path, _ = served_file(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    theirs = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with Running(path, tls=ours) as running:
        assert running.service.address().startswith("https://")
        client, plain = running.client(context=theirs), running.client()
        assert client.ask("POST", "/predict", ROW)[0] == 200
        with pytest.raises((ConnectionError, http.client.BadStatusLine)):
            plain.ask("POST", "/predict", ROW)
        client.close()
        plain.close()


# What the server says of itself.


def test_figures_for_prometheus(tmp_path):
    path, rows = served_file(tmp_path)
    with Running(path, learns=True) as running:
        client, teacher = running.client(), running.client(LEARN)
        for _ in range(3):
            client.ask("POST", "/predict", rows[:7])
        client.ask("POST", "/predict", "[3]")
        teacher.ask("POST", "/learn", rows[:2])
        status, text = client.ask("GET", "/metrics")
        for one in (client, teacher):
            one.close()
    assert status == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    values = {}
    for line in lines:
        assert re.fullmatch(r"[a-z_]+\{[a-z]+=\"[^\"]*\"(,[a-z]+=\"[^\"]*\")*\} [0-9.e+-]+", line), line
        name, _, value = line.rpartition(" ")
        values[name] = float(value)
    assert values['kampong_requests_total{model="points",endpoint="predict",status="200"}'] == 3
    assert values['kampong_requests_total{model="points",endpoint="predict",status="400"}'] == 1
    assert values['kampong_rows_total{model="points",endpoint="predict"}'] == 21
    assert values['kampong_learnt_rows{model="points"}'] == 302
    assert values['kampong_journal_requests{model="points"}'] == 1
    assert values['kampong_request_seconds_bucket{model="points",endpoint="predict",le="+Inf"}'] == 4
    kinds = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    assert {name.partition("{")[0] for name in values} == {
        name + end
        for name, kind in kinds.items()
        for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))
    }


def test_the_openapi_document_names_what_there_is(tmp_path):
    path, _ = served_file(tmp_path)
    with Running(path, learns=True) as running:
        client = running.client(LEARN)
        document = client.ask("GET", "/openapi.json")[1]
        assert document["openapi"].startswith("3.")
        assert {"/predict", "/learn", "/unlearn", "/merge", "/v2/models/{name}/infer"} <= set(document["paths"])
        for name, methods in document["paths"].items():
            for method in methods:
                status, _ = client.ask(
                    method.upper(), name.replace("{name}", "points"), b"" if method == "post" else None
                )
                assert status == (400 if method == "post" else 200), name
        assert document["components"]["schemas"]["row1"]["required"] == list(COLUMNS)
        client.close()


# The command.


def test_the_command_stops_gracefully_and_another_run_waits(tmp_path):
    path, rows = served_file(tmp_path)
    with Process(path, "--learn", "--checkpoint-every", "3600") as process:
        teacher = process.client(LEARN)
        assert teacher.ask("POST", "/learn", rows[:3])[0] == 200
        done = command("learn", tmp_path / "points.csv", "--model", path, expect=4)
        assert "another run is learning this model" in done.stderr
        teacher.close()
        assert process.stop() == 0
        logged = [json.loads(line) for line in process.said if line.startswith("{")]
    assert {"event": "request", "model": "points", "method": "POST", "path": "/learn", "status": 200}.items() <= logged[
        0
    ].items()
    assert read_model(path)[1].counters.rows == 303
    assert "303" in command("inspect", path).stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["absent.kampong"], 4, "absent.kampong: No such file or directory. Give a model that was learnt or saved."),
        (["m", "m"], 2, "two models are named 'm'. Give them names: NAME=FILE."),
        (["a/b=m"], 2, "a model needs a name without '/'. Give it as NAME=FILE."),
        (["m", "--no-token", "--token", "something"], 2, "--no-token and --token contradict each other."),
        (["m", "--no-token", "--host", "0.0.0.0"], 2, "--no-token: --host 0.0.0.0 can be reached from other machines."),
        (["m", "--token", "short"], 2, "--token has 5 characters; at least 8 are needed."),
        (["m", "--token", "the same", "--learn-token", "the same"], 2, "--token and --learn-token are the same."),
        (["m", "--tls-key", "m"], 2, "--tls-key needs --tls-certificate."),
        (["m", "--tls-certificate", "m"], 2, "--tls-certificate m: the certificate and its key cannot be read"),
        (["m"], 4, "this model has learnt nothing yet. Learn first."),
    ],
    ids=range(10),
)
def test_what_is_wrong_with_the_command_is_said(tmp_path, monkeypatch, capfd, words, code, message):
    monkeypatch.chdir(tmp_path)
    FisherDiscriminant().save("m")
    code = 3 if "learnt nothing" in message else code
    assert message in call(capfd, "serve", *words, expect=code).err


def test_curl(tmp_path):
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("this test asks with curl")
    path, rows = served_file(tmp_path)
    with Process(path, "--learn", "--no-token") as process:
        address = f"http://127.0.0.1:{process.port}"

        def ask(*words):
            done = subprocess.run([curl, "-sS", *words], capture_output=True, text=True, check=True, cwd=tmp_path)
            return done.stdout

        assert json.loads(ask("-d", json.dumps(rows[0]), f"{address}/predict"))["rows"][0]["predicted"] in "abc"
        found = ask("--data-binary", "@points.csv", "-H", "Content-Type: text/csv", f"{address}/predict")
        assert found.splitlines()[0] == "row,predicted"
        assert len(found.splitlines()) == 301
        assert json.loads(ask("-d", json.dumps(rows[0]), f"{address}/learn"))["learnt"] == 301
        assert json.loads(ask(f"{address}/v2/health/ready")) == {"ready": True}
        assert process.stop() == 0
