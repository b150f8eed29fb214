"""What is maximised: criteria as objects that act. This is the only home of ε and ρ.

With class priors p_k, class means m_k and mean m:

    S_b = Σ_k p_k (m_k − m)(m_k − m)ᵀ,    S_w = Σ_k p_k Cov_k,    S_t = S_b + S_w.

A solver reduces the problem to a space that is small enough for a dense eigenproblem, and the criterion solves it there
(`solve_small`). A new criterion is one subclass of `Criterion`; nothing else needs to change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import linalg

from kampong._core.registries import enter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.statistics.means import ClassMeans

EPSILONS = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0])
"""The grid of ε: a threshold on a ratio, so it has no unit."""

DECADES = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0])
"""The grid of ridges, in decades of tr S_w / W: smaller eigenvalues cannot be told from zero by rows of weight W."""

FADED = 1e-30
"""A variance below this part of the largest one is rounding: its square root is below the digits of a number."""

CRITERIA: dict[str, type[Criterion]] = {}
"""All criteria by name; a subclass of `Criterion` that has a name enters by itself."""


class Directions(NamedTuple):
    """The directions that maximise a criterion in a small space, best first.

    Attributes
    ----------
    values : array of shape (k,)
        What each adds to the criterion.
    vectors : array of shape (q, k)
        One direction per column.
    total : float
        The sum of all positive values, kept or not.
    n_positive : int
        How many directions raise the criterion.
    n_dropped : int
        Directions left out because S_w vanishes there.
    """

    values: Float
    vectors: Float
    total: float
    n_positive: int
    n_dropped: int = 0


class Criterion(ABC):
    """What is maximised; a subclass is a frozen dataclass of one number, and says how its small problem is solved.

    Attributes
    ----------
    name : str
        What files and `CriterionSubspace` call it.
    parameter : str
        The name of its number.
    orthonormal : bool
        Whether its directions are orthonormal.
    is_ridge : bool
        Whether its directions span (S_w + ρI)⁻¹Φᵀ with ρ its number, so that rows can be left out in closed form.
    """

    name: ClassVar[str]
    parameter: ClassVar[str]
    orthonormal: ClassVar[bool] = True
    is_ridge: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            enter(CRITERIA, "a criterion", cls.name, cls)

    @classmethod
    def of(cls, value: float) -> Criterion:
        """Return the criterion with this number."""
        return cls(**{cls.parameter: float(value)})

    @property
    def value(self) -> float:
        """The number."""
        return float(getattr(self, self.parameter))

    @property
    def needs_within(self) -> bool:
        """Whether S_w plays a part; where it does not, the class means are enough."""
        return True

    @property
    def head_ridge(self) -> float:
        """The ridge that the covariance of the head takes: what regularises the directions regularises it."""
        return 0.0

    def most_directions(self, n_classes: int, n_features: int) -> int:
        """Return how many directions may be asked for."""
        return min(n_classes - 1, n_features)

    @abstractmethod
    def solve_small(self, factor: Float, within: Float, n_components: int | None, most: int) -> Directions:
        """Return the best directions of a space of few dimensions.

        Parameters
        ----------
        factor : array of shape (K, q)
            Φ with S_b = ΦᵀΦ in this space.
        within : array of shape (q, q)
            S_w in this space; it may be overwritten.
        n_components : int or None
            How many directions; None keeps those that raise the criterion, and one at least.
        most : int
            How many directions can raise it at the most: one less than there are classes.

        Returns
        -------
        Directions
            Best first.
        """

    @abstractmethod
    def worth(self, between: Float, within: Float, metric: Float) -> float:
        """Return what the criterion is worth in the span of some directions W.

        Parameters
        ----------
        between : array of shape (K, p)
            ΦWᵀ.
        within : array of shape (p, p)
            W S_w Wᵀ.
        metric : array of shape (p, p)
            WWᵀ.

        Returns
        -------
        float
            Comparable between directions of equal number.
        """

    @classmethod
    @abstractmethod
    def grid(cls, statistics: ClassMeans) -> Float:
        """Return the values to choose from, weak to strong; empty where nothing depends on the choice."""

    @classmethod
    def usual(cls, statistics: ClassMeans) -> float:
        """Return the value to stay near to where the data cannot tell candidates apart."""
        return 1.0

    @classmethod
    def again(cls, value: float, nodes: Float, statistics: ClassMeans) -> float:
        """Return what a value, chosen among nodes for an earlier state of a stream, is for its present state."""
        return value

    @classmethod
    def coordinate(cls, values: Float) -> Float:
        """Return where values lie on the axis on which the curve of the choice is drawn: 0 has a place there too."""
        places: Float = np.arcsinh(100.0 * values)
        return places

    @classmethod
    def from_coordinate(cls, places: Float) -> Float:
        """Return the values at places of that axis."""
        values: Float = np.sinh(places) / 100.0
        return values

    def remark(
        self, kept: int, found: Directions, width: str, best_ratio: Callable[[], float], spell: Callable[[float], str]
    ) -> str:
        """Return what a user should know of the directions found, "" where they are what was asked for.

        Parameters
        ----------
        kept : int
            How many directions there are.
        found : Directions
            Their figures; the vectors are not looked at.
        width : str
            What the space is made of, for instance "5 features".
        best_ratio : callable
            Returns the largest ratio of between-class to within-class variance.
        spell : callable
            Given a value of the parameter, returns how a user writes it.

        Returns
        -------
        str
            One or two sentences.
        """
        return ""


@dataclass(frozen=True)
class MarginCriterion(Criterion):
    """Maximise tr Wᵀ(S_b − ε S_w)W over orthonormal W.

    Parameters
    ----------
    epsilon : float
        The weight ε ≥ 0 of the within-class scatter. A direction raises the criterion only where its ratio of
        between-class to within-class variance exceeds ε.

    See Also
    --------
    FisherCriterion : The ratio in place of the difference.

    Notes
    -----
    A direction with eigenvalue λ > 0 is the Fisher direction at ridge λ/ε, and its Fisher ratio there is exactly ε.

    Examples
    --------
    >>> MarginCriterion.kampong(3.0) == MarginCriterion.maximum_margin()
    True
    """

    epsilon: float
    name: ClassVar[str] = "margin"
    parameter: ClassVar[str] = "epsilon"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(
                f"MarginCriterion: epsilon must be a finite number ≥ 0, got {self.epsilon!r}. "
                "Use 0 for the inter-class scatter and 1 for the maximum margin criterion."
            )

    @classmethod
    def inter_class(cls) -> Self:
        """Return S_b alone: ε = 0 (IIS)."""
        return cls(0.0)

    @classmethod
    def maximum_margin(cls) -> Self:
        """Return S_b − S_w: ε = 1 (MMC)."""
        return cls(1.0)

    @classmethod
    def kampong(cls, a: float) -> Self:
        """Return the Supervised Kampong Measure's criterion, which is twice S_b − ((a − 1)/2) S_w.

        Parameters
        ----------
        a : float
            The paper's weight a ≥ 1 of the pull towards the own class.

        Returns
        -------
        MarginCriterion
            The criterion with ε = (a − 1)/2.
        """
        if not (math.isfinite(a) and a >= 1):
            raise ValueError(
                f"SupervisedKampongMeasure: a must be a finite number ≥ 1, got {a!r}. "
                "a=1 is the inter-class scatter, a=3 the maximum margin criterion."
            )
        return cls((a - 1.0) / 2.0)

    def __str__(self) -> str:
        return f"margin criterion S_b − {self.epsilon:g}·S_w"

    @property
    def needs_within(self) -> bool:
        """Whether S_w plays a part: not for ε = 0."""
        return self.epsilon > 0

    def most_directions(self, n_classes: int, n_features: int) -> int:
        """Return the number of features: past K − 1 directions lower the criterion, but they exist."""
        return n_features

    def solve_small(self, factor: Float, within: Float, n_components: int | None, most: int) -> Directions:
        """Return the leading eigenvectors of S_b − ε S_w, and only those asked for."""
        size = float(np.einsum("kd,kd->", factor, factor)) + self.epsilon * float(np.trace(within))
        within *= -self.epsilon
        within += factor.T @ factor
        q = len(within)
        most = min(most, q)
        count = min(q, max(most, 1, n_components or 0))
        values, vectors = linalg.eigh(within, subset_by_index=(q - count, q - 1), overwrite_a=True, check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
        n_positive = int(np.count_nonzero(values[:most] > q * np.finfo(float).eps * size))
        kept = max(n_positive, 1) if n_components is None else n_components
        return Directions(values[:kept], vectors[:, :kept], float(values[:n_positive].sum()), n_positive)

    def worth(self, between: Float, within: Float, metric: Float) -> float:
        """Return tr W(S_b − ε S_w)Wᵀ, for orthonormal W."""
        return float(np.einsum("kp,kp->", between, between)) - self.epsilon * float(np.trace(within))

    @classmethod
    def grid(cls, statistics: ClassMeans) -> Float:
        """Return values of ε from 0 to 20."""
        return EPSILONS

    def remark(
        self, kept: int, found: Directions, width: str, best_ratio: Callable[[], float], spell: Callable[[float], str]
    ) -> str:
        """Say how many directions raise the criterion, where it is not all of them."""
        if kept <= found.n_positive:
            return ""
        text = f"{found.n_positive} of the {kept} directions raise the {self}"
        if self.epsilon == 0:
            return f"{text}; it is indifferent to the others, which are the leading directions of S_t in what is left."
        text += "; the others lower it."
        if found.n_positive == 0:
            ratio = best_ratio()
            text += (
                f" The largest ratio of between-class to within-class variance is {ratio:.4g}, below "
                f"epsilon={self.epsilon:g}; set {spell(below(ratio))} to keep it."
            )
        return text


@dataclass(frozen=True)
class FisherCriterion(Criterion):
    """Maximise the ratio wᵀS_b w / wᵀ(S_w + ρI)w, one direction after another, conjugate in S_w + ρI.

    Parameters
    ----------
    ridge : float
        The ridge ρ ≥ 0, in the squared units of the features. 0 is linear discriminant analysis; a large ridge
        approaches the span of the class means.

    See Also
    --------
    MarginCriterion : The difference in place of the ratio.

    Examples
    --------
    >>> print(FisherCriterion(0.0))
    Fisher criterion with ridge 0
    """

    ridge: float
    name: ClassVar[str] = "fisher"
    parameter: ClassVar[str] = "ridge"
    orthonormal: ClassVar[bool] = False
    is_ridge: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(
                f"FisherCriterion: ridge must be a finite number ≥ 0, got {self.ridge!r}. "
                "Use 0 for plain linear discriminant analysis."
            )

    def __str__(self) -> str:
        return f"Fisher criterion with ridge {self.ridge:g}"

    @property
    def head_ridge(self) -> float:
        """The ridge itself."""
        return self.ridge

    def solve_small(self, factor: Float, within: Float, n_components: int | None, most: int) -> Directions:
        """Return rows with wᵀ(S_w + ρI)w = 1: with S_w + ρI = LLᵀ, from the singular vectors of L⁻¹Φᵀ.

        The eigenproblem has the size of K. Directions in which S_w + ρI vanishes are left out.
        """
        q = len(within)
        most = min(most, q)
        varying = (within.diagonal() != 0) | factor.any(axis=0)
        within.flat[:: q + 1] += self.ridge
        diagonal = np.maximum(within.diagonal(), 0.0)  # rounding may leave a zero of S_w slightly negative
        live = np.flatnonzero(diagonal)
        vanishing = q - len(live)
        if np.count_nonzero(varying[live]) >= max(most, 1):
            live = live[varying[live]]  # no direction uses the others: words, say, that no row has had yet
        if not len(live):
            raise ValueError(
                "S_w is zero, every class is a single point, and ridge is 0. Use ridge='auto' or a positive ridge."
            )
        scale = np.sqrt(diagonal[live])  # unit diagonal, so that units of the features do not look like singularity
        if len(live) < q:
            within = within[np.ix_(live, live)]
        within /= scale
        within /= scale[:, None]
        whiten, rank = _whitener(within)
        white = whiten(factor[:, live].T / scale[:, None], False)
        left, singular, _ = linalg.svd(white, full_matrices=False, overwrite_a=True, check_finite=False)
        values = singular**2
        kept = min(most if n_components is None else n_components, rank)
        vectors = np.zeros((q, kept))
        vectors[live] = whiten(left[:, :kept], True) / scale[:, None]
        n_positive = int(np.count_nonzero(values[:most] > q * np.finfo(float).eps * values.sum()))
        return Directions(values[:kept], vectors, float(values.sum()), n_positive, vanishing + len(live) - rank)

    def worth(self, between: Float, within: Float, metric: Float) -> float:
        """Return tr (W(S_w + ρI)Wᵀ)⁻¹(W S_b Wᵀ), for any W."""
        return float(np.trace(np.linalg.solve(within + self.ridge * metric, between.T @ between)))

    @classmethod
    def grid(cls, statistics: ClassMeans) -> Float:
        """Return ridges from a thousandth to a hundred times the usual one."""
        return cls.usual(statistics) * 10.0**DECADES if statistics.within_trace > 0 else np.empty(0)

    @classmethod
    def usual(cls, statistics: ClassMeans) -> float:
        """Return tr S_w over the rows (`effective_rows`); where S_w is zero, any ridge gives the same directions."""
        trace = statistics.within_trace
        spread = trace if trace > 0 else float((statistics.between_factor() ** 2).sum())
        return spread / statistics.effective_rows

    @classmethod
    def again(cls, value: float, nodes: Float, statistics: ClassMeans) -> float:
        """Return the same multiple of the usual ridge, which falls as rows come."""
        now = cls.grid(statistics)
        return value * float(now[0] / nodes[0]) if len(now) and len(nodes) and nodes[0] > 0 else value

    @classmethod
    def coordinate(cls, values: Float) -> Float:
        """Return the logarithm of ridges."""
        places: Float = np.log10(np.maximum(values, np.finfo(float).tiny))
        return places

    @classmethod
    def from_coordinate(cls, places: Float) -> Float:
        """Return ridges."""
        ridges: Float = 10.0**places
        return ridges

    def remark(
        self, kept: int, found: Directions, width: str, best_ratio: Callable[[], float], spell: Callable[[float], str]
    ) -> str:
        """Say where S_w vanishes."""
        if not found.n_dropped:
            return ""
        return (
            f"S_w vanishes in {found.n_dropped} of {width} (constant or dependent ones), which are left out. Use a "
            "positive ridge to let them take part."
        )


# The rules for a ridge.


def ridge_rule(statistics: ClassMeans) -> float:
    """Return d/n times the lower quartile of the within-class variances, or times their mean where only that is known.

    One feature of large units would drown the others in the mean. A variance that is nothing compared with the
    others, as where a stream forgets the rows that a column varied in, says nothing of them.
    """
    spread = statistics.within_trace
    if statistics.holds_scatter:
        variances = statistics.within_variances()
        live = variances[variances > FADED * variances.max()]
        spread = statistics.n_features * float(np.percentile(live, 25)) if len(live) else 0.0
    if spread == 0:  # every class is a single point: any ridge gives the same directions
        spread = float((statistics.between_factor() ** 2).sum())
    return spread / statistics.effective_rows


def landmark_ridge(statistics: ClassMeans) -> float:
    """Return the ridge on landmarks as a part of tr S_w: one over the rows, times the square of landmarks per row.

    Kernel values of float32 rows have seven digits, so it is never below their rounding.
    """
    rows = max(statistics.effective_rows, 1.0)
    return max(float(np.finfo(np.float32).eps), min(1.0, statistics.n_features / rows) ** 2 / rows)


def below(ratio: float) -> float:
    """Return a short number a little below a ratio."""
    if ratio <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(ratio))
    return float(math.floor(0.95 * ratio * 10**digits) / 10**digits)


class _Whitener:
    """Apply the inverse root of a positive matrix, from the left (L⁻¹B) or transposed (L⁻ᵀB)."""

    def __init__(self, matrix: Float, *, inverted: bool) -> None:
        self.matrix, self.inverted = matrix, inverted

    def __call__(self, block: Float, transposed: bool) -> Float:
        if self.inverted:
            product: Float = self.matrix @ block if transposed else self.matrix.T @ block
            return product
        result: Float = linalg.solve_triangular(
            self.matrix, block, lower=True, trans=1 if transposed else 0, check_finite=False
        )
        return result


def _whitener(matrix: Float) -> tuple[_Whitener, int]:
    """Return the inverse root of a matrix of unit diagonal and its rank, leaving out where it vanishes."""
    d = len(matrix)
    tolerance = d * np.finfo(float).eps
    lower, failed = linalg.lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=0)
    if not failed:
        reciprocal, _ = linalg.lapack.dpocon(lower, np.abs(matrix).sum(axis=0).max(), uplo="L")
        if reciprocal > tolerance:
            return _Whitener(lower, inverted=False), d
    values, vectors = linalg.eigh(matrix, check_finite=False)
    kept = values > tolerance * values[-1]
    return _Whitener(vectors[:, kept] / np.sqrt(values[kept]), inverted=True), int(kept.sum())
