"""docs/extend.md: each example runs as it is printed, in a process of its own; a name that is taken is refused."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.preprocessing import minmax_scale

import kampong
from kampong import kernels, solvers
from kampong.contract import stream_model
from kampong.criteria import CRITERIA, MarginCriterion
from kampong.files import CheckpointError
from kampong.files.contents import Contents, flatten
from kampong.heads import HEADS, NearestMean
from kampong.kernels.functions import OWN
from kampong.predictor import Predictor
from kampong.selection import scales

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extend.md").read_text()
EXAMPLES = [
    (title, code, shown)
    for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for code, shown in re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
]


def test_there_is_an_example_of_each_kind():
    assert PAGE.count("```python") == len(EXAMPLES)
    assert {title for title, _, _ in EXAMPLES} == {
        "A criterion",
        "A head",
        "A scale",
        "A solver",
        "A kernel",
        "A source format",
    }


@pytest.mark.parametrize(("title", "code", "shown"), EXAMPLES, ids=[f"{i}-{one[0]}" for i, one in enumerate(EXAMPLES)])
def test_an_example_prints_what_the_page_shows(title, code, shown, tmp_path):
    if "streaming" in code:
        pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
        pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
    (tmp_path / "example.py").write_text(code)
    path = os.pathsep.join([str(Path(kampong.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "example.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown
    assert max(map(len, code.splitlines())) <= 79


def take_head():
    @dataclass(frozen=True)
    class Mine(NearestMean):
        name = "gaussian"


def take_criterion():
    @dataclass(frozen=True)
    class Mine(MarginCriterion):
        name = "fisher"


def take_solver():
    solvers.register(SimpleNamespace(NAME="gram"))


def take_kernel():
    kernels.register("rbf", chi2_kernel)


def take_scale():
    scales.register("capped", lambda statistics: statistics.units())


def take_format():
    formats = pytest.importorskip("kampong.streaming.formats", reason="the stream tool needs the `stream` extra")
    formats.register(SimpleNamespace(name="csv"))


def take_synonym():
    kernels.register("poly", chi2_kernel)


def take_reserved_head():
    @dataclass(frozen=True)
    class Mine(NearestMean):
        name = "best"


def take_reserved_solver():
    solvers.register(SimpleNamespace(NAME="auto"))


@pytest.mark.parametrize(
    ("take", "what"),
    [
        (take_head, r"a head cannot be named 'gaussian'; these names are taken: gaussian, nearest_mean.*best"),
        (take_reserved_head, "a head cannot be named 'best'"),
        (take_criterion, "a criterion cannot be named 'fisher'; these names are taken: margin, fisher"),
        (take_solver, "a solver cannot be named 'gram'; these names are taken: scatter.*gram, auto"),
        (take_reserved_solver, "a solver cannot be named 'auto'"),
        (take_kernel, "a kernel cannot be named 'rbf'; these names are taken: .*linear, rbf"),
        (take_synonym, "a kernel cannot be named 'poly'"),
        (take_scale, "a scale cannot be named 'capped'; these names are taken: .*unscaled, scaled, capped"),
        (take_format, "a format cannot be named 'csv'; the names csv.* are taken"),
    ],
)
def test_a_name_that_is_taken_is_refused_and_nothing_is_replaced(take, what):
    registries = (HEADS, CRITERIA, solvers.SOLVERS, OWN, scales.OWN)
    before = [dict(registry) for registry in registries]
    with pytest.raises(ValueError, match=rf"{what}.*Give it another name"):
        take()
    assert [dict(registry) for registry in registries] == before


def test_a_format_whose_name_is_taken_stays():
    formats = pytest.importorskip("kampong.streaming.formats", reason="the stream tool needs the `stream` extra")
    before = [formats.get(name) for name in formats.names()]
    with pytest.raises(ValueError, match="a format cannot be named 'csv'"):
        take_format()
    after = [formats.get(name) for name in formats.names()]
    assert [id(one) for one in after] == [id(one) for one in before]


@pytest.fixture
def chi2():
    kernels.register("chi2", chi2_kernel)
    yield
    OWN.pop("chi2", None)


def test_another_function_of_the_name_of_an_own_kernel_is_refused_and_the_same_one_is_not(chi2):
    kernels.register("chi2", chi2_kernel)  # a cell of a notebook that is run twice
    with pytest.raises(ValueError, match="a kernel cannot be named 'chi2'"):
        kernels.register("chi2", lambda left, right: left @ right.T)
    assert OWN["chi2"] is chi2_kernel
    OWN.pop("chi2")
    kernels.register("chi2", lambda left, right: left @ right.T)
    with pytest.raises(ValueError, match="a kernel cannot be named 'chi2'"):
        kernels.register("chi2", lambda left, right: right @ left.T)


@pytest.mark.parametrize("name", ["KernelFisherDiscriminant", "CoreVectorClassifier", "MaximumMarginDiscriminant"])
def test_a_kernel_by_name_is_the_function_and_can_be_saved(name, chi2, tmp_path):
    X, y = load_wine(return_X_y=True)
    X, kind = minmax_scale(X), getattr(kampong, name)
    by_name, by_function = kind(kernel="chi2").fit(X, y), kind(kernel=chi2_kernel).fit(X, y)
    answers = "transform" if hasattr(kind, "transform") else "decision_function"
    np.testing.assert_array_equal(getattr(by_name, answers)(X), getattr(by_function, answers)(X))
    by_name.save(tmp_path / "model")
    again = kampong.load(tmp_path / "model")
    np.testing.assert_array_equal(getattr(again, answers)(X), getattr(by_name, answers)(X))
    with pytest.raises(CheckpointError, match=r"cannot be saved.*is a function"):
        by_function.save(tmp_path / "other")
    del OWN["chi2"]
    with pytest.raises(CheckpointError, match=r"'chi2', expected one of 'linear'"):
        kampong.load(tmp_path / "model")


def test_a_kernel_that_is_not_known_is_named(chi2):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=r"one of 'linear'.*'chi2', got 'other'"):
        kampong.CoreVectorClassifier(kernel="other").fit(X, y)


def by_means(statistics):
    return np.ptp(statistics.means, axis=0) + 1e-12


@pytest.fixture
def own_scale():
    scales.register("by means", by_means)
    yield
    scales.OWN.pop("by means", None)


def test_an_own_scale_gives_the_model_of_rows_that_are_divided(own_scale):
    X, y = load_wine(return_X_y=True)
    found = kampong.FisherDiscriminant().fit(X, y)
    assert found.choice_.own_scale == "by means"
    np.testing.assert_array_equal(found.scale_, by_means(found._statistics))  # the statistics that the scale was asked
    divided = kampong.FisherDiscriminant(ridge=found.ridge_, scale=False, head=found.head_).fit(X / found.scale_, y)
    points, expected = found.transform(X), divided.transform(X / found.scale_)
    np.testing.assert_allclose(points, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    assert "are divided by 'by means'" in found.scale_reason_


def test_a_model_with_an_own_scale_learns_on_and_is_refused_where_the_scale_is_unknown(own_scale):
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    found = kampong.FisherDiscriminant().partial_fit(X, y)
    data = found.to_bytes()
    again, first = kampong.from_bytes(data), stream_model(found).known
    assert again.choice_.own_scale == first.choice.own_scale == "by means"
    for model in (found, again):
        model.partial_fit(X[:60] + 0.5, y[:60])
    kept = stream_model(found).predictor(first)  # as a stream renews it: the choice stays, the units are those of now
    np.testing.assert_array_equal(kept.choice.units, by_means(found._statistics))
    assert (kept.choice.units != first.choice.units).any()
    np.testing.assert_array_equal(found.predict_proba(X), again.predict_proba(X))
    scales.OWN.pop("by means")
    with pytest.raises(CheckpointError, match=r"the scale 'by means' is not known here: register it first"):
        kampong.from_bytes(data)


def test_the_units_of_an_own_scale_grow_with_the_columns(own_scale):
    X, y = load_wine(return_X_y=True)
    frozen = kampong.FisherDiscriminant().partial_fit(X, y).freeze()
    wide = frozen.widened(15)
    again = Predictor.from_state(Contents(*flatten(wide.to_state()), "a predictor"), 15)
    np.testing.assert_array_equal(again.choice.units, [*frozen.choice.units, 1.0, 1.0])
    np.testing.assert_array_equal(again.points(np.pad(X, ((0, 0), (0, 2)))), frozen.points(X))


def test_a_chosen_scale_that_returns_nothing_later_keeps_its_units():
    X, y = load_wine(return_X_y=True)
    scales.register("at first", lambda statistics: by_means(statistics) if statistics.n_samples <= len(y) else None)
    try:
        model = kampong.FisherDiscriminant().partial_fit(X, y)
        first = stream_model(model).predictor()
        model.partial_fit(X[::2] + 0.5, y[::2])
        kept = stream_model(model).predictor(first)
    finally:
        scales.OWN.pop("at first")
    assert first.choice.own_scale == kept.choice.own_scale == "at first"
    np.testing.assert_array_equal(kept.choice.units, first.choice.units)
    by_hand = kampong.FisherDiscriminant(ridge=kept.criterion.value, scale=False, head=kept.head.name)
    by_hand.partial_fit(X / first.choice.units, y).partial_fit((X[::2] + 0.5) / first.choice.units, y[::2])
    points, expected = kept.points(X), by_hand.transform(X / first.choice.units)
    np.testing.assert_allclose(points, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("units", [np.ones(3), np.zeros(13), np.full(13, np.nan), -np.ones(13)])
def test_a_scale_that_returns_no_units_is_named(units):
    X, y = load_wine(return_X_y=True)
    scales.register("wrong", lambda statistics: units)
    try:
        with pytest.raises(ValueError, match=r"scale 'wrong': its function must return one positive, finite number"):
            kampong.FisherDiscriminant().fit(X, y)
    finally:
        scales.OWN.pop("wrong")


def test_a_scale_that_is_not_to_be_tried_changes_nothing():
    X, y = load_wine(return_X_y=True)
    expected = kampong.FisherDiscriminant().fit(X, y)
    scales.register("never", lambda statistics: None)
    try:
        found = kampong.FisherDiscriminant().fit(X, y)
    finally:
        scales.OWN.pop("never")
    assert found.choice_.scales == expected.choice_.scales
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
