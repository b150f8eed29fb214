"""Run the reproductions of a paper, one after another, with progress; write the page and its Markdown twin."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING

from reproduction import _sets
from reproduction._page import write_html, write_markdown
from reproduction._result import SCRIPT, MissingDataError, Report, accept, outside, scripts

if TYPE_CHECKING:
    from pathlib import Path

PAPERS = ("000", "001", "002", "003", "004")


def run(
    which: str = "all",
    *,
    figure: int | None = None,
    table: int | None = None,
    out: Path | None = None,
    quick: bool = False,
    write_expected: bool = False,
) -> int:
    """Run what is asked for, and return the exit code: 1 where a figure is outside its tolerance, else 0."""
    names = scripts(which, figure=figure, table=table)
    if not names:
        there = ", ".join(_spoken(name) for name in scripts(which))
        print(f"There is no such item of {which}. There are: {there}.")
        return 2
    mode, reports = "quick" if quick else "full", []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {_spoken(name)} … ", end="", flush=True)
        report = _one(name, quick)
        report.outside = [] if write_expected else outside(report, mode)
        reports.append(report)
        print(f"{report.verdict}; {report.cpu_seconds:.1f} s of CPU", flush=True)
        for line in report.outside:
            print(f"    outside its tolerance: {line}")
    if write_expected:
        accept(reports, mode)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "papers.html").write_text(write_html(reports, mode), encoding="utf-8")
        (out / "papers.md").write_text(write_markdown(reports, mode), encoding="utf-8")
        print(f"Written: {out / 'papers.html'} and {out / 'papers.md'}")
    missing = [report for report in reports if report.result is None]
    failed = [report for report in reports if report.outside]
    total = sum(report.cpu_seconds for report in reports)
    print(
        f"{len(reports) - len(missing)} of {len(reports)} ran in {total:.0f} s of CPU; {len(failed)} outside tolerance."
    )
    return 1 if failed else 0


def _one(name: str, quick: bool) -> Report:
    module = importlib.import_module(f"reproduction.{name}")
    match = SCRIPT.fullmatch(name)
    assert match is not None
    report = Report(match[1], match[2], int(match[3]), module.TITLE, module.CLAIM, None)
    _sets.OPENED.clear()
    cpu, start = time.process_time(), time.perf_counter()
    try:
        report.result = module.run(quick)
    except MissingDataError as error:
        report.missing = str(error)
    report.cpu_seconds, report.seconds = time.process_time() - cpu, time.perf_counter() - start
    report.files = _sets.checksums()
    return report


def _spoken(name: str) -> str:
    match = SCRIPT.fullmatch(name)
    assert match is not None
    return f"{match[1]} {match[2]} {match[3]}"
