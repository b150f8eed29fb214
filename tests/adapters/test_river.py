"""river: its own checks, and the models that come out are those of one fit."""

import itertools
import pickle

import numpy as np
import pytest

pytest.importorskip("river", reason="the river extra is not installed")

import pandas as pd
from river import checks, compose, datasets, evaluate, linear_model, metrics, multiclass, preprocessing

from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginRecursion,
    MarginSubspace,
)
from kampong.adapters.river import StreamingSubspace
from kampong.online.follower import Follower
from kampong.online.settings import Settings


@pytest.mark.parametrize("check", list(checks.yield_checks(StreamingSubspace())), ids=lambda check: check.__name__)
def test_the_checks_of_river(check):
    assert not StreamingSubspace()._unit_test_skips()
    check(StreamingSubspace())


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [InterClassScatter(), FisherDiscriminant(), MarginSubspace(epsilon=0.1)])
@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
def test_the_checks_of_river_for_other_estimators(estimator):
    checks.check_estimator(StreamingSubspace(estimator))


def phishing(count):
    return [({name: float(value) for name, value in x.items()}, y) for x, y in datasets.Phishing().take(count)]


@pytest.mark.parametrize("model", [FisherDiscriminant(ridge="rule"), MarginSubspace(1, epsilon=0.01), None])
@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
def test_rows_one_by_one_are_one_fit(model):
    rows = phishing(300)
    one, many = StreamingSubspace(model), StreamingSubspace(model)
    for x, y in rows:
        one.learn_one(x, y)
    frame = pd.DataFrame([x for x, _ in rows])
    labels = pd.Series([y for _, y in rows])
    for start in range(0, 300, 70):
        many.learn_many(frame[start : start + 70], labels[start : start + 70])
    found = one.transform_many(frame).to_numpy()
    np.testing.assert_allclose(many.transform_many(frame), found, rtol=0, atol=1e-10)
    names = sorted(frame.columns)
    local = (FisherDiscriminant(ridge="rule") if model is None else model).fit(frame[names].to_numpy(), labels)
    np.testing.assert_allclose(found, local.transform(frame[names].to_numpy()), rtol=0, atol=1e-9)
    if model is None:  # predicted by half-lives, which are learnt alike
        np.testing.assert_allclose(many.predict_proba_many(frame), one.predict_proba_many(frame), rtol=0, atol=1e-10)
    else:
        assert one.predict_many(frame).tolist() == local.predict(frame[names].to_numpy()).tolist()
    for x, _ in rows[::50]:
        assert one.predict_one(x) in (True, False)
        assert max(one.predict_proba_one(x).values()) > 0.5


def test_features_that_come_late_were_zero_before():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 6)), rng.integers(0, 3, 200)
    X[:50, 3:] = 0.0
    X[100:, :2] = 0.0
    model = StreamingSubspace(FisherDiscriminant(ridge=0.1))
    for number, (row, label) in enumerate(zip(X, y, strict=True)):
        names = range(3) if number < 50 else range(2, 6) if number >= 100 else range(6)
        model.learn_one({f"f{j}": row[j] for j in reversed(names)}, f"class {label}")
    local = FisherDiscriminant(ridge=0.1).fit(X, y)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(6)])
    found = model.transform_many(frame[list(frame.columns[::-1])])
    np.testing.assert_allclose(np.abs(found), np.abs(local.transform(X)), rtol=0, atol=1e-9)
    assert model.predict_many(frame).tolist() == [f"class {label}" for label in local.predict(X)]


def test_weights_are_counts():
    rows = phishing(60)
    weighted, repeated = (StreamingSubspace(FisherDiscriminant(ridge=0.1, head="gaussian")) for _ in range(2))
    for number, (x, y) in enumerate(rows):
        weighted.learn_one(x, y, w=number % 3)
        for _ in range(number % 3):
            repeated.learn_one(x, y)
    for x, _ in rows:
        assert weighted.transform_one(x) == pytest.approx(repeated.transform_one(x), abs=1e-9)


def test_refresh_bounds_how_old_predictions_are():
    rows = phishing(250)
    always, seldom = StreamingSubspace(refresh=0), StreamingSubspace(refresh=0.1)
    solved = 0
    for x, y in rows:
        before = seldom._known
        seldom.predict_one(x)
        solved += seldom._known is not before
        if seldom._known is not None:
            assert seldom._known.n_rows >= 0.9 * seldom._rows - 1
        always.predict_one(x)
        assert always._known is None or always._known.n_rows == always._rows
        for model in (always, seldom):
            model.learn_one(x, y)
    assert solved < 80
    forgets = StreamingSubspace(FisherDiscriminant(ridge="rule", half_life=40), refresh=1.0)
    for x, y in rows[:100]:
        forgets.predict_one(x)
        if forgets._known is not None:
            assert forgets._rows - forgets._known.n_rows <= 2
        forgets.learn_one(x, y)


def test_it_stands_at_the_end_and_in_the_middle_of_a_pipeline():
    classes = preprocessing.StandardScaler() | StreamingSubspace()
    found = evaluate.progressive_val_score(datasets.ImageSegments().take(500), classes, metrics.Accuracy())
    assert found.get() > 0.75
    inside = compose.Pipeline(
        preprocessing.StandardScaler(),
        StreamingSubspace(FisherDiscriminant(ridge="rule", n_components=2)),
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    )
    found = evaluate.progressive_val_score(datasets.ImageSegments().take(500), inside, metrics.Accuracy())
    assert found.get() > 0.3  # seven classes
    assert pickle.loads(pickle.dumps(inside)).predict_one(next(iter(datasets.ImageSegments()))[0]) is not None


