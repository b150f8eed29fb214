"""Every public name is documented in full: numpydoc's own validation, with parameters and return values."""

import inspect
import pydoc

import pytest

import kampong
import kampong.datasets
import kampong.online
import kampong.report
import kampong.streaming
from kampong.estimators.subspace import DiscriminantSubspace

validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is a tool of `make check`").validate

# An extended summary, a "See Also" and an example are asked of classes, where a reader starts.
EVERYWHERE = {"ES01", "SA01", "EX01", "GL08"}


def public():
    names = [f"kampong.{name}" for name in kampong.__all__]
    names += [f"kampong.datasets.{name}" for name in kampong.datasets.__all__]
    names += [f"kampong.online.{name}" for name in kampong.online.__all__]
    names += [
        f"kampong.online.OnlineClassifier.{method}"
        for method, value in vars(kampong.online.OnlineClassifier).items()
        if not method.startswith("_") and inspect.isfunction(value)
    ]
    names += [f"kampong.report.{name}" for name in kampong.report.__all__]
    names += [f"kampong.streaming.{name}" for name in kampong.streaming.__all__]
    names += [f"kampong.statistics.{name}" for name in kampong.statistics.__all__]
    names += ["kampong.criteria.FisherCriterion", "kampong.criteria.MarginCriterion", "kampong.solvers.solve"]
    for name in kampong.__all__:
        item = getattr(kampong, name)
        if inspect.isclass(item) and issubclass(item, DiscriminantSubspace):
            names += [
                f"kampong.{name}.{method}"
                for method, value in vars(DiscriminantSubspace).items()
                if not method.startswith("_") and inspect.isfunction(value)
            ]
    return names


@pytest.mark.parametrize("name", public())
def test_public_names_are_documented(name):
    result = validate(name)
    errors = [(code, text) for code, text in result["errors"] if code not in EVERYWHERE]
    assert not errors
    if isinstance(pydoc.locate(name), type) and not name.endswith(("Warning", "Error")):
        assert ">>>" in result["docstring"], "a class shows how it is used"
