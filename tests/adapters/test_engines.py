"""`kampong learn --engine`: the model of all parts is that of one stream, whatever the format; bad input is named."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_wine

pytest.importorskip("distributed", reason="the dask extra is not installed")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

from distributed import Client, LocalCluster
from typer.testing import CliRunner

from kampong import FisherDiscriminant, KernelFisherDiscriminant
from kampong.adapters.engines import FileTask, join_files, learn_file, learn_files
from kampong.adapters.file_parts import packed, schema_of
from kampong.cli import app
from kampong.merging import statistics_of
from kampong.streaming import Layout
from kampong.streaming.errors import StreamError
from kampong.streaming.model_file import read_model, read_model_bytes
from report_problems import data_of

TOPICS = {"sea": "the ship sails on waves past a harbour", "hill": "a goat climbs rocks to the snowy peak"}


@pytest.fixture(scope="module")
def address():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        yield f"dask={cluster.scheduler_address}"


def wine():
    X, y = load_wine(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).round(3)
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(13)]).assign(kind=y + 1)


def write_parts(folder, form):
    frame = wine()
    folder.mkdir()
    for number in range(10):
        part, path = frame.iloc[number::10], folder / f"part-{number}.{form}"
        if form == "csv":
            part.to_csv(path, index=False)
        elif form == "parquet":
            part.to_parquet(path)
        else:
            dump_svmlight_file(part.drop(columns="kind"), part["kind"], str(path), zero_based=False)
    return frame


def command(*arguments, ok=True):
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=True)
    if ok and result.exception is not None:
        raise result.exception
    return result


@pytest.mark.parametrize("form", ["csv", "parquet", "svm"])
def test_the_model_of_all_parts_is_that_of_all_rows(address, tmp_path, form):
    frame = write_parts(tmp_path / "parts", form)
    if form == "csv":
        with (tmp_path / "parts" / "part-3.csv").open("a") as file:
            file.write(",".join(["oops"] * 13) + ",1\n" + ",".join(["1"] * 12) + ",,1\n")
        (tmp_path / "parts" / "part-4.csv").write_text("")
        frame = frame.drop(index=frame.index[4::10])
        (tmp_path / "parts" / "part-5.csv").write_text(",".join(frame.columns) + "\n" + ",".join(["x"] * 14) + "\n")
        frame = frame.drop(index=[index for index in frame.index if index % 10 == 5])
    model = tmp_path / "wine.kampong"
    more = ["--max-features", 13] if form == "svm" else ["--label", "kind"]
    where = tmp_path / "parts" if form == "svm" else tmp_path / "parts" / f"*.{form}"
    found = command("learn", where, *more, "-m", model, "--ridge", 0.1, "--engine", address, "--json")
    facts = json.loads(found.stdout)
    dead = 3 if form == "csv" else 0
    assert (facts["rows"], facts["dead"], facts["records"]) == (len(frame), dead, len(frame) + dead)
    assert facts["parts"] == 10
    if form == "csv":
        assert [(Path(part["source"]).name, part["dead"]) for part in facts["dead_parts"]] == [
            ("part-3.csv", 2),
            ("part-5.csv", 1),
        ]
        letters = [json.loads(line) for line in Path(f"{model}.dead.jsonl").read_text().splitlines()]
        assert [Path(letter["source"]).name for letter in letters] == ["part-3.csv"] * 2 + ["part-5.csv"]
        assert letters[0]["reason"] == "column 'c0' holds 'oops', which is not a number"
    learnt, state, _ = read_model(str(model))
    X, y = frame.drop(columns="kind").to_numpy(), frame["kind"].to_numpy()
    local = FisherDiscriminant(ridge=0.1).fit(X, y)
    np.testing.assert_allclose(learnt.transform(X), local.transform(X), rtol=0, atol=1e-10)
    assert (state.counters.rows, state.finished, state.merged) == (len(frame), True, (str(where),))
    # what the other commands make of the file
    source = next(iter(sorted((tmp_path / "parts").iterdir())))
    scored = json.loads(command("score", source, "-m", model, "--json", *more[: 2 if form == "svm" else 0]).stdout)
    assert scored["accuracy"] > 0.9
    assert command("predict", source, "-m", model, *more[: 2 if form == "svm" else 0]).stdout.startswith(
        "row,predicted"
    )
    assert "FisherDiscriminant" in command("inspect", model).stdout
    check_report(model, tmp_path / "wine.html", y, local, times=1)
    command("merge", model, model, "-o", tmp_path / "twice.kampong")
    assert read_model(str(tmp_path / "twice.kampong"))[1].counters.rows == 2 * len(frame)
    check_report(tmp_path / "twice.kampong", tmp_path / "twice.html", y, local, times=2)
    assert data_of(tmp_path / "twice.html")["title"] == "twice.kampong"  # of several sources, the file's own name


def check_report(model, path, y, local, times):
    """Compare what a report says with the rows; a merged model has no course, and every class its rows."""
    command("report", model, "-o", path)
    data = data_of(path)
    kinds, counts = np.unique(y, return_counts=True)
    assert data["classes"]["name"] == [str(kind) for kind in kinds]
    assert data["classes"]["rows"] == (times * counts).tolist()
    assert (data["totals"]["learnt"], data["totals"]["classes"]) == (times * len(y), len(kinds))
    assert (data["totals"]["rows"], data["totals"]["directions"]) == (0, 2)
    assert data["measures"] == {"accuracy": None, "balanced_accuracy": None, "macro_f1": None}
    assert {one["name"] for one in data["chosen"]} == {"head", "ridge"}
    shares = [one["share"] for one in data["directions"]]
    np.testing.assert_allclose(shares, local.explained_variance_ratio_, atol=1e-2 if times > 1 else 1e-9)
    centres = (local.class_means_ - local.mean_) @ local.components_.T
    for number, one in enumerate(data["directions"]):
        assert {one["low"][0], one["high"][0]} == {int(centres[:, number].argmin()), int(centres[:, number].argmax())}


def test_words_of_parts_come_together(address, tmp_path):
    """Every part numbers its words in its own order; the model of all is the model of one stream of them."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(120):
        topic = ["sea", "hill"][number % 2]
        words = rng.permutation([*TOPICS[topic].split(), *(f"w{k}" for k in rng.integers(0, 40, 4))])
        rows.append({"text": " ".join(words), "topic": topic})
    (tmp_path / "parts").mkdir()
    for number in range(4):
        pd.DataFrame(rows[number * 30 : number * 30 + 30]).to_csv(tmp_path / "parts" / f"{number}.csv", index=False)
    options = ["--label", "topic", "--text", "text", "--ridge", 0.1, "--head", "cosine"]
    command("learn", tmp_path / "parts", *options, "-m", tmp_path / "a.kampong", "--engine", address, "-q")
    command("learn", tmp_path / "parts", *options, "-m", tmp_path / "b.kampong", "--half-life", "none", "-q")
    probe = tmp_path / "probe.csv"
    pd.DataFrame(rows[:40]).to_csv(probe, index=False)
    one, other = (command("project", probe, "-m", tmp_path / f"{name}.kampong").stdout for name in "ab")
    values = [np.array([line.split(",") for line in text.splitlines()[1:]], dtype=float) for text in (one, other)]
    np.testing.assert_allclose(values[0], values[1], rtol=0, atol=1e-8)
    words = read_model(str(tmp_path / "a.kampong"))[1].memory.names
    assert {b"ship", b"goat"} <= set(words)


