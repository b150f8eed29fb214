"""004, figure 2: a network's accuracy against the number of features, with the curve of MMDA(SVM), the exact one."""

from __future__ import annotations

from reproduction._extractors import compile_first, extract, network
from reproduction._linear import COLOURS
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, MissingDataError, Result, draw, picture
from reproduction._sets import load

TITLE = "A network's accuracy and the time, by number of features: MMDA(CVM) and MMDA(SVM)"
CLAIM = (
    "Time grows with the features; core sets are often much faster than the exact program and as accurate; 3K to 5K "
    "features are best."
)
SETS = ("optdigits", "satimage", "pendigits")
FACTORS = (1, 2, 3, 4, 5)


def run(quick: bool) -> Result:
    """Return accuracy and seconds of both, by features."""
    compile_first()
    findings, times, points, best = [], [], [], []
    figure, axes = draw(10, 3.6, columns=3)
    for place, name in enumerate(SETS[:1] if quick else SETS):
        data = load(name, 4 if quick else 1)
        if data is None:
            raise MissingDataError(f"{name}.npz is not here; set KAMPONG_DATA to the folder that holds it")
        lines: dict[str, list[tuple[int, float, float]]] = {"core": [], "exact": []}
        for kind, line in lines.items():
            for factor in (1, 3) if quick else FACTORS:
                found = extract(f"{kind} {factor}K", data)
                assert found is not None
                line.append((factor, network(found, data), found.seconds))
                label = {"core": "MMDA(CVM), to a gap", "exact": "MMDA(SVM), exact"}[kind]
                findings.append(
                    Finding(f"{name}, {label}, {factor}K features: network %", line[-1][1], None, 1.0, "{:.2f}")
                )
                findings.append(Finding(f"{name}, {label}, {factor}K features: seconds", line[-1][2], form="{:.2f}"))
        times.append(sum(t for _, _, t in lines["core"]) / sum(t for _, _, t in lines["exact"]))
        points.append(max(abs(a[1] - b[1]) for a, b in zip(lines["core"], lines["exact"], strict=True)))
        best.append(max(lines["core"], key=lambda moment: moment[1])[0])
        if figure is not None:
            for (kind, line), colour in zip(lines.items(), COLOURS, strict=False):
                axes[place].plot([f for f, _, _ in line], [a for _, a, _ in line], "o-", ms=3, color=colour, label=kind)
            axes[place].set(title=name, xlabel="features / K", ylabel="network, %")
            axes[place].legend(fontsize=7)
    verdict = HOLDS if max(points) < 1 and min(best) >= 3 else CONDITION if max(points) < 1.5 else FAILS
    sentence = (
        f"Core sets are within {max(points):.2f} points of the exact program everywhere, in "
        f"{', '.join(f'{t:.2f}' for t in times)} of its time "
        f"({', '.join(SETS[: len(times)])}). The network is best at {', '.join(f'{b}K' for b in best)} features."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("Network's accuracy", picture(figure))])
