"""Core sets of patterns that lie in parts: the same core sets, gaps and features as where all rows are here."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from kampong import CoreVectorClassifier, MaximumMarginDiscriminant, from_bytes
from kampong._core.compute import stack
from kampong.kernels.functions import Columns, Kernel, columns_of, make_kernel
from kampong.margin.hull import Hull
from kampong.margin.remote_protocol import Arrived, Question, answer, bits_of, gathered, joined, narrowed, places_of


class Parts:
    """Holds rows in parts, in this process, and notes what is asked."""

    def __init__(self, X, y, cuts):
        self.starts = np.array([0, *cuts, len(y)])
        self.parts = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(self.starts)]
        self.n_samples, self.width, self.dtype = X.shape[0], X.shape[1], X.dtype
        self.columns = Columns.together([columns_of(part) for part, _ in self.parts if part.shape[0]])
        self.classes, self.codes = np.unique(y, return_inverse=True)
        self.looks, self.sent, self.came, self.seen = 0, 0, np.zeros(0, dtype=int), []

    def look(self, question, arrived):
        self.looks, self.sent = self.looks + 1, sum(len(one.numbers) for one in arrived)
        assert arrived[: len(self.seen)] == self.seen  # what has gone to the parts does not change
        self.seen = list(arrived)
        found = [
            answer(question, arrived, X, np.searchsorted(self.classes, y), int(start))
            for (X, y), start in zip(self.parts, self.starts, strict=False)
        ]
        assert all(
            len(sight.worst) <= most for sights in found for sight, most in zip(sights, question.batch, strict=True)
        )
        return joined(found, question.batch)

    def rows(self, positions):
        self.came = np.concatenate([self.came, positions])
        owners, found = np.searchsorted(self.starts, positions, side="right") - 1, None
        for part in np.unique(owners):
            some = self.parts[part][0][positions[owners == part] - self.starts[part]]
            found = some if found is None else stack(found, some)
        return found

    def fit(self, model):
        model._fit_elsewhere(self, self.columns, self.classes, self.codes)
        return model


def many_digits(times=2):
    X, y = load_digits(return_X_y=True)
    return np.tile(X, (times, 1)) + np.random.default_rng(0).normal(size=(times * len(X), 64)), np.tile(y, times)


MODELS = {
    "rbf": CoreVectorClassifier(tol=0.05),
    "polynomial": CoreVectorClassifier(10.0, kernel="polynomial", gamma="scale", degree=2, coef0=1.0, tol=0.05),
    "mmda": MaximumMarginDiscriminant(),
}


def scores(model, X):
    return model.transform(X) if isinstance(model, MaximumMarginDiscriminant) else model.decision_function(X)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_array], ids=["float64", "float32", "sparse"])
def test_the_same_gap_at_the_same_tolerance(name, form):
    """Rounding may send pairwise steps another way; what they end at differs by no more than the gap."""
    X, y = many_digits()
    X = X.round() if form is sparse.csr_array else X
    X = X.astype(np.float32) if form is np.float32 else form(X)
    local = clone(MODELS[name]).fit(X, y)
    parts = Parts(X, y, [1, 900, 900, 3000])
    found = parts.fit(clone(MODELS[name]))
    assert (found.status_ == "converged").all()
    assert (found.dual_gap_ <= found.tol).all()
    np.testing.assert_allclose(found.margin_, local.margin_, rtol=2 * found.tol)
    assert len(np.setxor1d(found.support_, local.support_)) <= 0.02 * len(local.support_)
    assert len(parts.came) == len(np.unique(parts.came))  # a row comes once
    np.testing.assert_array_equal(np.sort(np.setdiff1d(found.support_, parts.came)), [])
    assert parts.sent <= len(parts.came)
    again = from_bytes(found.to_bytes())
    np.testing.assert_array_equal(scores(again, X[:9]), scores(found, X[:9]))


@pytest.mark.parametrize("name", MODELS)
def test_the_same_support_at_the_optimum(name):
    X, y = many_digits()
    model = clone(MODELS[name]).set_params(tol=1e-6)
    local, found = clone(model).fit(X, y), Parts(X, y, [1, 900, 900, 3000]).fit(clone(model))
    np.testing.assert_allclose(found.margin_, local.margin_, rtol=2e-6)
    np.testing.assert_allclose(scores(found, X), scores(local, X), rtol=0, atol=1e-4)
    assert len(np.setxor1d(found.support_, local.support_)) <= 2  # of a thousand and more; weights near zero may go


def test_two_classes_and_a_class_in_one_part_only():
    X, y = many_digits()
    few = np.flatnonzero(y < 2)
    few = few[np.argsort(y[few], kind="stable")]
    X, y = np.concatenate([X[few]] * 4), np.concatenate([y[few]] * 4) == 1
    X = X + np.random.default_rng(1).normal(size=X.shape)
    found, local = Parts(X, y, [700, 1400]).fit(CoreVectorClassifier()), CoreVectorClassifier().fit(X, y)
    np.testing.assert_allclose(found.margin_, local.margin_, rtol=0.1)
    np.testing.assert_allclose(found.decision_function(X), local.decision_function(X), rtol=0, atol=0.05)
    assert found.score(X, y) == 1.0


@pytest.mark.parametrize("orthogonal", ["class", "all"])
def test_chains_go_to_the_same_directions_as_the_gap_goes_to_zero(orthogonal):
    """Further directions are taken off by weights at the core, so only rounding differs; the optimum is unique."""
    X, y = many_digits()
    X, y = X[y < 3], y[y < 3]
    rng = np.random.default_rng(2)
    X, y = np.concatenate([X, X + rng.normal(size=X.shape)]), np.tile(y, 2)
    model = MaximumMarginDiscriminant(2, tol=1e-6, orthogonal=orthogonal)
    local, found = clone(model).fit(X, y), Parts(X, y, [5, 1000]).fit(clone(model))
    assert (found.dual_gap_ <= 1e-6).all()
    np.testing.assert_allclose(found.objective_, local.objective_, rtol=3e-6)
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=2e-3)
    gram = (
        found.features_.toarray() @ found._kernel.between(found._support, found._support) @ found.features_.toarray().T
    )
    chains = found.feature_classes_
    same = (chains[:, None] == chains) | (orthogonal == "all")
    np.testing.assert_allclose(gram[same], np.eye(len(gram))[same], atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_parts_see_together_what_one_would_see(seed, count):
    """Any cut into parts: least margin, margins of the members and the worst patterns are those of a naive loop."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    X, codes = rng.normal(size=(n, 3)), rng.integers(0, 3, n)
    members = np.sort(rng.choice(n, int(rng.integers(1, n + 1)), replace=False))
    alpha, kernel, ridge, batch = rng.random(len(members)), Kernel("linear"), 0.5, int(rng.integers(1, 6))
    chosen = np.flatnonzero(rng.random(n) < 0.7)
    chosen = np.union1d(chosen, members)
    signs = np.where(codes == 1, 1.0, -1.0)
    weights = signs[members] * alpha
    limit = float(rng.normal())
    mask = np.packbits(np.isin(np.arange(n), chosen)).tobytes()
    # rows come in any order, in several goes, and more of them than the core set has
    came = rng.permutation(np.union1d(members, rng.choice(n, 3)))
    goes = np.array_split(came, 2)
    arrived = [Arrived(narrowed(X[some]), some.astype(np.int32), codes[some]) for some in goes]
    place = np.full(n, -1)
    place[came] = np.arange(len(came))
    off = rng.random(2) * (rng.random() < 0.5)  # a direction that is taken off the point
    taken = (place[came[:2]].astype(np.int32), off[: len(came[:2])])
    question = Question(
        kernel,
        (bits_of(place[members], len(came)),),
        (alpha[np.argsort(place[members])],),
        ((taken,),),
        np.array([weights.sum()]),
        ridge,
        (1,),
        (batch,),
        (limit,),
        mask,
    )
    cuts = np.sort(rng.integers(0, n + 1, count))
    edges = [0, *cuts, n]
    found = [answer(question, arrived, X[a:b], codes[a:b], int(a)) for a, b in itertools.pairwise(edges)]
    (sight,) = joined(found, (batch,))
    full = np.zeros(n)
    full[members] = alpha
    naive = np.array([sum(signs[i] * full[j] * signs[j] * (X[i] @ X[j] + 1.0) for j in range(n)) for i in range(n)])
    naive += ridge * full
    for number, value in zip(came[:2], off, strict=False):
        naive -= signs * (X @ X[number]) * value
    assert sight.least == pytest.approx(naive[chosen].min())
    np.testing.assert_allclose(sight.margins, naive[members])
    outside = np.setdiff1d(chosen, members)
    wanted = sorted((naive[i], i) for i in outside if naive[i] < limit)[:batch]
    np.testing.assert_allclose(sight.gradients, [value for value, _ in wanted], atol=1e-12)
    np.testing.assert_allclose(naive[sight.worst], sight.gradients, atol=1e-12)
    if not off.any():
        assert Hull(signs, offset=1.0, ridge=ridge).gap(full, naive).bound <= sight.least + 1e-9


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 255, 3], np.uint8),
        ([-1, 255, 3], np.int16),
        ([40_000, 1, 2], np.float32),
        ([0.5, 255, 3], np.float32),
        ([0.1, 255, 3], np.float64),
        ([1e300, -1e300, 3], np.float64),
    ],
)
def test_rows_travel_in_the_smallest_type_that_holds_them(values, kind):
    X = np.zeros((40, 3))
    X[30] = values  # past the rows that are looked at first
    assert narrowed(X).dtype == kind
    assert narrowed(sparse.csr_array(X)).dtype == kind
    first, second = np.arange(0, 40, 2), np.arange(1, 40, 2)
    for form in (np.asarray, sparse.csr_array):
        rows = form(X)
        arrived = [Arrived(narrowed(rows[some]), some, some) for some in (first, second)]
        places = np.random.default_rng(0).permutation(40)
        back = gathered(arrived, places, np.float64)
        assert back.dtype == np.float64
        back = back if isinstance(back, np.ndarray) else back.toarray()
        np.testing.assert_array_equal(back, X[np.concatenate([first, second])[places]])
    np.testing.assert_array_equal(places_of(bits_of(np.array([3, 17, 39]), 40), 40), [3, 17, 39])