def test_landmarks_come_from_all_parts(address, tmp_path):
    frame = write_parts(tmp_path / "parts", "csv")
    model = tmp_path / "k.kampong"
    command("learn", tmp_path / "parts", "--label", "kind", "-m", model, "--kernel", "rbf", "--engine", address, "-q")
    learnt = read_model(str(model))[0]
    assert isinstance(learnt, KernelFisherDiscriminant)
    assert learnt.score(frame.drop(columns="kind").to_numpy(), frame["kind"]) > 0.97


def test_the_same_bits_in_any_order_of_the_work(tmp_path):
    write_parts(tmp_path / "parts", "parquet")
    paths = sorted(map(str, (tmp_path / "parts").iterdir()))
    layout, schema = schema_of(paths, "kind", None)
    blank = statistics_of(FisherDiscriminant(), []).to_bytes(solve=False)
    task = FileTask(blank, packed(paths), len(paths), layout, schema)
    once = join_files([learn_file(task, number) for number in range(10)])
    again = join_files(list(reversed([learn_file(task, number) for number in reversed(range(10))])))
    assert once == again
    assert read_model_bytes(once[0], "it")[1].counters.rows == 178


def test_processes_of_this_machine_give_the_same_file_as_dask(address, tmp_path):
    write_parts(tmp_path / "parts", "csv")
    files = []
    for engine in (address, "local=2"):
        model = tmp_path / f"{len(files)}.kampong"
        command("learn", tmp_path / "parts", "--label", "kind", "-m", model, "--engine", engine)
        files.append(model.read_bytes())
    assert files[0] == files[1]


