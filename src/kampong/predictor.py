"""Predictor: everything a fitted subspace answers with, frozen.

A stream predicts with one that may be older than its statistics, a file holds both, so that a loaded model
answers at once and a resumed stream predicts the same bits. `build` builds it from statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import special

from kampong._core.compute import blocks, project
from kampong.criteria import CRITERIA, Criterion
from kampong.data.labels import labels_from, labels_state
from kampong.data.validation import refuse_overflow
from kampong.files.contents import flatten
from kampong.files.fields import array, plain, read, written
from kampong.heads import Head, LinearHead, Mixture
from kampong.heads.calibration import calibrated
from kampong.selection.choose import Choice
from kampong.selection.losses import HeldOutLosses
from kampong.solvers import SOLVERS
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Rows
    from kampong.files.contents import Contents

FIELDS = (
    array("components", "directions", "features"),
    array("hidden", "further", "features"),
    array("mean", "features"),
    array("eigenvalues", "directions"),
    array("centres", "classes", "directions"),
    plain("n_rows", int),
    plain("n_steps", int),
    plain("total", float),
    plain("remark", str),
)
"""What a file holds of a predictor, in addition to its classes, head, criterion and choice."""


BLOCK = 2**24
"""Bytes of the coordinates that a head looks at, and of its scores, at a time."""


@dataclass(frozen=True)
class Predictor:
    """Directions and head of one state of the statistics, frozen.

    Attributes
    ----------
    classes : array of shape (K,)
        The labels, sorted.
    mean : array of shape (d,)
        The mean of all rows, which is taken off before the projection.
    components : array of shape (p, d)
        The directions, best first; zeros past those that the classes so far allow.
    eigenvalues : array of shape (p,)
        What each direction adds to the criterion.
    centres : array of shape (K, p)
        The class means in the subspace.
    head : Head
        The classifier there.
    criterion : Criterion
        What the directions maximise, with the parameter in use.
    choice : Choice or None
        How that parameter was chosen.
    n_rows : int
        Rows learnt when it was made.
    solver : str
        Who found the directions.
    n_steps : int
        Products with S_w taken by an iterative solver.
    total : float
        The sum of all positive eigenvalues.
    hidden : array of shape (q, d)
        Further directions that only the head looks at; often none.
    remark : str
        What a user should know of the directions, "" where they are what was asked for.
    shift : array of shape (K,) or None
        The logarithm of the given share of each class over the observed one, where shares were given; −∞ for a class
        that must not be predicted.
    held_out : HeldOutLosses or None
        What validation rows cost, for prediction sets; None where there were none.
    """

    classes: np.ndarray
    mean: Float
    components: Float
    eigenvalues: Float
    centres: Float
    head: Head
    criterion: Criterion
    choice: Choice | None
    n_rows: int
    solver: str
    n_steps: int
    total: float
    hidden: Float
    remark: str
    shift: Float | None
    held_out: HeldOutLosses | None

    def in_units(self, units: Float) -> Self:
        """Return the predictor of rows divided by `units`, which says the same of them."""
        components, hidden = self.components * units, self.hidden * units
        return replace(self, mean=self.mean / units, components=components, hidden=hidden)

    def embed(self, X: Rows) -> Rows:
        """Return rows in the columns that the statistics have."""
        return X

    def points(self, X: Rows) -> Float:
        """Return the coordinates of rows: (X − mean) · componentsᵀ, in the dtype of the rows."""
        return project(X, self.components, self.mean, centre=self._centre)

    @cached_property
    def _centre(self) -> Float:
        """The coordinates of the mean."""
        return np.asarray(self.mean @ self.components.T)

    def seen_points(self, X: Rows) -> Float:
        """Return the coordinates that the head looks at: the points, and those along the hidden directions."""
        if not len(self.hidden):
            return self.points(X)
        if isinstance(X, np.ndarray):
            return project(X, self._stacked, self.mean)
        return np.hstack([self.points(X), project(X, self.hidden, self.mean)])

    @cached_property
    def _stacked(self) -> Float:
        """The directions and the hidden ones together: dense rows are read once for both."""
        return np.concatenate([self.components, self.hidden])

    @cached_property
    def _folded(self) -> Self:
        """A predictor of the same scores: if they are linear, one direction per class where the head looks at more."""
        head = self.head
        if not len(self.hidden) or not isinstance(head, LinearHead) or len(self.classes) >= len(self._stacked):
            return self
        own = replace(head, weights=np.eye(len(self.classes)))
        return replace(self, components=head.weights @ self._stacked, hidden=self.hidden[:0], head=own)

    def scores(self, X: Rows) -> Float:
        """Return one score per class for each row."""
        known = self._folded
        said: Float = known._in_blocks(X, lambda rows: known._scores(known.seen_points(rows)))
        return said

    def decisions(self, X: Rows) -> Float:
        """Return one score per class; of two classes that of the second less that of the first."""
        scores = self.scores(X)
        two = not self.head.multilabel and scores.shape[1] == 2
        return np.asarray(scores[:, 1] - scores[:, 0]) if two else scores

    def probabilities(self, X: Rows) -> Float:
        """Return the probability of each class, or of each label on its own."""
        known = self._folded

        def of(rows: Rows) -> Float:
            seen = known.seen_points(rows)
            said: Float = (
                known.head.probabilities(seen) if self.shift is None else special.softmax(known._logs(seen), axis=1)
            )
            return said

        return refuse_overflow("probabilities", known._in_blocks(X, of))

    def log_probabilities(self, X: Rows) -> Float:
        """Return the logarithms of `probabilities`, finite where these underflow."""
        known = self._folded

        def of(rows: Rows) -> Float:
            seen = known.seen_points(rows)
            logs: Float = (
                known.head.log_probabilities(seen)
                if self.shift is None
                else special.log_softmax(known._logs(seen), axis=1)
            )
            return logs

        return refuse_overflow("probabilities", known._in_blocks(X, of))

    def _in_blocks(self, X: Rows, answer: Callable[[Rows], Any]) -> Any:
        """Return what is said of rows; heads hold many numbers per row, this many rows are asked in blocks."""
        numbers = len(self.components) + len(self.hidden) + len(self.classes)
        parts = blocks(X.shape[0], 8 * numbers, target=BLOCK)
        return answer(X) if len(parts) <= 1 else np.concatenate([answer(X[part]) for part in parts])

    def linear(self) -> tuple[Float, Float] | None:
        """Return weights, (K, d), and offsets, (K,), whose largest value predicts; see `Head.hyperplanes`.

        None if the head has none, or if shares that were given move scores that are not the head's planes.
        """
        found = self.head.hyperplanes()
        flat = isinstance(self.head, LinearHead | Mixture) and self.head.sharpness and not self.head.tail
        if found is None or not (self.shift is None or flat):
            return None
        weights = found[0] @ np.concatenate([self.components, self.hidden])[: found[0].shape[1]]
        offsets = found[1] - weights @ self.mean
        return weights, offsets if self.shift is None else offsets + self.shift / self.head.sharpness

    def steps(self, sparse: bool | None = None) -> list[tuple[str, Any]]:
        """Return scikit-learn's steps from rows to the coordinates that the head looks at; see `plain.linear_steps`."""
        from kampong.export.linear_steps import linear_steps

        return linear_steps(self.mean, np.concatenate([self.components, self.hidden]), sparse)

    def answers(self, X: Rows) -> tuple[Float, np.ndarray]:
        """Return the coordinates of rows, and their classes or the indicator matrix of their probable labels."""
        seen = self.seen_points(X)
        return seen[:, : len(self.components)], self.labels_at(seen)

    def labels(self, X: Rows) -> np.ndarray:
        """Return the classes of rows, or the indicator matrix of their probable labels."""
        known = self._folded
        said: np.ndarray = known._in_blocks(X, lambda rows: known.labels_at(known.seen_points(rows)))
        return said

    def ways(self, X: Rows) -> tuple[np.ndarray, ...]:
        """Return the classes of rows: there is one way to answer."""
        return (self.answers(X)[1],)

    def apart(self) -> Self:
        """Return itself: nothing changes it."""
        return self

    def widened(self, n_features: int) -> Self:
        """Return the same predictor for wider rows; the further columns count for nothing."""
        extra = n_features - len(self.mean)
        components, hidden = (np.pad(rows, ((0, 0), (0, extra))) for rows in (self.components, self.hidden))
        choice = self.choice
        if choice is not None and choice.units is not None:
            choice = replace(choice, units=np.pad(choice.units, (0, extra), constant_values=1.0))
        mean = np.pad(self.mean, (0, extra))
        return replace(self, mean=mean, components=components, hidden=hidden, choice=choice)

    def labels_at(self, points: Float) -> np.ndarray:
        """Return the classes of rows, or the indicator matrix of their probable labels, by their `seen_points`."""
        scores = self._scores(points)
        if self.head.multilabel:
            return (scores > 0).astype(np.int64)
        labels: np.ndarray = self.classes[np.argmax(scores, axis=1)]
        return labels

    def _scores(self, points: Float) -> Float:
        if self.shift is not None and (self.head.tail or not self.head.sharpness):
            return refuse_overflow("scores", self._logs(points))
        scores = self.head.scores(points)
        return refuse_overflow("scores", scores if self.shift is None else scores + self.shift / self.head.sharpness)

    def _logs(self, points: Float) -> Float:
        """Return log-probabilities up to a constant of the row, moved to the shares that were given."""
        assert self.shift is not None
        return calibrated(self.head.scores(points), self.head.sharpness, self.head.tail) + self.shift

    @cached_property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(one.nbytes for one in flatten(self.to_state())[0].values())

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: arrays, plain values, and dictionaries of both."""
        state = {**written(FIELDS, self), "classes": labels_state(self.classes), "head": self.head.to_state()}
        state["solver"] = self.solver
        state["criterion"] = {"name": self.criterion.name, "value": self.criterion.value}
        if self.shift is not None:
            state["shift"] = self.shift
        if self.held_out is not None:
            state["held_out"] = self.held_out.to_state()
        return state if self.choice is None else {**state, "choice": self.choice.to_state()}

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the predictor that `to_state` wrote, each value checked against the others.

        Parameters
        ----------
        contents : Contents
            The state, which is used up.
        n_features : int
            The width of the rows.

        Returns
        -------
        Predictor
            It answers with the same bits.
        """
        values = cls._read(contents, n_features)
        contents.finish()
        return cls(**values)

    @classmethod
    def _read(cls, contents: Contents, n_features: int) -> dict[str, Any]:
        classes = labels_from(contents.part("classes"))
        values = read(FIELDS, contents, {"classes": len(classes), "features": n_features})
        K, p = len(classes), len(values["components"])
        if K < 2 or p < 1 or not np.array_equal(np.unique(classes), classes):
            contents.refuse(f"{p} directions and {K} classes are too few, or the classes are not in order")
        criterion = contents.part("criterion")
        kind = CRITERIA[criterion.word("name", tuple(CRITERIA))]
        value = criterion.number("value")
        criterion.finish()
        choice = None
        if "choice" in contents:
            choice = Choice.from_state(contents.part("choice"), n_features)
        shift = None
        if "shift" in contents:
            shift = contents.array("shift", np.float64, (K,), finite=False)
            if np.isposinf(shift).any() or not np.isfinite(shift).any():
                contents.refuse("shift holds infinity, or no class that can be predicted")
        return {
            **values,
            "classes": classes,
            "head": Head.from_state(contents.part("head"), K, p + len(values["hidden"])),
            "criterion": kind.of(value),
            "choice": choice,
            "solver": contents.word("solver", tuple(SOLVERS)),
            "shift": shift,
            "held_out": HeldOutLosses.from_state(contents.part("held_out"), K) if "held_out" in contents else None,
        }


def reason_of(predictor: Predictor, solver: str, n_features: int) -> str:
    """Return why the directions were found by the solver that found them; `solver` is what was asked for."""
    if solver == predictor.solver:
        return f"solver={solver!r} was asked for"
    width = f"{n_features} features, {'up to' if n_features <= WIDEST else 'past'} the {WIDEST} of a d × d scatter"
    return SOLVERS[predictor.solver].REASON.format(width=width, steps=predictor.n_steps)
