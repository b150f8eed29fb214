"""Logistic regressions that step with every row, past the width of a ladder: their definition, and laws of streams."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kampong
from kampong import FisherDiscriminant
from kampong.files.contents import Contents, flatten
from kampong.statistics.drift import DriftingScatter
from kampong.statistics.ladder import Ladder
from kampong.statistics.ladder_steps import FADE, LEAST
from kampong.statistics.stepper import MOST, RATES, Stepper

WIDTH = 140


def stream(n=200, d=WIDTH, n_classes=3, seed=0, as_sparse=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d) + (np.arange(d) == y[:, None]) * 500.0
    if as_sparse:
        X = sparse.csr_array(np.where(rng.random((n, d)) < 0.1, X, 0.0))
    return X, y


def naive(X, y, n_classes, given=None, centred=True):
    """Return what is said of each row, and the losses, by definition: a plain loop over whole rows."""
    n, d = X.shape
    weights, offsets = np.zeros((len(RATES), n_classes, d)), np.zeros((len(RATES), n_classes))
    losses, said = np.zeros(len(RATES) + 1), []
    experts = len(RATES) + (given is not None)
    for i in range(n):
        seen = X[: i + 1]
        mean = seen.mean(axis=0) if centred else np.zeros(d)
        variance = np.mean((seen - mean) ** 2, axis=0)
        row = np.where(variance > 1e-20, (X[i] - mean) / np.sqrt(np.where(variance > 1e-20, variance, 1.0)), 0.0)
        known = np.isin(np.arange(n_classes), y[:i])
        if known.sum() >= 2:
            probable = [softmax(weights[r] @ row + offsets[r], known) for r in range(len(RATES))]
            probable += [] if given is None else [given[i]]
            blend = np.exp(losses[:experts].min() - losses[:experts]) @ np.array(probable)
            said.append(int(np.argmax(blend)))
            taken = [-np.log(max(one[y[i]], LEAST)) for one in probable]
            losses[:experts] = FADE * losses[:experts] + taken
        else:
            said.append(-1)
        known[y[i]] = True
        for r, rate in enumerate(RATES):
            gradient = softmax(weights[r] @ row + offsets[r], known) - (np.arange(n_classes) == y[i])
            pace = rate / (1.0 + row @ row)
            weights[r] -= pace * np.outer(gradient, row)
            offsets[r] -= pace * gradient
    return np.array(said), losses, weights, offsets


def softmax(scores, known):
    odds = np.where(known, np.exp(scores - scores[known].max()), 0.0)
    return odds / odds.sum()


def same_bits(first, second):
    (mine, _), (theirs, _) = flatten(first.to_state()), flatten(second.to_state())
    return mine.keys() == theirs.keys() and all(mine[key].tobytes() == theirs[key].tobytes() for key in mine)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_steps_are_what_their_definition_says(as_sparse, asked):
    X, y = stream(as_sparse=as_sparse)
    chances = np.random.default_rng(1).dirichlet(np.ones(3), len(y)) if asked else None
    dense = X.toarray() if as_sparse else X
    said, losses, weights, offsets = naive(dense, y, 3, chances, centred=not as_sparse)
    statistics = DriftingScatter(WIDTH).declare([0, 1, 2])
    if asked:
        statistics.give(np.array([0, 1, 2]), chances)
    statistics.update(X, y)
    stepper = statistics.ladder
    assert isinstance(stepper, Stepper)
    np.testing.assert_array_equal(stepper.said, said)
    np.testing.assert_allclose(stepper.losses[: len(RATES) + asked], losses[: len(RATES) + asked], rtol=1e-7)
    np.testing.assert_allclose(stepper._steps.offsets, offsets, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(stepper._steps.weights.transpose(0, 2, 1), weights, rtol=1e-6, atol=1e-9)


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, 199), max_size=6), seed=st.integers(0, 3), as_sparse=st.booleans())
def test_batches_do_not_matter_to_a_single_bit(cuts, seed, as_sparse):
    X, y = stream(seed=seed, as_sparse=as_sparse)
    whole = DriftingScatter(WIDTH).declare([0, 1, 2]).update(X, y)
    parts, said = DriftingScatter(WIDTH).declare([0, 1, 2]), []
    for start, stop in itertools.pairwise([0, *sorted(set(cuts)), 200]):
        parts.update(X[start:stop], y[start:stop])
        said.extend(parts.ladder.said.tolist())
    assert said == whole.ladder.said.tolist()
    assert same_bits(parts.ladder, whole.ladder)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_saved_steps_go_on_with_the_same_bits(as_sparse):
    X, y = stream(as_sparse=as_sparse)
    statistics = DriftingScatter(WIDTH).update(X[:120], y[:120])
    again = DriftingScatter.from_state(Contents(*flatten(statistics.to_state()), "statistics"), WIDTH)
    for one in (statistics, again):
        one.update(X[120:], y[120:])
    assert same_bits(statistics, again)


@pytest.mark.parametrize(
    ("name", "value"),
    [("counts", -1.0), ("weights", np.nan), ("losses", -3.0), ("column_squares", -1.0), ("clock", 7.5)],
)
def test_steps_that_lie_are_refused(name, value):
    X, y = stream(50)
    arrays, facts = flatten(DriftingScatter(WIDTH).update(X, y).to_state())
    arrays[f"stepper.{name}"] = np.full_like(arrays[f"stepper.{name}"], value)
    with pytest.raises(ValueError, match=name):
        DriftingScatter.from_state(Contents(arrays, facts, "statistics"), WIDTH)


def test_merged_columns_are_those_of_both_streams_and_weights_their_mean():
    X, y = stream(n_classes=4)
    mine, theirs = DriftingScatter(WIDTH).update(X[:150], y[:150] % 3), DriftingScatter(WIDTH).update(X[150:], y[150:])
    both = mine.merge(theirs).ladder
    assert isinstance(both, Stepper)
    np.testing.assert_allclose(both._steps.column_mean, X.mean(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(both._steps.column_squares, 200 * X.var(axis=0), rtol=1e-9)
    place = {label: k for k, label in enumerate(theirs._index.labels)}
    for k, label in enumerate(mine.merge(theirs)._index.labels):
        expected = 0.25 * theirs.ladder._steps.offsets[:, place[label]]
        if label in mine._index.labels:
            expected = expected + 0.75 * mine.ladder._steps.offsets[:, mine._index.labels.index(label)]
        np.testing.assert_allclose(both._steps.offsets[:, k], expected, rtol=1e-9, atol=1e-12)


def test_columns_may_come_later_and_a_ladder_becomes_steps_where_it_ends():
    X, y = stream(60, d=200)
    first = np.where(np.arange(200) < WIDTH, X, 0.0)
    moved = DriftingScatter(WIDTH).update(first[:40, :WIDTH], y[:40])
    there = DriftingScatter(200).update(first[:40], y[:40])
    moved.move_columns(np.arange(WIDTH), 200)
    for one in (moved, there):
        one.update(X[40:], y[40:])
    np.testing.assert_allclose(moved.ladder._steps.weights, there.ladder._steps.weights, rtol=1e-9, atol=1e-12)
    narrow = DriftingScatter(100).update(X[:40, :100], y[:40])
    assert isinstance(narrow.ladder, Ladder)
    assert isinstance(narrow.move_columns(np.arange(100), 200).ladder, Stepper)
    many = DriftingScatter(100).update(X[:40, :100], np.arange(40) % 10)
    assert isinstance(many.ladder, Ladder)
    assert isinstance(many.update(np.repeat(X[:50, :100], 2, axis=0), np.arange(100)).ladder, Stepper)


def test_what_would_be_too_large_is_not_kept():
    statistics = DriftingScatter(8000)
    classes = MOST // 8000 + 1
    statistics.declare(np.arange(classes))
    statistics.update(sparse.csr_array(np.eye(2, 8000)), [0, 1])
    assert statistics.ladder is None
    assert "stepper" not in statistics.to_state()


def test_a_wide_stream_that_changes_its_mind_is_followed_and_so_is_what_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    n = 1600
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, WIDTH)) + 3.0 * (np.arange(WIDTH) % 3 == y[:, None]) * (np.arange(WIDTH) < 30)
    shown = np.where(np.arange(n) < 800, y, (y + 1) % 3)
    path = tmp_path / "rows.csv"
    header = ",".join([*(f"x{j}" for j in range(WIDTH)), "label"])
    np.savetxt(path, np.column_stack([X, shown]), fmt="%.6g", delimiter=",", header=header, comments="")
    pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
    pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
    from kampong.streaming import learn

    run = learn(str(path), FisherDiscriminant(half_life="auto"), label="label", model_file=str(tmp_path / "m"))
    plain = learn(str(path), FisherDiscriminant(), label="label")
    assert run.counters.accuracy > plain.counters.accuracy + 0.15
    assert run.counters.accuracy > 0.9
    assert run.model.score(X[-300:], shown[-300:]) > 0.95  # what predicts afterwards has followed too
    assert plain.model.score(X[-300:], shown[-300:]) < 0.8
    loaded = kampong.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X[-300:]), run.model.predict_proba(X[-300:]))
    weights, offsets = run.model._statistics.stepping()
    scores = X[-300:] @ weights.T + offsets
    np.testing.assert_allclose(run.model.decision_function(X[-300:]), scores, rtol=1e-8, atol=1e-8)


def test_without_drift_what_is_kept_is_the_model_of_all_rows():
    X, y = stream(600, seed=3)
    model, plain = FisherDiscriminant(half_life="auto"), FisherDiscriminant()
    for start in range(0, 600, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
        plain.partial_fit(X[start : start + 100], y[start : start + 100])
    assert model.half_life_ == np.inf
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
