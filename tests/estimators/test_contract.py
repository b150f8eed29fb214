"""scikit-learn's contract to the letter: what answers look like, seeds, weights of features, and what is refused."""

import inspect
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_multilabel_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import kampong
from kampong.data.validation import in_dtype_of
from kampong.heads import HEADS
from kampong.online import OnlineClassifier
from kampong.statistics.means import ClassMeans

ESTIMATORS = {
    "MarginSubspace": kampong.MarginSubspace(),
    "MarginSubspace auto": kampong.MarginSubspace(epsilon="auto"),
    "InterClassScatter": kampong.InterClassScatter(),
    "MaximumMarginCriterion": kampong.MaximumMarginCriterion(),
    "SupervisedKampongMeasure": kampong.SupervisedKampongMeasure(),
    "FisherDiscriminant": kampong.FisherDiscriminant(),
    "FisherDiscriminant ridge": kampong.FisherDiscriminant(ridge=0.1),
    "FisherDiscriminant drift": kampong.FisherDiscriminant(ridge="rule", half_life="auto"),
    "FisherDiscriminant sample": kampong.FisherDiscriminant(ridge=0.1, solver="reservoir"),
    "CriterionSubspace": kampong.CriterionSubspace(),
    "KernelFisherDiscriminant": kampong.KernelFisherDiscriminant(landmarks=20),
    "KernelFisherDiscriminant fourier": kampong.KernelFisherDiscriminant(landmarks=20, placement="fourier"),
    "KernelMarginSubspace": kampong.KernelMarginSubspace(landmarks=20),
    "WeighedDiscriminant": kampong.WeighedDiscriminant(),
    "CoreVectorClassifier": kampong.CoreVectorClassifier(),
    "MinOverClassifier": kampong.MinOverClassifier(tol=0.1),
    "MaxMinOverClassifier": kampong.MaxMinOverClassifier(tol=0.1),
    "MaximumMarginDiscriminant": kampong.MaximumMarginDiscriminant(tol=0.1),
    "MarginRecursion": kampong.MarginRecursion(2),
    "CandidCovarianceFreePCA": kampong.CandidCovarianceFreePCA(2),
    "InformationGain": kampong.InformationGain(n_features=2),
}
SUBSPACES = [name for name in ESTIMATORS if "Subspace" in name or "Fisher" in name or "Scatter" in name]
SEEDED = [name for name, model in ESTIMATORS.items() if "random_state" in model.get_params()]
X, Y = load_iris(return_X_y=True)
TWO = Y < 2
LINEAR = ("gaussian", "nearest_mean", "logistic", "regression", "hinge")


def model_of(name, **parameters):
    kind = type(ESTIMATORS[name])
    return kind(**{**ESTIMATORS[name].get_params(), **parameters})


def internal_names():
    """Return the classes of kampong that users do not construct."""
    kinds, found = list(ClassMeans.__subclasses__()), {"ClassMeans"}
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        found.add(kind.__name__)
    return found | {kind.__name__ for kind in HEADS.values()} | {"Predictor", "KernelPredictor", "DiscriminantSubspace"}


def with_value(value):
    rows = X.copy()
    rows[3, 1] = value
    return rows


WRONG = {
    "NaN": (with_value(np.nan), Y),
    "infinity": (with_value(np.inf), Y),
    "too large": (with_value(1e200), Y),
    "sparse NaN": (sparse.csr_array(with_value(np.nan)), Y),
    "words": (np.full(X.shape, "red"), Y),
    "one class": (X, np.zeros(len(Y), dtype=int)),
    "targets that are continuous": (X, X[:, 0] + 0.123),
    "no rows": (X[:0], Y[:0]),
    "weights": (X, Y, -np.ones(len(Y))),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_message_names_a_class_that_users_do_not_know(name, wrong):
    internal, said = internal_names(), []
    for method in ("fit", "partial_fit", "unlearn"):
        model = model_of(name)
        if not hasattr(model, method):
            continue
        if method != "fit":
            model.partial_fit(X, Y)
        try:
            getattr(model, method)(*(WRONG[wrong] if method == "fit" else WRONG[wrong][:2]))
        except (ValueError, TypeError) as error:
            said.append(str(error))
    for text in said:
        assert not internal & set(re.findall(r"\w+", text)), text
    if wrong in ("NaN", "sparse NaN"):
        assert said
        assert all(type(ESTIMATORS[name]).__name__ in text for text in said)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if hasattr(ESTIMATORS[name], "predict")])
