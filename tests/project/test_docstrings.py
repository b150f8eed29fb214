"""Every public name is documented in full: numpydoc's own validation, with parameters and return values."""

import inspect
import pydoc
import re

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


UNNAMED = 123
"""Parameters whose docstring names no default, all packages together but those of `WHOLE`. It may only fall."""

WHOLE = ("kampong.datasets", "kampong.report", "kampong.adapters")


def defaults():
    """Yield the module of each public parameter that has a default, its name, its default, and what is said of it."""
    docscrape = pytest.importorskip("numpydoc.docscrape")
    for item in {name: pydoc.locate(name) for name in public()}.values():
        if not callable(item):
            continue
        try:
            known = inspect.signature(item).parameters
        except (TypeError, ValueError):
            continue
        for entry in docscrape.NumpyDocString(inspect.getdoc(item) or "")["Parameters"]:
            for name in re.split(r",\s*", entry.name):
                if name in known and known[name].default is not inspect.Parameter.empty:
                    words = " ".join([entry.type, *entry.desc])
                    yield inspect.getmodule(item).__name__, f"{item.__qualname__}({name})", known[name].default, words


def is_named(default, words):
    """Tell whether the words name a default: in its place of numpydoc, in a sentence, or by its value."""
    if re.search(r"\b(default|optional)", words):
        return True
    return re.search(rf"(?<![\w.]){re.escape(str(default))}(?![\w.])", words) is not None


def test_docstrings_name_the_default_of_each_parameter():
    unnamed = sorted({(module, name) for module, name, default, words in defaults() if not is_named(default, words)})
    assert [one for one in unnamed if one[0].startswith(WHOLE)] == []
    assert len(unnamed) <= UNNAMED, unnamed
    assert not is_named(2.0, "amnesia : float. Weight of new rows, 20 at most.")
    assert is_named(2.0, "float. 2.0 forgets slowly")
