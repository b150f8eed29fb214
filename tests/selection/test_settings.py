"""The tuned numbers of selection have one home, and each of them is used and explained."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

import kampong
from kampong.selection.settings import SETTINGS, Settings

PACKAGE = Path(kampong.__file__).parent
LIMITS = {"EMPTY", "LARGEST", "SAME", "NOTHING", "FAR", "FIELDS", "SPACE", "LOSSES"}
"""Limits of floating-point numbers, which no data set, and of the fields of a file."""

READERS = [
    PACKAGE / "build.py",
    # The numbers of the kernel width live beside their only user.
    *(path for path in sorted((PACKAGE / "selection").glob("*.py")) if path.stem not in ("settings", "kernel_width")),
]


def numbers(path):
    """Return the names that a module gives to numbers."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            held = [one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)]
            if any(isinstance(one, int | float) and not isinstance(one, bool) for one in held):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.stem)
def test_no_number_lives_elsewhere(path):
    assert numbers(path) <= LIMITS


def test_the_search_finds_numbers(tmp_path):
    (tmp_path / "one.py").write_text("A, B = 1, 2.5\nC: int = 2**4\nD = 'word'\nE = [-1]\nF = f(x, 3)\n")
    assert numbers(tmp_path / "one.py") == {"A", "B", "C", "E", "F"}


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: field.name)
def test_each_is_used_and_explained(field):
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert re.search(rf"(SETTINGS|self)\.{field.name}\b", text)
    listed = re.findall(r"^    ([a-z_, ]+) : ", Settings.__doc__, re.MULTILINE)
    assert field.name in {name for names in listed for name in names.split(", ")}


def test_nobody_changes_them():
    with pytest.raises(AttributeError):
        SETTINGS.slack = 0.0