def test_one_class_is_a_plain_value_error(name):
    if name == "MarginRecursion":  # which follows a stream that may begin with one class
        return
    kind = type(ESTIMATORS[name]).__name__
    with pytest.raises(ValueError, match=f"{kind}.*y holds only one class, 'a'.*at least two classes") as caught:
        model_of(name).fit(X, ["a"] * len(X))
    assert type(caught.value) is ValueError


@pytest.mark.parametrize("name", SUBSPACES)
def test_one_class_of_positive_weight_is_refused_too(name):
    with pytest.raises(ValueError, match="y holds only one class, 2"):
        model_of(name).fit(X, Y, sample_weight=Y == 2)


# Answers.


@pytest.mark.parametrize("name", [*SUBSPACES, "MarginRecursion"])
def test_log_probabilities_are_the_logarithms_of_probabilities(name):
    model = model_of(name).fit(X, Y)
    logs = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(logs), model.predict_proba(X), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["FisherDiscriminant ridge", "MarginRecursion"])
def test_log_probabilities_of_float32_rows_are_those_of_the_rounded_probabilities(name):
    model, rows = model_of(name).fit(X, Y), X.astype(np.float32)
    logs, chances = model.predict_log_proba(rows), model.predict_proba(rows)
    assert (chances == 1.0).any()
    np.testing.assert_allclose(logs[chances > 0.5], np.log(chances[chances > 0.5]), rtol=1e-6, atol=1e-7)
    assert (logs[chances == 1.0] == 0.0).all()
    assert np.isfinite(logs).all()


def test_log_probabilities_stay_finite_where_probabilities_underflow():
    model = kampong.FisherDiscriminant(ridge=0).fit(X, Y)
    far = X[:1] + 200.0 * (X[-1:] - X[:1])
    logs = model.predict_log_proba(far)
    assert model.predict_proba(far).min() == 0.0
    assert np.isfinite(logs).all()
    scores = model.decision_function(far)
    np.testing.assert_allclose(logs - logs.max(), scores - scores.max(), rtol=1e-9)


@pytest.mark.parametrize("priors", ["observed", "uniform"])
def test_log_probabilities_of_moved_shares_and_of_labels(priors):
    model = kampong.FisherDiscriminant(priors=priors).fit(X[30:], Y[30:])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-9, atol=1e-300)
    rows, labels = make_multilabel_classification(random_state=0)
    several = kampong.FisherDiscriminant(ridge=1.0).fit(rows, labels)
    np.testing.assert_allclose(np.exp(several.predict_log_proba(rows)), several.predict_proba(rows), rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if hasattr(ESTIMATORS[name], "predict")])
@pytest.mark.parametrize("classes", [2, 3])
def test_float32_rows_get_float32_answers(name, classes):
    some = classes > Y
    model = model_of(name)
    if "landmarks" in model.get_params():  # all rows as landmarks nearly depend on each other: rounding grows
        model.set_params(landmarks=10)
    model.fit(X[some], Y[some])
    for method in ("decision_function", "predict_proba", "predict_log_proba", "transform"):
        if hasattr(model, method):
            narrow, wide = getattr(model, method)(X.astype(np.float32)), getattr(model, method)(X)
            assert narrow.dtype == np.float32
            assert wide.dtype == np.float64
            np.testing.assert_allclose(narrow, wide, rtol=2e-2, atol=2e-3)


def test_an_answer_past_float32_is_infinite_without_a_warning():
    rows = np.zeros((1, 1), dtype=np.float32)
    assert in_dtype_of(rows, np.array([1e300, -1e300, 0.5])).tolist() == [np.inf, -np.inf, 0.5]
    assert in_dtype_of(rows.astype(np.float64), np.array([1e300])).tolist() == [1e300]


