"""OnlineClassifier: scikit-learn's checks; batches and stops do not change a bit; refused rows leave no trace."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import kampong
import kampong.online.classifier
from kampong.datasets import sparse_text, waveform
from kampong.online import OnlineClassifier
from kampong.online.contest import Contest
from kampong.online.settings import Settings

IN_ORDER = (
    "The members learn row by row, so they depend on the order of the rows, which this check changes, and a weight of "
    "2 is one larger step. test_weights_of_fit_are_those_of_partial_fit tests a weight of 0."
)
SHUFFLED = {f"check_sample_weight_equivalence_on_{kind}_data": IN_ORDER for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [OnlineClassifier(), OnlineClassifier(effort=5.0, labels_in_order=False)],
    expected_failed_checks=lambda _: SHUFFLED,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def problem(rows=400, columns=6, classes=5, seed=0):
    """Return a stream whose classes come one after another, and which changes half-way."""
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.integers(classes, size=rows), 1 + np.arange(rows) * classes // rows)
    X = 2.0 * rng.normal(size=(classes, columns))[y] + rng.normal(size=(rows, columns))
    y[rows // 2 :] = (y[rows // 2 :] + 1) % classes
    return X, y


def wide_problem():
    return sparse_text(300, n_features=3000, n_classes=4, random_state=0)


def cut(n, seed):
    """Return random borders of batches, many of them of one row."""
    rng, borders = np.random.default_rng(seed), [0]
    while borders[-1] < n:
        borders.append(min(n, borders[-1] + int(rng.choice([1, 1, 2, 7, 64, 150]))))
    return [slice(a, b) for a, b in itertools.pairwise(borders)]


def chances_of(model, X, y, parts, classes, **given):
    """Return the log-probabilities before each row was learnt, at places that do not depend on batches."""
    found = np.full((len(y), len(classes)), -np.inf)
    for part in parts:
        weight = {name: value[part] for name, value in given.items()}
        answers = model.predict_then_learn(X[part], y[part], method="predict_log_proba", **weight)
        found[part, np.searchsorted(classes, model.classes_)] = np.nan_to_num(answers, nan=-np.inf, neginf=-np.inf)
    return found


PROBLEMS = {
    "narrow": problem(),
    "one column": problem(columns=1),
    "middle": problem(rows=150, columns=130),
    "wide": wide_problem(),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("in_order", [True, False])
def test_batches_and_stops_do_not_change_a_bit(name, in_order, tmp_path):
    X, y = PROBLEMS[name]
    X = sparse.csr_array(X) if sparse.issparse(X) else X
    weights, classes = np.random.default_rng(1).choice([0.0, 1.0, 2.5], size=len(y)), np.unique(y)
    whole = OnlineClassifier(labels_in_order=in_order)
    wanted = chances_of(whole, X, y, [slice(None)], classes, sample_weight=weights)
    for seed in range(3):
        model = OnlineClassifier(labels_in_order=in_order)
        parts, found = cut(len(y), seed), []
        while weights[parts[0]].max() == 0.0:
            parts[0:2] = [slice(0, parts[1].stop)]
        for part in parts:
            found.append(chances_of(model, X[part], y[part], [slice(None)], classes, sample_weight=weights[part]))
            if part.start % 5 == 0:
                model.save(tmp_path / "model")
                model = kampong.load(tmp_path / "model")
        np.testing.assert_array_equal(np.concatenate(found), wanted)
        assert model.to_bytes() == whole.to_bytes()


def test_sparse_and_dense_rows_give_the_same_bits():
    for X, y in (problem(), wide_problem()):
        dense = X.toarray() if sparse.issparse(X) else X
        models = [OnlineClassifier().partial_fit(rows, y) for rows in (dense, sparse.csr_array(X), sparse.coo_array(X))]
        assert len({model.to_bytes() for model in models}) == 1
        np.testing.assert_array_equal(models[0].predict_proba(dense), models[0].predict_proba(sparse.csr_array(X)))


def test_float32_rows_are_learnt_as_the_same_numbers():
    X, y = problem()
    X = X.astype(np.float32)
    assert OnlineClassifier().fit(X, y).to_bytes() == OnlineClassifier().fit(X.astype(np.float64), y).to_bytes()


@pytest.mark.parametrize("rows", [problem(), wide_problem()], ids=["narrow", "wide"])
def test_predict_answers_the_next_row_as_the_stream_does(rows):
    X, y = rows
    model = OnlineClassifier(labels_in_order=False).partial_fit(X[:200], y[:200], classes=np.unique(y))
    for i in range(200, 230):
        row = X[i : i + 1]
        told = model.predict_log_proba(row)
        np.testing.assert_array_equal(told, model.predict_log_proba(X[200:230])[[i - 200]])
        np.testing.assert_array_equal(told, model.predict_then_learn(row, y[i : i + 1], method="predict_log_proba"))


def test_predict_does_not_know_the_last_label():
    X, y = np.random.default_rng(0).normal(size=(600, 2)), np.arange(600) // 2 % 2
    model = OnlineClassifier()
    assert (model.predict_then_learn(X, y)[300:] == y[300:]).mean() > 0.45
    before = model.predict_proba(X[:50])
    chain = next(member for member in model._contest.members if member.uses_last_label)
    chain.arrays["last"][0] = 1 - chain.arrays["last"][0]
    np.testing.assert_array_equal(model.predict_proba(X[:50]), before)


def test_the_last_label_is_used_where_it_helps():
    X, y = np.random.default_rng(0).normal(size=(2000, 2)), np.arange(2000) % 5
    assert (OnlineClassifier().predict_then_learn(X, y)[500:] == y[500:]).mean() > 0.99
    assert (OnlineClassifier(labels_in_order=False).predict_then_learn(X, y)[500:] == y[500:]).mean() < 0.5


def test_a_row_of_weight_zero_is_predicted_and_leaves_no_trace():
    X, y = problem()
    strange = np.where(np.arange(len(y)) % 3 == 0, "never", y.astype(str))
    weights = np.where(strange == "never", 0.0, 1.0)
    with_zeros, without = OnlineClassifier(), OnlineClassifier()
    answers = with_zeros.predict_then_learn(X, strange, sample_weight=weights)
    without.partial_fit(X[weights > 0], strange[weights > 0])
    assert with_zeros.to_bytes() == without.to_bytes()
    assert "never" not in answers[1:]


def test_weights_of_fit_are_those_of_partial_fit():
    X, y = problem()
    weights = np.random.default_rng(1).choice([0.0, 1.0, 2.5], size=len(y))
    fitted = OnlineClassifier().fit(X, y, sample_weight=weights)
    assert fitted.to_bytes() == OnlineClassifier().partial_fit(X, y, sample_weight=weights).to_bytes()
    assert fitted.to_bytes() == OnlineClassifier().fit(X[weights > 0], y[weights > 0], weights[weights > 0]).to_bytes()
    assert fitted.to_bytes() != OnlineClassifier().fit(X, y, sample_weight=(weights > 0) * 1.0).to_bytes()
    with pytest.raises(ValueError, match="the weight of every row is zero"):
        OnlineClassifier().fit(X, y, sample_weight=np.zeros(len(y)))


def test_a_class_that_was_declared_and_has_not_come_has_no_chance():
    X, y = problem(classes=2)
    told, plain = OnlineClassifier(), OnlineClassifier()
    chances = told.predict_then_learn(X, y, classes=[-7, 0, 1, 9], method="predict_proba")
    assert told.classes_.tolist() == [-7, 0, 1, 9]
    np.testing.assert_array_equal(chances[:, 1:3], plain.predict_then_learn(X, y, method="predict_proba"))
    assert not chances[1:, [0, 3]].any()
    assert set(told.predict(X)) <= {0, 1}
    late, later = kampong.from_bytes(told.to_bytes()), np.full(30, -7)
    late.partial_fit(X[:30] + 20.0, later)
    assert (late.predict(X[:30] + 20.0) == -7).all()


def test_new_columns_are_as_if_they_had_been_zero():
    X, y = problem()
    wide = np.hstack([X, np.random.default_rng(2).normal(size=(len(X), 3)) + y[:, None]])
    padded = wide.copy()
    padded[:200, 6:] = 0.0
    grown, whole = OnlineClassifier(), OnlineClassifier()
    grown.partial_fit(X[:200], y[:200]).widen(9).partial_fit(wide[200:], y[200:])
    whole.partial_fit(padded, y)
    assert grown.n_features_in_ == 9
    for ours, theirs in zip(grown._contest.members, whole._contest.members, strict=True):
        for name, array in theirs.arrays.items():
            np.testing.assert_allclose(ours.arrays[name], array, rtol=1e-6, atol=1e-8, err_msg=f"{ours.name} {name}")
    assert np.abs(grown.predict_proba(wide) - whole.predict_proba(wide)).max() < 0.05
    again = kampong.from_bytes(grown.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(wide), grown.predict_proba(wide))


def test_rows_may_become_too_wide_for_most_members():
    X, y = problem()
    model = OnlineClassifier().fit(X, y).widen(2000)
    names = {member.name for member in model._contest.members}
    assert names == {"frequencies", "label_chain", "wide_softmax"}
    rows = np.hstack([X, np.zeros((len(X), 1994))])
    assert (model.partial_fit(rows, y).predict(rows[200:]) == y[200:]).mean() > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (np.where(np.arange(6) == 2, np.nan, X), y), "Input X contains NaN"),
        (lambda X, y: (np.where(np.arange(6) == 2, np.inf, X), y), "Input X contains infinity"),
        (lambda X, y: (np.where(np.arange(6) == 2, 1e200, X), y), "the squares of X overflow"),
        (lambda X, y: (X[:, :5], y), "5 features"),
        (lambda X, y: (X, np.full(len(y), "text", dtype=object)), "one kind of label"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, np.full(len(y), 0.5)), "Unknown label type"),
        (lambda X, y: (X, np.ones((len(y), 2))), "one label"),
    ],
)
def test_refused_rows_leave_no_trace(change, message):
    X, y = problem()
    model = OnlineClassifier().partial_fit(X[:100], y[:100])
    before, fresh = model.to_bytes(), OnlineClassifier()
    for method in (model.partial_fit, model.predict_then_learn, model.fit):
        if method == model.fit and message in ("5 features", "one kind of label"):
            continue
        with pytest.raises(ValueError, match=message):
            method(*change(X[100:], y[100:]))
        assert model.to_bytes() == before
    if message not in ("5 features", "one kind of label"):
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(*change(X, y))
        assert not hasattr(fresh, "n_features_in_")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"effort": -1.0}, "effort must be a number ≥ 0, got -1.0. 100 is the default"),
        ({"effort": "high"}, "effort must be a number"),
        ({"labels_in_order": "yes"}, "labels_in_order must be True or False, got 'yes'. Set it to False if labels"),
        ({"random_state": 0.5}, "random_state must be an integer"),
    ],
)
def test_a_wrong_parameter_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        OnlineClassifier(**given).fit(*problem())


def test_other_wrong_calls_are_named():
    X, y = problem()
    model = OnlineClassifier().fit(X, y)
    with pytest.raises(ValueError, match="method must be one of 'predict', 'predict_proba'"):
        model.predict_then_learn(X, y, method="score")
    with pytest.raises(
        ValueError, match=r"widen: n_features must be an integer of at least 6, got 5\. It is 6 wide now"
    ):
        model.widen(5)
    with pytest.raises(ValueError, match="the weight of every row is zero"):
        OnlineClassifier().partial_fit(X, y, sample_weight=np.zeros(len(y)))


def test_memory_does_not_grow_with_rows():
    X, y = problem()
    model = OnlineClassifier().partial_fit(X, y)
    size = len(model.to_bytes())
    for _ in range(20):
        model.partial_fit(X, y)
    assert abs(len(model.to_bytes()) - size) < 100


def test_memory_is_bounded_while_classes_keep_coming(monkeypatch):
    settings = replace(Settings(), most_numbers=2**14)
    monkeypatch.setattr(kampong.online.classifier, "Settings", lambda: settings)
    model = OnlineClassifier()
    rng = np.random.default_rng(0)
    for first in range(0, 600, 100):
        model.partial_fit(rng.normal(size=(100, 8)), np.arange(first, first + 100))
        for member in model._contest.members:
            if member.name != "frequencies":
                assert sum(array.size for array in member.arrays.values()) <= settings.most_numbers
    assert len(model.classes_) == 600
    assert "label_chain" not in {member.name for member in model._contest.members}


def test_drift_is_followed():
    X, y = waveform(3000, random_state=0)
    y[1500:] = (y[1500:] + 1) % 3
    right = OnlineClassifier(labels_in_order=False).predict_then_learn(X, y) == y
    assert right[500:1500].mean() > 0.8
    assert right[1800:].mean() > 0.8


def test_effort_decides_by_width_and_classes_alone():
    X, y = problem()
    names = []
    for effort in (0.0, 1.5, 4.0, 100.0):
        model = OnlineClassifier(effort=effort).fit(X, y)
        names.append({member.name for member in model._contest.members})
        cost = sum(member.cost(6, 5) for member in model._contest.members if not member.always)
        assert cost <= 1000.0 * effort
    assert names[0] == {"frequencies", "label_chain", "softmax"}
    assert all(few < more for few, more in itertools.pairwise(names))


def test_rows_of_more_than_twenty_columns_may_cost_as_much_more():
    for columns, times in ((5, 1), (20, 1), (80, 4), (1000, 50)):
        contest = Contest(Settings(), 3.0, 0, True)
        made = [kind(Settings(), 0) for kind in contest.selection(columns, 5)]
        costs = [one.cost(columns, 5) + one.answers * (60.0 + 20.0 * 5) for one in made]
        assert 2000.0 * times < sum(costs) <= 3000.0 * times


def test_a_file_of_fewer_members_goes_on_with_them(monkeypatch):
    """As one that was written when a rule let fewer of them take part."""
    X, y = problem()
    monkeypatch.setattr(kampong.online.classifier, "Settings", lambda: Settings(columns=10**9))
    few = OnlineClassifier(effort=1.5).fit(np.hstack([X, X, X, X, X]), y)
    monkeypatch.undo()
    read = kampong.from_bytes(few.to_bytes())
    names = [member.name for member in few._contest.members]
    assert names == [member.name for member in read._contest.members]
    more = np.hstack([X[:50]] * 5)
    np.testing.assert_array_equal(read.predict_then_learn(more, y[:50]), few.predict_then_learn(more, y[:50]))
    assert len(Contest(Settings(), 1.5, 0, True).selection(more.shape[1], 5)) > len(names)


def test_probabilities_are_calibrated():
    """Among rows whose answer was given a chance of about p, about a part p is right; also where labels are noise."""
    rng = np.random.default_rng(0)
    X, y = waveform(6000, random_state=0)
    y = np.where(rng.random(len(y)) < 0.2, rng.integers(3, size=len(y)), y)
    model = OnlineClassifier(labels_in_order=False)
    chances = model.predict_then_learn(X, y, method="predict_proba")[500:]
    best = chances.max(axis=1)
    right = model.classes_[chances.argmax(axis=1)] == y[500:]
    bins = np.digitize(best, [0.5, 0.6, 0.7, 0.8, 0.9])
    for place in np.unique(bins):
        mine = bins == place
        slack = 0.03 + 4.0 * np.sqrt(0.25 / mine.sum())
        assert abs(best[mine].mean() - right[mine].mean()) < slack
    assert abs(best.mean() - right.mean()) < 0.02


@pytest.mark.parametrize(
    ("member", "name", "value"),
    [
        ("neighbours", "codes", 5),
        ("neighbours", "codes", -1),
        ("label_chain", "last", 5),
        ("label_chain", "last", -2),
        ("neighbours", "clock", -1),
        ("softmax", "weights", np.nan),
        ("frequencies", "counts", -1.0),
    ],
)
def test_a_file_that_lies_is_refused(member, name, value):
    """Compiled loops check nothing: a place outside an array must not come out of a file."""
    model = OnlineClassifier().fit(*problem())
    arrays = next(one for one in model._contest.members if one.name == member).arrays
    arrays[name].flat[0] = value
    with pytest.raises(kampong.CheckpointError, match=name):
        kampong.from_bytes(model.to_bytes())


def test_classes_that_are_numbered_twice_are_refused():
    model = OnlineClassifier().fit(*problem())
    model._slots[0] = model._slots[1]
    with pytest.raises(kampong.CheckpointError, match="the classes are not numbered as they came"):
        kampong.from_bytes(model.to_bytes())
