"""A criterion and a head of one's own: one class each, and every solver, choice, file and stream serves them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy import linalg, special
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

import kampong
from kampong import CriterionSubspace, MarginSubspace
from kampong.criteria import CRITERIA, Criterion, Directions
from kampong.heads import Head
from kampong.solvers import SOLVERS, solve
from kampong.statistics import ClassMeans, ClassReservoir, ClassScatter
from kampong.statistics.all_rows import ClassRows
from kampong.streaming import learn
from problems import problem
from reference_linear import largest_angle
from stream_problems import write_points


@dataclass(frozen=True)
class TotalMargin(Criterion):
    """Maximise S_b − ε S_t: the scatter of the means against that of all rows."""

    epsilon: float
    name = "total margin"
    parameter = "epsilon"

    @property
    def needs_within(self):
        return self.epsilon > 0

    def solve_small(self, factor, within, n_components, most):
        between = factor.T @ factor
        values, vectors = linalg.eigh(between - self.epsilon * (between + within))
        values, vectors = values[::-1], vectors[:, ::-1]
        positive = int((values[:most] > 1e-12 * np.trace(between)).sum())
        kept = min(max(positive, 1) if n_components is None else n_components, len(values))
        return Directions(values[:kept], vectors[:, :kept], float(values[:positive].sum()), positive)

    def worth(self, between, within, metric):
        return float((1 - self.epsilon) * (between**2).sum() - self.epsilon * np.trace(within))

    @classmethod
    def grid(cls, statistics):
        return np.array([0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9])


@dataclass(frozen=True)
class Cauchy(Head):
    """Classes with heavy tails: minus the logarithm of one plus the squared distance to each mean."""

    centres: np.ndarray
    weights: np.ndarray
    name = "cauchy"
    shapes: ClassVar = {"centres": ("K", "p"), "weights": ("K",)}

    @classmethod
    def build(cls, inside):
        spread = np.sqrt(max(inside.variance, 1e-12))  # of two rows it is 0
        return cls(False, inside.means / spread, inside.counts / inside.counts.sum())

    def scores(self, points):
        away = points[:, None, :] - self.centres
        return np.log(self.weights) - np.log1p((away**2).sum(axis=2))


quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


def test_it_is_short():
    text = Path(__file__).read_text()
    for name in ("TotalMargin", "Cauchy"):
        body = re.search(rf"@dataclass\(frozen=True\)\nclass {name}\(.*?\n\n\n", text, re.DOTALL).group()
        assert len(body.strip().splitlines()) <= 40


STATISTICS = {
    "scatter": ClassScatter,
    "resolvent": ClassRows,
    "reservoir": lambda d: ClassReservoir(d, budget=2**20),
    "gram": ClassMeans,
}


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_serves_it(solver, epsilon):
    X, y = problem(1, classes=4, rows=120, features=6)
    statistics = STATISTICS[solver](6).update(X, y)
    if solver == "gram" and epsilon > 0:
        with pytest.raises(ValueError, match="knows the class means only"):
            solve(TotalMargin(epsilon), statistics, 2, solver=solver)
        return
    found = solve(TotalMargin(epsilon), statistics, 2, solver=solver)
    # S_b − ε(S_b + S_w) = (1 − ε)(S_b − ε/(1 − ε)·S_w): the margin criterion at another ε, scaled
    margin = solve(kampong.criteria.MarginCriterion(epsilon / (1 - epsilon)), ClassScatter(6).update(X, y), 2)
    assert largest_angle(found.components, margin.components) < 1e-6
    np.testing.assert_allclose(found.eigenvalues, (1 - epsilon) * margin.eigenvalues, rtol=1e-8)


@quiet
@pytest.mark.parametrize("solver", ["auto", "resolvent"])
def test_it_can_be_fitted_chosen_merged_and_saved(solver, tmp_path):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = CriterionSubspace(2, criterion="total margin", solver=solver).fit(X, y)
    assert 0 <= model.parameter_ <= 0.9
    assert model.choice_.losses.min() < 0.1
    assert model.score(X, y) > 0.9
    other = MarginSubspace(2, epsilon=model.parameter_ / (1 - model.parameter_)).fit(X, y)
    assert largest_angle(model.components_, other.components_) < (1e-6 if solver == "auto" else 0.3)
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.choice_.value == model.choice_.value
    if solver == "auto":
        halves = [CriterionSubspace(2, criterion="total margin", parameter=0.1).fit(X[i::2], y[i::2]) for i in (0, 1)]
        whole = CriterionSubspace(2, criterion="total margin", parameter=0.1).fit(X, y)
        assert largest_angle(halves[0].merge(halves[1]).components_, whole.components_) < 1e-8


@quiet
def test_a_head_of_ones_own(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = MarginSubspace(9, epsilon=0.01, head="cauchy").fit(X[:1200], y[:1200])
    assert model.head_ == "cauchy"
    assert model.score(X[1200:], y[1200:]) > 0.8
    scores = model.decision_function(X[1200:])
    np.testing.assert_allclose(model.predict_proba(X[1200:]), special.softmax(scores, axis=1))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(kampong.load(tmp_path / "model").decision_function(X[1200:]), scores)
    streamed = clone(model).partial_fit(X[:600], y[:600]).partial_fit(X[600:1200], y[600:1200])
    np.testing.assert_allclose(streamed.decision_function(X[1200:]), scores, rtol=1e-6)


@quiet
@pytest.mark.parametrize("head", ["auto", "cauchy"])
def test_a_stream_of_it_stops_and_goes_on(head, tmp_path):
    write_points(tmp_path / "a.csv", 1500)
    model = CriterionSubspace(criterion="total margin", head=head)
    whole = learn(str(tmp_path / "a.csv"), clone(model), label="kind", model_file=str(tmp_path / "whole"))

    stop = threading.Event()

    def watch(run):
        if run.counters.rows > 500:
            stop.set()

    files = {"label": "kind", "model_file": str(tmp_path / "parts")}
    first = learn(str(tmp_path / "a.csv"), clone(model), **files, watch=watch, stop=stop)
    assert first.stopped
    run = learn(str(tmp_path / "a.csv"), clone(model), **files)
    assert run.counters == whole.counters
    X = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_array_equal(run.model.predict_proba(X), whole.model.predict_proba(X))


def test_a_criterion_that_is_not_there_is_named():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(
        ValueError, match=r"CriterionSubspace: criterion must be one of 'margin', 'fisher'.*got 'other'"
    ):
        CriterionSubspace(criterion="other").fit(X, y)
    with pytest.raises(ValueError, match=r"CriterionSubspace: parameter must be a number .*got 'much'"):
        CriterionSubspace(parameter="much").fit(X, y)


def test_nobody_asks_a_criterion_for_its_class():
    source = Path(kampong.__file__).parent
    names = "|".join(kind.__name__ for kind in CRITERIA.values())
    asks = re.compile(rf"isinstance\([^)]*\b({names}|Criterion)\b|\bis ({names})\b|type\(\w*criterion\w*\)")
    found = [path.name for path in source.rglob("*.py") if path.name != "criteria.py" and asks.search(path.read_text())]
    assert found == []
