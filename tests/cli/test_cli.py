"""The command line: what a user types, reads and gets, and that it does what Python does, bit for bit."""

import itertools
import json
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import kampong
from command import call, command
from kampong.streaming import Layout, Source, learn
from stream_problems import without_clock, write_points


def test_the_command_line_and_python_give_the_same_model(tmp_path, capfd):
    write_points(tmp_path / "a.csv", 2000, bad=0.02)
    source = str(tmp_path / "a.csv")
    arguments = ("--label", "kind", "--epsilon", "0.2", "--components", "2", "--half-life", "900", "--classes", "a,b,c")
    call(capfd, "learn", source, "-m", tmp_path / "m", "--out", tmp_path / "m.csv", *arguments)
    learn(
        Source(source, Layout(label="kind")),
        kampong.MarginSubspace(2, epsilon=0.2, half_life=900.0),
        model_file=str(tmp_path / "n"),
        out=str(tmp_path / "n.csv"),
        classes=["a", "b", "c"],
    )
    assert without_clock(tmp_path / "m") == without_clock(tmp_path / "n")
    for end in (".csv", ".dead.jsonl"):
        assert (tmp_path / f"m{end}").read_bytes() == (tmp_path / f"n{end}").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], kampong.FisherDiscriminant(None, half_life="auto")),
        (["--ridge", "0.5", "--components", "1"], kampong.FisherDiscriminant(1, ridge=0.5, half_life="auto")),
        (["--epsilon", "0.5"], kampong.MarginSubspace(epsilon=0.5)),
        (["--method", "margin"], kampong.MarginSubspace()),
        (["--epsilon", "auto"], kampong.MarginSubspace(epsilon="auto")),
        (["--method", "interclass", "--seed", "3"], kampong.InterClassScatter(random_state=3)),
        (["--method", "kampong", "--epsilon", "0.25"], kampong.SupervisedKampongMeasure(a=1.5)),
    ],
)
def test_options_make_the_estimator(tmp_path, capfd, arguments, expected):
    write_points(tmp_path / "a.csv", 300)
    call(capfd, "learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m", *arguments)
    model = kampong.load(tmp_path / "m")
    assert type(model) is type(expected)
    assert model.get_params() == expected.get_params()


def test_learn_tells_how_it_went(tmp_path, capfd):
    write_points(tmp_path / "a.csv", 500, bad=0.05)
    arguments = ["learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m"]
    first = call(capfd, *arguments)
    assert "500 rows, accuracy 0." in first.err
    assert f"dead letters in {tmp_path / 'm'}.dead.jsonl; finished." in first.err
    assert first.out == ""
    again = call(capfd, *arguments, expect=6)
    said = f"{tmp_path / 'a.csv'}: {tmp_path / 'm'} has learnt this already (500 rows in all). Give other files"
    assert said in again.err
    with (tmp_path / "a.csv").open("a") as file:
        file.write("1,2,3,4,a\n")
    assert "501 rows (1 of them new)" in call(capfd, *arguments).err
    with (tmp_path / "a.csv").open("a") as file:
        file.write("1,2,3,4,b\n")
    assert call(capfd, *arguments, "--quiet").err == ""
    with (tmp_path / "a.csv").open("a") as file:
        file.write("1,2,3,4,c\n")
    facts = json.loads(call(capfd, *arguments, "--json").out)
    assert (facts["rows"], facts["finished"], facts["resumed"]) == (503, True, True)
    assert [one["rows"] for one in facts["sources"]] == [500, 1, 1, 1]


def test_mistakes_are_answered(tmp_path, capfd):
    write_points(tmp_path / "a.csv", 300)
    a, m = tmp_path / "a.csv", tmp_path / "m"
    assert "Did you mean 'kind'?" in call(capfd, "learn", a, "-l", "Kind", "-m", m, expect=2).err
    assert "No such file" in call(capfd, "learn", tmp_path / "b.csv", "-l", "kind", "-m", m, expect=3).err
    assert (
        "--method 'lda' is unknown" in call(capfd, "learn", a, "-l", "kind", "-m", m, "--method", "lda", expect=2).err
    )
    assert "got 'x'" in call(capfd, "learn", a, "-l", "kind", "-m", m, "--epsilon", "x", expect=2).err
    both = ("--method", "fisher", "--epsilon", "1")
    assert "--epsilon belongs to" in call(capfd, "learn", a, "-l", "kind", "-m", m, *both, expect=2).err
    assert "must be a whole number" in call(capfd, "learn", a, "-l", "kind", "-m", m, "-n", "0", expect=2).err
    assert "--label" in call(capfd, "learn", a, "-m", m, expect=2).err
    assert "one character" in call(capfd, "learn", a, "-l", "kind", "-m", m, "--delimiter", "ab", expect=2).err
    assert "'xml' is unknown" in call(capfd, "learn", a, "-l", "kind", "-m", m, "--format", "xml", expect=3).err
    assert not m.exists()
    call(capfd, "learn", a, "-l", "kind", "-m", m)
    changed = call(capfd, "learn", a, "-l", "kind", "-m", m, "--ridge", "1", expect=4)
    assert "ridge was 'auto' and is now 1.0" in changed.err
    assert "m.kampong" in call(capfd, "inspect", tmp_path / "m.kampong", expect=4).err
    (tmp_path / "bad").write_bytes(b"nonsense")
    assert str(tmp_path / "bad") in call(capfd, "predict", a, "-m", tmp_path / "bad", expect=4).err
    assert "Choose another place" in call(capfd, "predict", a, "-m", m, "-o", tmp_path / "no" / "x", expect=5).err
    (tmp_path / "c.csv").write_text("x1,x2,x3\n1,2,3\n")
    # its columns are the model's own, so none of them is the one that was meant
    assert (
        "the model needs: no column is named 'x4'. The columns are 'x1', 'x2', 'x3'."
        in call(capfd, "predict", tmp_path / "c.csv", "-m", m, expect=2).err
    )
    (tmp_path / "d.csv").write_text("x1,x2,x3,x4,kind\n1,2,3,4,a\n1,2,3,4\n")
    strict = call(capfd, "learn", tmp_path / "d.csv", "-l", "kind", "-m", tmp_path / "n", "--strict", expect=3)
    assert "line 3" in strict.err


