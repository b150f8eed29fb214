"""Statistics say what they hold, so that no other room asks for their class."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import kampong
from kampong.kernels.functions import Kernel
from kampong.kernels.landmarks import LandmarkBasis
from kampong.statistics import ClassMeans, ClassReservoir, ClassScatter
from kampong.statistics.all_rows import ClassRows
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.statistics.reservoir import SampledScatter

SOURCE = Path(kampong.__file__).parent

X = np.random.default_rng(0).normal(size=(40, 3))
y = np.arange(40) % 2


def asked():
    """Count the tests for a class of statistics, by file outside statistics/."""
    trees = {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
    kinds = {
        node.name
        for path, tree in trees.items()
        if path.parts[0] == "statistics"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    return Counter(
        path.as_posix()
        for path, tree in trees.items()
        if path.parts[0] != "statistics"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("isinstance", "issubclass")
        and any(isinstance(name, ast.Name) and name.id in kinds for name in ast.walk(node.args[1]))
    )


def test_nobody_else_asks_statistics_for_their_class():
    assert not asked(), f"add an answer to ClassMeans in place of isinstance: {dict(asked())}"


def all_kinds():
    """Return statistics of each kind on the same rows."""
    kinds = [ClassMeans, ClassScatter, ClassReservoir, SampledScatter, ClassRows]
    found = {kind.__name__: kind(3).update(X, y) for kind in kinds}
    basis = LandmarkBasis(Kernel("rbf", gamma=0.5), X[:6])
    found["KernelScatter"] = KernelScatter(basis).update(X, y)
    found["KernelScatter with rows"] = KernelScatter(basis, ClassReservoir(3)).update(X, y)
    found["PastRows"] = found["ClassRows"].after_fit(learns_more=False)
    return found


@pytest.mark.parametrize("name", all_kinds())
def test_an_answer_is_true(name):
    statistics = all_kinds()[name]
    if statistics.holds_within:
        assert statistics.within_times(np.eye(statistics.n_features)).shape == (statistics.n_features,) * 2
    else:
        with pytest.raises(TypeError, match="S_w needs ClassScatter or rows"):
            statistics.within_times(np.eye(statistics.n_features))
    if statistics.holds_scatter:
        within = statistics.within_scatter()
        np.testing.assert_allclose(within, statistics.within_times(np.eye(statistics.n_features)), atol=1e-12)
    else:
        with pytest.raises(TypeError, match=f"{type(statistics).__name__} keeps no d × d matrix"):
            statistics.within_scatter()
    if statistics.holds_within and statistics.basis is None:
        units = statistics.units()
        np.testing.assert_allclose(statistics.in_units(units).units(), 1.0)
    elif not statistics.holds_within:
        with pytest.raises(TypeError, match="S_w needs ClassScatter or rows"):
            statistics.units()
    if statistics.rows_at_hand:
        assert statistics.held()[0].shape == (40, 3)
    if statistics.rows_are_here:
        np.testing.assert_array_equal(statistics.held()[0], X)
    if statistics.kept_sample is not None:
        assert statistics.kept_sample.sample().rows.shape == (40, 3)
    assert statistics.rows_kept == (40 if statistics.keeps_rows else 0)
    if statistics.keeps_rows:
        assert statistics.sample(7).rows.shape == (7, statistics.n_features)
    assert statistics.leaves_rows_out == (name == "SampledScatter")
    assert statistics.within_sample is None  # all rows fit
    if statistics.refusal is not None:
        with pytest.raises(ValueError, match="cannot learn more"):
            statistics.update(X, y)
    assert (statistics.basis is None) == (statistics.n_features == 3)


def test_a_sample_that_left_rows_out_says_so():
    kinds = {
        kind: kind.laid_out(3, budget=1000, random_state=7).update(X, y) for kind in (ClassReservoir, SampledScatter)
    }
    assert all(one.kept_sample.full and one.random_state == 7 for one in kinds.values())
    assert kinds[ClassReservoir].within_sample is kinds[ClassReservoir]
    assert kinds[SampledScatter].within_sample is None
    assert ClassScatter.laid_out(3, budget=1000, random_state=7).n_features == 3


@pytest.mark.parametrize("learns_more", [True, False])
def test_rows_at_hand_are_let_go_after_a_fit(learns_more):
    rows = ClassRows(3).update(X, y)
    after = rows.after_fit(learns_more=learns_more)
    np.testing.assert_array_equal(after.means, rows.means)
    assert not hasattr(after, "_held")
    assert (after.refusal is None) == learns_more
    scatter = ClassScatter(3).update(X, y)
    assert scatter.after_fit(learns_more=learns_more) is scatter
