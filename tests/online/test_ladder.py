"""A ladder of half-lives: each rung against sums over all rows, the contest against its definition, laws of streams."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kampong
from kampong import FisherDiscriminant
from kampong.files.contents import Contents, flatten
from kampong.statistics.drift import DriftingScatter
from kampong.statistics.ladder_steps import CYCLE, FADE, HALF_LIVES, LEAST, RIDGE_COLUMNS, RIDGE_ROWS, intervals


def stream(n=300, d=3, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n, d)) * 10.0 ** np.arange(d) + 1.5 * y[:, None], y


def flipping(n=1200, every=300, d=3, seed=0):
    """Two classes whose meaning is exchanged every so many rows."""
    X, y = stream(n, d, 2, seed)
    X[:, 0] = np.random.default_rng(seed).normal(size=n) + 3.0 * y
    return X, np.where((np.arange(n) // every) % 2, 1 - y, y)


def rows_of(statistics):
    """Return the ladder's rungs as (counts, means, scatter) with classes in order."""
    order = np.argsort(statistics._index.labels)
    found = []
    for place in range(len(HALF_LIVES)):
        counts, means, within, _ = statistics.ladder.rung(place)
        found.append((counts[order], means[order], np.tril(within) + np.tril(within, -1).T))
    return found


def same_bits(first, second):
    (mine, _), (theirs, _) = flatten(first.to_state()), flatten(second.to_state())
    return mine.keys() == theirs.keys() and all(mine[key].tobytes() == theirs[key].tobytes() for key in mine)


def weighed_sums(X, y, weights, n_classes):
    """Return counts, means and within-class scatter by their definition."""
    counts = np.array([weights[y == k].sum() for k in range(n_classes)])
    means = np.array([weights[y == k] @ X[y == k] / weights[y == k].sum() for k in range(n_classes)])
    apart = X - means[y]
    return counts, means, (weights[:, None] * apart).T @ apart


def test_every_rung_is_the_sum_over_rows_that_age():
    X, y = stream()
    found = rows_of(DriftingScatter(3).update(X, y))
    for half, (counts, means, within) in zip(HALF_LIVES, found, strict=True):
        ages = np.arange(len(y))[::-1]
        for mine, theirs in zip((counts, means, within), weighed_sums(X, y, 0.5 ** (ages / half), 3), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def naive(X, y):
    """Return what is predicted of each row, and the losses of the rungs at the end, by definition: O(n²)."""
    n, d, classes = len(y), X.shape[1], np.unique(y)
    paces, losses = intervals(d), np.zeros(len(HALF_LIVES))
    solved, said = [None] * len(HALF_LIVES), []
    for i in range(n):
        if len(np.unique(y[:i])) >= 2:
            probable = np.array([softmax(scores(X[i])) for scores in solved])
            blend = np.exp(losses.min() - losses) @ probable
            said.append(classes[np.argmax(blend)])
            losses = FADE * losses - np.log(np.maximum(probable[:, y[i]], LEAST))
        else:
            said.append(-1)
        for place, half in enumerate(HALF_LIVES):
            seldom = 1
            while place == len(HALF_LIVES) - 1 and 64 * paces[place] * seldom <= i + 1:
                seldom *= 2
            if (i + 1) % (paces[place] * seldom) == 0 or i + 1 <= 32:
                solved[place] = gaussian(X[: i + 1], y[: i + 1], half, len(classes))
    return np.array(said), losses


def softmax(scores):
    odds = np.exp(scores - scores.max())
    return odds / odds.sum()


def gaussian(X, y, half, n_classes):
    """Return the scores of Gaussian classes with the shared, shrunken covariance of rows that age."""
    weights = 0.5 ** (np.arange(len(y))[::-1] / half)
    variances = np.where(X.var(axis=0) > 0, X.var(axis=0), 1.0)
    present = [k for k in range(n_classes) if (y == k).any()]
    means = {k: weights[y == k] @ X[y == k] / weights[y == k].sum() for k in present}
    apart = X - np.array([means[k] for k in y])
    total, ridge = weights.sum(), RIDGE_ROWS + X.shape[1] / RIDGE_COLUMNS
    precision = total * np.linalg.inv((weights[:, None] * apart).T @ apart + ridge * np.diag(variances))

    def scores(x):
        found = np.full(n_classes, -np.inf)
        for k in present:
            found[k] = np.log(weights[y == k].sum() / total) - 0.5 * (x - means[k]) @ precision @ (x - means[k])
        return found

    return scores


@pytest.mark.parametrize("seed", [0, 1])
def test_the_contest_is_what_its_definition_says(seed):
    X, y = flipping(260, 60, seed=seed)
    said, losses = naive(X, y)
    statistics = DriftingScatter(3)
    found = []
    for x, label in zip(X, y, strict=True):
        statistics.update(x[None], [label])
        found.append(statistics.ladder.said[0])
    labels = np.array([*statistics._index.labels, -1])
    np.testing.assert_array_equal(labels[found], said)
    np.testing.assert_allclose(statistics.ladder.losses[:-1], losses, rtol=1e-6)


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 299), max_size=8), seed=st.integers(0, 5))
def test_batches_do_not_matter_to_a_single_bit(cuts, seed):
    X, y = stream(seed=seed)
    whole = DriftingScatter(3).declare([0, 1, 2]).update(X, y)  # the number of a class follows from its first batch
    parts = DriftingScatter(3).declare([0, 1, 2])
    edges = [0, *sorted(set(cuts)), 300]
    said = []
    for start, stop in itertools.pairwise(edges):
        parts.update(X[start:stop], y[start:stop])
        said.extend(parts.ladder.said.tolist())
    assert said == whole.ladder.said.tolist()
    assert same_bits(parts.ladder, whole.ladder)


