"""Long and lopsided streams beside a reference in higher precision; `python -m benchmarks long_streams` prints errors.

The reference is a two-pass sum in long double (64 bits of fraction on x86-64; where it is float64, the errors of
reference and library are of one size). An error is the largest difference, over the largest entry of the reference.
"""

import functools
import time
from collections.abc import Callable, Iterator

import numpy as np
import scipy.linalg

from kampong import FisherDiscriminant, MarginSubspace
from kampong.statistics import ClassScatter
from kampong.statistics.scatter import ClassScatter as Scatter

D = 6
CHUNK = 100_000
Rows = tuple[np.ndarray, np.ndarray]
Errors = dict[str, float]


def main(shrink: int = 1) -> None:
    """Print the table of errors and seconds."""
    print("| stream | rows | counts | class means | S_w | directions | s |\n|---|---|---|---|---|---|---|")
    for name, run in STREAMS.items():
        start = time.perf_counter()
        rows, errors = run(shrink)
        cells = (f"{errors[key]:.1e}" if key in errors else "" for key in ("counts", "means", "within", "directions"))
        print(f"| {name} | {rows:,} | {' | '.join(cells)} | {time.perf_counter() - start:.0f} |", flush=True)


def half_life_of_ten(shrink: int) -> tuple[int, Errors]:
    """Learn 10M rows of which the last hundred or so count."""
    n = 10_000_000 // shrink
    model = MarginSubspace(2, epsilon=0.5, half_life=10)
    last: list[Rows] = []
    for X, y in _chunks(n, offset=1e3):
        model.partial_fit(X, y)
        last = [*last[-1:], (X, y)]
    X, y = (np.concatenate([part[which] for part in last])[-5000:] for which in (0, 1))
    age = np.arange(len(X))[::-1].astype(np.longdouble)
    expected = _Reference.of(X, y, np.exp2(-age / 10))
    return n, expected.errors(model._statistics) | {"directions": expected.angle(model.components_, _margin)}


def merged_in_ten_shapes(shrink: int) -> tuple[int, Errors]:
    """Merge 1,000 models of parts in ten shapes of trees; the worst of all."""
    count, each = max(1000 // shrink, 20), 200
    parts = [_rows(each, seed, offset=1e4 * (seed % 7)) for seed in range(count)]
    X, y = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    expected = _Reference.of(X, y)
    leaves = [ClassScatter(D).update(*part) for part in parts]
    errors: list[Errors] = []
    for shape in range(10):
        found = _merged(leaves, shape)
        errors.append(expected.errors(found))
    return len(X), {key: max(one[key] for one in errors) for key in errors[0]}


def _merged(leaves: list[Scatter], shape: int) -> Scatter:
    """Merge in the order of a tree: a chain, a chain backwards, fans of 2 to 100, and trees drawn at random."""
    copies = [ClassScatter(D).merge(leaf) for leaf in leaves]
    if shape in (0, 1):
        order = copies if shape == 0 else copies[::-1]
        return functools.reduce(lambda one, other: one.merge(other), order)
    if shape < 7:
        fan = (2, 3, 10, 31, 100)[shape - 2]
        while len(copies) > 1:
            groups = [copies[at : at + fan] for at in range(0, len(copies), fan)]
            copies = [functools.reduce(lambda one, other: one.merge(other), group) for group in groups]
        return copies[0]
    rng = np.random.default_rng(shape)
    while len(copies) > 1:
        one, other = (copies.pop(int(rng.integers(len(copies)))) for _ in range(2))
        copies.append(one.merge(other))
    return copies[0]


def ten_thousand_classes(shrink: int) -> tuple[int, Errors]:
    """Learn 10,000 classes that come one after another, of 1 to 60 rows."""
    classes = 10_000 // shrink
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(classes), rng.integers(1, 61, size=classes))
    late = np.sort(rng.permutation(len(y)) + 30 * y)  # mostly sorted: new classes keep coming
    y = y[np.argsort(late + rng.normal(scale=1000, size=len(y)))]
    X = rng.normal(size=(classes, D))[y] + 0.1 * rng.normal(size=(len(y), D)) + 100.0
    model = FisherDiscriminant(D, ridge=1e-3)
    for at in range(0, len(y), 10_000):
        model.partial_fit(X[at : at + 10_000], y[at : at + 10_000])
    expected = _Reference.of(X, y)
    return len(y), expected.errors(model._statistics) | {"directions": expected.angle(model.components_, _fisher)}


