"""One linear support vector machine a class, from a sample of rows: what is best on text with many classes.

For each class, against all others, with y = ±1 and bias b as one more column,

    min ½‖w‖² + C Σᵢ ωᵢ max(0, 1 − yᵢ(w·xᵢ + b))²,

which is `sklearn.svm.LinearSVC`. We deviate in the unit of C: rows are measured by their root mean square length, so
that a change of units changes nothing.

Along few directions the problem is solved to its optimum by Newton's method (`optimum`): it is strictly convex, so the
answer does not depend on the order of the rows. On all columns of text that would cost many times as much. There the
dual is ascended coordinate by coordinate (Hsieh et al. 2008), all classes in one pass over the rows (`Machines`): a row
is read once and its products with all weights are one block, so that an epoch costs about what a product of the rows
with as many columns costs. Few epochs come near the optimum and do not reach it, so there the answer depends a little
on the order of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import linalg, sparse

from kampong._core.compute import compiled, csr_times_block, mix, run, split
from kampong.heads.calibration import log_softplus
from kampong.heads.head import Head

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.heads.head import Inside

USUAL = 0.5
"""C without validation rows."""

STEEP, SHIFT = 4.0, 2.0
"""How margins become scores: picked on rows held out from the training rows of arXiv's 127 classes."""

CERTAIN = 1e-9
"""The largest gradient at which Newton's method ends, as a part of the weights. The curvature is 1 at least, so the
weights are no further from the optimum, and the duality gap is half the square of the gradient."""

STEPS = 200
"""The most steps of Newton's method: it ends after a finite number, a dozen or so."""

EPOCHS = 6
"""Passes over the rows: a fixed number, so that no last bit decides it."""

TOGETHER, HALVED = 64, 32
"""Classes whose weights are updated by one thread, and how many are cut in two in any case."""

NUMBERS_BYTES = 2**29
"""The most bytes for the dual variables, a float32 a row and class: fewer rows are used where it is reached."""


