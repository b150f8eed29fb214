"""Figures that were measured: each one on a page is in a kept run that the page names, and `-s` prints how many are."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FRONT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/api/index.rst")
PAGES = [
    *(ROOT / name for name in FRONT),
    *sorted(path for path in DOCS.rglob("*.md") if "gallery" not in path.parts),
]
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
UNIT = r"(?:\s?(?:%|×)|\s(?:points?|seconds?|minutes?|s|ms|µs|KB|MB|GB|KiB|MiB|GiB)\b)"
FIGURE = re.compile(rf"(?<![\w.^/§])(\d+(?:,\d{{3}})*\.\d+|{NUMBER}(?={UNIT}))(?![\d\w]|\.\d)")
"""A decimal, or a number with a unit."""

TAKEN_OVER = {"docs/index.md": {"first_page"}, "docs/benchmarks/index.md": set()}
"""Runs whose figures a page shows without naming their command."""

NOT_MEASURED = {
    "README.md": {"3.11": "a version", "64": "the limit of the sample"},
    "CONTRIBUTING.md": {
        **dict.fromkeys(("3.11", "3.13", "1.0", "0.1"), "a version"),
        **dict.fromkeys(("20", "15", "2"), "how long a command takes: a rough guide, which no claim rests on"),
    },
    "docs/decisions/02_one_krylov_space.md": {"1": "a limit"},
    "docs/decisions/17_head_without_scatter.md": {"2": "√(2 / rows), the error of a variance"},
    "docs/guide/choice.md": {"512": "a limit", "256": "a limit", "0.002": "`slack` of selection/settings.py"},
    "docs/guide/cluster.md": dict.fromkeys(("68", "13", "11", "1.25", "270"), "computed in the text from its inputs"),
    "docs/guide/deploy.md": {"30": "a default", "8": "a limit"},
    "docs/guide/reliability.md": {"512": "a limit"},
    "docs/guide/report.md": {"0.002": "the constant of an alarm", "10": "a limit"},
    "docs/guide/records.md": {
        **dict.fromkeys(("0.096", "2.5"), "a number in a cell"),
        **dict.fromkeys(("4", "8", "64"), "a limit"),
    },
    "docs/promises.md": {"1": "a limit"},
}
"""Numbers with a decimal or a unit that are limits, definitions or examples, by page."""

UNTRACED = {"docs/papers/mmda.md": 199}
"""How many figures of a page no kept run holds; `reproduction mmda_tables` takes hours. Never raise a number."""


def prose(text):
    """Return the text outside code, addresses and formulas."""
    text = re.sub(r"^( *)```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|\$[^$\n]*\$", "", text)


def kept(names):
    """Return the numbers that kept runs printed, without what their files say of the run."""
    files = [DOCS / "benchmarks" / "results" / f"{name}.txt" for name in sorted(names)]
    return {x for path in files if path.exists() for x in numbers([path], after="\n\n")}


def numbers(files, after=""):
    """Return the numbers in some files."""
    texts = [path.read_text().partition(after)[2] if after else path.read_text() for path in files]
    return {float(number.replace(",", "")) for text in texts for number in re.findall(r"(?<![\w.])" + NUMBER, text)}


def named(text):
    """Return the benchmarks that a page names."""
    return set(re.findall(r"(?:python -m benchmarks |^```\{benchmark\} )(\w+)", text, re.MULTILINE))


def untraced(page, text, printed):
    """Return the figures of a page that are neither printed by its runs, nor said not to be measured."""
    missing = []
    for figure in FIGURE.findall(prose(text)):
        value, digits = float(figure.replace(",", "")), len(figure.partition(".")[2])
        near = 0.51 * 10.0**-digits
        if figure in NOT_MEASURED.get(page, ()):
            continue
        if not any(abs(scale * number - value) <= near for number in printed for scale in (1.0, 100.0)):
            missing.append(figure)
    return missing


def measured(path):
    """Return the figures of a page, and those without a source."""
    page, text = str(path.relative_to(ROOT)), path.read_text()
    printed = kept(named(text) | TAKEN_OVER.get(page, set())) | numbers(PRINTED_BY_PAPERS.get(page, ()))
    return FIGURE.findall(prose(text)), untraced(page, text, printed)


PRINTED_BY_PAPERS = {
    "docs/papers/mmda.md": [ROOT / "reproduction" / "_mmda_paper.py", ROOT / "reproduction" / "expected.toml"],
}
"""Files with the figures that papers printed, and with those that `kampong reproduce` is held to."""

WRITTEN = {DOCS / "papers" / "verdicts.md": "`kampong reproduce all` writes it; the test below compares it"}


@pytest.mark.parametrize(
    "path", [path for path in PAGES if path not in WRITTEN], ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_measured_figure_is_in_a_kept_run(path):
    page = str(path.relative_to(ROOT))
    figures, missing = measured(path)
    print(f"{page}: {len(figures) - len(missing)} of {len(figures)} figures traced")
    assert len(missing) <= UNTRACED.get(page, 0), f"no kept run that {page} names has printed {missing}"
    assert UNTRACED.get(page, 0) == len(missing), f"lower UNTRACED of {page} to {len(missing)}"
    for figure in NOT_MEASURED.get(page, ()):
        assert figure in figures, f"{page} no longer has {figure}"


def test_a_figure_without_a_source_is_found():
    text = "In `python -m benchmarks x` it has 0.93 of 71 % in 2.5 s, `1.5` and 3 rows.\n\n```\n9.9\n```\n"
    assert FIGURE.findall(prose(text)) == ["0.93", "71", "2.5"]
    assert untraced("x.md", text, {0.9312, 0.7051}) == ["2.5"]
    assert untraced("x.md", text, {0.94, 0.7149, 2.5}) == ["0.93"]
    assert named(text + "\n```{benchmark} y\n```") == {"x", "y"}
    assert 0.584 in kept({"first_page"})
    assert kept({"no such run"}) == set()


def test_the_figures_of_the_verdicts_are_those_that_a_run_is_held_to():
    expected = tomllib.loads((ROOT / "reproduction" / "expected.toml").read_text())["full"]
    values = {name: pair for figures in expected.values() for name, pair in figures.items()}
    compared = wrong = 0
    for line in (DOCS / "papers" / "verdicts.md").read_text().splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) == 6 and cells[1] in values:
            found = [pair for figures in expected.values() for name, pair in figures.items() if name == cells[1]]
            ours = float(cells[3].replace(",", "").replace("−", "-") or "nan")
            compared += 1
            if not any(abs(ours - value) <= tolerance + 0.005 * abs(value) for value, tolerance in found):
                wrong += 1
                print(cells[1], ours, found)
    print(f"docs/papers/verdicts.md: {compared} figures compared")
    assert wrong == 0
    assert compared > 100
