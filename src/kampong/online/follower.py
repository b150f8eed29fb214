"""The contest that follows the drift of a stream; a model of all rows takes part in it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.loops import Loop
from kampong.contract import Pauses
from kampong.online.contest import Contest, numbered
from kampong.online.members.given import Given
from kampong.online.settings import Settings

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents
    from kampong.selection.losses import HeldOutLosses


class Follower:
    """A contest for rows whose labels somebody else numbers, in any order.

    Parameters
    ----------
    effort : float
        Nominal microseconds per row, without the cost of the model of all rows.
    seed : int
        For members that draw something.
    widest : int
        How many columns there may come to be.

    Attributes
    ----------
    recent_losses : array of shape (rows,)
        −log p of the labels of the last rows, said before they were learnt; infinite for a label that had not come.
    recent_codes : array of int of shape (rows,)
        The numbers of these labels.
    """

    def __init__(self, effort: float, seed: int, widest: int = 0) -> None:
        self.contest = Contest(Settings(), effort, seed, True, given=True, widest=widest)
        self._slots: Integer = np.zeros(0, dtype=np.int64)
        self._weights: Float = np.zeros(2)  # of all rows so far, and what a typical row weighs
        self.recent_losses: Float = np.zeros(0)
        self.recent_codes: Integer = np.zeros(0, dtype=np.int64)

    @property
    def classes(self) -> int:
        """How many classes have come."""
        return self.contest.classes

    @property
    def member_weights(self) -> dict[str, float]:
        """How much each answer counts now where labels are not at hand."""
        return self.contest.pools[-1].member_weights()

    def learn(
        self,
        X: Any,
        codes: Integer,
        weights: Float,
        labels: int,
        given: Float | None = None,
        pauses: Pauses | None = None,
    ) -> Float:
        """Predict and then learn row after row.

        Parameters
        ----------
        X : array or CSR array of shape (rows, columns)
            The rows, finite.
        codes : array of int of shape (rows,)
            The numbers of their labels.
        weights : array of shape (rows,)
            Their weights, all positive; only their ratios matter.
        labels : int
            How many labels have numbers; some of them may not have come.
        given : array of shape (rows, labels), optional
            What the model of all rows says: log-probabilities, −∞ for a label that it does not know.
        pauses : Pauses, optional
            Where to pause, so that somebody may predict with what is known there.

        Returns
        -------
        array of shape (rows, labels)
            Log-probabilities before each row was learnt; −∞ for a label that had not come.
        """
        self._slots = numbered(self._slots, codes, labels)
        own = np.empty(len(codes))
        _in_rows(self._weights, weights, own)
        told = None if given is None else given[:, self._came]
        losses = np.empty(len(codes))
        paused = None if pauses is None else Pauses(pauses.places, lambda place: self._pause(pauses, place))
        answers = self._spread(self.contest.learn(X, self._slots[codes], own, told, losses, paused))
        self.recent_losses = np.concatenate([self.recent_losses, losses])[-self.contest.settings.recent :]
        self.recent_codes = np.concatenate([self.recent_codes, codes])[-self.contest.settings.recent :]
        return answers

    def _pause(self, pauses: Pauses, place: int) -> None:
        """Pause with the labels alone that have come up to there."""
        every, self._slots = self._slots, np.where(self._slots < self.classes, self._slots, -1)
        pauses.at(place)
        self._slots = every

    def predict(self, X: Any, given: Float | None = None) -> Float:
        """Return log-probabilities of rows, (rows, labels), without the last label; nothing is learnt."""
        return self._spread(self.contest.predict(X, None if given is None else given[:, self._came]))

    def widened(self, n_features: int) -> Self:
        """Return a copy with more columns at the end; rows so far had 0 there."""
        result = copy.copy(self)
        result._slots, result._weights = self._slots.copy(), self._weights.copy()
        result.contest = self.contest.widened(n_features)
        return result

    def has_aged(self, held_out: HeldOutLosses) -> bool:
        """Tell whether the model of all rows has cost more recently than its validation rows did, beyond doubt.

        Parameters
        ----------
        held_out : HeldOutLosses
            What validation rows cost when it was chosen.

        Returns
        -------
        bool
            True if the mean recent loss lies more standard errors above theirs than the greatest of as many normal
            deviations as rows were learnt is expected to be, which is at most √(2·log rows) however they depend.
        """
        pool = self.contest.pools[-1]
        expected, deviation = held_out.mean(-float(np.log(self.contest.settings.least_chance)))
        recent, rows = pool.recent_loss(f"{Given.name} 0")
        beyond = np.sqrt(2.0 * np.log(max(int(pool.state.clock[0]), 1)))
        return bool(rows and recent > expected + beyond * deviation / np.sqrt(rows))

    @property
    def nbytes(self) -> int:
        """The bytes of all that is remembered."""
        return self._slots.nbytes + self._weights.nbytes + self.contest.nbytes

    @property
    def _came(self) -> Integer:
        """The numbers of the labels that have come, in the order in which they did."""
        order: Integer = np.argsort(self._slots, kind="stable")
        return order[np.count_nonzero(self._slots < 0) :]

    def _spread(self, answers: Float) -> Float:
        """Return answers in the order of the labels' numbers."""
        found = np.full((len(answers), len(self._slots)), -np.inf)
        found[:, self._came[: answers.shape[1]]] = answers
        return found

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "effort": self.contest.effort,
            "seed": self.contest.seed,
            "widest": self.contest.widest,
            "slots": self._slots.copy(),
            "weights": self._weights.copy(),
            "contest": self.contest.to_state(),
            "recent_losses": self.recent_losses.copy(),
            "recent_codes": self.recent_codes.copy(),
        }

    @classmethod
    def from_state(cls, contents: Contents, n_features: int, labels: int) -> Self:
        """Return what `to_state` wrote, each value checked.

        Parameters
        ----------
        contents : Contents
            The state, which is used up.
        n_features : int
            The width of the rows.
        labels : int
            How many labels have numbers.

        Returns
        -------
        Follower
            It goes on with the same bits.
        """
        effort, seed = contents.number("effort", low=0.0), contents.whole("seed")
        result = cls(effort, seed, contents.whole("widest", high=2**31))
        result._slots = slots_from(contents, labels)
        result._weights = contents.array("weights", np.float64, (2,), low=0.0).copy()
        result.contest.from_state(contents.part("contest"), n_features, len(result._came))
        result.recent_losses = contents.array("recent_losses", np.float64, (None,), finite=False, low=0.0)
        size = (len(result.recent_losses),)
        result.recent_codes = contents.array("recent_codes", np.int64, size, low=0, high=labels - 1)
        contents.finish()
        return result


def slots_from(contents: Contents, labels: int) -> Integer:
    """Return the number of each label in the order in which they came, −1 for one that has not, checked."""
    slots: Integer = contents.array("slots", np.int64, (labels,), low=-1, high=labels - 1).copy()
    came = np.sort(slots[slots >= 0])
    contents.require(np.array_equal(came, np.arange(len(came))), "the classes are not numbered as they came")
    return slots


@Loop
def _in_rows(state: Float, weights: Float, out: Float) -> None:
    """Write each weight as a number of typical rows, whose weight is Σw² / Σw over all rows so far."""
    for i in range(len(weights)):
        state[0] += weights[i]
        state[1] += (weights[i] - state[1]) * (weights[i] / state[0])
        out[i] = weights[i] / state[1]
