"""`kampong unlearn`: the model of the other records, all or nothing, and a receipt that agrees after any kill."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_iris

pytest.importorskip("typer", reason="the stream extra is not installed")

import kampong
from command import call, command
from kampong.statistics.receipt import Receipt
from kampong.streaming import unlearn_records as unlearn_module

NAMES = np.array(["setosa", "versicolor", "virginica"])


def table(path, rows, label="species"):
    """Write rows of iris as CSV."""
    X, y = load_iris(return_X_y=True)
    lines = [f"a,b,c,d,{label}", *(",".join([*map(repr, X[i].tolist()), NAMES[y[i]]]) for i in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def learnt(tmp_path, capfd):
    """Return a folder with a model of all of iris and the records to take out of it."""
    table(tmp_path / "all.csv", range(150))
    table(tmp_path / "some.csv", range(40, 60))
    learn(capfd, tmp_path, "all", "model")
    return tmp_path


def learn(capfd, folder, name, model, *more):
    call(
        capfd, "learn", folder / f"{name}.csv", "--label", "species", "-m", folder / model, "--half-life", "none", *more
    )


def unlearn(capfd, folder, *more, name="some.csv", expect=0):
    options = ("-m", folder / "model", "-r", folder / "receipt.json")
    return call(capfd, "unlearn", folder / name, *options, *more, expect=expect)


def test_the_model_is_that_of_the_other_records(learnt, capfd):
    before = kampong.load(learnt / "model").state_digest()
    printed = unlearn(capfd, learnt, "--json")
    table(learnt / "rest.csv", [*range(40), *range(60, 150)])
    learn(capfd, learnt, "rest", "expected")
    left, expected = kampong.load(learnt / "model"), kampong.load(learnt / "expected")
    np.testing.assert_allclose(left.class_means_, expected.class_means_, atol=1e-12)
    np.testing.assert_allclose(left._statistics.within_scatter(), expected._statistics.within_scatter(), atol=1e-12)
    assert left.n_samples_seen_ == 130
    receipt = Receipt.from_json(printed.out)
    assert receipt == Receipt.from_json((learnt / "receipt.json").read_text())
    assert (receipt.rows, receipt.before, receipt.after) == (20, before, left.state_digest())
    assert "20 rows taken out; receipt in" in printed.err
    table(learnt / "class.csv", range(60, 100))
    options = ("-m", learnt / "model", "-r", learnt / "second.json")
    printed = call(capfd, "unlearn", learnt / "class.csv", *options)
    assert "no rows are left of class versicolor" in printed.err
    assert kampong.load(learnt / "model").classes_.tolist() == ["setosa", "virginica"]
    call(capfd, "predict", learnt / "rest.csv", "-m", learnt / "model")


def test_a_second_run_does_nothing_and_says_so(learnt, capfd):
    unlearn(capfd, learnt)
    content = (learnt / "model").read_bytes()
    assert "It was done before: the model is as it was" in unlearn(capfd, learnt).err
    assert (learnt / "model").read_bytes() == content


def test_killed_between_receipt_and_model_it_goes_on(learnt, capfd, monkeypatch):
    before, content = kampong.load(learnt / "model").state_digest(), (learnt / "model").read_bytes()

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(unlearn_module, "write_model", killed)
        unlearn(capfd, learnt, expect=130)
    assert (learnt / "model").read_bytes() == content
    assert Receipt.from_json((learnt / "receipt.json").read_text()).before == before
    unlearn(capfd, learnt)
    receipt = Receipt.from_json((learnt / "receipt.json").read_text())
    assert (receipt.before, receipt.after) == (before, kampong.load(learnt / "model").state_digest())


@pytest.mark.slow
def test_killed_anywhere_the_model_is_the_old_or_the_new_one_and_the_receipt_agrees(learnt):
    content = (learnt / "model").read_bytes()
    before = kampong.load(learnt / "model").state_digest()
    start = time.monotonic()
    arguments = ["unlearn", learnt / "some.csv", "-m", learnt / "model", "-r", learnt / "receipt.json"]
    command(*arguments)
    seconds, after = time.monotonic() - start, kampong.load(learnt / "model").state_digest()
    rng, ends = np.random.default_rng(0), set()
    for _ in range(40):
        (learnt / "model").write_bytes(content)
        (learnt / "receipt.json").unlink(missing_ok=True)
        run = subprocess.Popen([sys.executable, "-m", "kampong", *map(str, arguments)], stderr=subprocess.DEVNULL)
        time.sleep(seconds * rng.uniform(0.5, 1.1))
        run.kill()
        run.wait()
        digest = kampong.load(learnt / "model").state_digest()
        assert digest in (before, after)
        if digest == after or (learnt / "receipt.json").exists():
            receipt = Receipt.from_json((learnt / "receipt.json").read_text())
            assert (receipt.before, receipt.after) == (before, after)
        ends.add((digest == after, (learnt / "receipt.json").exists()))
        command(*arguments)
        assert kampong.load(learnt / "model").state_digest() == after
    assert len(ends) > 1


@pytest.mark.parametrize(
    ("change", "text", "code"),
    [
        (lambda path: path.write_text(path.read_text().replace("7.0,", "7.25,")), r"is not among the rows learnt", 3),
        (lambda path: path.write_text(path.read_text().replace("versicolor", "rosa")), r"class 'rosa' was never", 3),
        (lambda path: path.write_text(path.read_text().replace("species", "kind")), r"'species', is not there", 2),
        (lambda path: path.write_text(path.read_text().replace("7.0,", "x,")), r"line 12 ", 3),
        (lambda path: path.write_text(path.read_text().replace("7.0,", ",")), r"1 numbers are missing", 3),
        (lambda path: path.write_text("a,b,c,d,species\n"), r"holds no record", 3),
    ],
)
def test_what_cannot_be_taken_out_leaves_the_model_as_it_is(learnt, capfd, change, text, code):
    content = (learnt / "model").read_bytes()
    change(learnt / "some.csv")
    printed = unlearn(capfd, learnt, expect=code)
    assert text in printed.err
    assert (learnt / "model").read_bytes() == content
    assert not (learnt / "receipt.json").exists()


def test_a_model_of_the_defaults_gives_records_back_and_the_receipt_says_what_was_dropped(learnt, capfd):
    table(learnt / "mixed.csv", np.random.default_rng(0).permutation(150).tolist())  # a sorted stream follows no drift
    call(capfd, "learn", learnt / "mixed.csv", "--label", "species", "-m", learnt / "auto")
    options = ("-m", learnt / "auto", "-r", learnt / "r.json", "--json")
    receipt = Receipt.from_json(call(capfd, "unlearn", learnt / "some.csv", *options).out)
    assert receipt.exact
    assert "It has been dropped: the model is one of all rows that are left" in receipt.remarks[0]
    table(learnt / "rest.csv", [*range(40), *range(60, 150)])
    learn(capfd, learnt, "rest", "expected")
    left, expected = kampong.load(learnt / "auto"), kampong.load(learnt / "expected")
    np.testing.assert_allclose(left.class_means_, expected.class_means_, atol=1e-12)
    np.testing.assert_allclose(left._statistics.within_scatter(), expected._statistics.within_scatter(), atol=1e-12)
    assert receipt.after == left.state_digest()
    table(learnt / "more.csv", range(40, 60))
    call(capfd, "learn", learnt / "more.csv", "-m", learnt / "auto", "--again")  # it goes on
    assert kampong.load(learnt / "auto").n_samples_seen_ == 150


def test_models_that_cannot_forget_are_refused(learnt, capfd):
    some = learnt / "all.csv"
    call(capfd, "learn", some, "--label", "species", "-m", learnt / "faded", "--half-life", "50")
    options = ("-r", learnt / "r.json")
    printed = call(capfd, "unlearn", learnt / "some.csv", "-m", learnt / "faded", *options, expect=3)
    assert "learn with --half-life none or auto" in printed.err
    assert "nothing would be left of the model" in unlearn(capfd, learnt, name="all.csv", expect=3).err
    kampong.FisherDiscriminant().fit(*load_iris(return_X_y=True)).save(learnt / "plain")
    printed = call(capfd, "unlearn", learnt / "some.csv", "-m", learnt / "plain", *options, expect=3)
    assert "no stream has learnt this model" in printed.err


def test_no_file_is_destroyed(learnt, capfd):
    for path in ("some.csv", "model"):
        options = ("-m", learnt / "model", "-r", learnt / path)
        assert "would destroy it" in call(capfd, "unlearn", learnt / "some.csv", *options, expect=2).err
    (learnt / "notes.txt").write_text("mine")
    options = ("-m", learnt / "model", "-r", learnt / "notes.txt")
    assert "is no receipt" in call(capfd, "unlearn", learnt / "some.csv", *options, expect=5).err
    unlearn(capfd, learnt)
    table(learnt / "more.csv", range(10))
    options = ("-m", learnt / "model", "-r", learnt / "receipt.json")
    (learnt / "receipt.json").write_text(
        json.dumps({**json.loads((learnt / "receipt.json").read_text()), "after": "0" * 64, "before": "1" * 64})
    )
    printed = call(capfd, "unlearn", learnt / "more.csv", *options, expect=5)
    assert "the receipt of another removal" in printed.err
