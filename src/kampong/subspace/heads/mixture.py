"""Several heads weighed together: Gaussian, cosine, regression, the priors, and a trained one where it helps."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from kampong.subspace.heads.fitting import log_softplus
from kampong.subspace.heads.linear import WhiteHead, cosine_scores, noise_of, regression_map
from kampong.subspace.heads.logistic import Logistic
from kampong.subspace.heads.quadratic import Quadratic

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._runtime.compute import Float
    from kampong.checkpoint.contents import Contents
    from kampong.subspace.heads.base import Inside, Moved

MEMBERS, LOGISTIC = 4, 5
"""Gaussian, cosine, regression and priors, in this order; a quadratic member follows, then logistic regression."""

PRIOR = 3
"""The place of the priors, the only member whose weight may be negative."""

START = np.array([0.3, 0.0, 0.0, 0.0])
"""Weights to stay near to where no row says anything: a Gaussian that is a little less sure."""


@dataclass(frozen=True)
class Mixture(WhiteHead):
    """Scores Σ b_a s_a of several heads; the weights b ≥ 0 are fitted on rows that the heads have not seen.

    Attributes
    ----------
    noise : float
        The noise of the regression.
    weights : array of shape (6,)
        The weight of each member; the last two belong to the quadratic head and to logistic regression.
    quadratic : Quadratic or None
        The quadratic member, which may look at more directions.
    logistic : Logistic or None
        Logistic regression along the same directions.
    """

    noise: float
    weights: Float
    quadratic: Quadratic | None = None
    logistic: Logistic | None = None
    name: ClassVar[str] = "mixture"

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head with the weights of a lone Gaussian."""
        whitener, centres, priors = cls.white(inside)
        fitted = priors + centres @ regression_map(centres, priors)
        noise = noise_of(fitted, np.arange(len(priors)), priors)
        return cls(False, whitener, centres, priors, noise, np.append(START, [0.0, 0.0]))

    @property
    def reads_sample(self) -> bool:
        """Whether a sample of rows is needed: for the members that are trained on one."""
        return self.quadratic is not None or self.logistic is not None

    def again(self, inside: Inside, wide: Inside, moved: Callable[[], Moved]) -> Self:
        """Return the head for other statistics, with the weights that were fitted."""
        quadratic = None if self.quadratic is None else self.quadratic.again(inside, wide, moved)
        logistic = None if self.logistic is None else self.logistic.again(inside, wide, moved)
        head = type(self)(False, *self.white(inside), self.noise, self.weights, quadratic, logistic)
        return replace(head, sharpness=self.sharpness, tail=self.tail)

    def linear(self) -> tuple[Float, Float]:
        """Return weights of whitened coordinates, and offsets: what the linear members say together."""
        with np.errstate(divide="ignore"):
            log_priors = np.where(self.priors > 0, np.log(self.priors), 0.0)
        b, squares = self.weights, np.einsum("kp,kp->k", self.centres, self.centres)
        weights, offsets = b[0] * self.centres, b[0] * (log_priors - 0.5 * squares) + b[PRIOR] * log_priors
        if self.logistic is not None:
            weights = weights + b[LOGISTIC] * np.linalg.solve(self.whitener, self.logistic.weights.T).T
            known = np.isfinite(self.logistic.offsets)
            offsets = offsets + b[LOGISTIC] * np.where(known, self.logistic.offsets, 0.0)
        return weights, offsets

    def scores(self, points: Float) -> Float:
        """Return the weighted scores."""
        points = points.astype(np.float64, copy=False)
        white = points[:, : len(self.whitener)] @ self.whitener
        weights, offsets = self.linear()
        scores = white @ weights.T + offsets
        b = self.weights
        if b[1]:
            squares = np.einsum("kp,kp->k", self.centres, self.centres)
            scores += b[1] * cosine_scores(white @ self.centres.T, squares, np.linalg.norm(white, axis=1))
        if b[2]:
            scores += b[2] * log_softplus(
                (self.priors + white @ regression_map(self.centres, self.priors)) / self.noise
            )
        if self.quadratic is not None and b[MEMBERS]:
            more = self.quadratic.scores(points)
            scores += b[MEMBERS] * np.where(np.isfinite(more), more, 0.0)
        return self._hidden(scores)

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds; each trained member is a part of its own."""
        state = super().to_state()
        members = {name: state.pop(name) for name in (Quadratic.name, Logistic.name)}
        return state | {name: member.to_state() for name, member in members.items() if member is not None}

    @classmethod
    def read(cls, contents: Contents, n_classes: int, n_directions: int) -> Self:
        """Return a mixture from its state."""
        members: dict[str, Any] = {Quadratic.name: None, Logistic.name: None}
        for kind in (Quadratic, Logistic):
            if kind.name not in contents:
                continue
            part = contents.part(kind.name)
            part.word("name", (kind.name,))
            member = kind.read(part, n_classes, n_directions)
            if reason := member.inconsistent() or ("it is for several labels a row" if member.multilabel else ""):
                part.refuse(reason)
            members[kind.name] = member
        whitener = contents.array("whitener", np.float64, (None, None))
        p = len(whitener)
        if whitener.shape != (p, p) or p > n_directions:
            contents.refuse(f"whitener has shape {whitener.shape} for {n_directions} directions")
        if members[Logistic.name] is not None and p != n_directions:
            contents.refuse(f"whitener has shape {whitener.shape}, and logistic regression {n_directions} directions")
        values: dict[str, Any] = {"whitener": whitener, **members}
        values["centres"] = contents.array("centres", np.float64, (n_classes, p))
        values["priors"] = contents.array("priors", np.float64, (n_classes,), low=0.0, high=1.0)
        values["weights"] = contents.array("weights", np.float64, (LOGISTIC + 1,))
        for name in ("noise", "sharpness", "tail"):
            values[name] = contents.number(name)
        values["multilabel"] = contents.flag("multilabel")
        contents.finish()
        assert set(values) == {field.name for field in fields(cls)}
        return cls(**values)

    def inconsistent(self) -> str:
        """Say where the noise is none, or weights are negative that must not be."""
        bounded = np.delete(self.weights, PRIOR)
        wrong = self.multilabel or self.noise <= 0 or bounded.min() < 0
        return super().inconsistent() or ("a weight or the noise is negative" if wrong else "")
