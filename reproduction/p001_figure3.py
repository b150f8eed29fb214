"""001, figure 3: micro and macro F1 of an SVM after each reduction of the text."""

from __future__ import annotations

from typing import Any

from reproduction._linear import COLOURS
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture
from reproduction._text import Score, experiment, sizes

TITLE = "Micro-F1 and macro-F1 after each reduction"
CLAIM = (
    "IIS on 100 documents is significantly better than IPCA and IG3; on 100,000 it is comparable to IG500; on 10,000 "
    "it is near its best."
)


def measure(quick: bool) -> tuple[dict[str, dict[str, Score]], list[Finding], list[tuple[str, bytes]]]:
    """Return all scores, as findings and as a picture."""
    found = {title: experiment(*what) for title, what in sizes(quick).items()}
    findings = [
        Finding(
            f"{title}, {method}: {kind} F1", getattr(score, kind), None, 0.02 if "@10:" not in f"{method}:" else 0.1
        )
        for title, scores in found.items()
        for method, score in scores.items()
        for kind in ("micro", "macro")
    ]
    figure, axes = draw(9, 4, columns=2)
    pictures = []
    if figure is not None:
        scores = found["arXiv"]
        for axis, kind in zip(axes, ("micro", "macro"), strict=True):
            _bars(axis, scores, kind)
        pictures.append(("F1 of each reduction", picture(figure)))
    return found, findings, pictures


def _bars(axis: Any, scores: dict[str, Score], kind: str) -> None:
    axis.barh(list(scores)[::-1], [getattr(score, kind) for score in scores.values()][::-1], color=COLOURS[0])
    axis.set(title=f"{kind} F1, four arXiv groups", xlim=(0, 1))
    axis.tick_params(labelsize=7)


def run(quick: bool) -> Result:
    """Judge the three parts of the claim."""
    found, findings, pictures = measure(quick)
    scores = found["arXiv"]
    largest = "IIS 3@100000" if "IIS 3@100000" in scores else "IIS 3@all"
    early = scores["IIS 3@100"].micro > scores["IPCA 3@all"].micro + 0.01
    beside = scores["IIS 3@100"].micro > scores["IG 3@all"].micro + 0.01
    late = scores[largest].micro > scores["IG 500@all"].micro - 0.02
    near = scores["IIS 3@10000"].micro > scores[largest].micro - 0.02
    verdict = HOLDS if early and beside and late and near else CONDITION if late and near else FAILS
    sentence = (
        f"On arXiv, micro / macro F1: IIS on 100 documents {_pair(scores['IIS 3@100'])}, IG3 "
        f"{_pair(scores['IG 3@all'])}, IPCA 3 "
        f"{_pair(scores['IPCA 3@all'])}: "
        f"{'better than both' if early and beside else 'better than IG3, not than IPCA' if beside else 'not better'}. "
        f"IIS on 10,000 {_pair(scores['IIS 3@10000'])}, at its most {_pair(scores[largest])}, IG500 "
        f"{_pair(scores['IG 500@all'])}; "
        f"PCA 500 {_pair(scores['PCA 500'])}, weighted MMC with ε chosen {_pair(scores['weighted MMC, ε chosen'])}."
    )
    return Result(verdict, sentence, findings, pictures)


def _pair(score: Score) -> str:
    return f"{score.micro:.3f} / {score.macro:.3f}"
