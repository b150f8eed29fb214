"""How the answers of the members become one: calibrated, weighed by their recent losses, and weighed together.

Every answer is a line of scores per row. Three steps follow, each of which learns from the row after it was predicted:

1. `calibrate`: log p_m = a_m·score, normalised. The factor a_m follows the log-loss of the answer by Newton steps.
2. `pool`: for each half-life h, L_hm is the log-loss of answer m, halved every h rows, and the weights are
   softmax(−L_h). The mean of log-probabilities with these weights, normalised, is the answer of h. The answers of all h
   are weighed in the same way by their own losses. No half-life has to be chosen.
3. Also in `pool`: the answer is exp(w₀·log p + Σ w_m·log p_m), normalised, where p is the result of step 2. The weights
   start at w₀ = 1, w_m = 0, and follow the log-loss by Newton steps with a ridge towards their start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong._core.compute import vectorised
from kampong.online.arithmetic import exponential, exponentials, logarithm, padded, update_inverse

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents
    from kampong.online.settings import Settings

BELOW = ("losses", "rate_losses", "clock")
"""What is never below 0."""


class PoolState(NamedTuple):
    """What a pool remembers.

    Attributes
    ----------
    losses : array of shape (half-lives, answers)
        The log-loss of each answer, at each half-life.
    rate_losses : array of shape (half-lives,)
        The log-loss of the answer of each half-life.
    weights : array of shape (1 + answers,)
        The weights of step 3, that of the weighed mean first.
    inverse : array of shape (1 + answers, 1 + answers)
        The inverse of the Hessian of these weights.
    clock : array of int of shape (1,)
        How many rows were learnt.
    """

    losses: Float
    rate_losses: Float
    weights: Float
    inverse: Float
    clock: Integer


class Pool:
    """Steps 2 and 3 for some answers.

    Parameters
    ----------
    settings : Settings
        The numbers of the contest.
    names : list of str
        The names of the answers.
    """

    def __init__(self, settings: Settings, names: list[str]) -> None:
        self.settings, self.names = settings, names
        rates, size = len(settings.loss_half_lives), 1 + len(names)
        self._keeps = 2.0 ** (-1.0 / np.array(settings.loss_half_lives))
        keep, least = 2.0 ** (-1.0 / settings.half_life), np.log(settings.least_chance)
        self._numbers = np.array([keep, settings.ridge, least])
        self.state = PoolState(
            np.zeros((rates, size - 1)),
            np.zeros(rates),
            np.eye(1, size)[0],
            np.eye(size) / settings.ridge,
            np.zeros(1, dtype=np.int64),
        )

    def own(self) -> None:
        """Copy all arrays, so that they can be written."""
        self._keeps, self._numbers = self._keeps.copy(), self._numbers.copy()
        losses, rate_losses, weights, inverse, clock = self.state
        self.state = PoolState(losses.copy(), rate_losses.copy(), weights.copy(), inverse.copy(), clock.copy())

    def with_names(self, names: list[str]) -> Pool:
        """Return the pool of other answers; one that was not here starts with the highest loss."""
        new, old = Pool(self.settings, names), self.state
        kept = [place for place, name in enumerate(names) if name in self.names]
        if not kept:
            return new
        held = [self.names.index(names[place]) for place in kept]
        state = new.state
        state.losses[:] = old.losses.max(axis=1, keepdims=True)
        state.losses[:, kept] = old.losses[:, held]
        state.rate_losses[:], state.clock[:] = old.rate_losses, old.clock
        into, out = np.array([-1, *kept]) + 1, np.array([-1, *held]) + 1
        state.weights[into] = old.weights[out]
        state.inverse[np.ix_(into, into)] = old.inverse[np.ix_(out, out)]
        return new

    def member_weights(self) -> dict[str, float]:
        """Return how much each answer counts in the weighed mean of step 2."""
        total = shares_of(self.state.rate_losses) @ shares_of(self.state.losses)
        return dict(zip(self.names, total.tolist(), strict=True))

    def recent_loss(self, name: str) -> tuple[float, float]:
        """Return the mean recent loss of an answer, and how many rows it is of; 0 and 0 before any.

        Parameters
        ----------
        name : str
            The answer. Its loss is the one that is forgotten most slowly.

        Returns
        -------
        tuple of float
            The mean of −log p, and the sum of the weights of the rows.
        """
        keep, state = float(self._keeps.max()), self.state
        rows = (1.0 - keep ** int(state.clock[0])) / (1.0 - keep)
        if name not in self.names or not rows:
            return 0.0, 0.0
        return float(state.losses[int(np.argmax(self._keeps)), self.names.index(name)]) / rows, rows

    def step(self, chances: Float, places: Integer, codes: Integer, known: Integer, learn: np.ndarray) -> Float:
        """Return the log-probabilities of rows from those of the answers at some places, and learn each row after it.

        Parameters
        ----------
        chances : array of shape (rows, classes, answers)
            Calibrated log-probabilities.
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
        out = np.full(chances.shape[:2], -np.inf)
        _pool(*self.state, chances, places, codes, known, learn, self._keeps, self._numbers, out)
        return out

    def to_state(self) -> dict[str, Any]:
        """Return everything as named arrays."""
        return {name: array.copy() for name, array in self.state._asdict().items()}

    def from_state(self, contents: Contents) -> None:
        """Take back what `to_state` wrote, each value checked."""
        found = {
            name: contents.array(name, array.dtype, array.shape, low=0 if name in BELOW else None).copy()
            for name, array in self.state._asdict().items()
        }
        contents.finish()
        self.state = PoolState(**found)


