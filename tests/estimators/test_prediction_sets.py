"""predict_set: losses from their definition, and coverage within binomial bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kampong
from command import call
from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    KernelFisherDiscriminant,
    MarginSubspace,
)
from kampong.heads.calibration import calibrated
from kampong.selection.losses import HeldOutLosses
from problems import at_most, cut, problem, seeds

MODELS = {
    "default": FisherDiscriminant(),
    "given ridge": FisherDiscriminant(ridge=1.0, head="best"),
    "Gaussian": FisherDiscriminant(head="gaussian"),
    "margin": MarginSubspace(epsilon="auto"),
    "kernel": KernelFisherDiscriminant(landmarks=40, gamma=0.05),
}


def overlapping(seed, rows, *, classes=3, features=4, shares=None):
    """Return rows of classes that overlap, drawn independently."""
    means = 1.5 * np.random.default_rng(7).standard_normal((classes, features))
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, rows, p=shares)
    return means[y] + rng.standard_normal((rows, features)), y


def covered(sets, y):
    """Return whether the class of each row is in its set, classes being 0, 1 and so on."""
    return sets[np.arange(len(y)), y]


def slack(draws, n_validation, n_test, alpha=0.1):
    """Return four deviations of the mean coverage: of the threshold, known from n rows, and of the count."""
    return 4 * np.sqrt(alpha * (1 - alpha) * (1 / n_validation + 1 / n_test) / draws)


@settings(max_examples=at_most(50), deadline=None)
@given(seeds, st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_threshold_is_the_conformal_quantile_and_a_weight_is_a_number_of_rows(seed, n, alpha):
    rng = np.random.default_rng(seed)
    losses, codes = rng.exponential(size=n), rng.integers(0, 3, n)
    found = HeldOutLosses(losses, codes, np.ones(n), np.zeros(n, dtype=np.int64))

    def naive(values):
        place = int(np.ceil((1 - alpha) * (len(values) + 1) * (1 - 1e-9)))
        return np.sort(values)[place - 1] if place <= len(values) else np.inf

    assert found.threshold(alpha) == naive(losses)
    expected = [naive(losses[codes == code]) for code in range(4)]
    np.testing.assert_array_equal(found.thresholds(alpha, 4), expected)
    scaled = HeldOutLosses(losses, codes, np.full(n, 1e-4), np.zeros(n, dtype=np.int64))
    assert scaled.threshold(alpha) == naive(losses)
    assert found.threshold(1.0) == -np.inf
    assert found.threshold(0.0) == np.inf


def test_losses_are_those_of_models_fitted_without_the_row():
    X, y = problem(3, classes=3, rows=60)
    model = FisherDiscriminant(head="gaussian", scale=False).fit(X, y)
    known, n = model.freeze(), len(y)
    expected = []
    for i in range(n):
        others = np.arange(n) != i
        # the ridge is a sum over rows, as S_w is
        refit = FisherDiscriminant(ridge=model.ridge_ * n / (n - 1), head="gaussian", scale=False)
        scores = refit.fit(X[others], y[others]).decision_function(X[i : i + 1])
        # leave-one-out keeps the priors of all rows
        scores += np.log(np.bincount(y) / n) - np.log(np.bincount(y[others]) / (n - 1))
        expected.append(-calibrated(scores, known.head.sharpness, known.head.tail)[0, y[i]])
    found = known.held_out
    np.testing.assert_allclose(np.sort(found.losses[found.learnt == 0]), np.sort(expected), rtol=1e-7)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.sort(found.losses[found.learnt == 1]), np.sort(-logs[np.arange(n), y]), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_sets_hold_the_true_class_at_the_rate_that_was_named(name):
    draws, rows, tested = 8, 400, 2000
    hits = []
    for seed in range(draws):
        (X, y), (T, t) = overlapping(seed, rows), overlapping(1000 + seed, tested)
        hits.append(covered(MODELS[name].fit(X, y).predict_set(T), t).mean())
    assert abs(np.mean(hits) - 0.9) < slack(draws, rows, tested) + 1 / rows


def test_sets_per_class_hold_every_class_at_that_rate_and_the_others_only_on_average():
    draws, rows, tested = 8, 600, 3000
    shares = [0.15, 0.7, 0.15]
    hits = np.zeros((2, draws, 3))
    for seed in range(draws):
        (X, y), (T, t) = overlapping(seed, rows, shares=shares), overlapping(1000 + seed, tested, shares=shares)
        model = FisherDiscriminant().fit(X, y)
        for place, per_class in enumerate((False, True)):
            inside = covered(model.predict_set(T, 0.2, per_class=per_class), t)
            hits[place, seed] = [inside[t == label].mean() for label in range(3)]
    bounds = [slack(draws, rows * share, tested * share, 0.2) + 1 / (rows * share) for share in shares]
    assert (np.abs(hits[1].mean(axis=0) - 0.8) < bounds).all()
    assert np.ptp(hits[0].mean(axis=0)) > 2 * np.ptp(hits[1].mean(axis=0))


def test_a_rare_class_is_in_every_set_per_class():
    X, y = overlapping(0, 300)
    y[:5] = 3
    sets = FisherDiscriminant().fit(X, y).predict_set(X, per_class=True)
    assert sets[:, 3].all()
    assert not sets[:, :3].all()


@pytest.mark.parametrize("errors", [0.0, 0.05, 0.15])
def test_losses_of_few_values_do_not_make_empty_sets(errors):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    X = np.where(rng.random(1000) < errors, 1 - y, y)[:, None] + 0.1 * rng.standard_normal((1000, 1))
    model = FisherDiscriminant(head="cosine").fit(X[:400], y[:400])  # a cosine along one direction is 1 or −1
    assert covered(model.predict_set(X[400:]), y[400:]).mean() > 0.9 - 4 * np.sqrt(0.09 / 400)


def test_given_shares_of_classes_are_those_of_the_rows_to_come():
    draws, hits, observed = 8, [], []
    for seed in range(draws):
        X, y = overlapping(seed, 600, shares=[0.8, 0.1, 0.1])
        T, t = overlapping(1000 + seed, 2000)
        hits.append(covered(FisherDiscriminant(priors="uniform").fit(X, y).predict_set(T), t).mean())
        observed.append(covered(FisherDiscriminant().fit(X, y).predict_set(T), t).mean())
    assert abs(np.mean(hits) - 0.9) < slack(draws, 60, 2000)  # the rare classes decide
    assert np.mean(observed) < 0.9 - 0.03


def moving(seed, rows):
    """Return a stream whose classes turn around the origin, so that each takes the place of another."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    X = rng.standard_normal((rows, 3))
    angle = np.linspace(0, 6, rows) + 2 * np.pi / 3 * y
    X[:, :2] += 1.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return X, y


