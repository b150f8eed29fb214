"""The findings as one self-contained HTML page, pictures inside, and as Markdown."""

from __future__ import annotations

import base64
import html
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reproduction._result import Finding, Report

TITLES = {
    "000": "IMMC: incremental maximum margin criterion (KDD 2004)",
    "001": "A scalable supervised algorithm for dimensionality reduction on streaming data (2006)",
    "002": "The Supervised Kampong Measure (SKM)",
    "003": "MaxMinOver: a simple incremental learning procedure for support vector classification (2004)",
    "004": "Efficient kernel feature extraction for massive data sets (KDD 2006)",
}
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 62rem; }
body { overflow-wrap: break-word; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; } h3 { margin: 2rem 0 .3rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .92rem; }
td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td:first-child { min-width: 5.5rem; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; height: auto; background: white; border: 1px solid var(--line); }
.v { font-weight: 600; white-space: nowrap; } .small { font-size: .85rem; opacity: .75; }
.holds { color: #1a7f37; } .with { color: #9a6700; } .does { color: #cf222e; } .cannot, .not { opacity: .7; }
@media (prefers-color-scheme: dark) { .holds { color: #4ac26b; } .with { color: #d4a72c; } .does { color: #ff7b72; } }
@media (max-width: 40rem) { .v { white-space: normal; } td, th { padding: .2rem .35rem; } }
"""
NAMES = {
    "MMC": ("000, 001", "`MaximumMarginCriterion`, exact"),
    "IMMC": ("000, 001", "`MarginRecursion.maximum_margin`, the recursion"),
    "weighted MMC": ("000 §4.2, 001 §3.1", "`MarginSubspace(epsilon=…)`, exact"),
    "IWMMC": ("000 §4.2", "`MarginRecursion(epsilon=…)`, the recursion"),
    "inter-class scatter, IIS": (
        "001 §3.2",
        "`InterClassScatter`, exact; `MarginRecursion.inter_class`, the recursion",
    ),
    "SKM": ("002", "`SupervisedKampongMeasure`, exact; `MarginRecursion.kampong`, the recursion"),
    "weights e(l, j)": ("002 §4.2", "`WeightedKampongMeasure` in reproduction/_weights.py"),
    "IPCA, CCIPCA": ("001, 002", "`CandidCovarianceFreePCA`"),
    "IG": ("001, 002", "`InformationGain`"),
    "LDA": ("000, 001, 002", "`FisherDiscriminant(ridge=0)`"),
    "MinOver": ("003 §II", '`MinOverClassifier(walk="paper")`'),
    "MaxMinOver": ("003 §III", '`MaxMinOverClassifier(walk="paper")`'),
    "DoubleMinOver": ("Martinetz, MinOver revisited", '`MinOverClassifier(bias="exact", walk="paper")`'),
    "DoubleMaxMinOver": (
        "Martinetz, Labusch and Schneegaß 2009",
        '`MaxMinOverClassifier(bias="exact", walk="paper")`, which forgets as in 003 §III',
    ),
    "SoftDoubleMaxMinOver": (
        "Martinetz, Labusch and Schneegaß 2009",
        '`MaxMinOverClassifier(bias="exact", walk="paper", kernel="precomputed")` on K + I/C',
    ),
    "one-class MaxMinOver": (
        "Labusch, Timm and Martinetz 2008",
        "the same with each pattern's mirror image as the other class: kernel values [[K, −K], [−K, K]]",
    ),
    "BVM": ("Tsang, Kocsor and Kwok 2007", '`CoreVectorClassifier(criterion="ball")`'),
    "SoftMaxMinOver": ("003 §IV", '`MaxMinOverClassifier(nu=…, walk="paper")`'),
    "CVM": ("004", "`CoreVectorClassifier`"),
    "MMDA, MMDA(CVM), MMDA(SVM)": ("004", '`MaximumMarginDiscriminant`, its `method` "core" or "exact"'),
    "KFD": ("004", "`KernelFisherDiscriminant`"),
}
"""What a reader of the papers looks for."""
INTRODUCTION = (
    "Every experiment of the five papers that can be repeated, run by this library. Each figure of a paper is "
    "followed by ours; "
    "the verdict is on the paper's claim, not on our code. The papers' text corpus, RCV1, cannot be had: arXiv's four "
    "largest groups stand in for its four topics, so those figures show whether a claim carries over, not whether the "
    "printed number was right."
)


def write_html(reports: list[Report], mode: str) -> str:
    """Return the page."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>The papers, measured again</title><style>{STYLE}</style><body>",
        f"<h1>The papers, measured again</h1><p>{html.escape(INTRODUCTION)}</p>",
        f"<p class=small>A {mode} run: {sum(r.cpu_seconds for r in reports):.0f} s of CPU.</p>",
        "<div class=wide><table><tr><th>item<th>claim<th>verdict</tr>",
    ]
    for report in reports:
        anchor = report.name.replace(" ", "-")
        parts.append(
            f"<tr><td><a href='#{anchor}'>{report.name}</a><td>{html.escape(report.claim)}<td>{_verdict(report)}</tr>"
        )
    parts.append("</table></div>")
    for paper in dict.fromkeys(report.paper for report in reports):
        parts.append(f"<h2>{paper}: {html.escape(TITLES[paper])}</h2>")
        parts += [_section(report) for report in reports if report.paper == paper]
    return "\n".join([*parts, "</body></html>", ""])


def _verdict(report: Report) -> str:
    short = report.verdict.split(":")[0]
    kind = "with" if short == "holds with a condition" else short.split()[0]
    return f"<span class='v {kind}'>{html.escape(short)}</span>"


def _section(report: Report) -> str:
    title = f"{report.kind.capitalize()} {report.number}. {report.title}"
    lines = [f"<h3 id='{report.name.replace(' ', '-')}'>{html.escape(title)}</h3>"]
    lines.append(f"<p><b>Claim.</b> {html.escape(report.claim)}<br>{_verdict(report)}. ")
    if report.result is None:
        return "".join([*lines, f"{html.escape(report.missing)}</p>"])
    result = report.result
    lines.append(f"{html.escape(result.sentence)}</p>")
    for caption, data in result.pictures:
        code = base64.b64encode(data).decode()
        lines.append(f"<p><img alt='{html.escape(caption, quote=True)}' src='data:image/png;base64,{code}'></p>")
    if result.findings:
        printed = any(finding.paper is not None for finding in result.findings)
        lines.append(f"<div class=wide><table><tr><th>{'<th>paper<th>ours<th>ratio' if printed else '<th>ours'}</tr>")
        for finding in result.findings:
            shown = _cells(finding) if printed else _cells(finding)[1:2]
            cells = "".join(f"<td class=n>{cell}" for cell in shown)
            lines.append(f"<tr><td>{html.escape(finding.name)}{cells}</tr>")
        lines.append("</table></div>")
    lines.append(f"<p class=small>{html.escape(_facts(report))}</p>")
    lines += [f"<p class=does>Outside its tolerance: {html.escape(text)}</p>" for text in report.outside]
    return "\n".join(lines)


def _cells(finding: Finding) -> tuple[str, str, str]:
    paper = "" if finding.paper is None else finding.form.format(finding.paper)
    ratio = "" if finding.ratio is None else f"{finding.ratio:.3g}"
    return paper, finding.form.format(finding.ours), ratio


def _facts(report: Report) -> str:
    files = ", ".join(f"{name} {digest}" for name, digest in report.files.items()) or "generated, or scikit-learn's own"
    seed = report.result.seed if report.result else 0
    return f"Seed {seed}; data (SHA-256): {files}; {report.cpu_seconds:.1f} s of CPU, {report.seconds:.1f} s."


def write_markdown(reports: list[Report], mode: str) -> str:
    """Return the Markdown twin: one table of claims and verdicts, then every figure."""
    lines = ["# The papers, measured again", "", *textwrap.wrap(INTRODUCTION, 120), ""]
    asked = "--quick all" if mode == "quick" else "all"
    lines += [f"By `kampong reproduce {asked}`, which also writes a page with the pictures.", ""]
    lines += ["| item | claim | verdict | figure |", "|---|---|---|---|"]
    for report in reports:
        sentence = report.result.sentence if report.result else report.missing
        cells = (report.name, report.claim, f"**{report.verdict.split(':')[0]}**", sentence)
        lines.append(f"| {' | '.join(map(_safe, cells))} |")
    lines += ["", "## The papers' names, and ours", "", "| name in the papers | paper | here |", "|---|---|---|"]
    lines += [f"| {name} | {paper} | {here} |" for name, (paper, here) in NAMES.items()]
    for paper in dict.fromkeys(report.paper for report in reports):
        lines += ["", f"## {paper}: {TITLES[paper]}"]
        for report in reports:
            if report.paper == paper and report.result is not None:
                lines += ["", f"### {report.kind.capitalize()} {report.number}. {report.title}", ""]
                if report.result.findings:
                    lines += ["| | paper | ours | ratio |", "|---|---|---|---|"]
                    lines += [f"| {_safe(f.name)} | {' | '.join(_cells(f))} |" for f in report.result.findings]
                    lines.append("")
                lines.append(_facts(report))
    return "\n".join([*lines, ""])


def _safe(text: str) -> str:
    """Return text for a cell of a Markdown table: a bar would end the cell."""
    return text.replace("|", "\\|").strip()
