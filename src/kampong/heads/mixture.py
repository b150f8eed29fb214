"""Several heads weighed together: Gaussian, cosine, regression, the priors, and a trained one where it helps."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from kampong.heads.calibration import log_softplus
from kampong.heads.hinge import Hinge
from kampong.heads.linear import WhiteHead, cosine_scores, noise_of, regression_map
from kampong.heads.logistic import Logistic
from kampong.heads.quadratic import Quadratic

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.files.contents import Contents
    from kampong.heads.head import Inside, Moved

MEMBERS, TRAINED = 4, 5
"""Gaussian, cosine, regression and priors, in this order; then a quadratic one, and one of logistic or hinge loss."""

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
        The weight of each member; the last two belong to the quadratic one and to that of logistic or hinge loss.
    quadratic : Quadratic or None
        The quadratic member, which may look at more directions.
    trained : Logistic, Hinge or None
        Logistic regression, or support vector machines, which may look at more directions.
    """

    noise: float
    weights: Float
    quadratic: Quadratic | None = None
    trained: Logistic | Hinge | None = None
    name: ClassVar[str] = "mixture"

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head with the weights of a lone Gaussian."""
        whitener, centres, priors = cls.white(inside)
        fitted = priors + centres @ regression_map(centres, priors)
        noise = float(noise_of(fitted, np.arange(len(priors)), priors))
        return cls(False, whitener, centres, priors, noise, np.append(START, [0.0, 0.0]))

    @property
    def reads_sample(self) -> bool:
        """Whether a sample of rows is needed: for the members that are trained on one."""
        return self.quadratic is not None or (self.trained is not None and self.trained.reads_sample)

    def again(self, inside: Inside, wide: Inside, moved: Callable[[], Moved]) -> Self:
        """Return the head for other statistics, with the weights that were fitted."""
        quadratic = None if self.quadratic is None else self.quadratic.again(inside, wide, moved)
        trained = None if self.trained is None else self.trained.again(inside, wide, moved)
        head = type(self)(False, *self.white(inside), self.noise, self.weights, quadratic, trained)
        return replace(head, sharpness=self.sharpness, tail=self.tail)

    def with_machines(self, inside: Inside, machines: Hinge) -> Self:
        """Return the head for other statistics, weighed as before, with other support vector machines."""
        head = type(self)(False, *self.white(inside), self.noise, self.weights, None, machines)
        return replace(head, sharpness=self.sharpness, tail=self.tail)

    def linear(self) -> tuple[Float, Float]:
        """Return weights of whitened coordinates, and offsets: what the linear members say of those together."""
        with np.errstate(divide="ignore"):
            log_priors = np.where(self.priors > 0, np.log(self.priors), 0.0)
        b, squares = self.weights, np.einsum("kp,kp->k", self.centres, self.centres)
        weights, offsets = b[0] * self.centres, b[0] * (log_priors - 0.5 * squares) + b[PRIOR] * log_priors
        if isinstance(self.trained, Logistic):
            weights = weights + b[TRAINED] * np.linalg.solve(self.whitener, self.trained.weights.T).T
            known = np.isfinite(self.trained.offsets)
            offsets = offsets + b[TRAINED] * np.where(known, self.trained.offsets, 0.0)
        return weights, offsets

    def hyperplanes(self) -> tuple[Float, Float] | None:
        """Return weights and offsets of the scores, if all members that have a weight are linear."""
        b = self.weights
        bent = b[1] or b[2] or (self.quadratic is not None and b[MEMBERS])
        if bent or (isinstance(self.trained, Hinge) and b[TRAINED]):
            return None
        inner, offsets = self.linear()
        weights = np.zeros((len(inner), self.n_seen))
        weights[:, : len(self.whitener)] = inner @ self.whitener.T
        return weights, np.where(self.priors > 0, offsets, -np.inf)

    @property
    def n_seen(self) -> int:
        """How many directions it looks at, hidden ones included."""
        further = 0 if self.quadratic is None else int(self.quadratic.roots.shape[1])
        return max(len(self.whitener), further, 0 if self.trained is None else int(self.trained.weights.shape[1]))

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
        if isinstance(self.trained, Hinge):
            more = self.trained.scores(points)
            scores += b[TRAINED] * np.where(np.isfinite(more), more, 0.0)
        if self.quadratic is not None and b[MEMBERS]:
            more = self.quadratic.scores(points)
            scores += b[MEMBERS] * np.where(np.isfinite(more), more, 0.0)
        return self._hidden(scores)

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds; each trained member is a part of its own."""
        state = super().to_state()
        members = state.pop("quadratic"), state.pop("trained")
        return state | {member.name: member.to_state() for member in members if member is not None}

    @classmethod
    def read(cls, contents: Contents, n_classes: int, n_directions: int) -> Self:
        """Return a mixture from its state."""
        members: dict[str, Any] = {"quadratic": None, "trained": None}
        kinds: dict[type[Quadratic | Logistic | Hinge], str] = {
            Quadratic: "quadratic",
            Logistic: "trained",
            Hinge: "trained",
        }
        for kind, place in kinds.items():
            if kind.name not in contents:
                continue
            part = contents.part(kind.name)
            part.word("name", (kind.name,))
            member = kind.read(part, n_classes, n_directions)
            if reason := member.inconsistent() or ("it is for several labels per row" if member.multilabel else ""):
                part.refuse(reason)
            if members[place] is not None:
                part.refuse("another linear member is there already")
            members[place] = member
        whitener = contents.array("whitener", np.float64, (None, None))
        p = len(whitener)
        if whitener.shape != (p, p) or p > n_directions:
            contents.refuse(f"whitener has shape {whitener.shape} for {n_directions} directions")
        if isinstance(members["trained"], Logistic) and p != n_directions:
            contents.refuse(f"whitener has shape {whitener.shape}, and logistic regression {n_directions} directions")
        values: dict[str, Any] = {"whitener": whitener, **members}
        values["centres"] = contents.array("centres", np.float64, (n_classes, p))
        values["priors"] = contents.array("priors", np.float64, (n_classes,), low=0.0, high=1.0)
        values["weights"] = contents.array("weights", np.float64, (TRAINED + 1,))
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
