"""How the answers of the members become one: shares that follow the chances they gave, and a regression.

Every answer is a line of scores per row. `log_chances` makes log-probabilities of it, log p_m. Two steps follow, each
of which learns from the row after it was predicted:

1. The answers are weighed by shares: p = Σ s_m·p_m. A row multiplies each share by the chance that the answer gave to
   its class, and the shares are normalised. Then a small part of each is dealt out to all answers equally, so that one
   that was wrong for long is back soon after a change. That part is what a weight loses per row at `half_life`.
2. The answer is exp(w₀·log p + Σ w_m·log p_m), normalised. The weights start at w₀ = 1, w_m = 0, and follow the
   log-loss by Newton steps with a ridge towards their start.

References
----------
Herbster and Warmuth, Tracking the best expert, Machine Learning 32, 1998 (fixed share: step 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong._core.loops import Loop, part, small
from kampong.online.arithmetic import add_ridge_to_inverse, add_to_inverse, exponentials, logarithm, padded

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents
    from kampong.online.settings import Settings

TURN = 8
"""Rows from one weight that gets its ridge back to the next."""

BELOW = ("shares", "losses", "clock")
"""What is never below 0."""


class PoolState(NamedTuple):
    """What a pool remembers.

    Attributes
    ----------
    shares : array of shape (answers,)
        How much each answer counts in step 1; they add up to 1.
    losses : array of shape (answers,)
        The log-loss of each answer, with rows forgotten at the half-life.
    weights : array of shape (1 + answers,)
        The weights of step 2, that of the weighed mean first.
    inverse : array of shape (1 + answers, 1 + answers)
        The inverse of the Hessian of these weights.
    clock : array of int of shape (1,)
        How many rows were learnt.
    """

    shares: Float
    losses: Float
    weights: Float
    inverse: Float
    clock: Integer


class Pool:
    """Both steps for some answers.

    Parameters
    ----------
    settings : Settings
        The numbers of the contest.
    names : list of str
        The names of the answers.
    """

    def __init__(self, settings: Settings, names: list[str]) -> None:
        self.settings, self.names = settings, names
        size = 1 + len(names)
        self._keep = 2.0 ** (-1.0 / settings.half_life)
        faded = settings.ridge * (1.0 - self._keep ** (TURN * size))  # of the ridge, since the last turn of a weight
        self._numbers = np.array([self._keep, faded])
        self.state = PoolState(
            np.full(size - 1, 1.0 / max(size - 1, 1)),
            np.zeros(size - 1),
            np.eye(1, size)[0],
            np.eye(size) / settings.ridge,
            np.zeros(1, dtype=np.int64),
        )

    def own(self) -> None:
        """Copy all arrays, so that they can be written."""
        self._numbers = self._numbers.copy()
        shares, losses, weights, inverse, clock = self.state
        self.state = PoolState(shares.copy(), losses.copy(), weights.copy(), inverse.copy(), clock.copy())

    def with_names(self, names: list[str]) -> Pool:
        """Return the pool of other answers; one that was not here starts with the least share and the highest loss."""
        new, old = Pool(self.settings, names), self.state
        kept = [place for place, name in enumerate(names) if name in self.names]
        if not kept:
            return new
        held = [self.names.index(names[place]) for place in kept]
        state = new.state
        state.shares[:], state.losses[:] = old.shares.min(), old.losses.max()
        state.shares[kept], state.losses[kept] = old.shares[held], old.losses[held]
        state.shares[:] /= state.shares.sum()
        state.clock[:] = old.clock
        into, out = np.array([-1, *kept]) + 1, np.array([-1, *held]) + 1
        state.weights[into] = old.weights[out]
        state.inverse[np.ix_(into, into)] = old.inverse[np.ix_(out, out)]
        return new

    def member_weights(self) -> dict[str, float]:
        """Return how much each answer counts in the weighed mean of step 1."""
        return dict(zip(self.names, self.state.shares.tolist(), strict=True))

    def recent_loss(self, name: str) -> tuple[float, float]:
        """Return the mean recent loss of an answer, and how many rows it is of; 0 and 0 before any.

        Parameters
        ----------
        name : str
            The answer.

        Returns
        -------
        tuple of float
            The mean of −log p, and the sum of the weights of the rows.
        """
        rows = (1.0 - self._keep ** int(self.state.clock[0])) / (1.0 - self._keep)
        if name not in self.names or not rows:
            return 0.0, 0.0
        return float(self.state.losses[self.names.index(name)]) / rows, rows

    def step(
        self, logs: Float, chances: Float, places: Integer, codes: Integer, known: Integer, learn: np.ndarray
    ) -> Float:
        """Return the log-probabilities of rows from those of the answers at some places, and learn each row after it.

        Parameters
        ----------
        logs, chances : arrays of shape (rows, classes, answers)
            What `log_chances` wrote.
        places : array of int
            The answers that count here.
        codes, known : arrays of int of shape (rows,)
            The class of each row, and how many classes had come before it.
        learn : array of bool of shape (rows,)
            Whether the row is learnt.

        Returns
        -------
        array of shape (rows, classes)
            Log-probabilities; −∞ for a class that had not come.
        """
        out = np.full(logs.shape[:2], -np.inf)
        _pool(*self.state, logs, chances, places, codes, known, learn, self._numbers, out)
        return out

    def to_state(self) -> dict[str, Any]:
        """Return everything as named arrays."""
        return {name: array.copy() for name, array in self.state._asdict().items()}

    def from_state(self, contents: Contents) -> None:
        """Take back what `to_state` wrote, each value checked."""
        contents.require("shares" in contents, "its contest is of an earlier version. Learn the rows again")
        found = {
            name: contents.array(name, array.dtype, array.shape, low=0 if name in BELOW else None).copy()
            for name, array in self.state._asdict().items()
        }
        contents.finish()
        self.state = PoolState(**found)


@Loop
def log_chances(scores: Float, known: Integer, floor: float, least: float, logs: Float, chances: Float) -> None:
    """Turn scores, (answers, rows, classes), into probabilities and their logarithms, (rows, classes, answers).

    A probability is at least `floor`, whose logarithm is `least`. Loops over the answers are innermost, because there
    are more of them than classes in most streams.
    """
    answers = len(scores)
    powers = np.zeros(padded(scores.shape[2] * answers))
    most, total = np.zeros(padded(answers)), np.zeros(padded(answers))
    for i in range(len(known)):
        count = known[i]
        if count == 0:
            continue
        _most(scores, i, count, most)
        for k in range(count):
            for m in range(answers):
                logs[i, k, m] = scores[m, i, k] - most[m]
                powers[k * answers + m] = logs[i, k, m]
        exponentials(powers, count * answers)
        for m in range(answers):
            total[m] = 0.0
        for k in range(count):
            for m in range(answers):
                total[m] += powers[k * answers + m]
        for m in range(len(total)):  # whole vectors
            most[m], total[m] = logarithm(total[m]), 1.0 / total[m]
        for k in range(count):
            for m in range(answers):
                chance = powers[k * answers + m] * total[m]
                chances[i, k, m] = chance if chance > floor else floor
                logs[i, k, m] = logs[i, k, m] - most[m] if logs[i, k, m] - most[m] > least else least


@small
def _most(scores: Float, i: int, count: int, out: Float) -> None:
    """Write the highest score of each answer for a row."""
    for m in range(len(scores)):
        out[m] = scores[m, i, 0]
    for k in range(1, count):
        for m in range(len(scores)):
            out[m] = scores[m, i, k] if scores[m, i, k] > out[m] else out[m]


@Loop
def _pool(
    shares: Float,
    losses: Float,
    weights: Float,
    inverse: Float,
    clock: Integer,
    logs: Float,
    chances: Float,
    places: Integer,
    codes: Integer,
    known: Integer,
    learn: np.ndarray,
    numbers: Float,
    out: Float,
) -> None:
    answers, classes, size = len(places), logs.shape[1], len(weights)
    powers, inputs = np.zeros(padded(classes)), np.zeros((classes, size))
    gradient, gain = np.zeros(size), np.zeros(size)
    keep, faded = numbers[0], numbers[1]
    for i in range(len(codes)):
        count, code = known[i], codes[i]
        if count == 0:
            continue
        for k in range(count):
            mean, score = 0.0, 0.0
            for m in range(answers):
                inputs[k, 1 + m] = logs[i, k, places[m]]
                mean += shares[m] * chances[i, k, places[m]]
                score += weights[1 + m] * inputs[k, 1 + m]
            inputs[k, 0] = logarithm(mean)
            out[i, k] = score + weights[0] * inputs[k, 0]
        total = _log_softmax(out[i], count, powers)
        if learn[i] and code < count:
            _share(shares, chances[i, code], places, keep)
            for m in range(answers):
                losses[m] = keep * losses[m] - inputs[code, 1 + m]
            for m in range(size):
                gradient[m] = -inputs[code, m]
            for k in range(count):
                chance = powers[k] / total
                for m in range(size):
                    gradient[m] += chance * inputs[k, m]
            _newton_step(weights, inverse, clock, gradient, keep, faded, gain)


@small
def _log_softmax(scores: Float, count: int, powers: Float) -> float:
    """Subtract the logarithm of the sum of exponentials; `powers` get shares of the total that is returned."""
    most, total = scores[0], 0.0
    for k in range(1, count):
        most = scores[k] if scores[k] > most else most
    for k in range(count):
        scores[k] -= most
        powers[k] = scores[k]
    exponentials(powers, count)
    for k in range(count):
        total += powers[k]
    log_total = logarithm(total)
    for k in range(count):
        scores[k] -= log_total
    return total


@part
def _share(shares: Float, chances: Float, places: Integer, keep: float) -> None:
    """Multiply each share by the chance that its answer gave to the class, and deal out a part to all equally."""
    total, even = 0.0, (1.0 - keep) / len(shares)
    for m in range(len(shares)):
        shares[m] *= chances[places[m]]
        total += shares[m]
    for m in range(len(shares)):
        shares[m] = keep * (shares[m] / total) + even


@part
def _newton_step(
    weights: Float, inverse: Float, clock: Integer, gradient: Float, keep: float, faded: float, gain: Float
) -> None:
    """Let the weights take a Newton step; the outer product of the gradient stands for its Hessian.

    The ridge would fade with the rows. It is given back in turns, one weight at a time.
    """
    add_to_inverse(inverse, gradient, 1.0, keep, gain)
    for m in range(len(weights)):
        weights[m] -= gain[m]
    if clock[0] % TURN == 0:
        place = clock[0] // TURN % len(weights)
        add_ridge_to_inverse(inverse, place, faded, gain)
        error = (1.0 if place == 0 else 0.0) - weights[place]
        for m in range(len(weights)):
            weights[m] += error * gain[m]
    clock[0] += 1