@vectorised
def calibrate(
    factors: Float,
    curvatures: Float,
    scores: Float,
    codes: Integer,
    known: Integer,
    learn: np.ndarray,
    keep: float,
    least: float,
    out: Float,
) -> None:
    """Turn scores, (answers, rows, classes), into log-probabilities of at least `least`, (rows, classes, answers).

    Loops over the answers are innermost, because there are more of them than classes in most streams.
    """
    answers = len(factors)
    raw, chances = np.zeros((scores.shape[2], answers)), np.zeros(padded(scores.shape[2] * answers))
    most, total, mean, square = np.zeros(answers), np.zeros(answers), np.zeros(answers), np.zeros(answers)
    for i in range(len(codes)):
        count, code = known[i], codes[i]
        if count == 0:
            continue
        for m in range(answers):
            most[m], total[m] = -np.inf, 0.0
        for k in range(count):
            for m in range(answers):
                raw[k, m] = scores[m, i, k]
                out[i, k, m] = factors[m] * raw[k, m]
                most[m] = out[i, k, m] if out[i, k, m] > most[m] else most[m]
        for k in range(count):
            for m in range(answers):
                out[i, k, m] -= most[m]
                chances[k * answers + m] = out[i, k, m]
        exponentials(chances, count * answers)
        for k in range(count):
            for m in range(answers):
                total[m] += chances[k * answers + m]
        for m in range(answers):
            most[m] = logarithm(total[m])
        for k in range(count):
            for m in range(answers):
                out[i, k, m] = out[i, k, m] - most[m] if out[i, k, m] - most[m] > least else least
        if learn[i] and code < count:
            for m in range(answers):
                mean[m], square[m], total[m] = 0.0, 0.0, 1.0 / total[m]
            for k in range(count):  # the moments of the scores, by the probabilities that each answer gives
                for m in range(answers):
                    chances[k * answers + m] *= total[m]
                    mean[m] += chances[k * answers + m] * raw[k, m]
            for k in range(count):
                for m in range(answers):
                    square[m] += chances[k * answers + m] * (raw[k, m] - mean[m]) ** 2
            for m in range(answers):
                curvatures[m] = keep * curvatures[m] + (1.0 - keep) + square[m]
                step = factors[m] - (mean[m] - raw[code, m]) / curvatures[m]
                factors[m] = min(max(step, 0.5 * factors[m]), 2.0 * factors[m])


def shares_of(losses: Float) -> Float:
    """Return softmax(−losses) of each line."""
    found: Float = np.exp(losses.min(axis=-1, keepdims=True) - losses)
    return found / found.sum(axis=-1, keepdims=True)


