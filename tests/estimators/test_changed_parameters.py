"""Parameters changed in mid-stream: what is read follows them, and the statistics know what rows went through."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import kampong
from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
)
from kampong.statistics import ClassScatter

X, Y = load_iris(return_X_y=True)
CHANGES = {
    "ridge": (FisherDiscriminant(ridge=0.1), {"ridge": 40.0}),
    "ridge by the rule": (FisherDiscriminant(ridge=0.1), {"ridge": "rule"}),
    "head": (FisherDiscriminant(ridge=0.1), {"head": "nearest_mean"}),
    "priors": (FisherDiscriminant(ridge=0.1), {"priors": [0.8, 0.1, 0.1]}),
    "uniform priors": (FisherDiscriminant(ridge=0.1), {"priors": "uniform"}),
    "scale": (FisherDiscriminant(ridge=0.1, scale=False), {"scale": True}),
    "n_components": (FisherDiscriminant(ridge=0.1), {"n_components": 1}),
    "epsilon": (MarginSubspace(2, epsilon=0.1), {"epsilon": 3.0}),
    "a": (kampong.SupervisedKampongMeasure(2, a=1.2), {"a": 4.0}),
    "parameter": (kampong.CriterionSubspace(criterion="margin", parameter=0.1), {"parameter": 2.0}),
    "class means": (InterClassScatter(), {"n_components": 1}),
    "kernel ridge": (KernelFisherDiscriminant(landmarks=20, ridge=1e-4), {"ridge": 1.0}),
    "kernel epsilon": (KernelMarginSubspace(2, epsilon=0.05, landmarks=20), {"epsilon": 0.8, "head": "nearest_mean"}),
    "back and forth": (FisherDiscriminant(ridge=0.1), {"ridge": 0.1}),
}
ROUTES = {
    "as it is": lambda model, folder: model,
    "saved": lambda model, folder: model.save(folder / "model") or kampong.load(folder / "model"),
    "bytes": lambda model, folder: kampong.from_bytes(model.to_bytes()),
    "bytes unsolved": lambda model, folder: kampong.from_bytes(model.to_bytes(solve=False)),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
}


def answers(model):
    """Return what a model says: its directions, and how probable the classes are."""
    return np.hstack([model.transform(X), model.predict_proba(X)])


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_parameter_counts_from_the_next_read_on(change, tmp_path):
    made, change = CHANGES[change]
    learnt, back = clone(made).partial_fit(X, Y), {name: getattr(made, name) for name in change}
    expected = answers(clone(made).set_params(**change).partial_fit(X, Y))
    before = answers(copy.deepcopy(learnt))
    for reads in ("nothing", "predict", "freeze", "to_bytes"):
        model = copy.deepcopy(learnt)
        if reads != "nothing":
            getattr(model, reads)(*((X,) if reads == "predict" else ()))
        model.set_params(**change)
        for name, route in ROUTES.items():
            found = route(copy.deepcopy(model), tmp_path)
            np.testing.assert_array_equal(answers(found), expected, err_msg=f"{reads}, {name}")
        np.testing.assert_array_equal(answers(found.set_params(**back)), before, err_msg=reads)


@pytest.mark.parametrize("read", [False, True])
def test_a_parameter_that_makes_no_sense_is_said_wherever_it_counts(read, tmp_path):
    for name, wrong in {"ridge": -1.0, "head": "nonsense", "priors": [2.0, 1.0, 1.0], "scale": "x"}.items():
        model = FisherDiscriminant(ridge=0.1).partial_fit(X, Y)
        if read:
            model.predict(X)
        good = model.to_bytes()
        model.set_params(**{name: wrong})
        for act in (lambda model: model.predict(X), lambda model: model.freeze(), lambda model: model.transform(X)):
            with pytest.raises(ValueError, match=f"FisherDiscriminant: {name}|{name} sum"):
                act(model)
        with pytest.raises(ValueError, match=name):
            model.save(tmp_path / "model")
        assert not (tmp_path / "model").exists()
        model.set_params(**{name: getattr(FisherDiscriminant(ridge=0.1), name)})
        assert model.to_bytes() == good


def test_rows_that_are_gone_cannot_be_read_with_other_parameters():
    model = FisherDiscriminant(ridge=0.1, solver="resolvent").fit(X, Y)
    said = model.predict_proba(X)
    model.set_params(ridge=5.0)
    with pytest.raises(ValueError, match=r"FisherDiscriminant: .*rows at hand.*[Ff]it"):
        model.predict(X)
    model.set_params(ridge=0.1)
    with pytest.raises(ValueError, match="rows at hand"):  # what was made is gone
        model.predict(X)
    assert np.allclose(model.fit(X, Y).predict_proba(X), said)


# Rows that have faded.

FADING = {"decay": {"decay": 0.9}, "half_life": {"half_life": 20.0}}
STILL = {"decay": 1.0, "half_life": None}


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("fading", FADING)
def test_rows_that_have_faded_are_not_unlearnt_whatever_the_parameters_say(fading, learn, tmp_path):
    learnt = getattr(FisherDiscriminant(ridge=0.1, **FADING[fading]), learn)(X, Y)
    learnt.set_params(**STILL)
    for route in ROUTES.values():
        model = route(copy.deepcopy(learnt), tmp_path)
        model.partial_fit(X[:5], Y[:5])
        before = model.state_digest()
        with pytest.raises(ValueError, match=r"FisherDiscriminant.unlearn: with .* rows lose weight as others come"):
            model.unlearn(X[:5], Y[:5])
        with pytest.raises(ValueError, match=r"FisherDiscriminant.unlearn_class: with .* rows lose weight"):
            model.unlearn_class(0)
        assert model.state_digest() == before


@pytest.mark.parametrize("faded_first", [False, True])
@pytest.mark.parametrize("kind", [FisherDiscriminant(ridge=0.1), InterClassScatter(), MarginSubspace(2, epsilon=0.1)])
def test_one_that_has_faded_makes_a_merged_one_faded(kind, faded_first, tmp_path):
    faded = clone(kind).set_params(decay=0.9).partial_fit(X[::2], Y[::2]).set_params(decay=1.0)
    still = clone(kind).partial_fit(X[1::2], Y[1::2])
    merged = faded.merge(still) if faded_first else still.merge(faded)
    for route in ROUTES.values():
        with pytest.raises(ValueError, match="rows lose weight"):
            route(merged, tmp_path).unlearn(X[1:9:2], Y[1:9:2])
    assert still.unlearn(X[1:9:2], Y[1:9:2]).exact


def test_a_decay_that_no_row_has_seen_does_not_stand_in_the_way():
    model = FisherDiscriminant(ridge=0.1).partial_fit(X, Y)
    model.set_params(decay=0.5)
    assert model.unlearn(X[:5], Y[:5]).exact
    expected = FisherDiscriminant(ridge=0.1).partial_fit(X[5:], Y[5:])
    assert np.allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-9)


def test_statistics_remember_that_they_faded():
    still, faded = (ClassScatter(4).update(X, Y, decay=factor) for factor in (1.0, 0.5))
    assert (still.faded, faded.faded, still.merge(faded).faded, faded.merge(still).faded) == (False, True, True, True)
    assert ClassScatter.from_arrays(faded.to_arrays()).faded
    assert not ClassScatter.from_arrays(still.to_arrays()).faded
