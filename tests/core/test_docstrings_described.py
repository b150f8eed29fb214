"""A class that describes only its differences from another one shows the whole docstring."""

import pytest

import kampong
from kampong._core.docstrings import described_like

docscrape = pytest.importorskip("numpydoc.docscrape", reason="numpydoc is a tool of `make check`")


class Complete:
    """Says everything.

    Parameters
    ----------
    first : int
        The first.
    second : int
        The second.

        With a paragraph of its own.
    other : int
        What the others have not.

    Attributes
    ----------
    length_, width_ : float
        Measures.
    hidden_ : float
        What the others have not.
    seen_ : float
        What is seen.

    Notes
    -----
    A note.

    Examples
    --------
    >>> Complete.seen_
    1.0
    """

    length_ = width_ = hidden_ = seen_ = 1.0


class Short:
    """Says little.

    Parameters
    ----------
    third : int
        The third.
    first : int
        Its own.

    Attributes
    ----------
    seen_ : float
        Its own too.
    more_ : float
        More.

    Examples
    --------
    >>> Short.__name__
    'Short'
    """

    length_: float
    seen_: float
    more_: float

    def __init__(self, third=3, second=2, first=1): ...


def entries(section):
    return {entry.name: " ".join(entry.desc) for entry in section}


def test_a_class_shows_the_parameters_of_its_constructor_and_the_attributes_that_it_has():
    described = docscrape.NumpyDocString(described_like(Complete)(Short).__doc__)
    assert described["Summary"] == ["Says little."]
    assert list(entries(described["Parameters"])) == ["third", "second", "first"]
    assert entries(described["Parameters"])["second"] == "The second.  With a paragraph of its own."
    assert entries(described["Parameters"])["first"] == "Its own."
    assert entries(described["Attributes"]) == {
        "length_, width_": "Measures.",
        "seen_": "Its own too.",
        "more_": "More.",
    }
    assert described["Notes"] == ["A note."]
    assert described["Examples"] == [">>> Short.__name__", "'Short'"]


@pytest.mark.parametrize("name", ["InterClassScatter", "CriterionSubspace", "KernelFisherDiscriminant"])
def test_attributes_that_a_docstring_names_are_there(name):
    kind = getattr(kampong, name)
    described = docscrape.NumpyDocString(kind.__doc__)
    named = [one for entry in described["Attributes"] for one in entry.name.split(", ")]
    X, y = [[0.0, 1.0], [1.0, 0.5], [3.0, 2.0], [4.0, 2.5]] * 4, [0, 0, 1, 1] * 4
    model = kind().fit(X, y)
    absent = {"feature_names_in_", "sampling_error_", "coef_", "intercept_"}  # only of some rows and heads
    assert {one for one in named if one.endswith("_") and not hasattr(model, one)} <= absent


def test_a_docstring_may_be_missing():
    class Bare:
        def __init__(self, first=1): ...

    assert described_like(Complete)(Bare).__doc__ is None
