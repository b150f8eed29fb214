"""Streams as people have them: sorted by class, with a late class, of two classes with two directions; what is said."""

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import kampong
from command import call
from kampong.streaming import Layout, Source, learn
from kampong.streaming.sources import blocks
from stream_problems import write_points


def write_sorted(folder, rows=600):
    good, _ = write_points(folder / "a.csv", rows)
    good.sort(key=lambda line: line[-1])
    (folder / "a.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *good]) + "\n")
    return good


def test_a_stream_sorted_by_class_is_learnt_whole(tmp_path, capfd):
    good = write_sorted(tmp_path)
    command = ("learn", tmp_path / "a.csv", "--label", "kind", "-m", tmp_path / "m", "-o", tmp_path / "o.csv")
    said = call(capfd, *command).err
    assert "600 rows, accuracy " in said
    assert (
        "Note: the records are sorted by class. The model is one of all rows, but the accuracy before learning" in said
    )
    assert "columns: 4 number (x1, x2, x3, x4); label kind (string)" in said
    model = kampong.load(tmp_path / "m")
    rows = np.array([line.split(",")[:4] for line in good], dtype=float)
    labels = np.array([line[-1] for line in good])
    whole = kampong.FisherDiscriminant().fit(rows, labels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(rows, labels) > whole.score(rows, labels) - 0.02
    first = sum(label == "a" for label in labels)
    predicted = [line.split(",")[2] for line in (tmp_path / "o.csv").read_text().splitlines()[1:]]
    assert predicted[0] == ""  # no class is known yet
    assert set(predicted[1:first]) == {'"a"'}


def test_records_that_come_one_by_one_are_not_taken_for_sorted(tmp_path, monkeypatch):
    """A batch of one row says nothing of the order; what follows drift must not be given up for it."""
    monkeypatch.setattr(blocks, "SMALLEST", 1)
    monkeypatch.setattr(blocks, "LARGEST", 1)
    write_points(tmp_path / "a.csv", 200)
    run = learn(Source(str(tmp_path / "a.csv"), Layout(label="kind")), kampong.FisherDiscriminant(half_life="auto"))
    assert (run.counters.rows, run.counters.pairs, run.counters.turns) == (200, 0, 0)
    assert run.remark == ""
    assert run.model.member_weights_


def test_a_class_that_comes_late_is_predicted_soon_after(tmp_path, capfd):
    good, _ = write_points(tmp_path / "a.csv", 900)
    late = [line for line in good if line[-1] != "c"][:300]
    late += [line for line in good if line not in set(late)]
    (tmp_path / "a.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *late]) + "\n")
    command = ("learn", tmp_path / "a.csv", "--label", "kind", "-m", tmp_path / "m", "-o", tmp_path / "o.csv")
    assert "sorted by class" not in call(capfd, *command).err
    rows = [line.split(",") for line in (tmp_path / "o.csv").read_text().splitlines()[1:]]
    begins = next(i for i, row in enumerate(rows) if row[1] == '"c"')
    assert '"c"' not in {row[2] for row in rows[:begins]}
    after = [row[2] == row[1] for row in rows[begins + 60 :] if row[1] == '"c"']
    assert np.mean(after) > 0.6


def test_two_classes_and_two_directions_are_learnt_and_said(tmp_path, capfd):
    good, _ = write_points(tmp_path / "a.csv", 400)
    kept = [line for line in good if line[-1] != "c"]
    (tmp_path / "a.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *kept]) + "\n")
    said = call(capfd, "learn", tmp_path / "a.csv", "--label", "kind", "-m", tmp_path / "m", "-n", "2").err
    assert f"{len(kept)} rows, accuracy " in said
    assert "Note: " in said
    assert "1" in said.partition("Note: ")[2]
    call(capfd, "project", tmp_path / "a.csv", "-m", tmp_path / "m", "-o", tmp_path / "p.csv")
    points = np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1)
    assert points.shape == (len(kept), 3)
    assert np.ptp(points[:, 1]) > 0
    assert not points[:, 2].any()  # zeros until a third class comes


def test_quoted_line_breaks_are_records_from_the_command_line(tmp_path, capfd):
    lines = [f'{i},"first\nsecond, {i}",{"ab"[i % 2]}' for i in range(150)]
    (tmp_path / "a.csv").write_text("\n".join(["x,note,kind", *lines]) + "\n")
    options = ("--label", "kind", "--as", "text:note,number:x", "-m", tmp_path / "m")
    said = call(capfd, "learn", tmp_path / "a.csv", *options).err
    assert "150 rows" in said
    assert "dead" not in said
    assert "columns: 1 number (x), 1 text (note); label kind (string)" in said
