"""002, figure 4: the experiment of 001, figure 1, with the Supervised Kampong Measure in place of MMC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reproduction.p001_figure1 import run_kampong

if TYPE_CHECKING:
    from reproduction._result import Result

TITLE = "Projections of two classes in three dimensions"
CLAIM = "PCA mixes the two classes in one dimension and in two; SKM separates them in any; LDA has one dimension only."


def run(quick: bool) -> Result:
    """Measure SKM with a = 2."""
    return run_kampong()