def test_pipes_work_both_ways(tmp_path):
    write_points(tmp_path / "a.csv", 400, bad=0.02)
    data = (tmp_path / "a.csv").read_text()
    arguments = ("--format", "csv", "-l", "kind", "-m", tmp_path / "m", "--out", "-")
    done = command("learn", "-", *arguments, input=data)
    lines = done.stdout.splitlines()
    assert lines[0] == "row,label,predicted,z1,z2"
    assert len(lines) == 401
    predicted = command("predict", "-", "--format", "csv", "-m", tmp_path / "m", "--probabilities", input=data)
    X = np.array(
        [line.split(",")[:4] for line in data.splitlines()[1:] if line.count(",") == 4 and line[-1] in "abc"][:5]
    )
    model = kampong.load(tmp_path / "m")
    rows = [line.split(",") for line in predicted.stdout.splitlines()]
    assert rows[0] == ["row", "predicted", "probability"]
    assert [row[1].strip('"') for row in rows[1:6]] == model.predict(X.astype(float)).tolist()
    assert len(rows) == 401
    assert "records could not be used" in predicted.stderr
    projected = command("project", tmp_path / "a.csv", "-m", tmp_path / "m")
    points = np.array([line.split(",")[1:] for line in projected.stdout.splitlines()[1:6]], dtype=float)
    np.testing.assert_allclose(points, model.transform(X.astype(float)), rtol=1e-12)


