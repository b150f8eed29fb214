"""Core vector machines in one pass: gaps by loops over all rows, merges, thinned rows, files, bounded memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError

from kampong import FisherDiscriminant, from_bytes, load, merge_all, statistics_of
from kampong.adapters import federated
from kampong.margin import CoreVectorClassifier, stored_rows
from problems import at_most

GAMMA = 0.2
LOSSES = ["squared", "hinge"]
pytestmark = pytest.mark.filterwarnings("ignore:.*far less accurate where classes overlap:RuntimeWarning")


def clouds(seed=0, n=300, classes=2, apart=0.9):
    return make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=classes, n_clusters_per_class=1, class_sep=apart,
        random_state=seed,
    )  # fmt: skip


def machine(loss="squared", **more):
    return CoreVectorClassifier(10.0, **({"loss": loss, "gamma": GAMMA, "tol": 1e-3} | more))


def learnt(model, X, y, size, weights=None, classes=None):
    model = clone(model)
    for start in range(0, len(y), size):
        part = slice(start, start + size)
        model.partial_fit(X[part], y[part], classes, None if weights is None else weights[part])
    return model


def gaps_at_all_rows(model, X, y, weights):
    """Return the relative duality gap of each problem at all rows, by loops, from the public results of a model."""
    K = np.exp(-GAMMA * cdist(X, X, "sqeuclidean"))
    classes, found = model.classes_[1:] if len(model.classes_) == 2 else model.classes_, []
    for problem, label in enumerate(classes):
        signs, c = np.where(y == label, 1.0, -1.0), np.zeros(len(y))
        c[model.support_] = model.dual_coef_[problem]
        values = [sum(c[j] * K[i, j] for j in model.support_) for i in range(len(y))]
        if model.loss == "hinge":
            half = 0.5 * sum(c[i] * values[i] for i in range(len(y)))
            slack = [max(0.0, 1 - signs[i] * (values[i] + model.intercept_[problem])) for i in range(len(y))]
            primal = half + model.C * sum(w * s for w, s in zip(weights, slack, strict=True))
            found.append((primal - (signs @ c - half)) / primal)
            continue
        total = np.abs(c).sum()
        alpha = signs * c / total
        margins = [signs[i] * (values[i] + c.sum()) / total + alpha[i] / (model.C * weights[i]) for i in range(len(y))]
        objective = sum(a * m for a, m in zip(alpha, margins, strict=True))
        found.append((objective - min(margins)) / objective)
    return np.array(found)


@pytest.mark.parametrize("loss", LOSSES)
@settings(deadline=None, max_examples=at_most(5))
@given(seed=st.integers(0, 10**6), size=st.integers(10, 80), classes=st.integers(2, 4), most=st.integers(40, 140))
def test_the_certified_gap_is_that_of_all_rows(loss, seed, size, classes, most):
    X, y = clouds(seed, 100, classes, apart=1.5)
    weights = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
    model = learnt(machine(loss, max_stored_rows=most), X, y, size, weights, range(classes))
    assert len(model._stored.codes) <= most
    assert model.n_samples_seen_ == len(y)
    true = gaps_at_all_rows(model, X, y, weights)
    if np.isfinite(model.certified_gap_).all():
        np.testing.assert_allclose(model.certified_gap_, true, atol=1e-7)
        assert (true <= 1e-3 + 1e-9).all()
    else:
        # rows have left before the last batch came, so nobody has checked them
        assert most < len(y)
        assert (model.certified_gap_ == np.inf).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [2, 3])
def test_other_batches_and_merges_give_the_same_scores_within_the_gap(loss, classes):
    X, y = clouds(1, 240, classes)
    model, whole = machine(loss, tol=1e-6), machine(loss, tol=1e-6).fit(X, y)
    merged = merge_all([statistics_of(model, [(X[i::3], y[i::3])], number=i) for i in range(3)])
    for other in (learnt(model, X, y, 240), learnt(model, X, y, 50), learnt(model, X, y, 13, classes=y), merged):
        np.testing.assert_allclose(other.decision_function(X), whole.decision_function(X), atol=2e-2)
        assert (other.certified_gap_ <= 1e-6).all()
        assert other.n_samples_seen_ == 240


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weight", [None, "balanced", {0: 2.0, 2: 0.5}])
def test_classes_that_come_late_are_learnt_as_if_all_had_come_at_once(loss, weight):
    X, y = clouds(2, 210, 3)
    order = np.argsort(y == 2, kind="stable")
    X, y = X[order], y[order]
    model = machine(loss, tol=1e-6, class_weight=weight)
    late = learnt(model, X, y, 70)
    assert late.classes_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(
        late.decision_function(X), model.fit(X, y).decision_function(X), atol=2e-2
    )  # fmt: skip
    words = np.array(["b", "c", "a"])[y]
    np.testing.assert_allclose(
        learnt(model.set_params(class_weight=None), X, words, 70).decision_function(X),
        model.fit(X, words).decision_function(X),
        atol=2e-2,
    )


def test_rows_without_weight_leave_first_and_those_of_largest_margin_before_others():
    X, y = clouds(3, 200, 2, apart=2.5)
    model = machine(max_stored_rows=120).partial_fit(X, y)
    whole = machine(max_stored_rows=200).partial_fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, whole.dual_coef_)
    assert set(model.support_) <= set(model._stored.numbers)
    margins = np.where(y == 1, 1, -1) * whole.decision_function(X)
    margins[whole.support_] = -np.inf
    kept = np.isin(np.arange(200), model._stored.numbers)
    assert kept.sum() == 120
    assert margins[kept].max() <= margins[~kept].min()


@pytest.mark.parametrize("loss", LOSSES)
def test_thinned_rows_are_a_share_of_each_class_and_count_for_all(loss):
    X, y = clouds(4, 600, 3, apart=0.3)
    model = machine(loss, max_stored_rows=90).partial_fit(X, y)
    pool = machine(loss, max_stored_rows=600).partial_fit(X, y).support_
    stored = model._stored
    assert 80 <= len(stored.codes) <= 90
    for code in range(3):
        mine = stored.codes == code
        expected = np.count_nonzero(y[pool] == code)
        assert stored.counts[mine].sum() == pytest.approx(expected)
        assert mine.sum() == pytest.approx(90 * expected / len(pool), abs=2)
    again = machine(loss, max_stored_rows=90).partial_fit(X, y)
    assert again.to_bytes() == model.to_bytes()
    # the hyperplanes are those of the sample with its counts
    streamed = machine(loss, tol=1e-6, max_stored_rows=90).partial_fit(X, y)
    chosen, counts = streamed._stored.numbers, streamed._stored.counts
    assert counts.max() > 1.5
    fitted = machine(loss, tol=1e-6).fit(X[chosen], y[chosen], counts)
    np.testing.assert_allclose(streamed.decision_function(X), fitted.decision_function(X), atol=2e-2)


@settings(deadline=None)
@given(
    counts=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30),
    lost=st.floats(0.0, 1e4),
)
def test_raised_counts_have_the_sum_and_a_common_least(counts, lost):
    counts = np.array(counts)
    after = stored_rows.raised(counts, counts.sum() + lost)
    assert after.sum() == pytest.approx(counts.sum() + lost)
    assert (after >= counts * (1 - 1e-12)).all()
    changed = after > counts * (1 + 1e-9)
    np.testing.assert_allclose(after[changed], after.min())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_a_saved_stream_goes_on_with_the_same_bits(loss, kind):
    X, y = clouds(5, 240, 3)
    X = kind(X)
    model = CoreVectorClassifier(10.0, loss=loss, max_stored_rows=150)
    straight = learnt(model, X, y, 60)
    resumed = learnt(model, X[:120], y[:120], 60)
    for part in (slice(120, 180), slice(180, 240)):
        resumed = from_bytes(resumed.to_bytes())
        resumed.partial_fit(X[part], y[part])
    assert resumed.to_bytes() == straight.to_bytes()


def test_a_fitted_model_goes_on_from_its_support_vectors():
    X, y = clouds(6, 300, 2, apart=2.0)
    model = machine().fit(X[:200], y[:200])
    assert (model.certified_gap_ == model.dual_gap_).all()
    assert model._stored.X is model.support_vectors_
    model = from_bytes(model.to_bytes()).partial_fit(X[200:], y[200:])
    assert model.certified_gap_.tolist() == [np.inf]
    assert set(model.support_) <= set(range(300))
    np.testing.assert_allclose(
        model.decision_function(X), machine().fit(X, y).decision_function(X), atol=0.1
    )  # fmt: skip


def test_width_follows_the_stream():
    X, y = clouds(7, 400, 2)
    model = CoreVectorClassifier()
    model.partial_fit(0.1 * X[:20], y[:20])
    assert model.gamma_ == pytest.approx(CoreVectorClassifier().fit(0.1 * X[:20], y[:20]).gamma_)
    model.partial_fit(X[20:], y[20:])
    X[:20] *= 0.1
    assert model.gamma_ == pytest.approx(CoreVectorClassifier().fit(X, y).gamma_)
    merged = CoreVectorClassifier().fit(X[:100], y[:100]).merge(CoreVectorClassifier().fit(X[100:], y[100:]))
    assert merged.gamma_ == pytest.approx(model.gamma_)


def test_memory_stays_flat():
    rng, peaks = np.random.default_rng(0), []
    model = CoreVectorClassifier(kernel="linear", max_stored_rows=100, cache_size=1)
    tracemalloc.start()
    for _ in range(3):
        for _ in range(4):
            y = rng.integers(0, 2, 200)
            model.partial_fit(rng.normal(size=(200, 40)) + 0.2 * y[:, None], y)
            assert len(model._stored.codes) <= 100
        peaks.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert peaks[2] < 1.2 * peaks[0]
    assert len(model.to_bytes()) < 2.5 * 100 * 40 * 8


def test_rows_of_weight_zero_change_nothing_but_the_numbers():
    X, y = clouds(8, 100)
    model = machine()
    model.partial_fit(X[:10], y[:10], sample_weight=np.zeros(10))
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X, y)
    before = model.decision_function(X)
    model.partial_fit(X[:10], y[:10], sample_weight=np.zeros(10))
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.n_samples_seen_ == 110


def test_refusals():
    X, y = clouds(9, 60)
    with pytest.raises(ValueError, match=r"y holds only one class, 1; a margin needs two.*name those that may come"):
        machine().partial_fit(X[y == 1], y[y == 1])
    assert machine().partial_fit(X[y == 1], y[y == 1], classes=[0, 1]).predict(X).tolist() == [1] * 60
    hinge = machine("hinge").partial_fit(X[y == 1], y[y == 1], classes=[0, 1])
    assert hinge.predict(X).tolist() == [1] * 60
    assert hinge.certified_gap_.tolist() == [0.0]
    with pytest.raises(ValueError, match="max_stored_rows must be an integer of at least 2, got 1"):
        machine(max_stored_rows=1).partial_fit(X, y)
    with pytest.raises(ValueError, match="there are 5 classes, and max_stored_rows=4 allows fewer"):
        machine(max_stored_rows=4).partial_fit(X, np.arange(60) % 5)
    with pytest.raises(ValueError, match="cannot use kernel='precomputed'"):
        machine(kernel="precomputed").partial_fit(X @ X.T, y)
    with pytest.raises(ValueError, match=r"max_stored_rows=10 allows fewer.*Use criterion='gap'"):
        machine(criterion="meb", max_stored_rows=10).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"the label 'x', a string, next to labels such as 0"):
        machine().partial_fit(X, y).partial_fit(X, np.full(60, "x"))
    with pytest.raises(ValueError, match=r"gamma was 0\.2 so far and cannot become 'mean'"):
        machine().partial_fit(X, y).set_params(gamma="mean").partial_fit(X, y)
    with pytest.raises(TypeError, match="merge needs another CoreVectorClassifier, got FisherDiscriminant"):
        machine().fit(X, y).merge(FisherDiscriminant())
    with pytest.raises(ValueError, match=r"the parameters differ: loss='squared' and loss='hinge'"):
        machine().fit(X, y).merge(machine("hinge").fit(X, y))
    with pytest.raises(ValueError, match="one has 5 features, the other 3"):
        machine().fit(X, y).merge(machine().fit(X[:, :3], y))
    with pytest.raises(ValueError, match="its support vectors are rows, and a contribution would send them"):
        federated.contribution(machine(), X, y, number=0)


def test_two_classes_among_more_keep_their_hyperplane_with_its_sign():
    X, y = clouds(10, 80)
    stored = machine().partial_fit(X, y)._stored
    more = stored.recoded(np.array([2, 0]), 3)
    assert more.codes.tolist() == np.array([2, 0])[stored.codes].tolist()
    assert more.totals.tolist() == [stored.totals[1], 0.0, stored.totals[0]]
    np.testing.assert_array_equal(more.coefficients, [stored.coefficients[0], np.zeros(80), -stored.coefficients[0]])
    # a weight is never negative: y c = α in each problem
    for code in (0, 2):
        assert (np.where(more.codes == code, 1.0, -1.0) * more.coefficients[code] >= 0).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_whose_squares_overflow_are_refused_or_come_to_an_end(loss):
    X, y = clouds(11, 80)
    model = CoreVectorClassifier(loss=loss, max_iter=200).partial_fit(X, y)
    before, broken = model.to_bytes(), X[:3].copy()
    broken[-1, 2] = 1e200
    with pytest.raises(ValueError, match="the squares of X overflow, so gamma='mean' cannot be computed"):
        model.partial_fit(broken, y[:3])
    assert model.to_bytes() == before
    # with a given width nothing has to be computed from the rows, and the solve must still end
    machine(loss, max_iter=200).partial_fit(X, y).partial_fit(broken, y[:3])


def test_thinning_with_the_hinge_loss_is_warned_of():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    with pytest.warns(
        RuntimeWarning, match=r"max_stored_rows=40 allows fewer\..* Raise max_stored_rows, or use loss='squared'"
    ):
        CoreVectorClassifier(1.0, loss="hinge", max_stored_rows=40).partial_fit(X, y)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("most", [25, 10_000])
def test_a_file_written_again_holds_the_same_bytes(tmp_path, form, most):
    X, y = clouds(8, 60, 2, apart=3.0)
    model = machine("hinge", max_stored_rows=most)
    for part in (slice(0, 30), slice(30, 60)):
        model.partial_fit(form(X[part]), y[part])
        assert 0 < len(model.support_) <= len(model._stored.codes) - (most > 60)  # rows without weight too
        first, second = tmp_path / "first", tmp_path / "second"
        model.save(first)
        loaded = load(first)
        loaded.save(second)
        assert first.read_bytes() == second.read_bytes()
        assert type(loaded._stored.X) is form
