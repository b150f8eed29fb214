"""What is maximised: the margin criterion S_b − ε S_w and the Fisher ratio of S_b to S_w + ρI.

This is the only home of ε and ρ. With class priors p_k, class means m_k and mean m:

    S_b = Σ_k p_k (m_k − m)(m_k − m)ᵀ,    S_w = Σ_k p_k Cov_k,    S_t = S_b + S_w.

The two families meet: a margin direction with eigenvalue λ > 0 is the Fisher direction at ridge λ/ε, and its Fisher
ratio there is exactly ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self


class CriterionWarning(UserWarning):
    """The request is met, but not with directions that raise the criterion; the text says what would."""


@dataclass(frozen=True)
class MarginCriterion:
    """Maximise tr Wᵀ(S_b − ε S_w)W over orthonormal W.

    Parameters
    ----------
    epsilon : float
        The weight ε ≥ 0 of the within-class scatter. A direction raises the criterion only where its ratio of
        between-class to within-class variance exceeds ε.

    See Also
    --------
    FisherCriterion : The ratio in place of the difference.

    Examples
    --------
    >>> MarginCriterion.kampong(3.0) == MarginCriterion.maximum_margin()
    True
    """

    epsilon: float

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


@dataclass(frozen=True)
class FisherCriterion:
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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(
                f"FisherCriterion: ridge must be a finite number ≥ 0, got {self.ridge!r}. "
                "Use 0 for plain linear discriminant analysis."
            )

    def __str__(self) -> str:
        return f"Fisher criterion with ridge {self.ridge:g}"


Criterion = MarginCriterion | FisherCriterion
