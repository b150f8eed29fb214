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

from kampong._core.loops import Loop, part
from kampong.online.arithmetic import exponentials, logarithm, padded, update_inverse

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
        faded = settings.ridge * (1.0 - keep**size)  # of the ridge, since the last turn of a weight
        self._numbers = np.array([keep, faded, least])
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


@Loop
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
        for k in range(count):
            for m in range(answers):
                raw[k, m] = scores[m, i, k]
        _log_chances(factors, raw, i, count, least, chances, most, total, out)
        if learn[i] and code < count:
            _moments(raw, count, chances, total, mean, square)
            for m in range(answers):
                curvatures[m] = keep * curvatures[m] + (1.0 - keep) + square[m]
                step = factors[m] - (mean[m] - raw[code, m]) / curvatures[m]
                factors[m] = min(max(step, 0.5 * factors[m]), 2.0 * factors[m])


@part
def _log_chances(
    factors: Float, raw: Float, i: int, count: int, least: float, chances: Float, most: Float, total: Float, out: Float
) -> None:
    """Write the log-probabilities of row i, at least `least`, and probabilities times their `total`."""
    answers = len(factors)
    for m in range(answers):
        most[m], total[m] = -np.inf, 0.0
    for k in range(count):
        for m in range(answers):
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


@part
def _moments(raw: Float, count: int, chances: Float, total: Float, mean: Float, square: Float) -> None:
    """Write the mean and the variance of the scores of a row, by the probabilities that each answer gives."""
    answers = len(total)
    for m in range(answers):
        mean[m], square[m], total[m] = 0.0, 0.0, 1.0 / total[m]
    for k in range(count):
        for m in range(answers):
            chances[k * answers + m] *= total[m]
            mean[m] += chances[k * answers + m] * raw[k, m]
    for k in range(count):
        for m in range(answers):
            apart = raw[k, m] - mean[m]
            square[m] += chances[k * answers + m] * (apart * apart)


def shares_of(losses: Float) -> Float:
    """Return softmax(−losses) of each line."""
    powers = np.exp(losses.min(axis=-1, keepdims=True) - losses)
    shares: Float = powers / powers.sum(axis=-1, keepdims=True)
    return shares


@Loop
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
    answers, classes, rates, size = len(places), chances.shape[1], len(keeps), len(weights)
    shares, powers = np.zeros(padded(rates * (answers + 1))), np.zeros(padded(rates * classes))
    means, mixed, inputs = np.zeros((rates, classes)), np.zeros((1, classes)), np.zeros((classes, size))
    gradient, gain, back = np.zeros(size), np.zeros(size), np.zeros(size)
    keep, faded, least = numbers[0], numbers[1], numbers[2]
    for i in range(len(codes)):
        count, code = known[i], codes[i]
        if count == 0:
            continue
        for k in range(count):
            for m in range(answers):
                inputs[k, 1 + m] = chances[i, k, places[m]]
        _find_shares(losses, rate_losses, shares)
        _weighed_mean(shares, count, least, powers, means, mixed, inputs)
        for k in range(count):
            score = 0.0
            for m in range(size):
                score += weights[m] * inputs[k, m]
            mixed[0, k] = score
        total = log_softmax(mixed, count, powers)
        for k in range(count):
            out[i, k] = mixed[0, k]
        if learn[i] and code < count:
            _take_losses(losses, rate_losses, keeps, keep, means, inputs, code, least)
            for m in range(size):
                gradient[m] = -inputs[code, m]
            for k in range(count):
                chance = powers[k] / total
                for m in range(size):
                    gradient[m] += chance * inputs[k, m]
            _newton_step(weights, inverse, clock, gradient, keep, faded, gain, back)


@part
def _take_losses(
    losses: Float, rate_losses: Float, keeps: Float, keep: float, means: Float, inputs: Float, code: int, least: float
) -> None:
    """Let losses fade, and add what the row has cost each answer and each half-life."""
    for rate in range(len(keeps)):
        rate_losses[rate] = keep * rate_losses[rate] - max(means[rate, code], least)
        for m in range(losses.shape[1]):
            losses[rate, m] = keeps[rate] * losses[rate, m] - inputs[code, 1 + m]


@part
def log_softmax(scores: Float, count: int, powers: Float) -> float:
    """Subtract the logarithm of the sum of exponentials from the first scores of each line.

    Write exponentials of the scores less their greatest into `powers`, and return the sum of the last line.
    """
    total = 0.0
    for line in range(len(scores)):
        most = -np.inf
        for k in range(count):
            most = scores[line, k] if scores[line, k] > most else most
        for k in range(count):
            scores[line, k] -= most
            powers[line * count + k] = scores[line, k]
    exponentials(powers, len(scores) * count)
    for line in range(len(scores)):
        total = 0.0
        for k in range(count):
            total += powers[line * count + k]
        log_total = logarithm(total)
        for k in range(count):
            scores[line, k] -= log_total
    return total


@part
def _find_shares(losses: Float, rate_losses: Float, shares: Float) -> None:
    """Write exp(least − loss) of the answers at each half-life, and then of the half-lives."""
    rates, answers = losses.shape
    least = np.inf
    for rate in range(rates):
        least = rate_losses[rate] if rate_losses[rate] < least else least
    for rate in range(rates):
        shares[rates * answers + rate] = least - rate_losses[rate]
        low = np.inf
        for m in range(answers):
            low = losses[rate, m] if losses[rate, m] < low else low
        for m in range(answers):
            shares[rate * answers + m] = low - losses[rate, m]
    exponentials(shares, rates * (answers + 1))


@part
def _weighed_mean(
    shares: Float, count: int, least: float, powers: Float, means: Float, mixed: Float, inputs: Float
) -> None:
    """Write the answer of each half-life, and that of all of them, at least `least`, as the first input."""
    rates, answers, rate_total = len(means), inputs.shape[1] - 1, 0.0
    for rate in range(rates):
        rate_total += shares[rates * answers + rate]
        total = 0.0
        for m in range(answers):
            total += shares[rate * answers + m]
        for k in range(count):
            mean = 0.0
            for m in range(answers):
                mean += shares[rate * answers + m] * inputs[k, 1 + m]
            means[rate, k] = mean / total
    log_softmax(means, count, powers)
    for k in range(count):
        mean = 0.0
        for rate in range(rates):
            mean += shares[rates * answers + rate] * means[rate, k]
        mixed[0, k] = mean / rate_total
    log_softmax(mixed, count, powers)
    for k in range(count):
        inputs[k, 0] = max(mixed[0, k], least)


@part
def _newton_step(
    weights: Float,
    inverse: Float,
    clock: Integer,
    gradient: Float,
    keep: float,
    faded: float,
    gain: Float,
    back: Float,
) -> None:
    """Let the weights take a Newton step; the outer product of the gradient stands for its Hessian."""
    size = len(weights)
    place = clock[0] % size
    clock[0] += 1
    update_inverse(inverse, gradient, 1.0, keep, place, faded, gain, back)
    error = (1.0 if place == 0 else 0.0) - (weights[place] - gain[place])
    for m in range(size):
        weights[m] += error * back[m] - gain[m]
