"""score_known and predict_known: measures from their definition, the rate of known rows, and classes left out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, optimize, sparse, special
from sklearn.metrics import roc_auc_score

import kampong
from command import call
from kampong import CoreVectorClassifier, FisherDiscriminant
from kampong.selection.known_rows import MEASURES, Space, logistic_near
from kampong.statistics.scatter import ClassScatter
from problems import at_most, problem, seeds


def measured(X, y, ridge, row):
    """Return the five measures of a row from their definitions, row by row."""
    classes, mean = np.unique(y), X.mean(axis=0)
    means = np.array([X[y == one].mean(axis=0) for one in classes])
    within = sum((x - means[code])[:, None] * (x - means[code]) for x, code in zip(X, y, strict=True)) / len(X)
    between = sum((y == one).mean() * np.outer(m - mean, m - mean) for one, m in zip(classes, means, strict=True))
    metric = np.linalg.inv(within + ridge * np.eye(X.shape[1]))
    ratios, W = linalg.eigh(between, within + ridge * np.eye(X.shape[1]))
    keep = ratios > 1e-9 * ratios.max()
    ratios, W = ratios[keep], W[:, keep]

    def length(z, by):
        return float(z @ by @ z)

    along = W @ W.T
    nearest = min(length(row - m, along) for m in means) - ((row - mean) @ W) ** 2 @ (1 / (1 + ratios))
    rest = length(row - mean, metric) - length(row - mean, along)
    return [
        -np.sqrt(min(length(row - x, metric) for x in X)),
        -0.5 * nearest,
        -min(np.linalg.norm(row - x) for x in X),
        -np.sqrt(min(length(row - x, along) for x in X)),
        -np.sqrt(max(rest, 0.0)),
    ]


def clusters(seed, *, classes=12, rows=40, features=8):
    """Return rows of classes whose means are drawn at random, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), rows)
    return (3.0 * rng.standard_normal((classes, features)))[y] + rng.standard_normal((len(y), features)), y


@settings(max_examples=at_most(20), deadline=None)
@given(seeds, st.integers(2, 5), st.integers(4, 6), st.sampled_from([0.01, 1.0]))
def test_measures_are_those_of_the_definition(seed, classes, features, ridge):
    X, y = problem(seed, classes=classes, rows=40, features=features)
    known, new = X[:30], X[30:]
    found = Space.of(ClassScatter(features).update(known, y[:30]), known, ridge).measures(new)
    expected = [measured(known, y[:30], ridge, row) for row in new]
    assert found.shape[1] == len(MEASURES)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=at_most(20), deadline=None)
@given(seeds, st.floats(0.01, 1.0))
def test_weights_are_the_least_point_of_the_pulled_loss(seed, pull):
    rng = np.random.default_rng(seed)
    columns, signs, start = rng.standard_normal((3, 30)), rng.choice([-1.0, 1.0], 30), rng.standard_normal(3)
    weights = rng.random(30) / 15

    def loss(at):
        return -weights @ special.log_expit(signs * (at @ columns)) + 0.5 * pull * np.square(at - start).sum()

    at, value = logistic_near(start, columns, signs, weights, pull)
    assert value == pytest.approx(loss(at))
    best = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(at, best, atol=1e-5)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_so_many_known_rows_are_rejected_and_rows_far_away_all_are(rate, scale):
    X, y = clusters(0, classes=6, rows=400)
    X[:, 0] *= 100
    model = FisherDiscriminant(scale=scale).fit(X[::2], y[::2])
    rejected = model.predict_known(X[1::2], rate, unknown=-1) == -1
    slack = 4 * np.sqrt(rate * (1 - rate) * (1 / 1200 + 1 / 1200))
    assert abs(rejected.mean() - rate) < slack + 0.5 * rate
    assert (model.predict_known(1e4 + X[:20], rate, unknown=-1) == -1).all()


def test_classes_left_out_are_told_from_known_ones_better_than_by_the_nearest_class():
    X, parts = clusters(1, classes=60, features=6)
    y = parts // 4  # classes of several clusters, so that the nearest mean says little
    new, half = y >= 12, np.arange(len(y)) % 2 == 0
    model = FisherDiscriminant().fit(X[~new & half], y[~new & half])
    area = roc_auc_score(~new[~half], model.score_known(X[~half]))
    assert area > roc_auc_score(~new[~half], model.score_samples(X[~half])) + 0.2
    assert area > 0.8


def test_two_classes_are_measured_by_the_nearest_row_in_the_metric():
    X, y = clusters(2, classes=2)
    model = FisherDiscriminant(scale=False).fit(X, y)
    far = X[:5] + 10 * np.linalg.svd(model.components_)[2][-1]  # off the one direction that there is
    assert model.score_known(far).max() < model.score_known(X).min()
    assert (model.predict(far) == y[:5]).all()
    assert (model.predict_known(far, 0.05, unknown=9) == 9).all()


def test_labels_are_objects_with_none_or_stay_what_they_are():
    X, y = clusters(3, classes=4)
    rows = np.vstack([X[:2], X[:1] + 1e3])
    model = FisherDiscriminant().fit(X, y)
    assert model.predict_known(rows, 0.05).tolist() == [0, 0, None]
    numbers = model.predict_known(rows, 0.05, unknown=-1)
    assert numbers.dtype == y.dtype
    assert numbers.tolist() == [0, 0, -1]
    words = FisherDiscriminant().fit(X, np.array(list("abcd"))[y])
    assert words.predict_known(rows, 0.05, unknown="none of these").tolist() == ["a", "a", "none of these"]
    assert words.predict_known(rows, 0.05).tolist() == ["a", "a", None]
    for one, unknown in ((model, 2), (model, "other"), (words, "b"), (words, -1)):
        with pytest.raises(ValueError, match=r"is a class, or no label such as .*Give another label of that kind"):
            one.predict_known(rows, 0.05, unknown=unknown)