def one_in_a_million(shrink: int) -> tuple[int, Errors]:
    """Learn 10M rows of one class, and ten of another in between."""
    n = 10_000_000 // shrink
    model, expected = FisherDiscriminant(1, ridge=1e-3), _Reference()
    rare = np.arange(n // 20, n, n // 10)
    for number in (1, 2):
        start = 0
        for X, _ in _chunks(n, offset=10.0):
            y = np.isin(np.arange(start, start + len(X)), rare).astype(int)
            X = X + 0.7 * y[:, None]
            start += len(X)
            if number == 1:
                model.partial_fit(X, y)
                expected.sum_up(X, y)
            else:
                expected.spread(X, y)
    return n, expected.errors(model._statistics) | {"directions": expected.angle(model.components_, _fisher)}


def single_precision(shrink: int) -> tuple[int, Errors]:
    """Learn 10M rows of float32, far from zero."""
    n = 10_000_000 // shrink
    model, expected = FisherDiscriminant(2, ridge=1e-3), _Reference()
    for X, y in _chunks(n, offset=1e3, dtype=np.float32):
        model.partial_fit(X, y)
        expected.sum_up(X, y)
    for X, y in _chunks(n, offset=1e3, dtype=np.float32):
        expected.spread(X, y)
    return n, expected.errors(model._statistics) | {"directions": expected.angle(model.components_, _fisher)}


STREAMS: dict[str, Callable[[int], tuple[int, Errors]]] = {
    "half-life 10, classes 1,000 from zero": half_life_of_ten,
    "1,000 models merged, worst of ten trees": merged_in_ten_shapes,
    "10,000 classes": ten_thousand_classes,
    "imbalance 1,000,000 : 1": one_in_a_million,
    "float32, classes 1,000 from zero": single_precision,
}


class _Reference:
    """Counts, means and S_w in long double: sums first, squares about the means in a second pass."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, dtype=np.longdouble)
        self.sums = np.zeros((0, D), dtype=np.longdouble)
        self.scatter = np.zeros((D, D), dtype=np.longdouble)

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> "_Reference":
        found = cls()
        found.sum_up(X, y, weights)
        found.spread(X, y, weights)
        return found

    def sum_up(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        more = max(int(y.max()) + 1 - len(self.counts), 0)
        self.counts = np.pad(self.counts, (0, more))
        self.sums = np.pad(self.sums, ((0, more), (0, 0)))
        weights = np.ones(len(y), dtype=np.longdouble) if weights is None else weights
        order = np.argsort(y, kind="stable")
        starts = np.flatnonzero(np.diff(y[order], prepend=-1))
        codes, weighed = y[order][starts], weights[order, None] * X[order].astype(np.longdouble)
        self.counts[codes] += np.add.reduceat(weights[order], starts)
        self.sums[codes] += np.add.reduceat(weighed, starts, axis=0)

    def spread(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        rows = X.astype(np.longdouble) - self.means[y]
        weighed = rows if weights is None else rows * weights[:, None]
        for i in range(D):
            for j in range(i + 1):
                self.scatter[i, j] += (weighed[:, i] * rows[:, j]).sum()
                self.scatter[j, i] = self.scatter[i, j]

    @property
    def means(self) -> np.ndarray:
        return self.sums / self.counts[:, None]

    def errors(self, found: Scatter) -> Errors:
        """Return how far statistics are from these, over the largest entry."""
        order = np.argsort(found.classes)
        total = self.counts.sum()
        pairs = {
            "counts": (found.counts[order], self.counts),
            "means": (found.means[order], self.means),
            "within": (found.within_scatter() * found.total, self.scatter),
        }
        assert abs(found.total - total) <= 1e-9 * total
        return {key: float(np.abs(mine - theirs).max() / np.abs(theirs).max()) for key, (mine, theirs) in pairs.items()}

    def angle(self, components: np.ndarray, solve: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> float:
        """Return the largest sine between the directions and those that follow from these statistics."""
        total = self.counts.sum()
        shifted = self.means - self.sums.sum(axis=0) / total
        between = (shifted * (self.counts / total)[:, None]).T @ shifted
        wanted = solve(between.astype(np.float64), (self.scatter / total).astype(np.float64))[:, : len(components)]
        ours, theirs = (scipy.linalg.orth(block) for block in (components.T, wanted))
        return float(np.linalg.norm(ours - theirs @ (theirs.T @ ours), 2))


def _margin(between: np.ndarray, within: np.ndarray) -> np.ndarray:
    return np.asarray(scipy.linalg.eigh(between - 0.5 * within)[1][:, ::-1])


def _fisher(between: np.ndarray, within: np.ndarray) -> np.ndarray:
    return np.asarray(scipy.linalg.eigh(between, within + 1e-3 * np.eye(D))[1][:, ::-1])


def _rows(n: int, seed: int, *, offset: float = 0.0) -> Rows:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, D)) * np.geomspace(0.3, 3.0, D) + np.eye(3, D)[y] + offset
    return X, y


def _chunks(n: int, *, offset: float, dtype: type = np.float64) -> Iterator[Rows]:
    """Yield rows of three classes, the same ones every time."""
    for seed, at in enumerate(range(0, n, CHUNK)):
        X, y = _rows(min(CHUNK, n - at), seed, offset=offset)
        yield X.astype(dtype), y
