"""half_life="auto": a contest answers beside the statistics of all rows, whatever the batches, files and columns."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kampong import FisherDiscriminant, load
from kampong.contract import stream_model
from kampong.files.contents import digest_of
from kampong.online import OnlineClassifier
from kampong.online.follower import Follower
from kampong.online.settings import Settings
from problems import at_most


def swapped(rows=600, width=4, classes=3, seed=0):
    """Return Gaussian classes that change places half-way."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    X = rng.normal(size=(rows, width)) + 3 * np.eye(classes, width)[(y + (np.arange(rows) > rows // 2)) % classes]
    return X, y


def drifting(**options):
    return FisherDiscriminant(ridge="rule", half_life="auto", **options)


def in_pieces(model, X, y, cuts, given=None):
    """Let a model predict and learn rows in pieces; return what was said of those after the first piece."""
    learner, said = stream_model(model), []
    edges = [0, *sorted(cuts), len(y)]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            said.append(learner.predict_then_learn(X[start:stop], y[start:stop], given))
    return said


@pytest.mark.parametrize("width", [4, 1500])
def test_the_statistics_and_directions_are_those_of_all_rows(width):
    X, y = swapped(width=width)
    rows = X if width < 1000 else sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    plain, model = FisherDiscriminant(ridge=0.5).partial_fit(rows, y), drifting().set_params(ridge=0.5)
    model.partial_fit(rows, y)
    assert np.array_equal(model.components_, plain.components_)
    assert np.array_equal(model.transform(rows), plain.transform(rows))
    if width < 1000:
        assert model.score(rows[450:], y[450:]) > plain.score(rows[450:], y[450:]) + 0.2
    model.set_params(half_life=None)
    assert np.array_equal(model.predict_proba(rows), plain.predict_proba(rows))


@settings(max_examples=at_most(10))
@given(cuts=st.lists(st.integers(30, 199), max_size=6), seed=st.integers(0, 3), wide=st.booleans())
def test_batches_do_not_matter(cuts, seed, wide):
    X, y = swapped(200, 6, 3, seed)
    if wide:
        X = sparse.csr_array(np.pad(np.where(np.abs(X) > 0.5, X, 0.0), ((0, 0), (0, 1200))))
    predictor = drifting().partial_fit(X[:30], y[:30]).freeze()
    one, other = drifting().partial_fit(X[:30], y[:30]), drifting().partial_fit(X[:30], y[:30])
    whole = in_pieces(one, X[30:], y[30:], [], predictor)
    parts = in_pieces(other, X[30:], y[30:], [cut - 30 for cut in cuts], predictor)
    assert np.array_equal(np.concatenate([labels for labels, _ in whole]), np.concatenate([x for x, _ in parts]))
    chances = np.concatenate([shares for _, shares in parts])
    np.testing.assert_allclose(chances, whole[0][1], rtol=1e-9)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-6, atol=1e-12)


def test_without_a_given_predictor_batches_are_the_same_bits():
    X, y = swapped(300)
    one, other = drifting().partial_fit(X, y), drifting()
    for start in range(0, 300, 7):
        other.partial_fit(X[start : start + 7], y[start : start + 7])
    assert digest_of(one._follower.to_state()) == digest_of(other._follower.to_state())


def test_a_row_is_predicted_before_it_is_learnt():
    X, y = swapped(200)
    one, other = drifting().partial_fit(X[:100], y[:100]), drifting().partial_fit(X[:100], y[:100])
    before = stream_model(one).predict_then_learn(X[100:101], y[100:101])
    after = stream_model(other).predict_then_learn(X[100:101], (y[100:101] + 1) % 3)
    assert before[0] == after[0]
    assert before[1] == after[1]