def test_scores_survive_a_file_sparse_rows_and_frames_and_follow_what_is_learnt():
    X, y = clusters(4, classes=5)
    model = FisherDiscriminant().fit(pd.DataFrame(X).add_prefix("c"), y)
    frame = pd.DataFrame(X[:9]).add_prefix("c")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.score_known(frame)
        labels = model.predict_known(frame, 0.05)
    again = kampong.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.score_known(frame), found)
    np.testing.assert_array_equal(again.predict_known(frame, 0.05), labels)
    plain = FisherDiscriminant().fit(sparse.csr_array(X), y)
    # the ridge is chosen for each, and is the same to 1e-6
    np.testing.assert_allclose(plain.score_known(sparse.csr_array(X[:9])), found, rtol=1e-6, atol=1e-6)
    before = model.score_known(frame + 50.0)
    model.partial_fit(pd.DataFrame(X + 50.0).add_prefix("c"), y + 5)
    assert (model.score_known(frame + 50.0) > before).all()


def test_a_model_that_follows_drift_rejects_too():
    X, y = clusters(5, classes=5)
    follower = FisherDiscriminant(half_life="auto").partial_fit(X, y)
    assert (follower.predict_known(X[:20] + 1e3, 0.05, unknown=-1) == -1).all()
    assert (follower.predict_known(X, 0.05, unknown=-1) == -1).mean() < 0.1


def test_what_cannot_reject_says_why():
    X, y = clusters(6, classes=3, rows=20)
    model = FisherDiscriminant().fit(X, y)
    with pytest.raises(ValueError, match=r"rate=0.001 is less than the 0.016 that 60 held-out rows can tell. Give"):
        model.predict_known(X, 0.001)
    assert None not in model.predict_known(X, 0.0).tolist()
    with pytest.raises(ValueError, match="rate must be"):
        model.predict_known(X, 2.0)
    with pytest.raises(ValueError, match=r"needs a sample of rows, which ridge='auto' keeps. Use score_samples"):
        FisherDiscriminant(ridge=1.0, head="gaussian").fit(X, y).score_known(X)
    several = np.stack([y == 0, y == 1], axis=1).astype(int)
    with pytest.raises(ValueError, match="needs one label per row, and these have several"):
        FisherDiscriminant().fit(X, several).score_known(X)
    with pytest.raises(ValueError, match="needs ten rows that can be held out of classes; 4 rows were kept"):
        FisherDiscriminant().fit(X[[0, 1, 20, 21]], y[[0, 1, 20, 21]]).score_known(X)
    wide = sparse.random_array((30, 9000), density=0.01, rng=0, format="csr")
    with pytest.raises(ValueError, match=r"needs the d × d scatter, which is kept up to 8192 columns"):
        FisherDiscriminant().fit(wide, np.arange(30) % 3).score_known(wide)


def test_the_command_line_says_none_of_these_and_lists_the_records(tmp_path, capfd):
    X, y = clusters(7, classes=4)
    names = np.array(["ash", "oak", "elm", "fir"])[y]
    model = FisherDiscriminant().fit(X, names)
    file, rows, out = tmp_path / "trees.kampong", tmp_path / "rows.csv", tmp_path / "trees.csv"
    model.save(file)
    X[[3, 7]] += 1e3
    np.savetxt(rows, X, delimiter=",", header=",".join("abcdefgh"), comments="")
    printed = call(capfd, "predict", rows, "--model", file, "--reject", "0.01", "--out", out)
    found = [line.split(",")[1].strip('"') for line in out.read_text().splitlines()[1:]]
    expected = model.predict_known(X, 0.01, unknown="none of these").tolist()
    assert found == expected
    numbers = [i + 1 for i, label in enumerate(expected) if label == "none of these"]
    assert {4, 8} <= set(numbers)
    assert (
        f"{len(numbers)} of 160 records look like no class: records {', '.join(map(str, numbers))}. They" in printed.err
    )
    call(capfd, "predict", rows, "--model", file, "--reject", "0.01", "--probabilities", "best", "--out", out)
    assert out.read_text().splitlines()[4].startswith('4,"none of these",')
    printed = call(capfd, "predict", rows, "--model", file, "--reject", "5", expect=2)
    assert "--reject is the share of known records that may be rejected, from 0 to 1; got 5." in printed.err
    printed = call(capfd, "predict", rows, "--model", file, "--reject", "0.0001", expect=3)
    assert "Give a larger rate, or learn more rows." in printed.err
    CoreVectorClassifier().fit(X, names).save(file)
    printed = call(capfd, "predict", rows, "--model", file, "--reject", "0.01", expect=3)
    assert (
        "a CoreVectorClassifier cannot tell that a record is of no class. Learn with FisherDiscriminant" in printed.err
    )
    FisherDiscriminant().fit(X, np.where(names == "ash", "none of these", names)).save(file)
    printed = call(capfd, "predict", rows, "--model", file, "--reject", "0.01", expect=3)
    assert "a class is called 'none of these' already. Rename it, or use predict_known" in printed.err