# Weights of the features.


@pytest.mark.parametrize("head", LINEAR)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "name", ["FisherDiscriminant ridge", "MarginSubspace", "CriterionSubspace", "InterClassScatter"]
)
def test_weights_of_features_reproduce_predict_and_the_decision(name, classes, head):
    some = classes > Y
    parameters = {"parameter": 0.1} if name == "CriterionSubspace" else {}
    model = model_of(name, head=head, **parameters).fit(X[some], np.array(["a", "b", "c"])[Y[some]])
    planes = X[some] @ model.coef_.T + model.intercept_
    assert planes.shape == (some.sum(), 1 if classes == 2 else 3)
    places = (planes[:, 0] > 0).astype(int) if classes == 2 else planes.argmax(axis=1)
    assert model.classes_[places].tolist() == model.predict(X[some]).tolist()
    scores = model.decision_function(X[some]).reshape(planes.shape)
    if head in ("regression", "hinge"):
        for plane, score in zip(planes.T, scores.T, strict=True):
            order = np.argsort(plane)
            assert (np.diff(score[order]) >= -1e-9).all()
    else:
        np.testing.assert_allclose(planes, scores, rtol=1e-8, atol=1e-8 * np.abs(scores).max())


def test_weights_of_features_are_those_of_lda():
    model, lda = kampong.FisherDiscriminant(ridge=0).fit(X, Y), LinearDiscriminantAnalysis(solver="lsqr").fit(X, Y)
    mine, theirs = model.coef_ - model.coef_.mean(axis=0), lda.coef_ - lda.coef_.mean(axis=0)
    np.testing.assert_allclose(mine, theirs, rtol=1e-8)


def test_a_mixture_of_linear_members_has_weights_and_a_curved_one_has_none():
    rows, labels = load_wine(return_X_y=True)
    model = kampong.FisherDiscriminant(ridge=1.0, head="mixture").fit(rows, labels)
    known = model.freeze()
    linear = known.head.hyperplanes()
    if linear is None:
        with pytest.raises(AttributeError, match="head='mixture' is not linear"):
            _ = model.coef_
    weights = known.head.weights.copy()
    weights[[1, 2, 4, 5]] = 0.0
    weights[0], weights[3] = 0.7, -0.2
    model._predictor = replace(known, head=replace(known.head, weights=weights))  # a mixture that rows might ask for
    np.testing.assert_allclose(rows @ model.coef_.T + model.intercept_, model.decision_function(rows), rtol=1e-7)
    weights[1] = 0.1
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            kampong.FisherDiscriminant(ridge=0.1, head="quadratic"),
            "head='quadratic' is not linear.*Set head='gaussian'",
        ),
        (kampong.MarginSubspace(head="cosine"), "head='cosine' is not linear"),
        (kampong.KernelFisherDiscriminant(landmarks=9), "not linear in the features.*Use FisherDiscriminant"),
        (kampong.FisherDiscriminant(ridge=0.1, head="hinge", priors="uniform"), "priors='uniform' moves probabilities"),
        (kampong.CoreVectorClassifier(), "kernel='linear' only"),
        (kampong.MaximumMarginDiscriminant(tol=0.1), "coef_ for kernel='linear' only"),
    ],
)
def test_models_without_weights_of_features_say_why(model, said):
    model.fit(X[30:], Y[30:])
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match=said):
        _ = model.coef_


@pytest.mark.parametrize("kind", [kampong.CoreVectorClassifier, kampong.MaximumMarginDiscriminant])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_linear_kernels_reproduce_the_decision(kind, classes):
    some = classes > Y
    model = kind(kernel="linear", tol=0.05).fit(X[some], Y[some])
    planes = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(
        planes.reshape(model.decision_function(X).shape), model.decision_function(X), rtol=1e-6, atol=1e-8
    )