def test_a_closed_pipe_is_no_drama(tmp_path):
    write_points(tmp_path / "a.csv", 60_000)
    learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(ridge=0.1), label="kind", model_file=str(tmp_path / "m"))
    line = f"{sys.executable} -m kampong project {tmp_path / 'a.csv'} -m {tmp_path / 'm'}"
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -n 2; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "row,z1,z2"
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_same_command_goes_on(tmp_path, number):
    write_points(tmp_path / "a.csv", 3000)
    data = (tmp_path / "a.csv").read_bytes()
    arguments = ["learn", "-", "--format", "csv", "-l", "kind", "-m", tmp_path / "m", "-o", tmp_path / "o.csv"]
    with subprocess.Popen(
        [sys.executable, "-m", "kampong", *map(str, arguments)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(data[:60_000])
        process.stdin.flush()
        until = time.monotonic() + 60
        while (tmp_path / "o.csv").stat().st_size < 1000 if (tmp_path / "o.csv").exists() else True:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert b"stopped; start the same command to go on" in errors
    done = command(*arguments, input=data, text=False)
    assert b"3,000 rows" in done.stderr
    model = kampong.FisherDiscriminant(half_life="auto")
    learn(str(tmp_path / "a.csv"), model, label="kind", out=str(tmp_path / "p.csv"))
    assert (tmp_path / "o.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()


def test_inspect_and_merge(tmp_path, capfd):
    for name in ("a", "b"):
        write_points(tmp_path / f"{name}.csv", 300, seed=ord(name))
        call(capfd, "learn", tmp_path / f"{name}.csv", "-l", "kind", "-m", tmp_path / name, "--ridge", "0.1")
    call(capfd, "merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "c")
    facts = json.loads(call(capfd, "inspect", tmp_path / "c", "--json").out)
    assert facts["n_samples_seen"] == 600
    assert facts["classes"] == ["a", "b", "c"]
    assert sum(facts["class_counts"]) == 600
    shown = "".join(call(capfd, "inspect", tmp_path / "c").out.split())  # long paths are wrapped
    for word in ("FisherDiscriminant", "scatter", "eigenvalue"):
        assert word in shown
    assert "a.csv" in json.dumps(facts)
    assert "two model files" in call(capfd, "merge", tmp_path / "a", "--out", tmp_path / "d", expect=2).err


def test_the_demonstration_runs(tmp_path, capfd):
    pytest.importorskip("tornado", reason="the live page needs the `stream` extra")
    from report_problems import data_of

    printed = call(capfd, "demo", "--folder", tmp_path / "demo")
    assert "$ kampong learn" in printed.err
    assert "1,797 rows, accuracy 0." in printed.err
    report = tmp_path / "demo" / "report.html"
    assert printed.err.rstrip().endswith(report.as_uri())
    # At each point of the map its digit.
    points, names = data_of(report)["points"], data_of(report)["classes"]["name"]
    images, digits = load_digits(return_X_y=True)
    assert len(points["pictures"]) == len(points["row"]) > 500
    for row, label, picture in zip(points["row"], points["label"], points["pictures"], strict=True):
        assert names[label] == str(digits[row - 1])
        np.testing.assert_allclose([int(level, 16) for level in picture], 15 / 16 * images[row - 1], atol=0.5)
    assert len((tmp_path / "demo" / "predictions.csv").read_text().splitlines()) == 1798
    assert "Model and predictions are identical, bit for bit." in printed.err
    rows = int(re.search(r"Killed after ([\d,]+) rows", printed.err)[1].replace(",", ""))
    assert 0 < rows < 1797
    accuracies = dict(re.findall(r"(kampong|SGDClassifier|MLPClassifier) +([\d.]+)% correct  █", printed.err))
    assert len(accuracies) == 3
    assert max(accuracies, key=lambda name: float(accuracies[name])) == "kampong"
    receipt = json.loads((tmp_path / "demo" / "sevens.receipt.json").read_text())
    assert (receipt["classes_gone"], receipt["rows"]) == ([7], 179)
    assert f"State before {receipt['before'][:16]}…, after {receipt['after'][:16]}…" in printed.err


def test_the_demonstration_opens_its_report_where_there_is_a_screen(monkeypatch):
    from kampong.cli import demo

    monkeypatch.setattr(demo.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    assert not demo._display()
    monkeypatch.setenv("DISPLAY", ":0")
    assert demo._display()
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5 10.0.0.2 22")
    assert not demo._display()


def test_a_time_between_saves_cannot_be_negative(tmp_path, capfd):
    write_points(tmp_path / "s.csv")
    printed = call(
        capfd, "learn", tmp_path / "s.csv", "-l", "kind", "-m", tmp_path / "m", "--checkpoint-every", "-1", expect=2
    )
    assert "--checkpoint-every" in " ".join(printed.err.split())
    assert not (tmp_path / "m").exists()


def test_every_help_has_examples(capfd):
    for name in ("learn", "predict", "project", "inspect", "merge", "score", "report", "demo"):
        printed = call(capfd, name, "--help").out
        assert "Examples:" in printed
        assert f"kampong {name}" in printed
    assert "Exit codes" in call(capfd, "--help").out


def test_help_lists_the_commands_as_a_newcomer_meets_them(capfd):
    from kampong.cli.common import COMMANDS, app

    printed = call(capfd, "--help").out
    places = [re.search(rf"^\W*{name}\b", printed, re.MULTILINE).start() for name in COMMANDS]
    assert places == sorted(places)
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(COMMANDS)


def test_help_is_quick_and_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['kampong', '--help']\n"
        "from kampong.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'sklearn', 'numba', 'pyarrow', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stderr.strip() == "[]"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_learning_and_predicting_import_no_estimators_of_scikit_learn(tmp_path):
    """Only `to_sklearn` needs them: they would cost every command a tenth of a second and 20 MB."""
    write_points(tmp_path / "a.csv", 60)
    model, heavy = str(tmp_path / "m"), ("linear_model", "ensemble", "decomposition", "svm", "feature_selection")
    for arguments in (["learn", "--label", "kind", "--model", model], ["predict", "--model", model]):
        code = (
            f"import sys; sys.argv = ['kampong', *{[arguments[0], str(tmp_path / 'a.csv'), *arguments[1:]]!r}]\n"
            "from kampong.cli import main\n"
            "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
            f"print([name for name in {heavy!r} if f'sklearn.{{name}}' in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("model", [kampong.MarginSubspace(epsilon=0.2), kampong.FisherDiscriminant(ridge=0.2)], ids=str)
def test_progress_is_for_terminals(tmp_path, model):
    import io

    from kampong.streaming.outputs.progress import Progress

    write_points(tmp_path / "a.csv", 2000)
    screen = io.StringIO()
    show = Progress(screen)
    run = learn(str(tmp_path / "a.csv"), model, label="kind", watch=show)
    show.write(run)
    lines = [line.split() for line in screen.getvalue().splitlines()]
    assert lines[0] == ["rows", "accuracy", "since", "last", "rows/s", "classes", "parameter", "directions", "dead"]
    rows = [int(line[0].replace(",", "")) for line in lines[1:]]
    assert rows[-1] == 2000
    assert all(later >= 2 * earlier for earlier, later in itertools.pairwise(rows[:-1]))
    assert lines[-1][1] == f"{run.counters.accuracy:.4f}"
    assert lines[-1][5] == "0.2"
