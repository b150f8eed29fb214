"""The architecture: its page is true, files say what they are for, names are used once, tests mirror the package."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

import kampong

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "kampong"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FILES = sorted(SOURCE.rglob("*.py"))

SAME_NAME = {
    "__init__.py": "what a folder is for",
    "settings.py": "the tuned numbers of selection, of the contest and of streams",
}
"""File names that two rooms use, with the two meanings; a new pair needs a better name, or a line here."""

WITHOUT_ROOM = {
    "project": "documents, examples, benchmarks and the package as a whole",
    "fuzz": "attackers, run by tests/project/test_fuzz.py",
}
"""Folders of tests that belong to no single room."""


def rooms_of_map():
    """Return the rooms in the order of the map."""
    section = PAGE.split("## The map")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w/.]+)` \|", section, re.MULTILINE)


def rooms():
    """Return the folders of the package, and the modules beside them."""
    folders = {f"{path.parent.relative_to(SOURCE)}/" for path in SOURCE.rglob("*/__init__.py")}
    return folders | {path.name for path in SOURCE.glob("*.py") if path.name != "__init__.py"}


def test_the_map_names_every_room_once():
    assert sorted(rooms_of_map()) == sorted(rooms())


def test_the_map_has_the_order_of_the_import_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    floor = {name: i for i, layer in enumerate(contract["layers"]) for name in re.split(r" [|:] ", layer)}
    floors = [floor[re.split(r"[/.]", room)[0]] for room in rooms_of_map()]
    assert floors == sorted(floors)


def rows_of_questions():
    """Return the lines of the tables of concepts and of questions."""
    sections = [PAGE.split(title)[1].split("\n## ")[0] for title in ("## Five concepts", "## Where is…?")]
    return [line for text in sections for line in [one for one in text.splitlines() if one.startswith("| ")][1:]]


def names_defined(path):
    """Return the functions, classes and constants that a file defines, methods included."""
    tree = ast.parse(path.read_text())
    kinds = ast.FunctionDef | ast.ClassDef
    found = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return found | {
        one.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for one in ast.walk(node)
        if isinstance(one, ast.Name)
    }


@pytest.mark.parametrize("row", rows_of_questions(), ids=lambda row: row.split("|")[1].strip())
def test_an_answer_leads_to_a_file_and_names_what_is_in_it(row):
    links = re.findall(r"(?:`(\w+)` in )?\[([^\]]+)\]\(([^)]+)\)", row)
    assert links, row
    for name, shown, target in links:
        path = ROOT / target
        assert path.exists(), target
        assert target.endswith(shown) or target.startswith("docs/"), row
        if path.suffix == ".py" and path.is_relative_to(SOURCE):
            assert name, f"{target}: say which function or class of this file answers the question"
            assert name in names_defined(path), f"{name} is not in {target}"


def test_the_page_is_read_in_ten_minutes():
    prose = re.sub(r"\]\([^)]*\)", "]", PAGE)
    assert len(prose.split()) < 2000  # 200 words per minute


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_first_line_of_a_file_says_what_it_is_for(path):
    first = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]
    assert len(first.split()) >= 4, f"{path}: {first!r}"
    assert first.endswith("."), f"{path}: {first!r}"


def test_no_two_files_have_the_same_first_line():
    found = defaultdict(list)
    for path in FILES:
        found[path.read_text().split("\n")[0]].append(path.name)
    assert [names for names in found.values() if len(names) > 1] == []


def test_a_file_name_is_used_once_or_its_meanings_are_listed():
    found = defaultdict(list)
    for path in FILES:
        found[path.name].append(str(path.relative_to(SOURCE)))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in SAME_NAME} == {}
    assert set(SAME_NAME) - set(twice) == set(), "these names are used once now: take them off the list"


def test_every_folder_of_tests_is_a_room():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    known = {room.split("/")[0].removeprefix("_") for room in rooms() if room.endswith("/")}
    assert folders - known - set(WITHOUT_ROOM) == set()
    assert known - folders == set(), "a room without tests"


def pages():
    """Return the documents that name files; the changelog tells of files that are gone."""
    return [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING"))]


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_that_a_page_names_exists(path):
    for name in re.findall(r"`([\w.]+/[\w./]*(?:\.py|/))`", path.read_text()):
        assert (ROOT / name).exists() or (SOURCE / name).exists() or name.startswith("build/"), name


def test_decisions_are_numbered_short_and_in_the_index():
    folder = ROOT / "docs" / "decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "index.md")
    index = (folder / "index.md").read_text()
    for number, path in enumerate(records, 1):
        text = path.read_text()
        assert path.name.startswith(f"{number:02d}_"), path.name
        assert text.startswith(f"# {number}. "), path.name
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], path.name
        assert 5 <= text.count("\n") <= 15, path.name
        assert f"\n{path.stem}\n" in index, path.name


def test_the_page_on_which_estimator_names_all_of_them():
    named = set(re.findall(r"`([A-Z]\w+)(?:\(.*?\))?`", (ROOT / "docs" / "which.md").read_text()))
    estimators = {name for name in kampong.__all__ if hasattr(getattr(kampong, name), "fit")}
    assert estimators - named == set()


@pytest.mark.parametrize(
    "name",
    [
        "CandidCovarianceFreePCA",
        "CheckpointError",
        "CoreVectorClassifier",
        "CriterionWarning",
        "FisherDiscriminant",
        "InformationGain",
        "InterClassScatter",
        "KernelFisherDiscriminant",
        "KernelMarginSubspace",
        "MarginRecursion",
        "MarginSubspace",
        "MaxMinOverClassifier",
        "MaximumMarginCriterion",
        "MaximumMarginDiscriminant",
        "MinOverClassifier",
        "SupervisedKampongMeasure",
        "WeighedDiscriminant",
        "fit_landmarks",
        "from_bytes",
        "load",
        "merge_all",
        "statistics_of",
    ],
)
def test_a_public_name_stays(name):
    assert name in kampong.__all__
    assert getattr(kampong, name).__name__ == name


def test_the_rooms_that_documents_name_stay():
    from kampong.datasets import balance_scale, monk_problem, sparse_text, waveform
    from kampong.report import draw_classes, write_report
    from kampong.streaming import History, Layout, Run, Source, learn

    assert all((balance_scale, monk_problem, sparse_text, waveform, draw_classes, write_report))
    assert all((History, Layout, Run, Source, learn))


def test_ci_takes_foreign_actions_by_commit_and_says_which_version():
    used = [
        line
        for path in sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
        for line in path.read_text().splitlines()
        if re.match(r"\s*(- )?uses:", line)
    ]
    assert used
    for line in used:
        assert re.search(r"uses: (\./|[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)", line), line
