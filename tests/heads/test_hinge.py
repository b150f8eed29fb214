"""Support vector machines for all classes in one pass: the optimum of a peer, and a head that lives like the others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.svm import LinearSVC

from kampong import FisherDiscriminant, load
from kampong._core.compute import alone
from kampong.datasets import sparse_text
from kampong.heads import hinge
from kampong.heads.hinge import Hinge, Machines, optimum, shuffled
from kampong.selection import choose, folds
from kampong.selection.settings import SETTINGS
from kampong.statistics.all_rows import ClassRows
from linear_models import quiet

TEXT = sparse_text(1800, 9000, 120, n_classes=3, random_state=0)
SMALL = sparse_text(400, 700, 20, n_classes=5, random_state=1)


def lengths(X):
    return np.asarray(X.multiply(X).sum(axis=1)).ravel()


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cost", [0.3, 3.0])
def test_the_optimum_is_that_of_a_peer(weighted, cost):
    X, y = SMALL
    own = np.random.default_rng(0).integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    unit = own @ lengths(X) / own.sum()
    weights, offsets = Machines(X, None, y, own, 5).ascend(cost, 600).weights()
    peer = LinearSVC(C=cost / unit, intercept_scaling=np.sqrt(unit), tol=1e-12, dual=False)
    peer.fit(X, y, sample_weight=own)
    np.testing.assert_allclose(weights, peer.coef_, atol=1e-6 * np.abs(peer.coef_).max())
    np.testing.assert_allclose(offsets, peer.intercept_, atol=1e-6)


def points_of(n=300, p=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-2, 2, p) + rng.normal(size=(n_classes, p))[codes], codes


def value_and_gap(points, signs, own, cost, weights, offset):
    """Return the objective and the duality gap, by their definitions."""
    unit = own @ np.square(points).sum(axis=1) / own.sum()
    rows = np.column_stack([points, np.full(len(points), np.sqrt(unit))])
    theta, price = np.append(weights, offset / np.sqrt(unit)), cost / unit * own
    slack = np.maximum(0.0, 1.0 - signs * (rows @ theta))
    primal = 0.5 * theta @ theta + price @ slack**2
    dual_variables = 2.0 * price * slack
    combined = (dual_variables * signs) @ rows
    dual = dual_variables.sum() - 0.5 * combined @ combined - (dual_variables**2 / (4.0 * price)).sum()
    return primal, primal - dual


@pytest.mark.parametrize("cost", [0.05, 0.5, 50.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_along_directions_the_duality_gap_is_closed(weighted, cost):
    points, codes = points_of()
    own = np.random.default_rng(1).exponential(size=len(codes)) if weighted else np.ones(len(codes))
    weights, offsets = optimum(points, codes, own, 4, cost)
    for k in range(4):
        signs = np.where(codes == k, 1.0, -1.0)
        value, gap = value_and_gap(points, signs, own, cost, weights[k], offsets[k])
        assert gap <= 1e-12 * value
    unit = own @ np.square(points).sum(axis=1) / own.sum()
    peer = LinearSVC(C=cost / unit, intercept_scaling=np.sqrt(unit), tol=1e-12, max_iter=200_000, dual=False)
    peer.fit(points, codes, sample_weight=own)
    scores, theirs = points @ weights.T + offsets, peer.decision_function(points)
    np.testing.assert_allclose(scores, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())


def test_along_directions_order_and_repeats_of_rows_do_not_matter():
    points, codes = points_of(seed=2)
    rng = np.random.default_rng(3)
    own = rng.integers(0, 4, len(codes)).astype(float)
    first = optimum(points, codes, own, 4, 0.5)
    order = rng.permutation(len(codes))
    kept, repeated = np.flatnonzero(own), np.repeat(np.arange(len(codes)), own.astype(int))
    for some, weights in ((order, own[order]), (kept, own[kept]), (repeated, np.ones(len(repeated)))):
        for mine, theirs in zip(optimum(points[some], codes[some], weights, 4, 0.5), first, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-8 * np.abs(theirs).max())


@quiet
@pytest.mark.parametrize("given", [{"ridge": 0.1}, {}])
def test_the_head_does_not_depend_on_the_order_of_rows(given):
    X, y = load_wine(return_X_y=True)
    rng, rows = np.random.default_rng(4), np.arange(len(y))
    rows = rng.permutation(rows)[:80]
    X, y = X[rows], y[rows]
    y[::4] = rng.integers(0, 3, len(y[::4]))  # classes that no plane tells apart
    first = FisherDiscriminant(head="hinge", **given).fit(X, y)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(80)
        other = FisherDiscriminant(head="hinge", **given).fit(X[order], y[order])
        heads = [model.freeze() for model in (first, other)]
        margins = [known.seen_points(X) @ known.head.weights.T + known.head.offsets for known in heads]
        np.testing.assert_allclose(*margins, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(other.predict(X), first.predict(X))
        if given:  # else the rows that calibrate are drawn by their numbers
            np.testing.assert_allclose(other.predict_proba(X), first.predict_proba(X), rtol=0, atol=1e-6)
    weights = np.where(np.arange(80) % 5 == 0, 0.0, 1.0)
    absent = FisherDiscriminant(head="hinge", **given).fit(X[weights > 0], y[weights > 0])
    weighed = FisherDiscriminant(head="hinge", **given).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighed.predict_proba(X), absent.predict_proba(X), rtol=0, atol=1e-6)


def test_few_passes_come_near_to_it():
    X, y = SMALL
    exact = Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5, 400)
    few = Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5)
    np.testing.assert_allclose(few.weights()[0], exact.weights()[0], atol=0.05 * np.abs(exact.weights()[0]).max())


def test_at_the_optimum_a_row_of_weight_two_is_the_row_twice():
    X, y = SMALL
    twice = np.concatenate([np.arange(len(y)), np.arange(0, len(y), 3)])
    own = np.ones(len(y))
    own[::3] = 2.0
    heavy = Machines(X, None, y, own, 5).ascend(0.5, 400).weights()
    again = Machines(X[twice], None, y[twice], np.ones(len(twice)), 5).ascend(0.5, 400).weights()
    for one, other in zip(heavy, again, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(other).max())


def test_units_and_kind_of_rows_do_not_matter():
    X, y = SMALL
    first = Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5).scores(X)
    wide = X.astype(np.float64) * 1024.0
    wide = sparse.csr_array((wide.data, wide.indices.astype(np.int64), wide.indptr.astype(np.int64)), shape=X.shape)
    other = Machines(wide, None, y, np.ones(len(y)), 5).ascend(0.5).scores(wide)
    np.testing.assert_allclose(other, first, atol=1e-6)
    dense = Machines(X.toarray(), None, y, np.ones(len(y)), 5).ascend(0.5).scores(X.toarray())
    np.testing.assert_allclose(dense, first, atol=1e-12)


def test_rows_that_are_left_out_have_no_say():
    X, y = SMALL
    some = np.flatnonzero(np.arange(len(y)) % 4)
    machines = Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5, some=some)
    lies = y.copy()
    lies[::4] = (lies[::4] + 1) % 5
    np.testing.assert_array_equal(
        machines.weights()[0], Machines(X, None, lies, np.ones(len(y)), 5).ascend(0.5, some=some).weights()[0]
    )
    assert all(not dual[::4].any() for dual in machines.duals)


def test_threads_and_the_cut_into_blocks_do_not_matter(monkeypatch):
    X, y = SMALL
    found = []
    for together in (64, 3, 2, 1):
        monkeypatch.setattr(hinge, "TOGETHER", together)
        found.append(Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5).weights()[0])
        with alone():
            found.append(Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5).weights()[0])
        np.testing.assert_array_equal(found[-1], found[-2])
    for other in found:
        np.testing.assert_allclose(other, found[0], atol=1e-7)


def test_a_last_bit_moves_nothing():
    X, y = SMALL
    first, rng = Machines(X, None, y, np.ones(len(y)), 5).ascend(0.5).scores(X), np.random.default_rng(0)
    for _ in range(5):
        moved = X.copy()
        moved.data = moved.data * (1 + 1e-12 * rng.uniform(-1, 1, moved.data.shape))
        other = Machines(moved, None, y, np.ones(len(y)), 5).ascend(0.5).scores(X)
        np.testing.assert_allclose(other, first, atol=1e-7)


def test_the_order_of_a_pass_is_a_permutation_and_differs_from_pass_to_pass():
    orders = [shuffled(1000, seed) for seed in range(4)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    places = np.corrcoef(np.stack(orders))
    assert np.abs(places - np.eye(4)).max() < 0.15


@quiet
def test_on_text_its_weights_are_hidden_directions():
    X, y = TEXT
    model = FisherDiscriminant(head="hinge").fit(X, y)
    known = model.freeze()
    assert known.hidden.shape == (3, 9000)
    assert known.head.n_rows == 1800
    margins = X @ known.hidden.T + (known.head.offsets - known.hidden @ known.mean)
    np.testing.assert_allclose(
        model.decision_function(X), np.log(np.logaddexp(0.0, 4.0 * margins + 2.0)), rtol=1e-9, atol=1e-9
    )
    unit = lengths(X).mean()
    peer = LinearSVC(C=known.head.cost / unit, intercept_scaling=np.sqrt(unit), tol=1e-8, random_state=0).fit(X, y)
    assert (peer.predict(X) == model.predict(X)).mean() > 0.995


@pytest.fixture
def many(monkeypatch):
    """Return text of which few rows validate."""
    monkeypatch.setattr(choose, "SETTINGS", replace(SETTINGS, validation_rows=256))
    return sparse_text(8200, 9000, 6, n_classes=6, random_state=0)


def test_where_few_rows_validate_what_was_calibrated_is_what_predicts(many, monkeypatch):
    X, y = many
    made, calibrated = [], folds.HeldOutEvidence.calibrated

    def watched(evidence, candidates):
        made.extend(one.scores for one in candidates)
        return calibrated(evidence, candidates)

    monkeypatch.setattr(folds.HeldOutEvidence, "calibrated", watched)
    model = FisherDiscriminant(head="hinge").fit(X, y)
    judges = ClassRows(9000).update(X, y, np.ones(len(y))).sample(256)
    np.testing.assert_allclose(model.decision_function(judges.rows), made[-1], atol=1e-8)
    right = (made[-1].argmax(axis=1) == judges.members.codes).mean()
    others = (model.predict(X) == y).mean()
    assert others > right + 0.05  # the validation rows have not been learnt


@quiet
def test_it_is_kept_while_rows_are_few_more_and_trained_again_when_they_have_grown(tmp_path):
    X, y = TEXT
    model = FisherDiscriminant(head="hinge").partial_fit(X[:1000], y[:1000])
    first = model.freeze()
    model.partial_fit(X[1000:1400], y[1000:1400])
    kept = model.freeze(keep=first)
    np.testing.assert_array_equal(kept.hidden, first.hidden)
    margins = [one.scores(X) for one in (kept, first)]
    np.testing.assert_allclose(*margins, atol=1e-9)
    later = model.partial_fit(X[:200], y[:200]).freeze(keep=first)
    assert later.head.n_rows == 1600
    assert later.head.cost == first.head.cost
    assert not np.allclose(later.hidden, first.hidden, atol=1e-3)
    assert (later.answers(X)[1] == y).mean() > (first.answers(X)[1] == y).mean()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").freeze(keep=first).scores(X), later.scores(X))


@quiet
def test_a_class_that_came_since_is_learnt():
    X, y = TEXT
    early = y[:1200] < 2
    model = FisherDiscriminant(head="hinge").partial_fit(X[:1200][early], y[:1200][early])
    first = model.freeze()
    kept = model.partial_fit(X[:1200][~early], y[:1200][~early]).freeze(keep=first)
    assert (kept.answers(X[1200:])[1] == y[1200:]).mean() > 0.75


@quiet
def test_merged_parts_and_other_runtimes_answer_alike(tmp_path):
    X, y = TEXT
    whole = FisherDiscriminant(head="hinge").partial_fit(X, y)
    parts = [FisherDiscriminant(head="hinge", random_state=s).partial_fit(X[s::2], y[s::2]) for s in (0, 1)]
    merged = parts[0].merge(parts[1])
    assert (merged.predict(X) == whole.predict(X)).mean() > 0.97
    for model in (whole, merged, FisherDiscriminant(head="hinge").fit(X, y)):
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
        plain = model.to_sklearn(sparse=True)
        np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), atol=1e-10)


@quiet
def test_with_many_classes_a_mixture_holds_it():
    X, y = sparse_text(1200, 8500, 20, n_classes=8, random_state=0)
    head = FisherDiscriminant().fit(X, y).freeze().head
    assert isinstance(head.trained, Hinge)
    assert head.weights[-1] > 0  # it counts
    scores = head.trained.scores(np.zeros((1, head.n_seen)))
    np.testing.assert_allclose(scores[0], np.log(np.logaddexp(0.0, 4.0 * head.trained.offsets + 2.0)), rtol=1e-12)


def test_what_rows_need_beside_themselves_is_bounded(monkeypatch):
    assert hinge.most_rows(127) * 127 * 4 <= hinge.NUMBERS_BYTES
    monkeypatch.setattr(hinge, "NUMBERS_BYTES", 3 * 4 * 1100)
    X, y = TEXT
    trained, made = [], Machines.__init__

    def watched(machines, rows, places, codes, own, n_classes):
        trained.append(len(codes))
        made(machines, rows, places, codes, own, n_classes)

    monkeypatch.setattr(Machines, "__init__", watched)
    FisherDiscriminant(head="hinge").fit(X, y)
    assert set(trained) == {1100}
    monkeypatch.setattr(folds, "SETTINGS", replace(SETTINGS, hinge_bytes=3 * 8 * 8999))
    model = FisherDiscriminant(head="hinge").fit(X, y)  # in the subspace then
    assert len(model.freeze().hidden) == 0


def test_a_file_that_lies_is_refused():
    head = Hinge(False, np.eye(3, 5), np.zeros(3), 0.5, n_rows=10)
    assert head.inconsistent() == ""
    for wrong in (
        replace(head, cost=0.0),
        replace(head, n_rows=-1),
        replace(head, weights=np.eye(3)),
        replace(head, offsets=np.full(3, -np.inf)),
        replace(head, offsets=np.array([0.0, 0.0, np.inf])),
        replace(head, multilabel=True),
    ):
        assert wrong.inconsistent()
