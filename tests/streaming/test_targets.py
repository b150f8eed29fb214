"""No command destroys what it reads, or its own model; what cannot be written is said before anything is learnt."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

from command import call, command
from stream_problems import write_points

LINKS = {
    "same": lambda target, link: target,
    "symlink": lambda target, link: link.symlink_to(target) or link,
    "hard link": lambda target, link: link.hardlink_to(target) or link,
    "other spelling": lambda target, link: target.parent / "folder" / ".." / target.name,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder").mkdir()
    write_points(tmp_path / "a.csv", 200)
    return tmp_path


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("how", LINKS)
@pytest.mark.parametrize("option", ["--out", "--report", "--dead-letters", "--model"])
def test_learn_never_writes_on_its_source(folder, capfd, option, how):
    target = LINKS[how](folder / "a.csv", folder / "b.csv")
    before = bytes_of(folder)
    options = {"--model": folder / "m", option: target}
    arguments = [part for pair in options.items() for part in pair]
    said = call(capfd, "learn", folder / "a.csv", "--label", "kind", *arguments, expect=2).err
    assert f"{option} {target}: this is the source, and writing would destroy it. Choose another file." in said
    assert bytes_of(folder) == before


@pytest.mark.parametrize("how", LINKS)
@pytest.mark.parametrize("pair", [("--out", "--report"), ("--out", "--dead-letters"), ("--model", "--report")])
def test_learn_refuses_two_targets_that_are_one_file(folder, capfd, pair, how):
    (folder / "c").write_text("kept")
    other = LINKS[how](folder / "c", folder / "d")
    before = bytes_of(folder)
    options = {"--model": folder / "m", pair[0]: folder / "c", pair[1]: other}
    arguments = [part for one in options.items() for part in one]
    said = call(capfd, "learn", folder / "a.csv", "--label", "kind", *arguments, expect=2).err
    assert "are one file. Give each a file of its own." in said
    assert bytes_of(folder) == before


def test_targets_that_do_not_exist_yet_are_compared_too(folder, capfd):
    options = ("--model", folder / "m", "--out", folder / "folder" / ".." / "m")
    said = call(capfd, "learn", folder / "a.csv", "--label", "kind", *options, expect=2).err
    assert "are one file" in said
    options = ("--model", folder / "m", "--out", folder / "m.dead.jsonl")  # where bad records go by default
    assert "--dead-letters" in call(capfd, "learn", folder / "a.csv", "--label", "kind", *options, expect=2).err


def test_devices_may_be_given_twice(folder, capfd):
    options = ("--model", folder / "m", "--out", os.devnull, "--dead-letters", os.devnull)
    call(capfd, "learn", folder / "a.csv", "--label", "kind", *options)


def test_predict_and_project_never_write_on_source_or_model(folder, capfd):
    call(capfd, "learn", folder / "a.csv", "--label", "kind", "--model", folder / "m", "-q")
    for what, name in (("a.csv", "the source"), ("m", "the model")):
        for how, link in LINKS.items():
            target = link(folder / what, folder / f"{how} to {what}")
            before = bytes_of(folder)
            for verb, option in (("predict", "--out"), ("predict", "--dead-letters"), ("project", "--out")):
                said = call(capfd, verb, folder / "a.csv", "-m", folder / "m", option, target, expect=2).err
                assert f"{option} {target}: this is {name}, and writing would destroy it." in said
            assert bytes_of(folder) == before


def test_merge_never_writes_on_a_model_that_it_reads(folder, capfd):
    for name in ("m", "n"):
        call(capfd, "learn", folder / "a.csv", "--label", "kind", "--model", folder / name, "-q")
    before = bytes_of(folder)
    said = call(capfd, "merge", folder / "m", folder / "n", "--out", folder / "n", expect=2).err
    assert "this is one of the models" in said
    assert bytes_of(folder) == before


def test_standard_output_that_is_the_source_is_refused(folder):
    call_learn = [sys.executable, "-m", "kampong", "learn", "a.csv", "--label", "kind", "-m", "m", "--out", "-"]
    before = (folder / "a.csv").read_bytes()
    with (folder / "a.csv").open("ab") as end:
        done = subprocess.run(call_learn, stdout=end, stderr=subprocess.PIPE, text=True, cwd=folder, check=False)
    assert done.returncode == 2
    assert "--out -: this is the source" in done.stderr
    assert (folder / "a.csv").read_bytes() == before


def test_a_target_inside_a_folder_that_is_learnt_is_refused(folder, capfd):
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv(folder / "a.csv"), folder / "folder" / "a.parquet")
    source, inside = folder / "folder", folder / "folder" / "b.parquet"
    options = ("--label", "kind", "-m", folder / "m", "--out")
    assert "this is the source" in call(capfd, "learn", source, *options, inside, expect=2).err
    call(capfd, "learn", source, *options, folder / "folder" / "rows.txt")


@pytest.mark.parametrize("option", ["--model", "--report", "--out", "--dead-letters"])
@pytest.mark.parametrize("where", ["no such/m", "folder"])
def test_what_cannot_be_written_is_said_before_learning(folder, capfd, option, where):
    options = {"--model": folder / "m", option: folder / where}
    arguments = [part for pair in options.items() for part in pair]
    said = call(capfd, "learn", folder / "a.csv", "--label", "kind", *arguments, expect=5).err
    problem = "this is a folder" if where == "folder" else f"there is no folder {folder / 'no such'}"
    assert said == f"kampong: {option} {folder / where}: {problem}. Choose another place for it.\n"
    assert not (folder / "m").exists()


def test_without_an_extra_the_command_and_the_picture_say_what_to_install():
    hidden = (
        "import sys\nclass Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in {names!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    code = hidden.format(names=("typer",)) + "from kampong.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    needs = "kampong: the command needs typer, which is not installed. Install the stream extra: pip install"
    assert done.stderr.startswith(f'{needs} ".[stream]" in the source folder of kampong, or ')
    code = "import kampong.report\nkampong.report.draw_classes([[1.0, 2.0]], [0])"
    code = hidden.format(names=("matplotlib",)) + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    needs = "draw_classes needs matplotlib, which is not installed. Install the plot extra: pip install"
    assert f'{needs} ".[plot]" in the source folder of kampong, or ' in done.stderr


def test_the_command_starts_as_a_module():
    assert "Usage" in command("--help").stdout
