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
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.preprocessing import scale

import kampong
from kampong import kernels, solvers
from kampong.criteria import CRITERIA, MarginCriterion
from kampong.files import CheckpointError
from kampong.heads import HEADS, NearestMean
from kampong.kernels.functions import OWN

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
    kernels.register("rbf", laplacian_kernel)


def take_synonym():
    kernels.register("poly", laplacian_kernel)


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
    ],
)
def test_a_name_that_is_taken_is_refused_and_nothing_is_replaced(take, what):
    before = [dict(registry) for registry in (HEADS, CRITERIA, solvers.SOLVERS, OWN)]
    with pytest.raises(ValueError, match=rf"{what}.*Give it another name\."):
        take()
    assert [dict(registry) for registry in (HEADS, CRITERIA, solvers.SOLVERS, OWN)] == before


@pytest.fixture
def laplacian():
    kernels.register("laplacian", laplacian_kernel)
    yield
    OWN.pop("laplacian", None)


def test_another_function_of_the_name_of_an_own_kernel_is_refused_and_the_same_one_is_not(laplacian):
    kernels.register("laplacian", laplacian_kernel)  # a cell of a notebook that is run twice
    with pytest.raises(ValueError, match="a kernel cannot be named 'laplacian'"):
        kernels.register("laplacian", lambda left, right: left @ right.T)
    assert OWN["laplacian"] is laplacian_kernel
    OWN.pop("laplacian")
    kernels.register("laplacian", lambda left, right: left @ right.T)
    with pytest.raises(ValueError, match="a kernel cannot be named 'laplacian'"):
        kernels.register("laplacian", lambda left, right: right @ left.T)


@pytest.mark.parametrize("name", ["KernelFisherDiscriminant", "CoreVectorClassifier", "MaximumMarginDiscriminant"])
def test_a_kernel_by_name_is_the_function_and_can_be_saved(name, laplacian, tmp_path):
    X, y = load_wine(return_X_y=True)
    X, kind = scale(X), getattr(kampong, name)
    by_name, by_function = kind(kernel="laplacian").fit(X, y), kind(kernel=laplacian_kernel).fit(X, y)
    answers = "transform" if hasattr(kind, "transform") else "decision_function"
    np.testing.assert_array_equal(getattr(by_name, answers)(X), getattr(by_function, answers)(X))
    by_name.save(tmp_path / "model")
    again = kampong.load(tmp_path / "model")
    np.testing.assert_array_equal(getattr(again, answers)(X), getattr(by_name, answers)(X))
    with pytest.raises(CheckpointError, match=r"cannot be saved.*is a function"):
        by_function.save(tmp_path / "other")
    del OWN["laplacian"]
    with pytest.raises(CheckpointError, match=r"'laplacian', expected one of 'linear'"):
        kampong.load(tmp_path / "model")


def test_a_kernel_that_is_not_known_is_named(laplacian):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=r"one of 'linear'.*'laplacian', got 'other'"):
        kampong.CoreVectorClassifier(kernel="other").fit(X, y)
