"""000, figure 5: F1 of IWMMC with ε = θ = 0, information gain and IPCA; the experiment of 001, figure 3."""

from __future__ import annotations

from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result
from reproduction._text import experiment, sizes

TITLE = "F1 of incremental weighted MMC (IWMMC, ε = θ = 0) on text"
CLAIM = "IWMMC outperforms information gain and IPCA (the bars are IG3, IG500 and IPCA)."


def run(quick: bool) -> Result:
    """Compare with all training documents: IWMMC at ε = θ = 0 is IIS."""
    scores = experiment(*sizes(quick)["arXiv"])
    ours = scores["IIS 3@all"]
    names = ("IG 3@all", "IG 500@all", "IPCA 3@all", "weighted MMC, ε chosen")
    findings = [
        Finding(f"{name}: {kind} F1", getattr(scores[name], kind), None, 0.02)
        for name in ("IIS 3@all", *names)
        for kind in ("micro", "macro")
    ]
    beaten = [name for name in names[:3] if ours.micro > scores[name].micro]
    verdict = HOLDS if len(beaten) == 3 else CONDITION if len(beaten) == 2 else FAILS
    sentence = (
        f"On four arXiv groups IWMMC has micro / macro F1 {ours.micro:.3f} / {ours.macro:.3f} and is ahead of "
        f"{', '.join(beaten) or 'none'}; "
        f"IG500 has {scores['IG 500@all'].micro:.3f} / {scores['IG 500@all'].macro:.3f}. ε = 0 is the weakest "
        f"choice: chosen, it gives "
        f"{scores[names[3]].micro:.3f} / {scores[names[3]].macro:.3f}."
    )
    return Result(verdict, sentence, findings)
