"""Random programs: rows learnt, merged, taken out, saved and read again end as one fit of the rows that remain."""

import contextlib
import copy
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import kampong
from kampong import (
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
    fit_landmarks,
)
from traces import differences, trace_of

D, STEPS = 5, 14
MODELS = [
    FisherDiscriminant(ridge=0.3),
    FisherDiscriminant(ridge=0.3, scale=True),
    FisherDiscriminant(ridge="auto", head="gaussian", scale=False),
    MarginSubspace(2, epsilon=0.2),
    InterClassScatter(),
    MaximumMarginCriterion(2),
    SupervisedKampongMeasure(2, a=1.2),
    MarginSubspace(2, epsilon=0.1, solver="reservoir"),
    KernelFisherDiscriminant(landmarks=8, placement="rows", gamma=0.3, ridge=0.01, head="gaussian"),
    KernelMarginSubspace(2, epsilon=0.1, landmarks=8, placement="fourier", gamma=0.3),
    InformationGain(2),
]
READ = [{"ridge": 0.05}, {"ridge": 2.0}, {"epsilon": 0.03}, {"epsilon": 0.5}, {"head": "nearest_mean"}, {"a": 1.5}]
BAD = (np.nan, np.inf, 1e200)


class Program:
    """One random run of a model, and beside it the rows that it should have learnt."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.blank = clone(MODELS[seed % len(MODELS)])
        if hasattr(self.blank, "landmarks"):  # which parts to be merged must share
            self.blank = fit_landmarks(self.blank, self.rng.normal(size=(20, D)), np.arange(20) % 2)
        self.model = copy.deepcopy(self.blank)
        self.labels = ("numbers", "words", "truths")[int(self.rng.integers(3))]
        self.rows = []  # (row, label, weight) of all that has been learnt
        self.log = []

    def batch(self, low=1, high=14):
        """Return rows in multiples of 1/8, which float32 holds, their classes and weights."""
        n = int(self.rng.integers(low, high))
        y = self.rng.integers(2 if self.labels == "truths" else 3, size=n)
        X = np.round(8 * (self.rng.normal(size=(n, D)) + 2.0 * np.eye(3, D)[y])) / 8
        X[self.rng.random(X.shape) < 0.3] = 0.0
        weights = None if self.rng.random() < 0.6 else self.rng.choice([0.5, 1.0, 2.0, 3.0], size=n)
        return X, y, weights

    def form(self, X):
        """Return rows as any of the types that hold them."""
        kinds = [np.asarray, np.asfortranarray, np.ndarray.tolist, sparse.csr_array, sparse.csc_matrix]
        if not hasattr(self.blank, "landmarks"):  # kernel values of float32 rows are computed in float32
            kinds += [lambda X: X.astype(np.float32), lambda X: sparse.csr_array(X.astype(np.float32))]
        if np.array_equal(X, np.round(X)):
            kinds += [lambda X: X.astype(np.int32)]
        return kinds[int(self.rng.integers(len(kinds)))](X)

    def new(self):
        """Return a model with the same parameters that has learnt nothing."""
        return copy.deepcopy(self.blank).set_params(**self.model.get_params(deep=False))

    def named(self, y):
        """Return labels in any type of their kind."""
        kinds = {
            "numbers": ["int8", "int64", "uint16", "float64"],
            "words": ["U1", "U7", "object"],
            "truths": ["bool"],
        }[self.labels]
        names = {"numbers": np.array([3, 5, 9]), "words": np.array(list("bac")), "truths": np.array([False, True])}
        return names[self.labels][y].astype(kinds[int(self.rng.integers(len(kinds)))])

    def learn(self, model, rows, kept):
        """Let a model learn rows, and note them."""
        X, y, weights = rows
        more = {} if weights is None else {"sample_weight": weights}
        if self.rng.random() < 0.2:
            more["classes"] = self.named(np.arange(2 if self.labels == "truths" else 3))
        model.partial_fit(self.form(X), self.named(y), **more)
        kept += list(zip(X, y.tolist(), np.ones(len(y)) if weights is None else weights, strict=True))

    def update(self):
        if self.rng.random() < 0.2:
            X, y, weights = self.batch()
            self.learn(self.model, (np.round(X), y, weights), self.rows)
        else:
            self.learn(self.model, self.batch(), self.rows)

    def merge(self):
        other, theirs = self.new(), []
        if hasattr(other, "random_state") and not hasattr(other, "landmarks"):
            other.set_params(random_state=int(self.rng.integers(1, 2**30)))
        for _ in range(int(self.rng.integers(1, 3))):
            self.learn(other, self.batch(), theirs)
        first = self.rng.random() < 0.5
        self.model = self.model.merge(other) if first else other.merge(self.model)
        self.rows += theirs

    def merge_with_itself(self):
        if len(self.rows) < 60:
            self.model = self.model.merge(self.model)
            self.rows += self.rows

    def unlearn(self):
        counts = np.bincount([y for _, y, _ in self.rows], minlength=3)
        if len(self.rows) < 12 or counts.max() < 6:
            return
        # of each class some rows stay: one that is gone leaves `classes_`
        chosen, left = [], counts.copy()
        for place in self.rng.permutation(len(self.rows))[:10]:
            y = self.rows[place][1]
            if left[y] > 4:
                chosen.append(place)
                left[y] -= 1
        if not chosen:
            return
        X, y, weights = (np.array(part) for part in zip(*(self.rows[place] for place in chosen), strict=True))
        receipt = self.model.unlearn(self.form(X), self.named(y), sample_weight=weights)
        assert receipt.exact
        self.rows = [row for place, row in enumerate(self.rows) if place not in set(chosen)]

    def saved(self, folder):
        self.model.save(folder / "model")
        self.model = kampong.load(folder / "model")

    def bytes(self):
        self.model = kampong.from_bytes(self.model.to_bytes(solve=self.rng.random() < 0.5))

    def copied(self):
        self.model = pickle.loads(pickle.dumps(self.model)) if self.rng.random() < 0.5 else copy.deepcopy(self.model)

    def cloned(self):
        """See that a clone knows nothing."""
        other = clone(self.model)
        assert not hasattr(other, "n_features_in_")
        assert other.get_params() == self.model.get_params()

    def parameters(self):
        known = self.model.get_params(deep=False)
        fitting = [change for change in READ if set(change) <= set(known) and not isinstance(known.get("ridge"), str)]
        if fitting:
            self.model.set_params(**fitting[int(self.rng.integers(len(fitting)))])

    def read(self):
        if hasattr(self.model, "predict") and len({y for _, y, _ in self.rows}) > 1:
            self.model.predict(np.eye(D))

    def refused(self):
        X, y, weights = self.batch(2)
        X[-1, 1] = BAD[int(self.rng.integers(len(BAD)))]
        labels = self.named(y)
        kind = int(self.rng.integers(4))
        if kind == 1:
            X[-1, 1], labels = 0.0, np.array(["late" if self.labels == "numbers" else 7.0] * len(y), dtype=object)
        if kind == 2:
            X = np.zeros((len(y), D + 1))
        if isinstance(self.model, InformationGain) and np.isfinite(X).all() and kind in (0, 3):
            X[-1, 1] = np.nan  # which counts what is not zero, and takes any number
        self.model.to_bytes(solve=False)  # rows that wait for their place in a sample get it
        before = trace_of(self.model)
        method = "partial_fit" if kind != 3 else ("fit" if self.rng.random() < 0.5 else "unlearn")
        more = {} if method != "partial_fit" else {"classes": self.named(np.arange(2))}
        try:
            getattr(self.model, method)(X, labels, sample_weight=weights, **more)
        except ValueError:
            assert differences(before, trace_of(self.model)) == []
        else:
            raise AssertionError(f"{method} took bad rows: {X}, {labels}, {weights}, {more}")

    def run(self, folder):
        """Take some steps, then compare."""
        self.update()
        acts = [self.update, self.merge, self.merge_with_itself, self.unlearn, partial(self.saved, folder)]
        acts += [self.bytes, self.copied, self.cloned, self.parameters, self.read, self.refused]
        shares = np.array([4, 2, 1, 3, 1, 2, 2, 1, 2, 2, 3], dtype=float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for place in self.rng.choice(len(acts), size=STEPS, p=shares / shares.sum()):
                self.log.append(getattr(acts[place], "__name__", "saved"))
                acts[place]()
            self.compare()

    def compare(self):
        """Hold the model to one fit of the rows that remain."""
        X, y, weights = (np.array(part) for part in zip(*self.rows, strict=True))
        names = self.model.classes_
        labels = {"numbers": np.array([3, 5, 9]), "words": np.array(list("bac")), "truths": np.array([False, True])}
        y = labels[self.labels][y]
        expected = self.new().partial_fit(X, y, classes=names, sample_weight=weights)
        assert names.tolist() == expected.classes_.tolist()
        np.testing.assert_allclose(self.model.class_counts_, expected.class_counts_, rtol=1e-9)
        if isinstance(self.model, InformationGain):
            np.testing.assert_allclose(self.model.presence_, expected.presence_, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(self.model.scores_, expected.scores_, atol=1e-9)
            return
        np.testing.assert_allclose(self.model.class_means_, expected.class_means_, atol=1e-9)
        np.testing.assert_allclose(self.model.mean_, expected.mean_, atol=1e-9)
        self.compare_scatter(expected)
        if np.count_nonzero(expected.class_counts_) < 2:
            return
        asked = np.vstack([np.eye(D), X[:10]])
        p, q = self.model.predict_proba(asked), expected.predict_proba(asked)
        np.testing.assert_allclose(p, q, atol=1e-6)
        top = np.sort(q, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-5  # a last bit may decide between equals
        assert (self.model.predict(asked) == expected.predict(asked))[clear].all()
        self.compare_directions(expected)

    def compare_scatter(self, expected):
        mine, theirs = self.model._statistics, expected._statistics
        if mine.holds_within:
            found, wanted = (part.within_times(np.eye(part.n_features)) for part in (mine, theirs))
            np.testing.assert_allclose(found, wanted, atol=1e-9 * max(np.abs(wanted).max(), 1.0))

    def compare_directions(self, expected):
        """Compare the directions that the criterion tells apart from all others, those left out included."""
        values = expected.eigenvalues_
        with contextlib.suppress(ValueError):  # where there is a further direction
            values = copy.deepcopy(expected).set_params(n_components=len(values) + 1).eigenvalues_
        gaps = np.abs(np.diff(values)) > 1e-3 * np.abs(values).max()
        sure = np.concatenate([[True], gaps]) & np.concatenate([gaps, [True]])
        asked, both = np.vstack([np.eye(D), np.zeros((1, D))]), (self.model, expected)
        found, wanted = (np.abs(points - points[-1]) for points in (model.transform(asked) for model in both))
        sure = sure[: found.shape[1]]
        np.testing.assert_allclose(found[:, sure], wanted[:, sure], atol=1e-6)


def attempt(seed, folder):
    program = Program(seed)
    try:
        program.run(folder)
    except Exception as error:
        error.add_note(f"program {seed}: {type(program.model).__name__}, {program.labels}, {program.log}")
        raise


@pytest.mark.parametrize("group", range(10))
def test_a_program_ends_as_one_fit_of_the_rows_that_remain(group, tmp_path):
    for seed in range(10 * group, 10 * group + 10):
        attempt(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(40))
def test_two_thousand_programs_end_as_one_fit_of_the_rows_that_remain(group, tmp_path):
    for seed in range(1000 + 50 * group, 1050 + 50 * group):
        attempt(seed, tmp_path)
