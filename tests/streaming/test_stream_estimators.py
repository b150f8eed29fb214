"""Every estimator of the library that has `partial_fit`, through the stream tool: learn, stop, go on, same bits."""

import threading

import numpy as np
import pytest
from sklearn.base import clone

import kampong
from kampong.files.saved_models import CLASSES
from kampong.streaming import Layout, Source, learn
from kampong.streaming.apply_model import apply
from kampong.streaming.errors import StreamError
from kampong.streaming.inspection import describe
from kampong.streaming.sources import blocks
from stream_problems import without_clock, write_points

MODELS = {
    "CandidCovarianceFreePCA": kampong.CandidCovarianceFreePCA(2),
    "CoreVectorClassifier": kampong.CoreVectorClassifier(max_stored_rows=150),
    "CriterionSubspace": kampong.CriterionSubspace(criterion="margin", parameter=0.1),
    "FisherDiscriminant": kampong.FisherDiscriminant(),
    "InformationGain": kampong.InformationGain(2),
    "InterClassScatter": kampong.InterClassScatter(),
    "KernelFisherDiscriminant": kampong.KernelFisherDiscriminant(landmarks=15),
    "KernelMarginSubspace": kampong.KernelMarginSubspace(2, epsilon=0.05, landmarks=15),
    "MarginRecursion": kampong.MarginRecursion(2),
    "MarginSubspace": kampong.MarginSubspace(2, epsilon=0.1),
    "MaxMinOverClassifier": kampong.MaxMinOverClassifier(nu=0.3),
    "MaximumMarginCriterion": kampong.MaximumMarginCriterion(2),
    "MaximumMarginDiscriminant": kampong.MaximumMarginDiscriminant(),
    "MinOverClassifier": kampong.MinOverClassifier(kernel="rbf", max_iter=300),
    "SupervisedKampongMeasure": kampong.SupervisedKampongMeasure(2, a=1.2),
    "WeighedDiscriminant": kampong.WeighedDiscriminant(),
}
UNLABELLED = ("CandidCovarianceFreePCA", "InformationGain")
quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def test_none_is_left_out():
    streams = {name for name, kind in CLASSES.items() if hasattr(kind, "partial_fit") and hasattr(kampong, name)}
    assert streams == set(MODELS)


@quiet
@pytest.mark.parametrize("name", MODELS)
def test_it_learns_stops_and_goes_on(name, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "SMALLEST", 1024)
    monkeypatch.setattr(blocks, "LARGEST", 4096)
    write_points(tmp_path / "a.csv", 700, bad=0.02)

    def run_to(rows, model_file, out):
        stop = threading.Event()

        def watch(run):
            if run.counters.rows >= rows:
                stop.set()

        return learn(
            str(tmp_path / "a.csv"),
            clone(MODELS[name]),
            label="kind",
            model_file=str(tmp_path / model_file),
            out=str(tmp_path / out),
            watch=watch,
            stop=stop,
        )

    whole = run_to(10**9, "whole", "whole.csv")
    for rows in (60, 250, 450, 10**9):
        run = run_to(rows, "parts", "parts.csv")
    assert run.finished
    assert run.resumed
    assert run.counters == whole.counters
    assert run.counters.rows == 700
    assert run.counters.records == run.counters.rows + run.counters.dead
    assert without_clock(tmp_path / "parts") == without_clock(tmp_path / "whole")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    if name not in UNLABELLED:
        assert whole.counters.scored > 500
        assert whole.counters.accuracy > 0.6
    loaded = kampong.load(tmp_path / "parts")
    X = np.random.default_rng(0).normal(size=(20, 4))
    for read in ("transform", "predict"):
        if hasattr(loaded, read):
            np.testing.assert_array_equal(getattr(loaded, read)(X), getattr(whole.model, read)(X))


def test_a_late_class_is_named_where_all_must_be_known(tmp_path):
    good, _ = write_points(tmp_path / "a.csv", 900)
    lines = sorted(good, key=lambda line: line.endswith("c"))
    (tmp_path / "a.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *lines]) + "\n")
    model = kampong.MaxMinOverClassifier(nu=0.3, max_iter=50)
    with (
        pytest.warns(match="gap"),
        pytest.raises(StreamError, match=r"a.csv: MaxMinOverClassifier.partial_fit: the label .*'c'.* is not among"),
    ):
        learn(str(tmp_path / "a.csv"), model, label="kind")


@quiet
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_one_is_applied_and_shown(name, tmp_path):
    write_points(tmp_path / "a.csv", 300)
    file = str(tmp_path / "model")
    run = learn(str(tmp_path / "a.csv"), clone(MODELS[name]), label="kind", model_file=file)
    assert describe(file)["model"] == name
    source = Source(str(tmp_path / "a.csv"))
    X = np.concatenate([batch.X for batch in Source(str(tmp_path / "a.csv"), Layout(label="kind")).open()])
    for what, method in (("predict", "predict"), ("project", "transform")):
        if not hasattr(run.model, method):
            with pytest.raises(StreamError, match=f"model: a {name} cannot {what}. Learn with another method"):
                apply(source, file, what, out=str(tmp_path / what))
            continue
        assert apply(source, file, what, out=str(tmp_path / what)).rows == 300
        lines = (tmp_path / what).read_text().splitlines()[1:]
        said = [line.split(",")[1].strip('"') for line in lines]
        truth = getattr(run.model, method)(X)
        if what == "predict":
            assert said == truth.tolist()
        else:
            np.testing.assert_allclose([float(one) for one in said], truth[:, 0], rtol=1e-9)