def test_before_two_classes_there_is_one_answer():
    model = StreamingSubspace()
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {} == model.transform_one({"a": 1.0})
    assert model.predict_many(frame).tolist() == [None, None]
    assert model.transform_many(frame).shape == (2, 0)
    model.learn_one({"a": 1.0}, "x")
    assert model.predict_proba_one({"b": 1.0}) == {"x": 1.0}
    assert model.predict_many(frame).tolist() == ["x", "x"]
    model.learn_many(frame[:0], pd.Series([], dtype=object))
    model.learn_one({"a": 3.0}, "y")
    assert model.predict_proba_one({"a": 3.0}).keys() == {"x", "y"}


def test_what_does_not_fit_is_said():
    for model in (KernelFisherDiscriminant(), MarginRecursion(), FisherDiscriminant):
        with pytest.raises(TypeError, match=r"cannot gain columns in a stream. Give a linear subspace, such as Fisher"):
            StreamingSubspace(model)
    with pytest.raises(ValueError, match="refresh must be a number ≥ 0, got -1"):
        StreamingSubspace(refresh=-1)
    model = StreamingSubspace()
    with pytest.raises(TypeError, match="there is no label"):
        model.learn_one({"a": 1.0})
    with pytest.raises(TypeError, match=r"the feature 'a' is 'red', and features are numbers. Encode it first"):
        model.learn_one({"a": "red"}, 0)
    with pytest.raises(TypeError, match=r"the feature 'a' holds .* values, and features are numbers"):
        model.learn_many(pd.DataFrame({"a": ["red"]}), pd.Series([0]))
    with pytest.raises(ValueError, match="NaN"):
        model.learn_one({"a": float("nan")}, 0)
    for x, y in itertools.islice(phishing(9), 9):
        model.learn_one(x, y)
    with pytest.raises(ValueError, match=r"would keep a ClassReservoir.*Hash the features"):
        model.learn_one({f"word {j}": 1.0 for j in range(9000)}, True)


def test_what_is_refused_changes_nothing():
    rows = phishing(40)
    model = StreamingSubspace()
    for x, y in rows:
        model.learn_one(x, y)
    before = pickle.dumps(model)
    for x, y, w in (({"new": "red"}, "late", 1), ({"new": np.inf}, "late", 1), ({"new": 1.0}, "late", -1)):
        with pytest.raises((TypeError, ValueError)):
            model.learn_one(x, y, w)
    with pytest.raises(ValueError, match="y has 1 labels, but X has 2 rows"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1]))
    with pytest.raises(ValueError, match="ClassReservoir"):
        model.learn_one({f"word {j}": 1.0 for j in range(9000)}, "late")
    model.learn_one({"new": 1.0}, "late", w=0)
    model.learn_many(pd.DataFrame({"new": [1.0]}), pd.Series(["late"]), w=[0.0])
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match=r"overflow|range"):
        model.learn_one({"new": 1e200}, "late")
    assert set(model.predict_proba_one(rows[0][0])) == {True, False}
    model.learn_one({"new": 1.0}, "late")
    assert set(model.predict_proba_one(rows[0][0])) == {True, False, "late"}


@pytest.mark.parametrize("label", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT], ids=repr)
def test_a_row_without_a_label_is_refused(label):
    rows = phishing(40)
    for estimator in (None, FisherDiscriminant(), InterClassScatter()):
        model = StreamingSubspace(estimator)
        for x, y in rows:
            model.learn_one(x, y)
        before = pickle.dumps(model)
        with pytest.raises(TypeError, match=r"learn_one: there is no label, y is .*give y, or leave the row out"):
            model.learn_one(rows[0][0] | {"new": 1.0}, label)
        frame, labels = pd.DataFrame([x for x, _ in rows[:2]]), pd.Series([True, label], dtype=object)
        with pytest.raises(TypeError, match=r"learn_many: there is no label in row 1, y is "):
            model.learn_many(frame, labels)
        assert pickle.dumps(model) == before
        model.learn_many(frame, labels, w=[0.0, 0.0])  # absent, with their labels
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("estimator", [None, FisherDiscriminant(), InterClassScatter()], ids=str)
def test_rows_that_are_no_numbers_are_refused(estimator, value):
    rows = phishing(40)
    model = StreamingSubspace(estimator)
    for x, y in rows:
        model.learn_one(x, y)
    x = rows[0][0]
    name = next(iter(x))
    frame = pd.DataFrame([x, x | {name: value}])
    before = pickle.dumps(model._model._statistics.to_state())
    for ask in (model.predict_one, model.predict_proba_one, model.transform_one):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            ask(x | {name: value})
        ask(x | {"never learnt": value})  # which is ignored
    for ask_many in (model.predict_many, model.predict_proba_many, model.transform_many):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            ask_many(frame)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.learn_one(x | {name: value}, True)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.learn_many(frame, pd.Series([True, False]))
    assert pickle.dumps(model._model._statistics.to_state()) == before


def test_a_contest_predicts_by_all_rows_before():
    model, rows = StreamingSubspace(), phishing(200)
    names = sorted(rows[0][0])
    plain, numbers = Follower(Settings.effort, 0, len(names)), {}
    for x, y in rows:
        row = np.array([[x[name] for name in names]])
        if plain.classes > 1:
            told = dict(zip(numbers, np.exp(plain.predict(row))[0].tolist(), strict=True))
            assert model.predict_proba_one(x) == told
        model.learn_one(x, y)
        plain.learn(row, np.array([numbers.setdefault(y, len(numbers))]), np.ones(1), len(numbers))
    frame = pd.DataFrame([x for x, _ in rows[:20]])
    for (x, _), shares in zip(rows, model.predict_proba_many(frame).to_dict("records"), strict=False):
        assert shares == pytest.approx(model.predict_proba_one(x))
