"""What one reproduction says: figures beside the paper's, a verdict, a sentence, pictures; and what is expected of it.

A script of `reproduction/` is named after what it repeats (`p001_figure4.py`) and has TITLE, CLAIM and `run(quick)`,
which returns a `Result`. `expected.toml` holds every figure of a full and of a quick run with the tolerance that the
script names: a later run outside it fails.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.toml"
HOLDS, CONDITION, FAILS, UNTESTED = "holds", "holds with a condition", "does not hold", "cannot be tested"
SCRIPT = re.compile(r"p(\d{3})_(figure|table|claim|question)(\d+)(?:_\w+)?$")


class MissingDataError(Exception):
    """A set is not at hand; the text says which, and what to do."""


@dataclass(frozen=True)
class Finding:
    """One figure: its name, the paper's where it prints one, ours, and how far a later run may be from it."""

    name: str
    ours: float
    paper: float | None = None
    within: float = math.inf
    form: str = "{:.3f}"

    @classmethod
    def of(cls, name: str, values: Any, least: float = 0.01, form: str = "{:.3f}") -> Finding:
        """Return the median of what seeds and orders of the rows gave, within four standard errors of it.

        On another machine a last bit may turn one of the runs into another draw; the median of all moves no further.

        Parameters
        ----------
        name : str
            What was measured.
        values : array-like
            One figure per run.
        least : float
            The least tolerance.
        form : str
            How it is printed.

        Returns
        -------
        Finding
            The figure and its tolerance.
        """
        found = np.asarray(values, dtype=np.float64)
        error = 1.2533 * found.std(ddof=1) / math.sqrt(len(found))  # of the median of normal draws
        return cls(name, float(np.median(found)), None, max(least, float(f"{4 * error:.2g}")), form)

    @property
    def ratio(self) -> float | None:
        return self.ours / self.paper if self.paper else None


@dataclass
class Result:
    """What one script found."""

    verdict: str
    sentence: str
    findings: list[Finding] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    seed: int = 0


@dataclass
class Report:
    """A script, what it found or lacks, and what it took."""

    paper: str
    kind: str
    number: int
    title: str
    claim: str
    result: Result | None
    missing: str = ""
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.paper} {self.kind} {self.number}"

    @property
    def verdict(self) -> str:
        return self.result.verdict if self.result else f"not run: {self.missing}"


def scripts(which: str = "all", *, figure: int | None = None, table: int | None = None) -> list[str]:
    """Return the scripts of a paper, or of all, in order."""
    chosen = []
    for path in sorted(HERE.glob("p[0-9][0-9][0-9]_*.py")):
        match = SCRIPT.fullmatch(path.stem)
        if match is None or which not in ("all", match[1]):
            continue
        wanted = {"figure": figure, "table": table}
        if (figure is None and table is None) or wanted.get(match[2]) == int(match[3]):
            chosen.append(path.stem)
    return chosen


def draw(width: float = 6.4, height: float = 3.6, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """Return a figure and its axes, drawn without a screen; None, None where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        return None, None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False, layout="constrained")
    return figure, axes.ravel() if rows * columns > 1 else axes[0, 0]


def picture(figure: Any) -> bytes:
    """Return a drawn figure as PNG."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    plt.close(figure)
    return buffer.getvalue()


def checksum(path: Path) -> str:
    """Return the first 12 digits of a file's SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:12]


def expected() -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the figures of the last accepted runs: by mode, script and name, each [value, tolerance]."""
    return tomllib.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def outside(report: Report, mode: str) -> list[str]:
    """Return what is not as expected, in words."""
    known = expected().get(mode, {}).get(report.name, {})
    if report.result is None:
        return []
    found = {finding.name: finding for finding in report.result.findings if math.isfinite(finding.within)}
    said = []
    for name, finding in found.items():
        if name not in known:
            said.append(f"{name}: {finding.ours:.4g}, and expected.toml has no figure for it")
        elif not abs(finding.ours - known[name][0]) <= known[name][1]:
            said.append(f"{name}: {finding.ours:.4g}, expected {known[name][0]:.4g} ± {known[name][1]:g}")
    return said + [f"{name}: expected, but not measured" for name in known if name not in found]


def accept(reports: list[Report], mode: str) -> None:
    """Write the figures of a run into expected.toml; scripts that did not run keep theirs."""
    everything = expected()
    for report in reports:
        if report.result is not None:
            everything.setdefault(mode, {})[report.name] = {
                finding.name: [float(f"{finding.ours:.5g}"), float(finding.within)]
                for finding in report.result.findings
                if math.isfinite(finding.within)
            }
    lines = ["# Every figure of a reproduction as [value, tolerance]; a run outside fails.", ""]
    for name in sorted(everything):
        for script, figures in sorted(everything[name].items()):
            lines.append(f'[{name}."{script}"]')
            lines += [f'"{key}" = [{value[0]!r}, {value[1]!r}]' for key, value in figures.items()]
            lines.append("")
    EXPECTED.write_text("\n".join(lines))