@vectorised
def _pool(
    losses: Float,
    rate_losses: Float,
    weights: Float,
    inverse: Float,
    clock: Integer,
    chances: Float,
    places: Integer,
    codes: Integer,
    known: Integer,
    learn: np.ndarray,
    keeps: Float,
    numbers: Float,
    out: Float,
) -> None:
    keep, ridge, least = numbers[0], numbers[1], numbers[2]
    answers, classes, rates, size = len(places), chances.shape[1], len(keeps), len(weights)
    shares, powers = np.zeros(padded(rates * (answers + 1))), np.zeros(padded(rates * classes))
    means, mixed, inputs = np.zeros((rates, classes)), np.zeros(classes), np.zeros((classes, size))
    gradient, gain, back = np.zeros(size), np.zeros(size), np.zeros(size)
    faded = ridge * (1.0 - keep**size)
    for i in range(len(codes)):
        count, code = known[i], codes[i]
        if count == 0:
            continue
        for k in range(count):
            for m in range(answers):
                inputs[k, 1 + m] = chances[i, k, places[m]]
        _weighed_mean(losses, rate_losses, count, least, shares, powers, means, mixed, inputs)
        most = -np.inf
        for k in range(count):
            mixed[k] = 0.0
            for m in range(size):
                mixed[k] += weights[m] * inputs[k, m]
            most = mixed[k] if mixed[k] > most else most
        for k in range(count):
            mixed[k] -= most
            powers[k] = mixed[k]
        exponentials(powers, count)
        total = 0.0
        for k in range(count):
            total += powers[k]
        log_total = logarithm(total)
        for k in range(count):
            out[i, k] = mixed[k] - log_total
        if not learn[i] or code >= count:
            continue
        for rate in range(rates):
            rate_losses[rate] = keep * rate_losses[rate] - max(means[rate, code], least)
            for m in range(answers):
                losses[rate, m] = keeps[rate] * losses[rate, m] - inputs[code, 1 + m]
        for m in range(size):
            gradient[m] = -inputs[code, m]
        for k in range(count):
            chance = powers[k] / total
            for m in range(size):
                gradient[m] += chance * inputs[k, m]
        # A Newton step of the weights; the outer product of the gradient stands for its Hessian.
        place = clock[0] % size
        clock[0] += 1
        update_inverse(inverse, gradient, 1.0, keep, place, faded, gain, back)
        error = (1.0 if place == 0 else 0.0) - (weights[place] - gain[place])
        for m in range(size):
            weights[m] += error * back[m] - gain[m]


@vectorised
def _weighed_mean(
    losses: Float,
    rate_losses: Float,
    count: int,
    least: float,
    shares: Float,
    powers: Float,
    means: Float,
    mixed: Float,
    inputs: Float,
) -> None:
    """Write the answer of each half-life, and that of all of them, at least `least`, as the first input."""
    rates, answers = losses.shape
    lowest = np.inf
    for rate in range(rates):
        lowest = rate_losses[rate] if rate_losses[rate] < lowest else lowest
    for rate in range(rates):
        shares[rates * answers + rate] = lowest - rate_losses[rate]
        low = np.inf
        for m in range(answers):
            low = losses[rate, m] if losses[rate, m] < low else low
        for m in range(answers):
            shares[rate * answers + m] = low - losses[rate, m]
    exponentials(shares, rates * (answers + 1))
    rate_total = 0.0
    for rate in range(rates):
        rate_total += shares[rates * answers + rate]
        total, most = 0.0, -np.inf
        for m in range(answers):
            total += shares[rate * answers + m]
        for k in range(count):
            mean = 0.0
            for m in range(answers):
                mean += shares[rate * answers + m] * inputs[k, 1 + m]
            means[rate, k] = mean / total
            most = means[rate, k] if means[rate, k] > most else most
        for k in range(count):
            means[rate, k] -= most
            powers[rate * count + k] = means[rate, k]
    exponentials(powers, rates * count)
    for k in range(count):
        mixed[k] = 0.0
    for rate in range(rates):
        total, share = 0.0, shares[rates * answers + rate] / rate_total
        for k in range(count):
            total += powers[rate * count + k]
        log_total = logarithm(total)
        for k in range(count):
            means[rate, k] -= log_total
            mixed[k] += share * means[rate, k]
    most, total = -np.inf, 0.0
    for k in range(count):
        most = mixed[k] if mixed[k] > most else most
    for k in range(count):
        powers[k] = mixed[k] - most
    exponentials(powers, count)
    for k in range(count):
        total += powers[k]
    most += logarithm(total)
    for k in range(count):
        inputs[k, 0] = max(mixed[k] - most, least)
