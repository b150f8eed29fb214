"""002, figure 1: two long classes in the plane; the directions of LDA and PCA."""

from __future__ import annotations

from reproduction._result import FAILS, HOLDS, Finding, Result
from reproduction.p001_figure2 import run as plane

TITLE = "A simple example of different subspaces"
CLAIM = "Projected by LDA the classes separate easily; projected by PCA they are mixed."


def run(quick: bool) -> Result:
    """Read it off the same plane as 001, figure 2."""
    found = plane(quick)
    errors = {f.name.split(", ")[1]: f.ours for f in found.findings if f.name.startswith("error")}
    findings = [Finding(f"error of the nearest mean, {name}", errors[name], None, 0.01) for name in ("LDA", "PCA")]
    verdict = HOLDS if errors["LDA"] < 0.02 and errors["PCA"] > 0.2 else FAILS
    sentence = f"Errors of the nearest mean: {100 * errors['LDA']:.1f} % by LDA, {100 * errors['PCA']:.0f} % by PCA."
    return Result(verdict, sentence, findings, found.pictures, found.seed)
