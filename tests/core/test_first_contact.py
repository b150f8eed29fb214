"""The first fit of a small table and a first short stream: nothing is compiled for them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from kampong.statistics import batch, scatter
from kampong.statistics.reservoir import _move
from kampong.statistics.scatter import ClassScatter, mirror

FIRST_FIT = """
from sklearn.datasets import load_wine
from kampong import FisherDiscriminant
X, y = load_wine(return_X_y=True)
print(FisherDiscriminant().fit(X, y).score(X, y) > 0.9)
"""

COMPILE = """
import numpy as np
from kampong._core.compiling import tell_when_compiling
from kampong._core.compute import transposed
tell_when_compiling(lambda: print("told"))
for dtype in (np.float32, np.float64):
    assert transposed(np.eye(3, 4, dtype=dtype)).shape == (4, 3)
"""


def test_the_first_fit_of_a_small_table_compiles_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FIT], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"]
    assert [path.name for path in tmp_path.rglob("*.nbi")] == []


def test_the_first_stream_of_a_few_rows_compiles_nothing_and_waits_for_no_compiler(tmp_path):
    rng = np.random.default_rng(0)
    lines = [",".join([*(f"{x:.3f}" for x in rng.normal(size=4) + i % 3), f"c{i % 3}"]) for i in range(150)]
    (tmp_path / "rows.csv").write_text("a,b,c,d,label\n" + "\n".join(lines) + "\n")
    command = [sys.executable, "-X", "importtime", "-m", "kampong", "learn", "rows.csv", "--label", "label", "-m", "m"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert (tmp_path / "m").exists()
    assert not [line for line in done.stderr.splitlines() if line.endswith(" numba")]
    assert [line for line in done.stderr.splitlines() if line.endswith(" sklearn")]
    assert [path.name for path in tmp_path.rglob("*.nbi")] == []


def test_compilation_is_told_once_and_only_where_no_cache_holds_the_loop(tmp_path):
    environment, said = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.split())
    assert said == [["told"], []]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_sums_are_those_of_compiled_loops(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, weights = (
        rng.normal(5.0, 1.0, size=(200, 7)).astype(dtype),
        rng.integers(0, 4, 200),
        rng.exponential(size=200),
    )
    found = []
    for entries in (2**18, 0):
        monkeypatch.setattr(batch, "PLAIN", entries)
        monkeypatch.setattr(scatter, "PLAIN", entries)
        found.append(ClassScatter(7).update(X[:120], y[:120], weights[:120]).update(X[120:], y[120:], weights[120:]))
    plain, compiled = found
    np.testing.assert_allclose(plain.means, compiled.means, rtol=1e-12)
    np.testing.assert_allclose(plain.within_scatter(), compiled.within_scatter(), rtol=1e-9, atol=1e-9)
    centred = X - plain.means[y]
    within = (centred.T * (weights / weights.sum())) @ centred
    np.testing.assert_allclose(plain.within_scatter(), within, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 63, 64, 65, 200])
def test_a_mirrored_triangle_is_symmetric(d):
    matrix = np.random.default_rng(d).normal(size=(d, d))
    expected = np.tril(matrix) + np.tril(matrix, -1).T
    mirror(matrix)
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("rows", [1, 3, 5, 40, 3000])
def test_rows_of_any_length_are_moved_to_their_places(rows):
    rng = np.random.default_rng(rows)
    count = rng.integers(0, 9, rows)
    first, to = rng.integers(0, 100, rows), np.cumsum(count) - count
    source, target = rng.normal(size=200), np.zeros(int(count.sum()) + 3)
    _move(source, first, target, to, count)
    expected = [source[i : i + length] for i, length in zip(first, count, strict=True)]
    np.testing.assert_array_equal(target, np.concatenate([*expected, np.zeros(3)]))