def test_the_model_of_all_rows_takes_part():
    """Where it alone is right, the contest comes to say what it says."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    follower, codes = Follower(5.0, 0), y.astype(np.int64)
    given = np.log(np.where(np.eye(2)[y] > 0, 0.9, 0.1))
    answers = follower.learn(X, codes, np.ones(400), 2, given)
    assert (answers[200:].argmax(axis=1) == y[200:]).mean() > 0.97
    assert follower.member_weights["all_rows 0"] > 0.9
    assert (follower.predict(X, given).argmax(axis=1) == y).all()


def test_what_is_not_given_says_nothing():
    """Without a given answer the contest says what it would say if there were no such member."""
    X, y = swapped(300)
    model = OnlineClassifier(effort=5.0)
    plain = model.predict_then_learn(X, y, method="predict_log_proba")
    follower = Follower(5.0, 0)
    order = {label: code for code, label in enumerate(model.classes_.tolist())}
    found = follower.learn(X, np.array([order[label] for label in y.tolist()]), np.ones(300), 3)
    assert (found[100:].argmax(axis=1) == plain[100:].argmax(axis=1)).mean() > 0.97


@pytest.mark.parametrize("width", [4, 150])
def test_saved_copied_and_loaded_models_go_on_with_the_same_bits(tmp_path, width):
    X, y = swapped(240, width)
    model = drifting().partial_fit(X[:120], y[:120], classes=[0, 1, 2, 9])
    model.save(tmp_path / "m")
    models = [model, load(tmp_path / "m"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    states = []
    for one in models:
        one.partial_fit(X[120:], y[120:])
        states.append((one.predict_proba(X).tolist(), one.state_digest()))
    assert all(state == states[0] for state in states)


def test_columns_that_come_were_zero_before():
    X, y = swapped(300, 4)
    X[:150, 3] = 0.0
    whole, grown = drifting().partial_fit(X, y), drifting().partial_fit(X[:150, :3], y[:150])
    before = grown.state_digest()
    wider = stream_model(grown).grown(4).estimator
    assert grown.state_digest() == before  # the model itself does not change
    wider.partial_fit(X[150:], y[150:])
    np.testing.assert_allclose(wider.predict_proba(X), whole.predict_proba(X), atol=1e-3)


def test_columns_that_move_end_the_contest():
    X, y = swapped(200, 3)
    model = drifting().partial_fit(X, y)
    stream_model(model).move_columns(np.array([2, 0, 1]), 3)
    assert not stream_model(model).follows_drift
    assert model.member_weights_ == {}
    plain = FisherDiscriminant(ridge="rule").partial_fit(X[:, [1, 2, 0]], y)
    np.testing.assert_allclose(model.predict_proba(X[:, [1, 2, 0]]), plain.predict_proba(X[:, [1, 2, 0]]), atol=1e-9)


def test_a_merged_model_is_one_of_all_rows():
    X, y = swapped(300)
    merged = drifting().partial_fit(X[:150], y[:150]).merge(drifting(random_state=1).partial_fit(X[150:], y[150:]))
    plain = FisherDiscriminant(ridge="rule").partial_fit(X, y)
    assert not stream_model(merged).follows_drift
    np.testing.assert_allclose(merged.predict_proba(X), plain.predict_proba(X), atol=1e-9)


def test_a_row_of_weight_zero_is_absent():
    X, y = swapped(200)
    weights = (np.arange(200) % 3 > 0).astype(float)
    model = drifting().partial_fit(X, y, sample_weight=weights)
    plain = drifting().partial_fit(X[weights > 0], y[weights > 0])
    assert digest_of(model._follower.to_state()) == digest_of(plain._follower.to_state())


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_weights_of_any_size_leave_finite_answers(factor):
    X, y = swapped(100)
    weights = np.where(np.arange(100) % 10, factor, 1.0)
    model = drifting().partial_fit(X, y, sample_weight=weights)
    assert np.isfinite(model.predict_proba(X)).all()


def test_shares_that_are_given_move_the_answers():
    X, y = swapped(300, 2, 2)
    observed = drifting().partial_fit(X, y)
    given = drifting(priors=[0.9, 0.1]).partial_fit(X, y)
    shift = np.log([0.9, 0.1]) - np.log(observed.priors_)
    moved = observed.predict_log_proba(X) + shift
    moved -= np.logaddexp.reduce(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(given.predict_log_proba(X), moved, atol=1e-6)


def test_several_labels_per_row_have_no_contest():
    X, y = swapped(100)
    model = drifting().partial_fit(X, np.eye(3, dtype=int)[y])
    assert not stream_model(model).follows_drift
    assert model.predict(X).shape == (100, 3)


def test_what_a_contest_cannot_do_is_said():
    X, y = swapped(100)
    model = drifting().partial_fit(X, y)
    with pytest.raises(TypeError, match=r"to_sklearn: with half_life='auto' a contest .* set_params\(half_life=None\)"):
        model.to_sklearn()
    with pytest.raises(AttributeError, match="a contest of learners answers, which is not linear"):
        _ = model.coef_
    with pytest.raises(ValueError, match=rf"effort must be .*{Settings.effort:g} is the default"):
        drifting(effort=-1).partial_fit(X, y)
    plain = FisherDiscriminant(ridge="rule").partial_fit(X, y)
    found = model.set_params(half_life=None).to_sklearn().predict_proba(X)
    np.testing.assert_allclose(found, plain.predict_proba(X), atol=1e-9)
