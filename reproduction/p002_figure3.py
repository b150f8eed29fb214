"""002, figure 3: F1 of incremental SKM with a = 1, which is IIS, in three dimensions beside 500 of PCA and IG."""

from __future__ import annotations

from kampong.recursions import MarginRecursion
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result
from reproduction._text import documents, experiment, sizes

TITLE = "F1 of incremental SKM on text, a = 1"
CLAIM = "SKM in 3 dimensions is much better than PCA in 500, better than IG3, and comparable to IG500."


def run(quick: bool) -> Result:
    """Compare; and see how near the paper's own update comes to the inter-class scatter's on the same documents."""
    scores = experiment(*sizes(quick)["arXiv"])
    ours, principal, gain = scores["IIS 3@all"], scores["PCA 500"], scores["IG 500@all"]
    X, y = documents("arxiv")
    rows = 5000 if quick else 50_000
    one = MarginRecursion.kampong(1, a=1.0).fit(X[:rows], y[:rows])
    other = MarginRecursion.inter_class(1).fit(X[:rows], y[:rows])
    cosine = abs(float(one.components_[0] @ other.components_[0]))
    findings = [
        Finding("SKM 3, a = 1: micro F1", ours.micro, None, 0.02),
        Finding("PCA 500: micro F1", principal.micro, None, 0.02),
        Finding("IG 500: micro F1", gain.micro, None, 0.02),
        Finding("IG 3: micro F1", scores["IG 3@all"].micro, None, 0.02),
        Finding(f"|cos| of SKM's own update to IIS after {rows} rows", cosine, None, 0.02),
    ]
    beats = ours.micro > principal.micro
    verdict = (
        HOLDS if beats and ours.micro > gain.micro - 0.02 else CONDITION if ours.micro > gain.micro - 0.02 else FAILS
    )
    place = "ahead of" if beats else "behind"
    sentence = (
        f"Micro / macro F1 on four arXiv groups: SKM 3 {ours.micro:.3f} / {ours.macro:.3f}, PCA 500 (SVD of 40,000 "
        f"documents) {principal.micro:.3f} / {principal.macro:.3f}, IG500 {gain.micro:.3f} / {gain.macro:.3f}, IG3 "
        f"{scores['IG 3@all'].micro:.3f}: {place} PCA 500."
    )
    return Result(verdict, sentence, findings)
