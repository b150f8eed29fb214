"""Symbolic links planted where the package makes a file: no file of the user is written through them.

A path that the user names is followed if it is a link (model, --out, --dead-letters), or the link is replaced (report,
receipt). A name that the package makes up is never followed.
"""

import sys

import pytest
from sklearn.datasets import load_iris

from kampong import CheckpointError, InterClassScatter, load
from kampong.files.replace import write_bytes
from kampong.files.signing import make_key
from kampong.report import write_report
from kampong.streaming import History, learn
from kampong.streaming.errors import OutputError
from kampong.streaming.inspection import write_digits
from stream_problems import write_points

if sys.platform == "win32":
    pytest.skip("links are those of posix", allow_module_level=True)

PRECIOUS = "precious " * 1000


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "elsewhere" / "victim"
    path.parent.mkdir()
    path.write_text(PRECIOUS)
    return path


@pytest.mark.parametrize("dangling", [False, True])
def test_dead_letters_that_were_not_named_follow_no_link(tmp_path, victim, dangling):
    write_points(tmp_path / "a.csv", 200, bad=0.1)
    target = victim.with_name("nowhere") if dangling else victim
    (tmp_path / "m.dead.jsonl").symlink_to(target)
    with pytest.raises(OutputError, match=r"a symbolic link that you did not name.*--dead-letters"):
        learn(str(tmp_path / "a.csv"), InterClassScatter(), label="kind", model_file=str(tmp_path / "m"))
    assert victim.read_text() == PRECIOUS
    assert not victim.with_name("nowhere").exists()


def test_a_link_that_the_user_names_is_followed(tmp_path, victim):
    """As a shell does: the user may keep outputs on another disk."""
    write_points(tmp_path / "a.csv", 200, bad=0.1)
    names = ("model", "out.csv", "dead.jsonl")
    for name in names:
        (tmp_path / name).symlink_to(victim.with_name(name))
    model, out, dead = (str(tmp_path / name) for name in names)
    learn(str(tmp_path / "a.csv"), InterClassScatter(), label="kind", model_file=model, out=out, dead_letters=dead)
    for name in names:
        assert (tmp_path / name).is_symlink()
        assert victim.with_name(name).stat().st_size > 0
    assert load(victim.with_name("model")).classes_.tolist() == ["a", "b", "c"]


def test_reports_receipts_and_demo_data_replace_a_link_and_leave_its_file(tmp_path, victim):
    X, y = load_iris(return_X_y=True)
    writes = {
        "report.html": lambda path: write_report(path, InterClassScatter().fit(X, y), History(), title="iris"),
        "receipt.json": lambda path: write_bytes(path, b"{}"),
        "digits.csv": write_digits,
    }
    for name, write in writes.items():
        path = tmp_path / name
        path.symlink_to(victim)
        write(path)
        assert not path.is_symlink(), name
        assert path.read_text() != victim.read_text() == PRECIOUS, name


def test_a_key_is_never_written_through_a_link(tmp_path, victim):
    for target in (victim, victim.with_name("nowhere")):
        link = tmp_path / target.name
        link.symlink_to(target)
        with pytest.raises(CheckpointError, match="this file exists and may hold a key"):
            make_key(link)
    assert victim.read_text() == PRECIOUS
    assert not victim.with_name("nowhere").exists()
