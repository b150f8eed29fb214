"""Evidence: what candidates say of validation rows, and how one of them is chosen."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from kampong import FisherDiscriminant, MarginSubspace
from kampong.heads import HEADS, Gaussian, Head, Inside
from kampong.selection import leave_one_out
from kampong.selection.choose import choose
from kampong.selection.evidence import Built, Candidate, Evidence
from kampong.statistics.reservoir import SampledScatter


class Told(Evidence):
    """Evidence that is written down: the losses of candidates, simplest first."""

    def __init__(self, losses):
        self.losses, self.built = losses, []

    def offered(self):
        return list(self.losses)

    def candidate(self, name):
        def build():
            self.built.append(name)
            return Built(name, np.empty((0, 1)))

        return Candidate(name, np.empty((0, 2)), build)

    def calibrated(self, candidates):
        return [(self.losses[one.name], lambda head: f"calibrated {head}") for one in candidates]

    def enough(self, least):
        return least + 0.1

    def accepts(self, name):
        return False

    @property
    def n_rows(self):
        return 0


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({"a": 1.0, "b": 0.5, "c": 0.45}, "b"),
        ({"a": 0.5, "b": 0.45}, "a"),
        ({"a": 1.0, "b": 0.9, "c": 0.1}, "c"),
        ({"a": 1.0}, "a"),
    ],
)
def test_the_simplest_of_about_the_least_loss_is_chosen_and_alone_is_built(losses, expected):
    evidence = Told(losses)
    head, _, said, scores = choose(evidence, "auto")
    assert head == f"calibrated {expected}"
    assert evidence.built == [expected]
    assert said == losses
    np.testing.assert_array_equal(scores, evidence.candidate(expected).scores)
    last = Told(losses)
    assert choose(last, "a").head == "calibrated a"
    assert last.built == ["a"]


@pytest.fixture
def neighbours():
    """Register a head that learns from rows: the class of the nearest one along the directions."""

    @dataclass(frozen=True)
    class Neighbour(Head):
        points: np.ndarray
        codes: np.ndarray
        n_classes: int
        name = "neighbour"
        needs_covariance = True
        needs_sample = True

        @classmethod
        def build(cls, inside):
            return cls(False, inside.points, inside.codes, len(inside.counts))

        def scores(self, points):
            away = np.square(points[:, None] - self.points).sum(axis=2)
            return 5.0 * np.eye(self.n_classes)[self.codes[np.argmin(away, axis=1)]]

    yield Neighbour
    del HEADS["neighbour"]


def rings(seed, rows=400):
    """Return classes that only distances tell apart: two rings, each in two halves far from each other."""
    rng = np.random.default_rng(seed)
    angle, y = rng.uniform(0, 2 * np.pi, rows), rng.integers(0, 3, rows)
    radius = 1.0 + y + 0.05 * rng.normal(size=rows)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X[:, 0] += 0.3 * y
    X[:, 1] -= 0.3 * (y == 1)
    return X, y


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@pytest.mark.parametrize(
    "model",
    [FisherDiscriminant(n_components=2), MarginSubspace(n_components=2, epsilon="auto")],
    ids=["leave-one-out", "held-out folds"],
)
def test_an_own_head_takes_part_in_best_and_wins_where_it_is_better(model, neighbours):
    X, y = rings(0)
    ours = clone(model).fit(X[::2], y[::2])
    own = clone(model).set_params(head="best").fit(X[::2], y[::2])
    assert own.head_ == "neighbour"
    assert "neighbour" not in ours.choice_.heads
    assert own.choice_.heads["neighbour"] == min(own.choice_.heads.values())
    assert own.score(X[1::2], y[1::2]) > ours.score(X[1::2], y[1::2]) + 0.02
    wine = clone(model).set_params(head="best").fit(*load_wine(return_X_y=True))
    assert wine.head_ != "neighbour"
    assert "neighbour" in wine.choice_.heads


def test_an_own_head_is_validated_on_rows_that_it_has_not_learnt(monkeypatch):
    class Copy(Gaussian):
        name = "copy"

    monkeypatch.setattr(Copy, "__module__", "elsewhere")
    try:
        X, y = load_wine(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        rows = leave_one_out.LeaveOneOut(SampledScatter(13).update(X, y))
        inside = Inside(np.eye(3, 2), np.ones(3), np.eye(2), 1.0, False, np.zeros(2), 1.0)
        components = FisherDiscriminant(ridge=0.0).fit(X, y).components_
        found = leave_one_out.at_ridges([rows], [1e-9])[0].evidence(inside, components).candidate("copy").scores
        fold = rows.spread()
        sample, codes = np.asarray(rows.sample.rows), rows.codes
        for one in range(fold.max() + 1):
            peer = LinearDiscriminantAnalysis(solver="lsqr").fit(sample[fold != one], codes[fold != one])
            held = fold[rows.validation_rows] == one
            difference = found[held] - peer.decision_function(sample[rows.validation_rows][held])
            np.testing.assert_allclose(difference, np.broadcast_to(difference[:, :1], difference.shape), atol=1e-4)
    finally:
        del HEADS["copy"]


def test_a_head_that_is_not_chosen_is_not_trained_on_all_rows(monkeypatch):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 400)
    X = rng.normal(size=(400, 5)) + 2.0 * np.eye(3, 5)[y]
    train, trained = leave_one_out.fit_logistic, []
    monkeypatch.setattr(leave_one_out, "FEW", 0)  # else weights that are left out row by row know all rows
    monkeypatch.setattr(leave_one_out, "fit_logistic", lambda *given: trained.append(len(given[0])) or train(*given))
    model = FisherDiscriminant().fit(X, y)
    assert "logistic" in model.choice_.heads
    assert model.head_ != "logistic"
    assert trained == []
    assert FisherDiscriminant(head="logistic").fit(X, y).head_ == "logistic"
    assert trained == [len(X)]