def test_a_row_ages_others_by_one_step_and_one_of_weight_zero_is_absent():
    X, y = stream(80)
    weights = np.random.default_rng(1).exponential(size=80)
    weights[::5] = 0.0
    number = np.cumsum(weights > 0)
    ages = number[-1] - number
    weighed = DriftingScatter(3).update(X, y, weights)
    for half, found in zip(HALF_LIVES, rows_of(weighed), strict=True):
        for one, other in zip(found, weighed_sums(X, y, weights * 0.5 ** (ages / half), 3), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_ladders_merge_rung_by_rung():
    X, y = stream(400, n_classes=4)
    mine, theirs = DriftingScatter(3).update(X[:250], y[:250] % 3), DriftingScatter(3).update(X[250:], y[250:])
    both = mine.merge(theirs)
    ages = np.r_[np.arange(250)[::-1], np.arange(150)[::-1]]
    labels = np.r_[y[:250] % 3, y[250:]]
    for half, found in zip(HALF_LIVES, rows_of(both), strict=True):
        for one, other in zip(found, weighed_sums(X, labels, 0.5 ** (ages / half), 4), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
    np.testing.assert_allclose(both.ladder.losses, (mine.ladder.losses + theirs.ladder.losses) / 2)
    both.update(X[:50], y[:50])
    assert both.ladder.said.min() >= 0


def test_a_saved_ladder_goes_on_with_the_same_bits():
    X, y = flipping(700)
    model = FisherDiscriminant(half_life="auto")
    for start in range(0, 400, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    statistics = model._statistics
    again = DriftingScatter.from_state(Contents(*flatten(statistics.to_state()), "statistics"), 3)
    for one in (statistics, again):
        one.update(X[400:], y[400:])
    assert same_bits(statistics, again)
    np.testing.assert_array_equal(statistics.ladder.said, again.ladder.said)


@pytest.mark.parametrize(
    ("name", "value"),
    [("counts", -1.0), ("means", np.nan), ("losses", -3.0), ("column_squares", -1.0), ("clock", 7.5)],
)
def test_a_ladder_that_lies_is_refused(name, value):
    X, y = stream(50)
    arrays, facts = flatten(DriftingScatter(3).update(X, y).to_state())
    arrays[f"ladder.{name}"] = np.full_like(arrays[f"ladder.{name}"], value)
    with pytest.raises(ValueError, match=name):
        DriftingScatter.from_state(Contents(arrays, facts, "statistics"), 3)
    arrays, facts = flatten(DriftingScatter(3).update(X, y).to_state())
    arrays["ladder.means"] = arrays["ladder.means"][:, :, :2]
    with pytest.raises(ValueError, match="ladder"):
        DriftingScatter.from_state(Contents(arrays, facts, "statistics"), 3)


def test_columns_may_come_later():
    X, y = stream(120)
    wide = np.hstack([X, np.zeros((120, 2))])
    wide[80:, 3:] = np.random.default_rng(0).normal(size=(40, 2))
    moved = DriftingScatter(3).update(X[:80], y[:80]).move_columns(np.arange(3), 5).update(wide[80:], y[80:])
    there = DriftingScatter(5).update(wide, y)
    for mine, theirs in zip(rows_of(moved), rows_of(there), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def prequential(model, X, y):
    """Return what the model says of each row before it learns it."""
    model.partial_fit(X[:1], y[:1])
    said = [model._predict_then_learn(X[i : i + 1], y[i : i + 1], None) for i in range(1, len(y))]
    return np.array([-1 if one is None else one[0] for one in said])


def test_a_reader_who_changes_his_mind_is_followed():
    X, y = flipping()
    model = FisherDiscriminant(half_life="auto")
    said = prequential(model, X, y)
    assert (said == y[1:]).mean() > 0.85
    assert model.half_life_ <= 128
    assert model.score(X[-100:], y[-100:]) > 0.9
    forgets_nothing = FisherDiscriminant().fit(X, y)
    assert forgets_nothing.score(X[-100:], y[-100:]) < model.score(X[-100:], y[-100:]) - 0.1
    assert forgets_nothing.half_life_ == np.inf


def test_what_predicts_is_the_rung_that_the_ladder_names():
    X, y = flipping()
    model = FisherDiscriminant(half_life="auto", ridge=0.0).partial_fit(X, y)
    half = model.half_life_
    assert half < np.inf
    scores = gaussian(X, y, half, 2)
    expected = np.array([softmax(scores(x)) for x in X[-40:]])
    np.testing.assert_allclose(model.predict_proba(X[-40:]), expected, rtol=1e-6, atol=1e-9)


def test_where_nothing_drifts_the_model_is_that_of_all_rows(tmp_path):
    X, y = stream(2000, seed=3)
    model = FisherDiscriminant(half_life="auto").partial_fit(X, y)
    plain = FisherDiscriminant().partial_fit(X, y)
    if model.half_life_ == np.inf:
        np.testing.assert_array_equal(model.components_, plain.components_)
    assert abs(model.score(X, y) - plain.score(X, y)) < 0.02
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(kampong.load(tmp_path / "m").predict(X), model.predict(X))


def test_the_short_rungs_sleep_without_drift_and_wake_with_it():
    rng = np.random.default_rng(0)
    n = 6 * CYCLE
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + 2.0 * y[:, None]
    change = 3 * CYCLE
    y[change:] = np.where((np.arange(n - change) // 200) % 2, 1 - y[change:], y[change:])
    statistics = DriftingScatter(2).update(X[: 2 * CYCLE + 2000], y[: 2 * CYCLE + 2000])
    assert not statistics.ladder.awake
    assert statistics.half_life == np.inf
    statistics.update(X[2 * CYCLE + 2000 :], y[2 * CYCLE + 2000 :])
    assert statistics.ladder.awake
    assert statistics.half_life < np.inf
    labels = np.array([*statistics._index.labels, -1])
    tail = labels[statistics.ladder.said][-CYCLE:]
    assert (tail == y[-CYCLE:]).mean() > 0.8


def asleep_and_awake(X, y, errs, size=1024):
    """Return the row numbers at which a ladder wakes, told by a predictor that errs at some rows."""
    statistics, woken, slept = DriftingScatter(X.shape[1]).declare([0, 1]), [], False
    for start in range(0, len(y), size):
        part = slice(start, start + size)
        guesses = np.where(errs[part], 1 - y[part], y[part])
        if not statistics.tell(np.array([0, 1]), guesses):
            statistics.give(np.array([0, 1]), np.where(guesses[:, None] == [0, 1], 0.99, 0.01))
        statistics.update(X[part], y[part])
        if slept and statistics.ladder.awake:  # it is still awake after the first rows of a cycle only where it gains
            woken.append(start)
        slept = not statistics.ladder.awake
    return woken, statistics


def test_a_ladder_that_gains_nothing_sleeps_twice_as_long_each_time():
    rng = np.random.default_rng(0)
    n = 20 * CYCLE
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + 2.0 * y[:, None]
    woken, _ = asleep_and_awake(X, y, rng.random(n) < 0.01, size=512)
    assert [place // CYCLE for place in woken] == [2, 4, 8, 16]
    assert all(place % CYCLE == 0 for place in woken)


def test_it_wakes_before_its_time_where_the_predictor_becomes_worse():
    rng = np.random.default_rng(0)
    n = 14 * CYCLE
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + 2.0 * y[:, None]
    errs = rng.random(n) < np.where(np.arange(n) < 9.5 * CYCLE, 0.01, 0.1)  # asleep from 8 to 16 cycles otherwise
    woken, _ = asleep_and_awake(X, y, errs, size=512)
    assert [place // CYCLE for place in woken] == [2, 4, 8, 11]


def test_what_a_sleeping_ladder_is_told_is_what_it_says():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2 * CYCLE)
    X = rng.normal(size=(len(y), 2)) + 2.0 * y[:, None]
    errs = rng.random(len(y)) < 0.01
    _, statistics = asleep_and_awake(X[: CYCLE + 2048], y[: CYCLE + 2048], errs[: CYCLE + 2048])
    assert not statistics.ladder.awake
    rest = np.arange(CYCLE + 2048, 2 * CYCLE)
    assert not statistics.ladder.sleeps_through(len(rest) + 1)
    guesses = np.where(errs[rest], 1 - y[rest], y[rest])
    assert statistics.tell(np.array([0, 1]), guesses)
    again = DriftingScatter.from_state(Contents(*flatten(statistics.to_state()), "statistics"), 2)
    statistics.update(X[rest], y[rest])
    np.testing.assert_array_equal(statistics.said(), guesses)
    for part in np.array_split(rest, 7):  # saved, resumed and cut otherwise: the same but for rounding
        assert again.tell(np.array([0, 1]), np.where(errs[part], 1 - y[part], y[part]))
        again.update(X[part], y[part])
    mine, theirs = statistics.ladder.to_state(), again.ladder.to_state()
    assert mine["clock"].tobytes() == theirs["clock"].tobytes()
    for name, array in mine.items():
        np.testing.assert_allclose(theirs[name], array, rtol=1e-10, atol=1e-10 * np.abs(array).max(initial=0.0))


def test_a_ladder_that_rests_is_one_that_learns_all_rows_itself():
    rng = np.random.default_rng(1)
    n = 3 * CYCLE
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 1.0, 0.1] + 2.0 * y[:, None]
    resting = DriftingScatter(4).declare([0, 1, 2]).update(X[: CYCLE + 1024], y[: CYCLE + 1024])
    assert not resting.ladder.awake
    working = DriftingScatter.from_state(Contents(*flatten(resting.to_state()), "statistics"), 4)
    for start in range(CYCLE + 1024, 2 * CYCLE, 512):
        part = slice(start, start + 512)
        assert resting.tell(np.array([0, 1, 2]), y[part])
        assert resting.ladder.rests(512)
        resting.update(X[part], y[part])
        working.ladder.told = np.array([working._index._codes[label] for label in y[part].tolist()])
        working.ladder.rests = lambda rows: False
        working.update(X[part], y[part])
        np.testing.assert_array_equal(resting.said(), y[part])
    mine, theirs = resting.ladder.to_state(), working.ladder.to_state()
    assert mine["clock"].tobytes() == theirs["clock"].tobytes()
    for name, array in theirs.items():
        np.testing.assert_allclose(mine[name], array, rtol=1e-9, atol=1e-9 * np.abs(array).max(initial=0.0))


def test_units_and_huge_columns_do_not_matter():
    X, y = flipping()
    strange = X * [1e-6, 1e3, 1.0]
    strange = np.c_[strange, 1e12 + np.arange(len(y))]  # a number of the record
    usual = np.c_[X, np.arange(len(y))]
    found = [DriftingScatter(4).update(rows, y).ladder.said for rows in (usual, strange)]
    assert (found[0] == found[1]).mean() > 0.995


@pytest.mark.parametrize("kind", [kampong.MarginSubspace, kampong.InterClassScatter])
def test_only_fisher_chooses_its_half_life(kind):
    X, y = stream(50)
    with pytest.raises(ValueError, match=f"{kind.__name__}: half_life must be a number .*got 'auto'"):
        kind(half_life="auto").partial_fit(X, y)
    with pytest.raises(ValueError, match="half_life must be a number"):
        FisherDiscriminant(half_life="often").partial_fit(X, y)


def test_past_its_width_auto_forgets_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 129)), rng.integers(0, 2, 60)
    model = FisherDiscriminant(half_life="auto", ridge=1.0).partial_fit(X, y)
    assert model.half_life_ == np.inf
    np.testing.assert_array_equal(model.components_, FisherDiscriminant(ridge=1.0).partial_fit(X, y).components_)
    labels = np.eye(2, dtype=int)[y]
    several = FisherDiscriminant(half_life="auto", ridge=1.0).partial_fit(X[:, :5], labels)
    assert several.half_life_ == np.inf
    assert several.predict(X[:, :5]).shape == (60, 2)