def test_an_engine_refuses_what_it_cannot_do(address, tmp_path):
    write_parts(tmp_path / "parts", "csv")
    parts, model = tmp_path / "parts", tmp_path / "m.kampong"
    said = {
        ("--follow",): r"--follow needs one stream in order, and --engine dask learns parts that have none",
        ("--out", "x.csv"): r"--out needs one stream",
        ("--tfidf",): r"--tfidf needs one stream",
        ("--missing", "mean"): r"--missing mean fills in the mean of the rows before",
        ("--method", "recursion"): r"--engine dask: MarginRecursion cannot be learnt in parts",
        ("--half-life", "100"): r"half_life=100.0 ages rows",
    }
    for options, text in said.items():
        result = command("learn", parts, "--label", "kind", "-m", model, *options, "--engine", "dask", ok=False)
        assert text in str(result.exception), options
    for engine in ("dusk", "spark=local"):
        result = command("learn", parts, "--label", "kind", "-m", model, "--engine", engine, ok=False)
        assert f"--engine {engine!r} is unknown. Use local, local=N, dask, dask=ADDRESS or spark." in str(
            result.exception
        )
    result = command("learn", "-", "--label", "kind", "-m", model, "--engine", "dask", ok=False)
    assert "stdin is not one" in str(result.exception)
    result = command("learn", parts, "--label", "kind", "-m", parts / "part-1.csv", "--engine", "dask", ok=False)
    assert "writing would destroy it" in str(result.exception)
    model.write_bytes(b"something of mine")
    result = command("learn", parts, "--label", "kind", "-m", model, "--engine", address, ok=False)
    assert "there is a model already, and a fit in parts starts again" in str(result.exception)
    assert model.read_bytes() == b"something of mine"
    model.unlink()
    with (parts / "part-7.csv").open("a") as file:
        file.write(",".join(["oops"] * 13) + ",1\n")
    result = command("learn", parts, "--label", "kind", "-m", model, "--engine", address, "--strict", ok=False)
    assert "part-7.csv: line 20: column 'c0' holds 'oops'" in str(result.exception)
    result = command("learn", parts, "--label", "kind", "-m", model, "--engine", address, "--max-classes", 2, ok=False)
    assert "more than 2 classes (1, 2, 3, …). Is 'kind' the label?" in str(result.exception)
    result = command("learn", parts, "--label", "kind", "-m", model, "--engine", address, "--classes", "7,8", ok=False)
    assert "no part holds a record that could be used. The first says: " in str(result.exception)
    assert list(tmp_path.iterdir()) == [parts]


def test_no_scheduler_is_said(tmp_path):
    write_parts(tmp_path / "parts", "csv")
    with pytest.raises(StreamError, match=r"no scheduler answers there within .* seconds.*leave out the address"):
        learn_files(
            "dask=tcp://127.0.0.1:1",
            [str(tmp_path / "parts")],
            FisherDiscriminant(),
            layout=Layout(label="kind"),
            model_file=str(tmp_path / "m"),
        )
