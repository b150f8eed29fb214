"""What a head is, what it is built from, and the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import linalg, special

from kampong._core.registries import enter
from kampong.files.contents import record_from
from kampong.heads.calibration import STEEPEST, calibrated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents

HEADS: dict[str, type[Head]] = {}
"""All heads by name; a subclass of `Head` that has a name enters by itself."""


@dataclass(frozen=True)
class Inside:
    """What is known of the classes inside a subspace of p directions: all that a head is built from.

    Attributes
    ----------
    means : array of shape (K, p)
        Class means, about the mean of all rows.
    counts : array of shape (K,)
        Class weights; a class of weight 0 is never predicted.
    covariance : array of shape (p, p) or None
        The shared within-class covariance, ridge included, where it is known.
    variance : float
        The mean within-class variance of a feature.
    multilabel : bool
        Whether a row may have several labels.
    row_mean : array of shape (p,)
        The mean of the rows, each counted once.
    row_weight : float
        The weight of the rows.
    lift : array of shape (p, p) or None
        What the ridge adds to the covariance.
    points : array of shape (n, p) or None
        A sample of rows, where one is kept and rows have one label each.
    codes : array of int of shape (n,) or None
        Their classes.
    own : array of shape (n,) or None
        Their weights.
    """

    means: Float
    counts: Float
    covariance: Float | None
    variance: float
    multilabel: bool
    row_mean: Float
    row_weight: float
    lift: Float | None = None
    points: Float | None = None
    codes: Integer | None = None
    own: Float | None = None

    def whitener(self) -> Float:
        """Return T with Tᵀ·C·T = I for the covariance C; where C vanishes its eigenvalues are lifted a little."""
        assert self.covariance is not None
        return inverse_root(self.covariance)

    def log_priors(self) -> Float:
        """Return the logarithm of the share of each class, −∞ for one that was not seen."""
        with np.errstate(divide="ignore"):
            logs: Float = np.log(self.counts / self.counts.sum())
        return logs


class Moved(NamedTuple):
    """How the coordinates of an earlier state follow from those of the present one: z_then ≈ back·z_now + shift.

    Attributes
    ----------
    back : array of shape (p_then, p_now)
        The best linear map where rows spread as they do within the classes.
    shift : array of shape (p_then,)
        The present mean in the coordinates of then.
    places : array of int of shape (K,)
        Where each class was among those of then, −1 for one that has come since.
    """

    back: Float
    shift: Float
    places: Integer


@dataclass(frozen=True)
class Head(ABC):
    """A classifier inside a subspace: one score per class.

    A subclass is a frozen dataclass of arrays, numbers and booleans, which is also what a file holds of it.

    Attributes
    ----------
    multilabel : bool
        Whether a score is the log-odds of its own label, or a log-posterior among all classes.
    sharpness, tail : float
        How scores become probabilities: see `fitting.calibrated`. They never change which class is the most probable.
    name : str
        What `head=` calls it.
    needs_covariance : bool
        Whether it can only be built where the within-class covariance is known.
    needs_sample : bool
        Whether it is trained on a sample of rows.
    shapes : dict of str to tuple
        The shape of each array, "K" for the classes and "p" for the directions.
    infinite : tuple of str
        The arrays that may hold infinity.
    """

    multilabel: bool
    sharpness: float = field(default=1.0, kw_only=True)
    tail: float = field(default=0.0, kw_only=True)
    name: ClassVar[str]
    needs_covariance: ClassVar[bool] = False
    needs_sample: ClassVar[bool] = False
    shapes: ClassVar[dict[str, tuple[str, ...]]] = {}
    infinite: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            enter(HEADS, "a head", cls.name, cls, ("auto", "best"))

    @classmethod
    @abstractmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head for these classes."""

    @abstractmethod
    def scores(self, points: Float) -> Float:
        """Return one score per class for each point; the largest one is predicted."""

    def probabilities(self, points: Float) -> Float:
        """Return the probability of each class, or of each label on its own."""
        if self.multilabel:
            alone: Float = special.expit(self.scores(points))
            return alone
        result: Float = np.exp(self.log_probabilities(points))
        return result

    def log_probabilities(self, points: Float) -> Float:
        """Return the logarithms of `probabilities`, finite where these underflow; −∞ for a class without weight."""
        scores = self.scores(points)
        result: Float = special.log_expit(scores) if self.multilabel else calibrated(scores, self.sharpness, self.tail)
        return result

    def hyperplanes(self) -> tuple[Float, Float] | None:
        """Return weights, (K, p), and offsets, (K,), if the class predicted is the largest of z·weightsᵀ + offsets.

        Returns
        -------
        tuple of arrays or None
            The scores themselves, or an increasing function of the scores of the head; None if there are none.
        """
        return None

    def again(self, inside: Inside, wide: Inside, moved: Callable[[], Moved]) -> Self:
        """Return this head for other statistics; what was chosen or calibrated is kept.

        Parameters
        ----------
        inside : Inside
            What is known of the classes now, along the directions.
        wide : Inside
            The same along the hidden directions too; with a sample where the head is trained on one.
        moved : callable
            Returns how the coordinates have changed, which costs a product with S_w.

        Returns
        -------
        Head
            A head of the same kind.
        """
        return replace(self.build(wide), sharpness=self.sharpness, tail=self.tail)

    @property
    def reads_sample(self) -> bool:
        """Whether a sample of rows is needed to build this head again."""
        return self.needs_sample

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        return {"name": self.name, **vars(self)}

    @staticmethod
    def from_state(contents: Contents, n_classes: int, n_directions: int) -> Head:
        """Return the head that `to_state` wrote."""
        kind = HEADS[contents.word("name", tuple(HEADS))]
        head = kind.read(contents, n_classes, n_directions)
        reason = head.inconsistent()
        if not reason and not (head.sharpness >= 0.0 and head.tail <= 1.001 * STEEPEST * head.sharpness):
            reason = f"sharpness is {head.sharpness}, and tail {head.tail}: another class would be the most probable"
        if reason:
            contents.refuse(reason)
        return head

    @classmethod
    def read(cls, contents: Contents, n_classes: int, n_directions: int) -> Self:
        """Return a head of this kind from its state; the name has been read."""
        sizes = {"K": n_classes, "p": n_directions}
        shapes = {name: tuple(sizes[size] for size in shape) for name, shape in cls.shapes.items()}
        return record_from(contents, cls, cls.infinite, **shapes)

    def inconsistent(self) -> str:
        """Say why a head that was read from a file cannot be one, "" where it can."""
        return ""