def test_sets_of_a_stream_follow_drift():
    X, y = moving(0, 4000)
    follows, keeps = FisherDiscriminant(half_life="auto"), FisherDiscriminant(ridge=1.0, head="best")
    hits = np.zeros((2, 20))
    for start in range(0, 4000, 100):
        rows = slice(start, start + 100)
        if start >= 2000:
            hits[:, (start - 2000) // 100] = [
                covered(model.predict_set(X[rows]), y[rows]).mean() for model in (follows, keeps)
            ]
        follows.partial_fit(X[rows], y[rows])
        keeps.partial_fit(X[rows], y[rows])
    assert abs(hits[0].mean() - 0.9) < slack(1, 1000, 2000) + 0.01  # labels come up to 100 rows late
    assert hits[1].mean() < 0.8


def test_losses_of_a_stream_do_not_depend_on_batches_and_survive_a_file():
    X, y = moving(1, 1500)
    whole = FisherDiscriminant(half_life="auto").partial_fit(X, y)
    parts = FisherDiscriminant(half_life="auto")
    for rows in cut(np.random.default_rng(0), 1500):
        if rows.stop > rows.start:
            parts.partial_fit(X[rows], y[rows])
            parts = kampong.from_bytes(parts.to_bytes())
    np.testing.assert_array_equal(parts._follower.recent_losses, whole._follower.recent_losses)
    assert len(whole._follower.recent_losses) == 1000
    np.testing.assert_array_equal(parts.predict_set(X), whole.predict_set(X))
    np.testing.assert_array_equal(
        kampong.from_bytes(whole.to_bytes()).predict_set(X, per_class=True), whole.predict_set(X, per_class=True)
    )
    assert parts.merge(whole).predict_set(X).shape == (1500, 3)  # a model of all rows: leave-one-out


