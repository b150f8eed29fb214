"""The lock on a model file: a second run is told who holds it, and a killed run holds nothing."""

import os
import subprocess
import sys
import threading

import pytest

from kampong import InterClassScatter
from kampong.files import CheckpointError, LockedError, held
from kampong.files.replace import stem_of
from kampong.streaming import learn
from stream_problems import write_points

if sys.platform == "win32":
    pytest.skip("locks are those of posix", allow_module_level=True)

HOLDER = """
import sys
from kampong.files import held
with held(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(path):
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    return child


def test_a_second_run_is_told_who_holds_the_model(tmp_path):
    write_points(tmp_path / "a.csv", 200)
    model = tmp_path / "m"
    with holder(model) as child:
        with pytest.raises(
            LockedError, match=rf"another run is learning this model \(process {child.pid} on .*merge both"
        ):
            learn(str(tmp_path / "a.csv"), InterClassScatter(), label="kind", model_file=str(model))
        assert not model.exists()
        learn(str(tmp_path / "a.csv"), InterClassScatter(), label="kind", model_file=str(tmp_path / "other"))
        child.kill()
    assert learn(str(tmp_path / "a.csv"), InterClassScatter(), label="kind", model_file=str(model)).finished
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "m", "other"]


def test_a_link_is_the_file_it_points_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "m")
    with (
        held(str(tmp_path / "m")),
        pytest.raises(LockedError, match=f"process {os.getpid()} on"),
        held(str(tmp_path / "link")),
    ):
        pass


def planted(path, kind, victim):
    """Put something of the user's where a run of `path` makes its lock."""
    beside = path.with_name(f"{stem_of(path)}lock")
    if kind == "link":
        beside.symlink_to(victim)
    elif kind == "dangling link":
        beside.symlink_to(path.with_name("nowhere"))
    elif kind == "hard link":
        beside.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(beside)
    else:
        beside.write_text("a file of the user, longer than any lock " * 9)
    return beside


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "file"])
def test_what_is_planted_in_the_place_of_a_lock_is_left_as_it_is(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    beside = planted(tmp_path / "m", kind, victim)
    before = beside.read_text() if kind == "file" else None
    with (
        pytest.raises(CheckpointError, match=r"kampong did not make it.*Find out who put it there"),
        held(str(tmp_path / "m")),
    ):
        pass
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    assert beside.is_symlink() == (kind in ("link", "dangling link"))
    assert before is None or beside.read_text() == before


def test_a_lock_that_a_killed_run_left_is_taken_over(tmp_path):
    beside = tmp_path / f"{stem_of(tmp_path / 'm')}lock"
    for left in ("", "process 1 on a host with quite a long name, which must not show behind a short one"):
        beside.write_text(left)
        with held(str(tmp_path / "m")):
            assert beside.read_text().strip() == f"process {os.getpid()} on {os.uname().nodename}"
        assert not beside.exists()


def test_many_runs_never_hold_it_together(tmp_path):
    inside, most, got = [0], [0], [0]
    guard = threading.Lock()

    def work():
        for _ in range(200):
            try:
                with held(str(tmp_path / "m")):
                    with guard:
                        inside[0] += 1
                        most[0], got[0] = max(most[0], inside[0]), got[0] + 1
                    with guard:
                        inside[0] -= 1
            except LockedError:
                continue

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert got[0] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_locks_nothing(tmp_path):
    with held(str(tmp_path / "absent" / "m")), held(""):
        pass
