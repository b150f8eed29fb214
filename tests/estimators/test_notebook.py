"""What a notebook shows: solver, head, chosen parameters and a map; nothing is solved for it, and names are inert."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_digits, load_wine

from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace


def page_of(model):
    return model._repr_mimebundle_()["text/html"]


def box_of(model):
    return page_of(model).partition('<div class="kampong-model"')[2]


def circles(model):
    svg = re.search(r"<svg.*?</svg>", box_of(model), re.DOTALL).group()
    return [element for element in ET.fromstring(svg) if element.tag == "circle"]


def test_a_fitted_model_shows_what_it_found():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    box = box_of(model)
    for text in ("1,797 rows, 64 columns, 10 classes", "9, by the scatter solver", model.head_, f"{model.ridge_:.4g}"):
        assert text in box
    assert "chosen by" in box
    assert "chosen by" not in box_of(FisherDiscriminant(ridge=0.5).fit(X, y))
    kernel = KernelFisherDiscriminant(landmarks=40).fit(X, y)
    assert f"{kernel.gamma_:.4g}" in box_of(kernel)


def test_the_map_shows_the_class_means():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    drawn = np.array([[float(one.get("cx")), -float(one.get("cy"))] for one in circles(model)])
    means = np.stack([model.transform(X[y == label]).mean(axis=0)[:2] for label in range(10)])
    for axis in (0, 1):
        assert np.corrcoef(drawn[:, axis], means[:, axis])[0, 1] > 0.99999
    one = FisherDiscriminant(1).fit(X, y)
    assert len(circles(one)) == 10


def test_nothing_is_solved_to_be_shown(monkeypatch):
    X, y = load_digits(return_X_y=True)
    model = MarginSubspace(epsilon="auto").partial_fit(X, y)
    monkeypatch.setattr(MarginSubspace, "_make", lambda *_: pytest.fail("it was solved"))
    assert "not yet: the next transform or predict does it" in box_of(model)
    assert model._predictor is None


def test_names_are_inert():
    X, y = load_wine(return_X_y=True)
    model = FisherDiscriminant().fit(X, np.array(["<script>alert(1)</script>", "a & b", "c"])[y])
    assert "<script>alert" not in box_of(model)
    assert len(circles(model)) == 3


def test_without_a_fit_and_as_text_it_is_scikit_learns():
    assert "kampong-model" not in page_of(FisherDiscriminant())
    with sklearn.config_context(display="text"):
        assert "text/html" not in FisherDiscriminant()._repr_mimebundle_()
    X, y = load_wine(return_X_y=True)
    assert "kampong-model" in FisherDiscriminant().fit(X, y)._repr_html_()