@dataclass(frozen=True)
class Hinge(Head):
    """One linear support vector machine a class, squared hinge, trained on the sample.

    Margins m lie about −1 for the other classes and about 1 for a row's own, so they are no log-probabilities. The
    scores are log softplus(4 m + 2): on arXiv's 127 classes the log-loss falls from 1.37
    to 1.26. The class of the largest margin has the largest score.

    Attributes
    ----------
    weights : array of shape (K, p)
        One row a class.
    offsets : array of shape (K,)
        −∞ for a class that has no weight.
    cost : float
        C, for rows whose root mean square length is one.
    n_rows : int
        Where it was trained on all columns, how many rows had been learnt then; 0 otherwise. Its weights are then the
        hidden directions.

    Notes
    -----
    Trained along directions it is exact. Trained on all columns, as on text, it is not: a few passes over the rows come
    near the optimum, and another order of the rows, or a row twice in place of weight 2, changes probabilities.
    """

    weights: Float
    offsets: Float
    cost: float
    n_rows: int = field(default=0, kw_only=True)
    name: ClassVar[str] = "hinge"
    needs_covariance: ClassVar[bool] = True
    needs_sample: ClassVar[bool] = True
    shapes: ClassVar[dict[str, tuple[str, ...]]] = {"weights": ("K", "p"), "offsets": ("K",)}
    infinite: ClassVar[tuple[str, ...]] = ("offsets",)

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head with the usual cost, in whitened coordinates."""
        assert inside.points is not None
        assert inside.codes is not None
        assert inside.own is not None
        whitener = inside.whitener()
        found = optimum(inside.points @ whitener, inside.codes, inside.own, len(inside.counts), USUAL)
        return cls.of(*found, inside.counts, whitener, USUAL)

    @classmethod
    def of(cls, weights: Float, offsets: Float, counts: Float, whitener: Float, cost: float) -> Self:
        """Return the head of weights, (K, p), and offsets in whitened coordinates."""
        seen = counts > 0
        return cls(False, np.where(seen[:, None], weights @ whitener.T, 0.0), np.where(seen, offsets, -np.inf), cost)

    @classmethod
    def of_columns(cls, offsets: Float, counts: Float, n_directions: int, cost: float, n_rows: int) -> Self:
        """Return the head whose weights are hidden directions, after this many others."""
        weights = np.eye(len(counts), n_directions + len(counts), n_directions)
        return replace(cls.of(weights, offsets, counts, np.eye(weights.shape[1]), cost), n_rows=n_rows)

    def hyperplanes(self) -> tuple[Float, Float]:
        """Return weights and offsets of the margins, of which the scores are an increasing function."""
        return self.weights, self.offsets

    def scores(self, points: Float) -> Float:
        """Return log softplus(4 m + 2) of the margins."""
        return scores_of(points.astype(np.float64, copy=False) @ self.weights.T + self.offsets)

    def about(self, shift: Float, n_directions: int) -> Self:
        """Return the same weights of all columns, for a mean that has moved and another number of directions."""
        K = len(self.offsets)
        weights = np.hstack([np.zeros((K, n_directions)), self.weights[:, -K:]])
        return replace(self, weights=weights, offsets=self.offsets + self.weights[:, -K:] @ shift)

    def inconsistent(self) -> str:
        """Say where the cost is none, or weights of all columns are not those of one hidden direction per class."""
        K = len(self.offsets)
        if self.multilabel or np.isposinf(self.offsets).any() or not np.isfinite(self.offsets).any():
            return "offsets holds infinity for a class, or none that is finite"
        wrong = self.cost <= 0 or self.n_rows < 0 or (self.n_rows > 0 and self.weights.shape[1] <= K)
        return f"cost is {self.cost}, and n_rows {self.n_rows}, for weights {self.weights.shape}" if wrong else ""


def optimum(points: Float, codes: Integer, own: Float, n_classes: int, cost: float) -> tuple[Float, Float]:
    """Return the weights, (K, p), and offsets, (K,), of one support vector machine per class, at their optimum.

    Parameters
    ----------
    points : array of shape (n, p)
        Dense rows of few columns.
    codes : array of int of shape (n,)
        Their classes.
    own : array of shape (n,)
        Their weights.
    n_classes : int
        How many classes there are.
    cost : float
        C, for rows whose root mean square length is one.

    Returns
    -------
    weights, offsets : array
        They depend on the rows and their weights alone, not on the order of the rows.
    """
    total = max(float(own.sum()), np.finfo(float).tiny)
    unit = float(own @ np.einsum("ij,ij->i", points, points)) / total
    unit = float(np.sqrt(unit)) if unit > 0 else 1.0
    rows = np.hstack([points / unit, np.ones((len(points), 1))])
    found: Float = np.zeros((n_classes, rows.shape[1]))

    def work(k: int) -> None:
        found[k] = _newton(rows, np.where(codes == k, 1.0, -1.0), 2.0 * cost * own)

    run(work, [(k,) for k in range(n_classes)])
    return found[:, :-1] / unit, found[:, -1]


def _newton(rows: Float, signs: Float, slopes: Float) -> Float:
    """Return the least of ½‖t‖² + ½ Σ s max(0, 1 − y r·t)²: quadratic for each set of rows with margins below 1."""
    t: Float = np.zeros(rows.shape[1])

    def at(t: Float) -> tuple[float, Float, np.ndarray]:
        lacking = signs - rows @ t
        short = signs * lacking > 0
        pull = np.where(short, slopes * lacking, 0.0)
        return 0.5 * float(t @ t + pull @ lacking), t - pull @ rows, short

    value, gradient, short = at(t)
    for _ in range(STEPS):
        if np.linalg.norm(gradient) <= CERTAIN * max(1.0, float(np.linalg.norm(t))):
            break
        near = rows[short]
        curvature = (near * slopes[short, None]).T @ near
        curvature.flat[:: len(t) + 1] += 1.0
        step = linalg.solve(curvature, gradient, assume_a="pos", check_finite=False)
        fall, length = float(gradient @ step), 1.0
        new = at(t - step)
        while new[0] > value - 1e-4 * length * fall + 1e-15 * value and length > 1e-10:
            length /= 2
            new = at(t - length * step)
        t = t - length * step
        value, gradient, short = new
    return t


class Machines:
    """One support vector machine per class, on their way to the optimum: weights and dual variables.

    Parameters
    ----------
    rows : array or sparse matrix of shape (m, d)
        Rows.
    places : array of int of shape (n,), optional
        Which of them to train with, in a random order of its own; all of them by default.
    codes : array of int of shape (n,)
        The classes of those.
    own : array of shape (n,)
        Their weights.
    n_classes : int
        How many classes there are.
    """

    def __init__(self, rows: Rows, places: Integer | None, codes: Integer, own: Float, n_classes: int) -> None:
        X = sparse.csr_array(rows) if isinstance(rows, np.ndarray) else rows
        self.places = np.arange(X.shape[0]) if places is None else np.asarray(places, dtype=np.int64)
        self.X, self.codes, self.own = X, np.asarray(codes, dtype=np.int64), np.asarray(own, dtype=np.float64)
        n, d = len(self.places), X.shape[1]
        self.squares = np.empty(n)
        parts = split(n, 4 if X.nnz > 2**18 else 1)
        run(_lengths, [(X.indptr, X.data, self.places, self.squares, a, b) for a, b in parts])
        mean = float(self.own @ self.squares / max(self.own.sum(), np.finfo(float).tiny))
        self.unit = mean if mean > 0 else 1.0
        self.parts = split(n_classes, max(-(-n_classes // TOGETHER), 2 if n_classes >= HALVED else 1))
        self.blocks = [np.zeros((d + 1, b - a)) for a, b in self.parts]
        self.duals = [np.zeros((n, b - a), dtype=np.float32) for a, b in self.parts]
        self.epoch = 0

    def ascend(self, cost: float, epochs: int = EPOCHS, some: Integer | None = None) -> Self:
        """Take this many passes over the rows from where the machines are; `some` are the only rows that count."""
        X, codes, bias = self.X, self.codes, np.sqrt(self.unit)
        slack = self.unit / (2.0 * cost * np.maximum(self.own, np.finfo(float).tiny))
        gains = 1.0 / (self.squares + self.unit + slack)
        for _ in range(epochs):
            order = shuffled(len(codes) if some is None else len(some), self.epoch)
            order = order if some is None else some[order]
            arrays = (X.indptr, X.indices, X.data, self.places, order, codes, slack, gains, bias)
            jobs = zip(self.blocks, self.duals, self.parts, strict=True)
            run(_ascend, [(*arrays, block, dual, first) for block, dual, (first, _) in jobs])
            self.epoch += 1
        return self

    def weights(self) -> tuple[Float, Float]:
        """Return weights, (K, d), and offsets, (K,)."""
        whole = np.concatenate([block.T for block in self.blocks])
        return np.ascontiguousarray(whole[:, :-1]), whole[:, -1] * np.sqrt(self.unit)

    def scores(self, rows: Rows) -> Float:
        """Return what the head would score for other rows, (n, K)."""
        X = sparse.csr_array(rows) if isinstance(rows, np.ndarray) else rows
        said = [csr_times_block(X, block) + np.sqrt(self.unit) * block[-1] for block in self.blocks]
        return scores_of(np.hstack(said))


def scores_of(margins: Float) -> Float:
    """Return margins as scores that probabilities can be made of; −∞ stays."""
    never = np.isneginf(margins)
    return np.where(never, -np.inf, log_softplus(STEEP * np.where(never, 0.0, margins) + SHIFT))


def most_rows(n_classes: int) -> int:
    """Return how many rows may train: their dual variables are bounded."""
    return NUMBERS_BYTES // (4 * max(n_classes, 1))


@compiled
def shuffled(n: int, seed: int) -> Integer:
    """Return a permutation that depends on its length and the seed alone."""
    order = np.arange(n)
    state = mix(np.uint64(seed + 1))
    for i in range(n - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        j = np.int64(mix(state) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    return order


@compiled
def _lengths(indptr: Integer, data: Float, places: Integer, squares: Float, start: int, stop: int) -> None:
    for q in range(start, stop):
        total = 0.0
        for position in range(indptr[places[q]], indptr[places[q] + 1]):
            total += np.float64(data[position]) * np.float64(data[position])
        squares[q] = total


@compiled
def _ascend(
    indptr: Integer,
    indices: Integer,
    data: Float,
    places: Integer,
    order: Integer,
    codes: Integer,
    slack: Float,
    gains: Float,
    bias: float,
    block: Float,
    duals: Any,
    first: int,
) -> None:
    """Take one pass over the rows: each dual variable in turn to where its own optimum is, never below zero."""
    width = block.shape[1]
    last = block.shape[0] - 1
    step, active = np.empty(width), np.empty(width, dtype=np.int64)
    for q in order:
        row = indices[indptr[places[q]] : indptr[places[q] + 1]]
        values = data[indptr[places[q]] : indptr[places[q] + 1]]
        for c in range(width):
            step[c] = bias * block[last, c]
        for position in range(len(row)):
            j, value = row[position], np.float64(values[position])
            for c in range(width):
                step[c] += value * block[j, c]
        moving = _move(step, duals[q], codes[q] - first, slack[q], gains[q], active)
        if 8 * moving <= width:  # most classes are far from most rows, and nothing of theirs moves
            for position in range(len(row)):
                j, value = row[position], np.float64(values[position])
                for a in range(moving):
                    block[j, active[a]] += value * step[active[a]]
        else:
            for position in range(len(row)):
                j, value = row[position], np.float64(values[position])
                for c in range(width):
                    block[j, c] += value * step[c]
        for c in range(width):
            block[last, c] += bias * step[c]


@compiled
def _move(step: Float, dual: Any, own: int, slack: float, gain: float, active: Integer) -> int:
    """Move the dual variables of a row; turn its margins into what they move by, and return how many do.

    A dual variable has the sign of y: positive for the class of the row and negative for the others.
    """
    width = len(step)
    inside = 0 <= own < width
    margin = step[own] if inside else 0.0
    for c in range(width):
        old = np.float64(dual[c])
        step[c] = min(old - (step[c] + 1.0 + slack * old) * gain, 0.0)
    if inside:
        old = np.float64(dual[own])
        step[own] = max(old - (margin - 1.0 + slack * old) * gain, 0.0)
    for c in range(width):
        new = np.float32(step[c])
        step[c] = np.float64(new) - np.float64(dual[c])
        dual[c] = new
    count = 0
    for c in range(width):
        if step[c] != 0.0:
            active[count] = c
            count += 1
    return count
