"""Loops that run before they are compiled give the bits of their machine code."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from kampong._core.compute import PLAIN
from kampong._core.loops import Loop
from kampong.online.contest import Contest
from kampong.online.members import MEMBERS
from kampong.online.settings import Settings
from kampong.statistics.scatter import ClassScatter
from kampong.streaming.history.baselines import Baselines
from kampong.streaming.history.drift import DriftDetector


def both_ways(work, monkeypatch):
    """Return what `work` gives where every loop runs as Python, and where every loop is compiled."""
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "__call__", Loop.as_python)
        as_python = work()
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "__call__", lambda self, *arguments: self.machine(*arguments))
        compiled = work()
    return as_python, compiled


def bits(found):
    """Return all that is found as bytes, by name."""
    if isinstance(found, dict):
        return {name: bits(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [bits(value) for value in found]
    return found.tobytes() if isinstance(found, np.ndarray) else found


@pytest.mark.parametrize(("columns", "classes"), [(1, 2), (4, 3), (13, 5), (3, 40)])
def test_a_contest_gives_the_same_bits_as_python_and_compiled(columns, classes, monkeypatch):
    rng = np.random.default_rng(columns)
    n = 90
    codes = np.minimum(rng.integers(0, classes, n), np.arange(n))
    codes[:classes] = np.arange(classes)
    X = rng.normal(size=(n, columns)) * 10.0 ** rng.integers(-4, 5, columns) + codes[:, None]
    X[rng.random(X.shape) < 0.1] = 0.0
    X[40, 0] = 1e6
    weights = rng.exponential(size=n) * (rng.random(n) < 0.9)
    given = np.log(rng.dirichlet(np.ones(classes), size=n))

    def work():
        contest = Contest(Settings(window=32), 1e9, 0, True, given=True)
        losses = np.empty(n - 20)
        found = [contest.learn(X[:-20], codes[:-20], weights[:-20], given[:-20], losses)]
        found.append(contest.predict(X[-20:], given[-20:]))
        assert {type(member) for member in contest.members} == {kind for kind in MEMBERS if kind.wide is not True}
        return [*found, losses, contest.to_state()]

    as_python, compiled = both_ways(work, monkeypatch)
    assert bits(as_python) == bits(compiled)
    assert np.isfinite(compiled[1]).all()


@pytest.mark.parametrize("classes", [2, 40])
def test_a_contest_on_wide_rows_gives_the_same_bits_as_python_and_compiled(classes, monkeypatch):
    rng = np.random.default_rng(classes)
    n = 120
    codes = np.append(np.arange(classes), rng.integers(0, classes, n - classes))
    X = sparse.csr_array(np.where(rng.random((n, 50)) < 0.2, rng.normal(size=(n, 50)), 0.0))
    X.data[9] = 1e6  # so large that it is brought down
    weights = rng.exponential(size=n) * (rng.random(n) < 0.9)
    weights[:classes] = 1.0
    given = np.log(rng.dirichlet(np.ones(classes), size=n))

    def work():
        contest = Contest(Settings(), 1e9, 0, True, given=True, widest=5000)
        found = [contest.learn(X, codes, weights, given), contest.predict(X, given)]
        assert {type(member) for member in contest.members} == {kind for kind in MEMBERS if kind.wide is not False}
        return [*found, contest.to_state()]

    as_python, compiled = both_ways(work, monkeypatch)
    assert bits(as_python) == bits(compiled)
    assert np.isfinite(compiled[1]).all()


@pytest.mark.parametrize("scale", [1.0, 1e140])
def test_summaries_of_batches_join_with_the_same_bits_as_python_and_compiled(scale, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = scale * rng.normal(3.0, 1.0, size=(60, 7)), rng.integers(0, 4, 60)

    def work():
        scatter = ClassScatter(7)
        for start in range(0, 60, 20):
            scatter = scatter.update(X[start : start + 20], y[start : start + 20], decay=0.9)
        return scatter.means, scatter.squares, scatter.counts

    as_python, compiled = both_ways(work, monkeypatch)
    assert bits(as_python) == bits(compiled)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_few_rows_are_learnt_with_the_same_bits_as_python_and_compiled(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(3.0, 1.0, size=(8, 5)).astype(dtype), rng.integers(0, 3, 8), rng.exponential(size=8)

    def work():
        scatter = ClassScatter(5)
        for row in range(8):
            scatter = scatter.update(X[row : row + 1], y[row : row + 1], weights[row : row + 1])
        return scatter.means, scatter.within_scatter()

    as_python, compiled = both_ways(work, monkeypatch)
    assert bits(as_python) == bits(compiled)


def test_a_history_is_the_same_as_python_and_compiled(monkeypatch):
    rng = np.random.default_rng(0)
    right = rng.random(1500) < np.repeat([0.9, 0.4, 0.8], 500)
    codes = rng.integers(0, 4, 1500)

    def work():
        drift, baselines = DriftDetector(), Baselines(3)
        for part in np.array_split(np.arange(1500), 20):
            drift.update(right[part], part)
            baselines.add(codes[part], right[part], 4)
        return drift.to_state(), baselines.to_state()

    as_python, compiled = both_ways(work, monkeypatch)
    assert bits(as_python) == bits(compiled)
    assert compiled[0]["n_alarms"] > 0


SUM = """
import sys
import numpy as np
from kampong._core import loops

@loops.Loop
def total(values, out):
    for i in range(len(values)):
        out[0] += values[i]

loops.LOADING = float(sys.argv.pop(1))
out = np.zeros(1)
for rows in map(int, sys.argv[1:]):
    total(np.ones(rows), out)
found = [int(out[0])]
if "numba" in sys.modules:
    found += [len(total.machine.signatures), sum(total.machine.stats.cache_hits.values())]
print(*found)
"""


def test_a_loop_is_compiled_if_work_is_worth_it_and_loaded_once_python_took_as_long(tmp_path):
    script, folder = tmp_path / "total.py", tmp_path / "cache"
    script.write_text(SUM, encoding="utf-8")
    environment, said = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}, []
    many = str(2 * int(PLAIN**0.5))
    for rows in (["9", "10", "20"], ["0", "10"], ["9", "10", many], ["9", "10"], ["0", "10"]):
        done = subprocess.run(
            [sys.executable, str(script), *rows], env=environment, capture_output=True, text=True, check=True
        )
        said.append([int(number) for number in done.stdout.split()])
    assert said == [[30], [10, 0, 0], [10 + int(many), 1, 0], [10], [10, 1, 1]]
