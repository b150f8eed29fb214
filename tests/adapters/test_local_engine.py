"""`kampong learn --engine local`: files learnt in processes of this machine, without any cluster."""

import json
import os
import signal

import numpy as np
import pytest
from sklearn.datasets import load_wine
from typer.testing import CliRunner

from kampong import FisherDiscriminant, load
from kampong.adapters import engines
from kampong.adapters.engines import learn_files
from kampong.cli import app
from kampong.streaming import Layout
from kampong.streaming.errors import StreamError


def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def write_parts(folder, count):
    X, y = wine()
    folder.mkdir()
    for number in range(count):
        rows = [",".join([*(f"c{j}" for j in range(13)), "kind"])]
        own = zip(X[number::count].tolist(), y[number::count], strict=True)
        rows += [",".join([*map(repr, x), f"k{label}"]) for x, label in own]
        (folder / f"{number:03}.csv").write_text("\n".join(rows) + "\n")
    return X, np.array([f"k{label}" for label in y])


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=True)


def test_any_number_of_processes_writes_the_model_of_all_rows(tmp_path):
    X, y = write_parts(tmp_path / "parts", 70)  # a tree of three levels
    with (tmp_path / "parts" / "004.csv").open("a") as file:
        file.write(",".join(["oops"] * 13) + ",k1\n")
    files = []
    for engine in ("local=1", "local=2", "local"):
        model = tmp_path / f"{engine}.kampong"
        said = run("learn", tmp_path / "parts", "-l", "kind", "-m", model, "--ridge", 0.1, "--engine", engine, "--json")
        assert said.exception is None, said.exception
        facts = json.loads(said.stdout)
        assert (facts["rows"], facts["dead"], facts["parts"]) == (178, 1, 70)
        files.append(model.read_bytes())
    assert files[0] == files[1] == files[2]
    learnt, local = load(tmp_path / "local=2.kampong"), FisherDiscriminant(ridge=0.1).fit(X, y)
    np.testing.assert_allclose(learnt.transform(X), local.transform(X), rtol=0, atol=1e-10)
    assert len((tmp_path / "local=2.kampong.dead.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("engine", "options", "text"),
    [
        ("local=0", [], "--engine local=0: how many processes? Give a whole number from 1 on, such as local=2."),
        ("local=two", [], "--engine local=two: how many processes?"),
        (
            "local",
            ["--kernel", "rbf"],
            "--kernel needs landmarks from all parts first, which --engine local does not do",
        ),
        ("locally", [], "--engine 'locally' is unknown. Use local, local=N, dask, dask=ADDRESS or spark."),
        ("local", ["--strict"], "002.csv: line 61: "),
    ],
)
def test_what_it_cannot_do_is_named(tmp_path, engine, options, text):
    write_parts(tmp_path / "parts", 3)
    if options == ["--strict"]:
        (tmp_path / "parts" / "002.csv").write_text((tmp_path / "parts" / "001.csv").read_text() + "oops\n")
    said = run("learn", tmp_path / "parts", "-l", "kind", "-m", tmp_path / "m", "--engine", engine, *options)
    assert text in str(said.exception)
    assert [one.name for one in tmp_path.iterdir()] == ["parts"]


def _dies(task, number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_is_said_and_nothing_is_written(tmp_path, monkeypatch):
    write_parts(tmp_path / "parts", 3)
    monkeypatch.setattr(engines, "learn_file", _dies)
    with pytest.raises(StreamError, match=r"--engine local: a process died .*does not fit memory"):
        learn_files(
            "local=2",
            [str(tmp_path / "parts")],
            FisherDiscriminant(),
            layout=Layout(label="kind"),
            model_file=str(tmp_path / "m"),
        )
    assert [one.name for one in tmp_path.iterdir()] == ["parts"]