# Seeds.


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_may_be_numbers_states_or_none(name):
    first, second = (model_of(name, random_state=np.random.RandomState(5)).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    model_of(name, random_state=None).fit(X, Y).predict(X)
    kind = type(ESTIMATORS[name]).__name__
    for wrong in (-1, "seven", 1.5, np.random.default_rng(0), True):
        with pytest.raises(ValueError, match=f"{kind}: random_state must be an integer.*RandomState, or None"):
            model_of(name, random_state=wrong).fit(X, Y)


def test_a_state_draws_another_seed_for_each_fit_and_one_for_a_stream():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
    model = kampong.FisherDiscriminant(ridge=0.1, solver="reservoir", reservoir_bytes=3000)
    model.set_params(random_state=np.random.RandomState(1))
    seeds = []
    for _ in range(2):
        model.fit(rows, labels)
        seeds.append(model._statistics.random_state)  # what is drawn shows in the sample alone
    assert seeds[0] != seeds[1]
    same = np.random.RandomState(1)
    assert seeds == [same.randint(2**31 - 1), same.randint(2**31 - 1)]
    stream = kampong.FisherDiscriminant(ridge=0.1, solver="reservoir", reservoir_bytes=3000, random_state=None)
    stream.partial_fit(rows[:100], labels[:100])
    drawn = stream._statistics.random_state
    stream.partial_fit(rows[100:], labels[100:])
    assert stream._statistics.random_state == drawn
    given = kampong.FisherDiscriminant(ridge=0.1, solver="reservoir", reservoir_bytes=3000, random_state=drawn)
    given.partial_fit(rows, labels)
    np.testing.assert_allclose(given.components_, stream.components_, rtol=1e-9)


@pytest.mark.parametrize("name", ["FisherDiscriminant", "KernelFisherDiscriminant"])
def test_a_model_without_a_given_seed_can_be_saved(name):
    model = model_of(name, random_state=None).fit(X, Y)
    again = kampong.from_bytes(model.to_bytes())
    assert again.random_state is None
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    again.partial_fit(X, Y)


# What is refused.


@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
def test_the_solvers_of_lda_are_refused_with_what_to_write(solver):
    for kind in (kampong.FisherDiscriminant, kampong.MarginSubspace):
        with pytest.raises(ValueError, match=f"{kind.__name__}: solver='{solver}'.*FisherDiscriminant.*solver='auto'"):
            kind(solver=solver).fit(X, Y)
    with pytest.raises(ValueError, match=r"FisherDiscriminant: solver must be 'auto' or one of .*got 'newton'"):
        kampong.FisherDiscriminant(solver="newton").fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("shrinkage", "auto", "ridge='auto'"),
        ("store_covariance", True, "Leave it out"),
        ("tol", 1e-4, "Leave it out"),
        ("covariance_estimator", None, "ridge='auto'"),
    ],
)
def test_the_arguments_of_lda_are_refused_with_what_to_write(name, value, advice):
    with pytest.raises(TypeError, match=f"no parameter '{name}'.*LinearDiscriminantAnalysis. .*{advice}"):
        kampong.FisherDiscriminant(**{name: value})
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        kampong.FisherDiscriminant(colour=1)


STRANGE = ["nonsense", -1.5, float("nan"), [], object(), 1j, 2.5, True, None]
TAKEN = {
    "half_life": (None, 2.5),
    "n_components": (None,),
    "priors": (None,),
    "random_state": (None,),
    "nu": (None,),
    "class_weight": (None,),
    "a": (None, 2.5),
    "scale": (True,),
    "warm_start": (True,),
    "probability": (True,),
    "verbose": (True,),
    "coef0": (-1.5, 2.5),
}
NUMBERS = ("epsilon", "ridge", "parameter", "degree", "gamma", "C", "cache_size", "tol", "amnesia", "theta", "effort")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if " " not in name])
def test_values_that_no_docstring_names_are_refused(name):
    model, kind = ESTIMATORS[name], type(ESTIMATORS[name]).__name__
    some = slice(None, None, 5)
    for parameter in model.get_params():
        allowed = TAKEN.get(parameter, (2.5,) if parameter in NUMBERS else ())
        if kind == "SupervisedKampongMeasure" and parameter == "a":
            allowed = (2.5,)
        if parameter == "tol" and kind in ("MarginRecursion", "CandidCovarianceFreePCA"):
            allowed = ()
        for value in STRANGE:
            if any(value is one for one in allowed):
                continue
            with pytest.raises(ValueError, match=kind):
                model_of(name, **{parameter: value}).fit(X[some], Y[some])


