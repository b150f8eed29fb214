"""The house: ARCHITECTURE.md's map names every file, docs/which.md names the estimators, and nothing goes round."""

import re
from pathlib import Path

import pytest

import kampong

ROOT = Path(__file__).resolve().parents[2]


def files_in_map():
    """Return the paths that the map of ARCHITECTURE.md names, from its indentation."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"```\nsrc/kampong/\n(.*?)```", text, re.DOTALL).group(1)
    found, folders = set(), []
    for line in block.splitlines():
        if not line.startswith("  "):
            break
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]
        for name in names.split(", "):
            if name.endswith("/"):
                folders = [*folders[: depth - 1], name]
            else:
                found.add("".join(folders[: depth - 1]) + name)
    return found


def test_the_map_names_every_file_and_no_other():
    source = ROOT / "src" / "kampong"
    files = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert files_in_map() == {name for name in files if not name.endswith("__init__.py")}


def test_every_file_says_what_it_is_for():
    for path in (ROOT / "src").rglob("*.py"):
        assert path.read_text().startswith('"""'), path


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
