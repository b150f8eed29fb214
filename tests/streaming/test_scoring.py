"""`kampong score`, `kampong report` and the options of the model; figures against scikit-learn."""

import json
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the report needs the `stream` extra")

from sklearn import metrics

import kampong
from command import call
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import UsageError
from kampong.streaming.options import estimator
from kampong.streaming.scoring import Score, show_score
from stream_problems import write_points


@pytest.fixture
def learnt(tmp_path):
    """Return a folder with a model of three classes, and other rows to judge it by."""
    write_points(tmp_path / "a.csv", 400)
    model = kampong.FisherDiscriminant(ridge=0.1)
    learn(str(tmp_path / "a.csv"), model, label="kind", model_file=str(tmp_path / "m"))
    write_points(tmp_path / "test.csv", 300, seed=5, bad=0.03)
    return tmp_path


def test_a_score_is_what_scikit_learn_says(learnt, capfd):
    found = json.loads(call(capfd, "score", learnt / "test.csv", "-m", learnt / "m", "--json").out)
    assert found["rows"] + found["dead"] > 300
    classes, table = found["classes"], np.array(found["confusion"])
    true = np.repeat(np.repeat(classes, 3), table.ravel())
    predicted = np.repeat(np.tile(classes, 3), table.ravel())
    expected = {
        "accuracy": metrics.accuracy_score(true, predicted),
        "micro_f1": metrics.f1_score(true, predicted, average="micro"),
        "macro_f1": metrics.f1_score(true, predicted, average="macro"),
        "balanced_accuracy": metrics.balanced_accuracy_score(true, predicted),
        "kappa": metrics.cohen_kappa_score(true, predicted),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name
    assert 0.6 < found["accuracy"] < 1.0
    printed = call(capfd, "score", learnt / "test.csv", "-m", learnt / "m").out
    assert "balanced accuracy" in printed
    assert "true \\ predicted" in printed


def test_a_confusion_that_does_not_fit_is_a_list_of_the_worst_mistakes(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    true = rng.integers(0, 40, 3000)
    said = np.where(rng.random(3000) < 0.8, true, (true * 7 + 1) % 40)
    pairs = Counter((f"kind {t}", f"kind {p}") for t, p in zip(true.tolist(), said.tolist(), strict=True))
    show_score(Score(pairs))
    lines = capfd.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    wrong = Counter({pair: count for pair, count in pairs.items() if pair[0] != pair[1]})
    assert f"40 classes, {len(wrong)} kinds of mistakes. The most frequent ones; --json has all." in lines
    ((worst, predicted), count) = wrong.most_common(1)[0]
    share = count / sum(number for (label, _), number in pairs.items() if label == worst)
    shown = [line.split("  ") for line in lines]
    assert any([part.strip() for part in line if part.strip()][2:] == [str(count), f"{share:.1%}"] for line in shown)
    assert predicted != worst


def test_clean_rows_score_exactly_what_predict_says(learnt, capfd):
    write_points(learnt / "clean.csv", 200, seed=8)
    found = json.loads(call(capfd, "score", learnt / "clean.csv", "-m", learnt / "m", "--json").out)
    batches = list(Source(str(learnt / "clean.csv"), Layout(label="kind")).open())
    X, y = np.vstack([b.X for b in batches]), np.concatenate([b.y for b in batches])
    said = kampong.load(learnt / "m").predict(X)
    assert found["rows"] == 200
    np.testing.assert_array_equal(found["confusion"], metrics.confusion_matrix(y, said))


def test_a_score_needs_labels_and_a_stream(learnt, capfd):
    (learnt / "bare.csv").write_text("x1,x2,x3,x4\n1,2,3,4\n")
    said = call(capfd, "score", learnt / "bare.csv", "-m", learnt / "m", expect=2).err
    assert "the column of the class, 'kind', is not there" in said
    X = np.random.default_rng(0).normal(size=(30, 4))
    kampong.FisherDiscriminant(ridge=1.0).fit(X, X[:, 0] > 0).save(learnt / "p")
    assert "no stream has learnt" in call(capfd, "score", learnt / "a.csv", "-m", learnt / "p", expect=3).err


def test_a_report_comes_from_the_model_file_at_any_time(learnt, capfd):
    said = call(capfd, "report", learnt / "m", "--out", learnt / "r.html")
    assert "the report of 400 rows" in said.err
    assert "a.csv" in (learnt / "r.html").read_text()
    before = (learnt / "m").read_bytes()
    call(capfd, "report", learnt / "m", "--out", learnt / "m", expect=2)
    assert (learnt / "m").read_bytes() == before
    call(capfd, "report", learnt / "m", "--out", learnt / "no" / "r.html", expect=5)


def test_probabilities_of_all_classes(learnt, capfd):
    lines = call(capfd, "predict", learnt / "a.csv", "-m", learnt / "m", "--probabilities", "all").out.splitlines()
    assert lines[0] == '"row","predicted","probability of a","probability of b","probability of c"' or lines[0] == (
        "row,predicted,probability of a,probability of b,probability of c"
    )
    model = kampong.load(learnt / "m")
    X = np.vstack([b.X for b in Source(str(learnt / "a.csv"), Layout(label="kind")).open()])
    found = np.array([[float(value) for value in line.split(",")[2:]] for line in lines[1:]])
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-9)
    best = call(capfd, "predict", learnt / "a.csv", "-m", learnt / "m", "--probabilities").out.splitlines()
    np.testing.assert_allclose([float(line.split(",")[2]) for line in best[1:]], found.max(axis=1), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ridge": "rule"}, kampong.FisherDiscriminant(ridge="rule", half_life="auto")),
        ({"head": "cosine", "half_life": "none"}, kampong.FisherDiscriminant(head="cosine")),
        ({"half_life": "500"}, kampong.FisherDiscriminant(half_life=500.0)),
        ({"method": "mmc"}, kampong.MaximumMarginCriterion()),
        ({"method": "skm", "a": "2"}, kampong.SupervisedKampongMeasure(a=2.0)),
        ({"a": "auto"}, kampong.SupervisedKampongMeasure(a="auto")),
        ({"method": "recursion", "components": "3"}, kampong.MarginRecursion(3)),
        ({"kernel": "rbf"}, kampong.KernelFisherDiscriminant()),
        ({"kernel": "rbf", "components": "1", "seed": 4}, kampong.KernelFisherDiscriminant(1, random_state=4)),
    ],
)
def test_options_make_the_model(options, expected):
    found = estimator(**options)
    assert type(found) is type(expected)
    assert found.get_params() == expected.get_params()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "lda"}, "--method 'lda' is unknown. Use fisher, margin, mmc, skm, interclass or recursion."),
        ({"a": "2", "epsilon": "1"}, "--a and --epsilon say the same thing"),
        ({"a": "0.5"}, "--a must be a number ≥ 1, or auto; got '0.5'"),
        ({"head": "tree"}, "--head 'tree' is unknown. Use auto, "),
        ({"kernel": "cubic"}, "--kernel 'cubic' is unknown. Use rbf, "),
        ({"kernel": "rbf", "half_life": "9"}, "--half-life does not go with --kernel"),
        ({"kernel": "rbf", "method": "mmc"}, "--kernel belongs to --method fisher; --method is mmc."),
        ({"method": "mmc", "ridge": "1"}, "--ridge belongs to --method fisher; --method is mmc."),
        ({"half_life": "soon"}, "--half-life must be a number of rows > 0, auto or none; got 'soon'"),
        ({"method": "margin", "half_life": "auto"}, "--half-life auto belongs to --method fisher"),
        ({"ridge": "often"}, "--ridge must be a number ≥ 0, or auto or rule; got 'often'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, said):
    with pytest.raises(UsageError) as error:
        estimator(**options)
    assert said in str(error.value)


def test_curved_classes_need_a_kernel(tmp_path, capfd):
    rng = np.random.default_rng(0)
    angle, ring = rng.uniform(0, 2 * np.pi, 1500), rng.integers(0, 2, 1500)
    X = np.c_[np.cos(angle), np.sin(angle)] * (1.0 + ring)[:, None] + 0.15 * rng.normal(size=(1500, 2))
    lines = [f"{x:.4f},{y:.4f},{'outer' if r else 'inner'}" for (x, y), r in zip(X.tolist(), ring, strict=True)]
    (tmp_path / "rings.csv").write_text("\n".join(["x,y,ring", *lines]) + "\n")
    arguments = ("learn", tmp_path / "rings.csv", "-l", "ring", "--kernel", "rbf", "-m", tmp_path / "m", "--json")
    assert json.loads(call(capfd, *arguments).out)["accuracy"] > 0.97
    assert type(kampong.load(tmp_path / "m")) is kampong.KernelFisherDiscriminant


def test_the_version_and_the_groups_of_options(capfd):
    assert call(capfd, "--version").out == f"kampong {kampong.__version__}\n"
    printed = call(capfd, "learn", "--help").out
    for group in ("Model", "Columns", "Source", "Results"):
        assert f"─ {group} ─" in printed
