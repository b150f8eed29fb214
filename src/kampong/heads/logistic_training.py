"""Logistic regression trained: to the last digits where its numbers are few, by batches of rows where they are many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._core.compute import run, split
from kampong.heads.calibration import TINY

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

PARTS, LARGE = 4, 2**22
"""Into how many parts a large product is cut, and how many multiplications make it large."""

BENT = 4096
"""Rows that say how the loss bends: that decides how quickly the answer is found, not what it is."""

MEMORY = 12
"""Steps of which a quasi-Newton method remembers what they have shown."""

BATCH = 128
"""Rows of a batch."""

RATE = 0.5
"""The first step by a batch, where the largest bend of the loss at the start is the unit; the last one is none."""


class Problem:
    """The mean log-loss of a linear model and a penalty, and the slope of both.

    Parameters
    ----------
    rows : array of shape (n, q)
        Coordinates, and ones for the offset.
    codes : array of int of shape (n,)
        Classes.
    weights : array of shape (n,)
        Weights of the rows, one in all.
    pull : array of shape (q,)
        The penalty along each coordinate.
    """

    def __init__(self, rows: Float, codes: Integer, weights: Float, pull: Float) -> None:
        self.rows, self.codes, self.weights, self.pull = rows, codes, weights, pull
        self.places = np.arange(len(rows))

    def both(self, theta: Float) -> tuple[float, Float]:
        """Return the value and its slope, a part of the rows a thread: BLAS may be held to one."""
        parts = split(len(self.rows), PARTS if self.rows.shape[0] * theta.size > LARGE else 1)
        values, slopes = np.zeros(len(parts)), np.zeros((len(parts), *theta.shape))

        def work(number: int, start: int, stop: int) -> None:
            rows, w = self.rows[start:stop], self.weights[start:stop]
            places, codes = self.places[: stop - start], self.codes[start:stop]
            # classes before rows: sums over classes then run along rows
            scores = theta @ rows.T
            scores -= scores.max(axis=0)
            mine = scores[codes, places]
            np.exp(scores, out=scores)
            mass = scores.sum(axis=0)
            values[number] = w @ (np.log(mass) - mine)
            scores *= w / mass
            scores[codes, places] -= w
            np.matmul(scores, rows, out=slopes[number])

        run(work, [(number, *part) for number, part in enumerate(parts)])
        loss = float(values.sum()) + 0.5 * float((self.pull * theta * theta).sum())
        return loss, slopes.sum(axis=0) + self.pull * theta

    def few(self, count: int) -> Problem:
        """Return the problem of so many of the rows at most, evenly drawn, where they weigh anything."""
        some = slice(None, None, -(-len(self.rows) // count))
        weight = float(self.weights[some].sum())
        if not weight > 0:
            return self
        return Problem(self.rows[some], self.codes[some], self.weights[some] / weight, self.pull)

    def bend(self, theta: Float) -> tuple[Float, bool]:
        """Return the factored matrix of second derivatives."""
        K, q = theta.shape
        chances = self.rows @ theta.T
        chances -= chances.max(axis=1, keepdims=True)
        np.exp(chances, out=chances)
        chances /= chances.sum(axis=1, keepdims=True)
        each = (np.sqrt(self.weights)[:, None] * chances)[:, :, None] * self.rows[:, None, :]
        flat = each.reshape(len(each), K * q)
        matrix = -(flat.T @ flat)
        for k in range(K):
            mine = slice(k * q, (k + 1) * q)
            matrix[mine, mine] += (self.rows * (self.weights * chances[:, k])[:, None]).T @ self.rows
        # A little more on the diagonal changes the steps, not where they end.
        lift = np.tile(self.pull, K) + 1e-6 * max(float(np.trace(matrix)), TINY) / (K * q)
        matrix.flat[:: K * q + 1] += lift
        factor: tuple[Float, bool] = linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        return factor


def settle(problem: Problem, theta: Float, *, fresh: bool, gain: float, most: int) -> Float:
    """Return the weights of least loss: quasi-Newton steps from the bend that few of the rows show.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    theta : array of shape (K, q)
        Where to start.
    fresh : bool
        Whether the start may be far away: then few of the rows show the way first.
    gain : float
        It ends where a step would gain less.
    most : int
        The most steps.

    Returns
    -------
    array of shape (K, q)
        The weights.
    """
    few = problem.few(BENT)
    if fresh:
        theta = _descend(few, theta, few.bend(theta), 1e-4, most)
    return _descend(problem, theta, few.bend(theta), gain, most)


def _descend(problem: Problem, theta: Float, factor: tuple[Float, bool], gain: float, most: int) -> Float:
    """Go down by L-BFGS, with a factored matrix of second derivatives to begin from."""
    known: list[tuple[Float, Float, float]] = []
    goal, slope = problem.both(theta)
    for _ in range(most):
        step, shares = slope.ravel().copy(), []
        for move, change, product in reversed(known):
            shares.append(float(move @ step) / product)
            step -= shares[-1] * change
        step = linalg.cho_solve(factor, step, check_finite=False)
        for (move, change, product), share in zip(known, reversed(shares), strict=True):
            step += (share - float(change @ step) / product) * move
        fall = float(slope.ravel() @ step)
        if fall < gain:
            break
        length, turned = 1.0, step.reshape(theta.shape)
        new = problem.both(theta - turned)
        while new[0] > goal - 1e-4 * length * fall + 1e-15 and length > 1e-4:
            length /= 2
            new = problem.both(theta - length * turned)
        move, change = -length * step, (new[1] - slope).ravel()
        product = float(move @ change)
        if product > 0:
            known = [*known[1 - MEMORY :], (move, change, product)]
        theta = theta - length * turned
        goal, slope = new
    return theta


def by_batches(
    rows: Float, codes: Integer, own: Float, pull: Float, theta: Float, passes: int, share: float = 1.0
) -> Float:
    """Return the weights after some passes over the rows, a step for each batch; steps shrink to nothing.

    Where rows are many and classes too, few passes come as near to the answer as many steps by all rows would. Batches
    are rows that stand together, so their order must tell nothing of their classes.

    Parameters
    ----------
    rows : array of shape (n, p)
        Coordinates.
    codes : array of int of shape (n,)
        Classes.
    own : array of shape (n,)
        Weights.
    pull : array of shape (p + 1,)
        The penalty along each coordinate, and on the offset.
    theta : array of shape (K, p + 1)
        Where to start; the offset stands last.
    passes : int
        How many passes.
    share : float
        The first step, as a part of the usual one.

    Returns
    -------
    array of shape (K, p + 1)
        The weights.
    """
    n, theta = len(rows), theta.copy()
    parts = split(n, max(1, round(n / BATCH)))
    size = n / len(parts)
    weights = own / (own.sum() / len(parts))
    step = share * RATE / _largest_bend(rows, codes, weights, size, theta)
    places, total, done = np.arange(int(size) + 1), passes * len(parts), 0
    halves = 2 if theta.size * BATCH > LARGE // 2 else 1
    slopes: Float = np.empty((halves, *theta.shape))

    def work(number: int, start: int, stop: int) -> None:
        some, w, slope = rows[start:stop], weights[start:stop], slopes[number]
        scores = theta[:, :-1] @ some.T
        scores += theta[:, -1:]
        scores -= scores.max(axis=0)
        np.exp(scores, out=scores)
        scores *= w / scores.sum(axis=0)
        scores[codes[start:stop], places[: stop - start]] -= w
        np.matmul(scores, some, out=slope[:, :-1])
        slope[:, -1] = scores.sum(axis=1)

    for _ in range(passes):
        for start, stop in parts:
            middle = (start + stop) // 2
            run(work, [(0, start, middle), (1, middle, stop)] if halves == 2 else [(0, start, stop)])
            length = step * (1.0 - done / total)
            theta *= 1.0 - length * pull
            for slope in slopes:
                slope *= length
                theta -= slope
            done += 1
    return theta


def _largest_bend(rows: Float, codes: Integer, weights: Float, size: float, theta: Float) -> float:
    """Return how much the loss of a batch bends at most where nothing is known but the priors."""
    priors = np.bincount(codes, weights=weights, minlength=len(theta))
    priors = priors / priors.sum()
    some = rows[: int(size)] * np.sqrt(weights[: int(size)])[:, None]
    largest = float(linalg.eigvalsh(some @ some.T, check_finite=False)[-1])
    heaviest = float((weights * np.einsum("ij,ij->i", rows, rows)).max())
    return max(float((priors * (1.0 - priors)).max()) * max(largest, heaviest, 1.0), TINY)