# Weights of rows.


def answers_of(model):
    method = next(name for name in ("decision_function", "predict_proba", "transform") if hasattr(model, name))
    return getattr(model, method)(X)


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*ESTIMATORS, "OnlineClassifier"])
def test_every_fit_takes_weights_and_a_row_of_weight_zero_is_absent(name):
    model = OnlineClassifier(effort=5.0) if name == "OnlineClassifier" else ESTIMATORS[name]
    for method in ("fit", "partial_fit"):
        assert "sample_weight" in inspect.signature(getattr(type(model), method)).parameters, method
    order = np.random.default_rng(0).permutation(len(Y))
    rows, labels, weights = X[order], Y[order], np.where(np.arange(len(Y)) % 3, 1.0, 0.0)
    given = weights > 0
    for method in ("fit", "partial_fit"):
        weighed = getattr(clone(model), method)(rows, labels, sample_weight=weights)
        absent = getattr(clone(model), method)(rows[given], labels[given])
        np.testing.assert_allclose(answers_of(weighed), answers_of(absent), rtol=1e-6, atol=1e-9)
        every = getattr(clone(model), method)(rows, labels)
        assert name == "InformationGain" or np.abs(answers_of(every) - answers_of(absent)).max() > 1e-6


def test_all_estimators_are_in_these_tests():
    kinds = {type(model) for model in ESTIMATORS.values()}
    public = {getattr(kampong, name) for name in kampong.__all__}
    assert {kind for kind in public if inspect.isclass(kind) and hasattr(kind, "fit")} <= kinds


# Pickles.


def holds(data, rows):
    return sum(row.tobytes() in data for row in rows)


def test_a_pipeline_of_scikit_learn_holds_no_row_and_a_pickle_of_the_model_holds_the_sample():
    rows, labels = load_wine(return_X_y=True)
    chosen, given = (kampong.FisherDiscriminant(ridge=ridge).fit(rows, labels) for ridge in ("auto", 1.0))
    assert holds(pickle.dumps(chosen), rows) == len(rows)
    assert holds(pickle.dumps(chosen.to_sklearn()), rows) == 0
    assert holds(pickle.dumps(given), rows) == 0
    assert len(pickle.dumps(chosen.to_sklearn())) < len(pickle.dumps(chosen)) / 3


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "transform"])
@pytest.mark.parametrize("kind", [kampong.FisherDiscriminant, kampong.KernelFisherDiscriminant])
def test_missing_values_are_refused_with_the_pipeline_that_fills_them_in(kind, method, form):
    holes = X.copy()
    holes[3, 1] = np.nan
    rows = holes if form == "dense" else sparse.csr_array(holes)
    model = kind().fit(X, Y)
    given = (rows, Y) if method in ("fit", "partial_fit") else (rows,)
    name = kind.__name__
    expected = rf"Input X contains NaN.\n{name} does not learn.*SimpleImputer\(add_indicator=True\), {name}\(\)"
    with pytest.raises(ValueError, match=expected):
        getattr(model, method)(*given)


def test_the_pipeline_of_the_message_learns_from_where_numbers_are_missing():
    rng = np.random.default_rng(0)
    rows, classes = rng.normal(size=(200, 4)), np.arange(200) % 2
    rows[(classes == 1) & (rng.random(200) < 0.9), 2] = np.nan
    model = make_pipeline(SimpleImputer(add_indicator=True), kampong.FisherDiscriminant()).fit(
        rows[:100], classes[:100]
    )
    assert model.score(rows[100:], classes[100:]) > 0.9


def test_a_width_that_is_no_word_of_ours_is_refused_with_those_that_are():
    with pytest.raises(
        ValueError, match=r"KernelFisherDiscriminant: gamma must be one of 'auto', 'mean', 'scale', got"
    ):
        kampong.KernelFisherDiscriminant(gamma="width").fit(X, Y)
