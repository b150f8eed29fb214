"""What `import kampong` offers: names that users construct, modules to build on, and names that have moved."""

import importlib
import subprocess
import sys

import pytest
from sklearn.base import BaseEstimator

import kampong

MOVED = {
    "statistics": ("ClassMeans", "ClassReservoir", "ClassScatter"),
    "criteria": ("FisherCriterion", "MarginCriterion"),
    "solvers": ("solve",),
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in MOVED.items() for name in names])
def test_a_name_that_has_moved_works_and_says_where_it_is(module, name):
    home = importlib.import_module(f"kampong.{module}")
    with pytest.warns(FutureWarning, match=f"kampong.{name} has moved.* from kampong.{module} import {name}") as said:
        assert getattr(kampong, name) is getattr(home, name)
    assert said[0].filename == __file__
    with pytest.warns(FutureWarning):  # each time, because nothing is kept
        assert getattr(kampong, name) is getattr(home, name)
    assert name not in kampong.__all__


def test_documented_modules_need_no_import_of_their_own():
    text = "import kampong; kampong.statistics.ClassMeans(2); kampong.criteria.FisherCriterion; kampong.solvers.solve"
    subprocess.run([sys.executable, "-W", "error", "-c", text], check=True)


def test_every_offered_name_exists_and_an_unknown_one_is_refused():
    for name in kampong.__all__:
        assert getattr(kampong, name) is not None
        assert name in dir(kampong)
    with pytest.raises(AttributeError, match=r"has no attribute 'Fischer'; it offers .*FisherDiscriminant"):
        _ = kampong.Fischer


ESTIMATORS = [
    kind
    for kind in (getattr(kampong, name) for name in kampong.__all__)
    if isinstance(kind, type) and issubclass(kind, BaseEstimator)
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_a_class_has_methods_and_results_and_no_parameter_that_it_does_not_take(kind):
    values = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    faked = [name for name, value in values.items() if not callable(value) and not hasattr(value, "__get__")]
    assert faked == []


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_few_classes_stand_behind_an_estimator(kind):
    ours = [one.__name__ for one in kind.__mro__ if one.__module__.startswith("kampong.")]
    assert len(ours) <= 6, ours