def test_columns_of_parts_make_the_kernel_of_all_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 6)) * [1, 10, 100, 1, 1, 0] + [0, 1e6, 0, 0, 0, 7]
    together = Columns.together([columns_of(X[a:b]) for a, b in ((0, 1), (1, 90), (90, 200))])
    for gamma in ("mean", "scale", 0.3):
        one = make_kernel("test", "rbf", X, gamma=gamma, degree=3, coef0=0.0)
        other = make_kernel("test", "rbf", together, gamma=gamma, degree=3, coef0=0.0)
        assert other.gamma == pytest.approx(one.gamma, rel=1e-12)
        np.testing.assert_allclose(other.centre, one.centre, rtol=1e-14)
        np.testing.assert_array_equal(other.varying, one.varying)


def test_what_needs_all_rows_is_refused():
    X, y = many_digits(1)
    for model, text in (
        (CoreVectorClassifier(criterion="meb"), "criterion='meb' needs all rows here. In parts, use criterion='gap'"),
        (CoreVectorClassifier(selection="sample"), "selection='sample' needs all rows here"),
        (MaximumMarginDiscriminant(method="exact"), "method='exact' needs all rows here. In parts, use method='core'"),
        (CoreVectorClassifier(kernel=np.dot), "kernel='a callable' cannot be computed where the parts are"),
        (CoreVectorClassifier(kernel="precomputed"), "kernel='precomputed' cannot be computed"),
    ):
        with pytest.raises(ValueError, match=text):
            Parts(X, y, [500]).fit(model)
    with pytest.raises(ValueError, match="y holds only one class"):
        Parts(X[y == 1], y[y == 1], [50]).fit(CoreVectorClassifier())
    found = Parts(X, y, [500]).fit(MaximumMarginDiscriminant())
    with pytest.raises(
        ValueError, match=r"was fitted in parts and has no sample of the rows to go on from\. Fit again"
    ):
        found.partial_fit(X, y)