@pytest.mark.parametrize("name", MODELS)
def test_sets_of_a_loaded_model_are_the_same(name, tmp_path):
    X, y = overlapping(2, 200)
    model = MODELS[name].fit(X, np.array(["a", "b", "c"])[y])
    model.save(tmp_path / "model.kampong")
    loaded = kampong.load(tmp_path / "model.kampong")
    for per_class in (False, True):
        expected = model.predict_set(X, per_class=per_class)
        np.testing.assert_array_equal(loaded.predict_set(X, per_class=per_class), expected)


def test_merged_and_unlearnt_models_have_the_sets_of_one_fit():
    X, y = overlapping(3, 300)
    expected = FisherDiscriminant().fit(X[:200], y[:200]).predict_set(X)
    first, second = FisherDiscriminant(), FisherDiscriminant(random_state=5)
    merged = first.partial_fit(X[:120], y[:120]).merge(second.partial_fit(X[120:200], y[120:200]))
    assert (merged.predict_set(X) != expected).mean() < 0.005  # but for losses that are equal to rounding
    first.partial_fit(X[120:], y[120:])
    first.predict_set(X)
    first.unlearn(X[200:], y[200:])
    assert (first.predict_set(X) != expected).mean() < 0.005
    first.unlearn(X[:200][y[:200] == 2], y[:200][y[:200] == 2])
    assert first.predict_set(X).shape == (300, 2)


def test_a_kept_choice_keeps_its_losses_when_classes_come():
    X, y = overlapping(4, 300)
    model = FisherDiscriminant().partial_fit(X[y > 0], y[y > 0])
    before = model.freeze()
    after = model.partial_fit(X[y == 0], y[y == 0]).freeze(keep=before)
    np.testing.assert_array_equal(after.held_out.losses, before.held_out.losses)
    np.testing.assert_array_equal(after.classes[after.held_out.codes], before.classes[before.held_out.codes])


def test_refusals_say_what_to_do():
    X, y = overlapping(5, 100)
    with pytest.raises(ValueError, match=r"needs validation rows, which this model has none of\. Set ridge='auto' or"):
        FisherDiscriminant(ridge=1.0, head="gaussian").fit(X, y).predict_set(X)
    with pytest.raises(ValueError, match=r"alpha must be a number in \[0, 1\], got 90"):
        FisherDiscriminant().fit(X, y).predict_set(X, 90)
    with pytest.raises(ValueError, match="rows have several labels, and sets are for one label per row"):
        FisherDiscriminant().fit(X, np.eye(3, dtype=int)[y]).predict_set(X)
    with pytest.raises(ValueError, match=r"priors='uniform' and half_life='auto' cannot be used together for sets"):
        FisherDiscriminant(half_life="auto", priors="uniform").fit(X, y).predict_set(X)


def test_the_command_line_writes_sets(tmp_path, capfd):
    X, y = overlapping(6, 300)
    names = np.array(["ash", "oak", "elm"])[y]
    model = FisherDiscriminant().fit(X, names)
    model.save(tmp_path / "trees.kampong")
    rows = tmp_path / "rows.csv"
    np.savetxt(rows, X, delimiter=",", header="a,b,c,d", comments="")
    out = tmp_path / "sets.csv"
    call(capfd, "predict", rows, "--model", tmp_path / "trees.kampong", "--set", "0.8", "--out", out)
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0] == ["row", "predicted", "set"]
    expected = ["|".join(model.classes_[one]) for one in model.predict_set(X, 1.0 - 0.8)]
    assert [line[2].strip('"') for line in lines[1:]] == expected
    printed = call(capfd, "predict", rows, "--model", tmp_path / "trees.kampong", "--set", "9", expect=2)
    assert "--set is the share of sets that hold the true class, from 0 to 1; got 9." in printed.err
    FisherDiscriminant(ridge=1.0, head="gaussian").fit(X, names).save(tmp_path / "plain.kampong")
    printed = call(capfd, "predict", rows, "--model", tmp_path / "plain.kampong", "--set", "0.8", expect=3)
    assert "a set needs validation rows, which this model has none of" in printed.err
    CoreVectorClassifier().fit(X, names).save(tmp_path / "margin.kampong")
    printed = call(capfd, "predict", rows, "--model", tmp_path / "margin.kampong", "--set", "0.8", expect=3)
    assert "a CoreVectorClassifier has no prediction sets" in printed.err
