"""Logistic regression trained: to the last digits where its numbers are few, by batches of rows where they are many."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._core.compute import PARTS, run, split
from kampong.heads.calibration import TINY

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

LARGE = 2**22
"""How many multiplications make a product large, which is then cut into parts."""

BENT = 4096
"""Rows of which a Hessian is made: that decides how quickly the answer is found, not what it is."""

MEMORY = 12
"""Steps of which a quasi-Newton method remembers what they have shown."""

BATCH = 128
"""Rows of a batch."""

RATE = 0.5
"""The first step by a batch, where the largest curvature of the loss at the start is the unit; the last one is none."""


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
        """Return the problem of this many of the rows at most, evenly drawn, where they weigh anything."""
        if len(self.rows) <= count:
            return self
        some = slice(None, None, -(-len(self.rows) // count))
        weight = float(self.weights[some].sum())
        if not weight > 0:
            return self
        return Problem(self.rows[some], self.codes[some], self.weights[some] / weight, self.pull)

    def with_pull(self, pull: Float) -> Problem:
        """Return the problem with another penalty."""
        return Problem(self.rows, self.codes, self.weights, pull)

    def chances(self, theta: Float, rows: Float) -> Float:
        """Return the probabilities of the classes of rows, (n, K)."""
        chances = rows @ theta.T
        chances -= chances.max(axis=1, keepdims=True)
        np.exp(chances, out=chances)
        chances /= chances.sum(axis=1, keepdims=True)
        return chances

    def hessian(self, theta: Float) -> Float:
        """Return the second derivatives of the loss along contrasts of the classes, ((K − 1) q, (K − 1) q)."""
        (K, q), n = theta.shape, len(self.rows)
        C, chances = contrasts(K), self.chances(theta, self.rows)
        if not theta[:, :-1].any():  # at the start all rows have the same probabilities
            same = C.T @ (np.diag(chances[0]) - np.outer(chances[0], chances[0])) @ C
            return np.kron(same, (self.rows.T * self.weights) @ self.rows)
        mean, matrix = chances @ C, np.empty(((K - 1) * q, (K - 1) * q))
        for a in range(K - 1):
            both = chances @ (C[:, a : a + 1] * C[:, a:]) - mean[:, a : a + 1] * mean[:, a:]
            both *= self.weights[:, None]
            block = self.rows.T @ (both[:, :, None] * self.rows[:, None, :]).reshape(n, -1)
            mine = slice(a * q, (a + 1) * q)
            matrix[mine, a * q :] = block
            matrix[a * q :, mine] = block.T
        return matrix

    def curvature(self, hessian: Float) -> tuple[Float, bool]:
        """Return the Hessian of loss and penalty, factored."""
        size = len(hessian)
        # A little more on the diagonal changes the steps, not where they end.
        lift = np.tile(self.pull, size // len(self.pull)) + 1e-9 * max(float(np.trace(hessian)), TINY) / size
        matrix = hessian.copy()
        matrix.flat[:: size + 1] += lift
        # LAPACK itself: for few numbers scipy's checks take longer
        factor, wrong = linalg.lapack.dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        if wrong:
            raise linalg.LinAlgError("the Hessian is not positive definite")
        return factor, False

    def left_out(self, theta: Float, factor: tuple[Float, bool], some: Integer, gone: Float) -> Float:
        """Return what rows would score without themselves, one Newton step from weights that know all rows.

        With J = I ⊗ x along contrasts, G = J H⁻¹ Jᵀ, W the second derivatives of the row's loss by its scores and g the
        first, a row that leaves moves its scores by (I − G W)⁻¹ G g: what the curvature H without the row would do.

        Parameters
        ----------
        theta : array of shape (K, q)
            The weights of least loss.
        factor : tuple
            The curvature there.
        some : array of int of shape (m,)
            The rows.
        gone : array of shape (m,)
            What share of its weight leaves with each.

        Returns
        -------
        array of shape (m, K)
            The scores.
        """
        (K, q), rows = theta.shape, self.rows[some]
        C, chances, m = contrasts(K), self.chances(theta, rows), len(some)
        inverse, _ = linalg.lapack.dpotri(factor[0], lower=factor[1])  # its upper half
        spread = np.empty((K - 1, K - 1, m))
        for a in range(K - 1):
            mine = inverse[a * q : (a + 1) * q, a * q :]
            mine[:, :q] = np.triu(mine[:, :q]) + np.triu(mine[:, :q], 1).T
            moved = (rows @ mine).reshape(m, K - 1 - a, q)
            spread[a, a:] = spread[a:, a] = np.einsum("mkq,mq->km", moved, rows)
        weights = self.weights[some] * gone
        weighed = np.ascontiguousarray(spread.transpose(2, 0, 1)) * weights[:, None, None]
        error = chances.copy()
        error[np.arange(m), self.codes[some]] -= 1.0
        mean = chances @ C
        curvature = (chances @ (C[:, :, None] * C[:, None, :]).reshape(K, -1)).reshape(m, K - 1, K - 1)
        curvature -= mean[:, :, None] * mean[:, None, :]
        system = np.eye(K - 1) - np.matmul(weighed, curvature)
        shift = np.matmul(weighed, (error @ C)[:, :, None])
        return np.asarray(rows @ theta.T + np.linalg.solve(system, shift)[..., 0] @ C.T)


@cache
def contrasts(K: int) -> Float:
    """Return orthonormal columns that sum to zero, (K, K − 1): the weights of least loss and penalty do so too."""
    return np.ascontiguousarray(linalg.helmert(K).T)


def settle(
    problem: Problem, theta: Float, *, fresh: bool, gain: float, most: int, hessian: Float | None = None
) -> tuple[Float, Float]:
    """Return the weights of least loss: Newton steps, or quasi-Newton steps from a Hessian that few of the rows show.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    theta : array of shape (K, q)
        Where to start.
    fresh : bool
        Whether the start may be far away: then few of the rows show the way first.
    gain : float
        It ends with a step that would gain less.
    most : int
        The most steps.
    hessian : array, optional
        That of the loss at the start, if it is known.

    Returns
    -------
    theta : array of shape (K, q)
        The weights.
    hessian : array of shape ((K − 1) q, (K − 1) q)
        The last Hessian of the loss that was used; near the weights from a fresh start.
    """
    few, theta = problem.few(BENT), theta - theta.mean(axis=0)
    if fresh and len(problem.rows) * theta.size**2 > LARGE:
        # the answer bends otherwise than the start, so its Hessian is taken again where this ends
        theta, _ = _descend(few, theta, few.hessian(theta) if hessian is None else hessian, 1e-4, most)
        hessian = None
    return _descend(problem, theta, few.hessian(theta) if hessian is None else hessian, gain, most)


def _descend(problem: Problem, theta: Float, hessian: Float, gain: float, most: int) -> tuple[Float, Float]:
    """Go down by Newton's method where a Hessian costs little, else by L-BFGS that begins with a given one.

    It returns the weights and the last Hessian.
    """
    factor = problem.curvature(hessian)
    known: list[tuple[Float, Float, float]] = []
    exact, C = len(problem.rows) * theta.size**2 <= LARGE, contrasts(len(theta))
    goal, slope = problem.both(theta)
    for _ in range(most):
        step, shares = slope.ravel().copy(), []
        for move, change, product in reversed(known):
            shares.append(float(move @ step) / product)
            step -= shares[-1] * change
        inner: Float = linalg.lapack.dpotrs(factor[0], (C.T @ step.reshape(theta.shape)).ravel(), lower=factor[1])[0]
        step = (C @ inner.reshape(-1, theta.shape[1])).ravel()
        for (move, change, product), share in zip(known, reversed(shares), strict=True):
            step += (share - float(change @ step) / product) * move
        fall, turned = float(slope.ravel() @ step), step.reshape(theta.shape)
        if fall < gain:
            return theta - turned, hessian
        length, new = 1.0, problem.both(theta - turned)
        while new[0] > goal - 1e-4 * length * fall + 1e-15 and length > 1e-4:
            length /= 2
            new = problem.both(theta - length * turned)
        theta = theta - length * turned
        if exact:
            hessian = problem.hessian(theta)
            factor = problem.curvature(hessian)
        else:
            move, change = -length * step, (new[1] - slope).ravel()
            product = float(move @ change)
            if product > 0:
                known = [*known[1 - MEMORY :], (move, change, product)]
        goal, slope = new
    return theta, hessian


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