def build_head(name: str, inside: Inside) -> Head:
    """Return a head by name; "auto" and "best" are Gaussian where the covariance is known, else the nearest mean.

    Parameters
    ----------
    name : str
        A name in `HEADS`, "auto" or "best".
    inside : Inside
        What is known of the classes.

    Returns
    -------
    Head
        The head.
    """
    if name in ("auto", "best"):
        name = "nearest_mean" if inside.covariance is None else "gaussian"
    kind = HEADS[name]
    if kind.needs_covariance and inside.covariance is None:
        raise ValueError(
            f"head={name!r} needs the within-class scatter, which was measured in fit and is out of date after "
            "partial_fit. Use head='auto' or fit all rows at once."
        )
    if kind.needs_sample and inside.points is None:
        raise ValueError(
            f"head={name!r} is trained on a sample of rows with one label each, and none is kept. Fit all rows at once "
            "with one label each, or use head='gaussian'."
        )
    return kind.build(inside)


def inverse_root(matrix: Float) -> Float:
    """Return T with TᵀCT = I for a symmetric matrix C; small eigenvalues are lifted to a 1e-12 part of the largest."""
    values, vectors = linalg.eigh(matrix)
    floor = max(values[-1] * 1e-12, np.finfo(float).tiny) if values[-1] > 0 else 1.0
    result: Float = vectors / np.sqrt(np.maximum(values, floor))
    return result
