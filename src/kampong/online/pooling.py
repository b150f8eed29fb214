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

from kampong._core.compute import compiled
from kampong.online.members.member import restore_ridge, update_inverse

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
        self.state = PoolState(**{name: array.copy() for name, array in self.state._asdict().items()})

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
        state, total = self.state, np.zeros(len(self.names))
        rates, shares = np.zeros(len(state.rate_losses)), np.zeros(len(self.names))
        shares_of(state.rate_losses, rates)
        for rate in range(len(rates)):
            shares_of(state.losses[rate], shares)
            total += rates[rate] * shares
        return dict(zip(self.names, total.tolist(), strict=True))

    def step(self, chances: Float, places: Integer, codes: Integer, known: Integer, learn: np.ndarray) -> Float:
        """Return the log-probabilities of rows from those of the answers at some places, and learn each row after it.

        Parameters
        ----------
        chances : array of shape (answers, rows, classes)
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
        out = np.full(chances.shape[1:], -np.inf)
        _pool(self.state, chances, places, codes, known, learn, self._keeps, self._numbers, out)
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


@compiled
def normalise(scores: Float, known: int) -> None:
    """Subtract the logarithm of the sum of exponentials from the scores of the classes that have come."""
    most = -np.inf
    for k in range(known):
        most = max(most, scores[k])
    total = 0.0
    for k in range(known):
        total += np.exp(scores[k] - most)
    total = most + np.log(total)
    for k in range(known):
        scores[k] -= total


@compiled
def calibrate(
    factors: Float,
    curvatures: Float,
    scores: Float,
    codes: Integer,
    known: Integer,
    learn: np.ndarray,
    keep: float,
    least: float,
) -> None:
    """Turn the scores of each answer, (answers, rows, classes), into log-probabilities of at least `least`."""
    raw = np.zeros(scores.shape[2])
    for m in range(len(scores)):
        for i in range(len(codes)):
            found, count, code = scores[m, i], known[i], codes[i]
            for k in range(count):
                raw[k] = found[k]
                found[k] *= factors[m]
            if count:
                normalise(found, count)
            if learn[i] and code < count:
                mean, square = 0.0, 0.0
                for k in range(count):
                    mean += np.exp(found[k]) * raw[k]
                for k in range(count):
                    square += np.exp(found[k]) * (raw[k] - mean) ** 2
                curvatures[m] = keep * curvatures[m] + (1.0 - keep) + square
                step = factors[m] - (mean - raw[code]) / curvatures[m]
                factors[m] = min(max(step, 0.5 * factors[m]), 2.0 * factors[m])
            for k in range(count):
                found[k] = max(found[k], least)


@compiled
def shares_of(losses: Float, out: Float) -> None:
    """Write softmax(−losses)."""
    least = losses[0]
    for m in range(len(losses)):
        least = min(least, losses[m])
    total = 0.0
    for m in range(len(losses)):
        out[m] = np.exp(least - losses[m])
        total += out[m]
    for m in range(len(losses)):
        out[m] /= total


@compiled
def _pool(
    state: PoolState,
    chances: Float,
    places: Integer,
    codes: Integer,
    known: Integer,
    learn: np.ndarray,
    keeps: Float,
    numbers: Float,
    out: Float,
) -> None:
    keep, ridge, least = numbers
    answers, classes = len(places), chances.shape[2]
    means, inputs = np.zeros((len(keeps), classes)), np.zeros((1 + answers, classes))
    shares, rate_shares = np.zeros(answers), np.zeros(len(keeps))
    gradient, gain = np.zeros(1 + answers), np.zeros(1 + answers)
    for i in range(len(codes)):
        count, code, found = known[i], codes[i], out[i]
        if count == 0:
            continue
        for m in range(answers):
            for k in range(count):
                inputs[1 + m, k] = chances[places[m], i, k]
        _weighed_mean(state, count, least, shares, rate_shares, means, inputs)
        weighed_sum(state.weights, inputs, count, found)
        normalise(found, count)
        if learn[i] and code < count:
            _take_losses(state, keeps, keep, means[:, code], inputs[1:, code], least)
            for m in range(1 + answers):
                gradient[m] = -inputs[m, code]
                for k in range(count):
                    gradient[m] += np.exp(found[k]) * inputs[m, k]
            _newton(state, gradient, keep, ridge, gain)


@compiled
def weighed_sum(weights: Float, lines: Float, count: int, out: Float) -> None:
    """Write the sum of lines times their weights, for the first `count` places."""
    for k in range(count):
        out[k] = 0.0
    for m in range(len(weights)):
        for k in range(count):
            out[k] += weights[m] * lines[m, k]


@compiled
def _weighed_mean(
    state: PoolState, count: int, least: float, shares: Float, rate_shares: Float, means: Float, inputs: Float
) -> None:
    """Write the answer of each half-life, and that of all of them, at least `least`, into the first line of inputs."""
    for rate in range(len(means)):
        shares_of(state.losses[rate], shares)
        weighed_sum(shares, inputs[1:], count, means[rate])
        normalise(means[rate], count)
    shares_of(state.rate_losses, rate_shares)
    weighed_sum(rate_shares, means, count, inputs[0])
    normalise(inputs[0], count)
    for k in range(count):
        inputs[0, k] = max(inputs[0, k], least)


@compiled
def _take_losses(state: PoolState, keeps: Float, keep: float, means: Float, answers: Float, least: float) -> None:
    """Let losses fade, and add what the row has cost each answer and each half-life."""
    for rate in range(len(keeps)):
        state.rate_losses[rate] = keep * state.rate_losses[rate] - max(means[rate], least)
        for m in range(len(answers)):
            state.losses[rate, m] = keeps[rate] * state.losses[rate, m] - answers[m]


@compiled
def _newton(state: PoolState, gradient: Float, keep: float, ridge: float, gain: Float) -> None:
    """Let the weights take a Newton step; the outer product of the gradient stands for its Hessian."""
    inverse, weights, size = state.inverse, state.weights, len(state.weights)
    inverse /= keep
    update_inverse(inverse, gradient, 1.0, gain)
    for m in range(size):
        weights[m] -= gain[m]
    place = state.clock[0] % size
    state.clock[0] += 1
    restore_ridge(inverse, place, ridge * (1.0 - keep**size), gain)
    error = (1.0 if place == 0 else 0.0) - weights[place]
    for m in range(size):
        weights[m] += error * gain[m]
