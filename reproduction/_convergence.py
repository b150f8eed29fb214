"""Convergence curves of the recursions on one set: |cos| between the first vector and the batch direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from reproduction._linear import COLOURS, curves, leading, scatters

if TYPE_CHECKING:
    import numpy as np


def convergence(X: np.ndarray, y: np.ndarray, *, theta: Any, orders: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the median curves of IMMC with the paper's θ and our own, IIS and CCIPCA."""
    between, within = scatters(X, y)
    margin, means = leading(between - within)[1], leading(between)[1]
    principal = leading(between + within)[1]
    models = {
        f"IMMC, θ = {theta:g}": (MarginRecursion(1, theta=theta), margin),
        "IMMC, θ auto": (MarginRecursion(1), margin),
        "IIS": (MarginRecursion.inter_class(1), means),
        "CCIPCA": (CandidCovarianceFreePCA(1, amnesia=2.0), principal),
    }
    return {name: curves(model, target, X, y, orders) for name, (model, target) in models.items()}


def plot(axis: Any, found: dict[str, tuple[np.ndarray, np.ndarray]], title: str) -> None:
    """Draw the curves."""
    for (name, (moments, cosines)), colour in zip(found.items(), COLOURS, strict=False):
        axis.plot(moments, cosines, label=name, color=colour, lw=1.5)
    axis.set(title=title, xlabel="rows", ylabel="|cos| to the batch direction", ylim=(0, 1.02), xscale="log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, loc="lower right")
