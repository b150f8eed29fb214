"""The journal: what was appended survives any cut of the last write, and what belongs to another model is refused."""

import os
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the server needs the `stream` extra")
pytest.importorskip("pyarrow", reason="the server needs the `stream` extra")
pytest.importorskip("tornado", reason="the server needs the `stream` extra")

from kampong import CheckpointError
from kampong.serving import journal
from kampong.serving.journal import REMEMBERED, Answered, Entry, digest_of

BODIES = (b'{"x": 1}', b"x\n1\n", "x,é\n".encode(), b"\xff\x00\n", b"")


OPENED = []


def opened(path, held):
    OPENED.append(journal.Journal(path, held))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def _closed():
    yield
    while OPENED:
        OPENED.pop().close()


def entries(start=1, bodies=BODIES):
    return [Entry(start + i, "learn", "csv", body, f"id {start + i}") for i, body in enumerate(bodies)]


def test_what_was_appended_is_read_again(tmp_path):
    path = str(tmp_path / "m.journal")
    first = opened(path, None)
    model = Entry(6, "merge", "model", bytes(range(256)))
    first.append(entries())
    first.append([model])
    first.close()
    again = opened(path, first.held(0))
    assert again.entries == [*entries(), model]
    assert (again.number, again.base, again.id) == (6, 0, first.id)
    assert [one.number for one in opened(path, first.held(4)).entries] == [5, 6]


def test_a_last_line_that_was_cut_short_is_dropped_wherever_it_was_cut(tmp_path):
    path = tmp_path / "m.journal"
    first = opened(str(path), None)
    first.append(entries()[:2])
    size = path.stat().st_size
    first.append(entries()[2:4])
    first.close()
    data, held = path.read_bytes(), first.held(0)
    for cut in range(size, len(data)):
        path.write_bytes(data[:cut])
        again = opened(str(path), held)
        # The first of the two lines is whole from some place on.
        assert again.entries == entries()[: 2 + (data[size:cut].count(b"\n"))]
        again.append([Entry(again.number + 1, "learn", "csv", b"more")])
        assert opened(str(path), held).entries[-1].body == b"more"
    path.write_bytes(data)
    assert opened(str(path), held).entries == entries()[:4]


def test_answers_stay_if_a_kill_came_after_the_save_and_before_the_journal_was_told(tmp_path):
    path = str(tmp_path / "m.journal")
    first = opened(path, None)
    first.append([Entry(1, "learn", "csv", b"x", "id 1", {"rows": 1}), Entry(2, "learn", "csv", b"y"), *entries(3)])
    again = opened(path, first.held(2))
    assert dict(again.answers) == {"id 1": Answered(digest_of("learn", "csv", b"x"), {"rows": 1})}
    assert dict(opened(path, first.held(2)).answers) == dict(again.answers)
    assert [one.number for one in again.entries] == [3, 4, 5, 6, 7]


def test_a_damaged_line_before_others_is_refused(tmp_path):
    path = tmp_path / "m.journal"
    first = opened(str(path), None)
    first.append(entries())
    data = bytearray(path.read_bytes())
    data[data.index(b"\n") + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"its line 2 is damaged, and others follow it. Put back the model file"):
        opened(str(path), first.held(0))


def test_a_journal_of_another_model_is_refused_unless_it_is_empty(tmp_path):
    path = str(tmp_path / "m.journal")
    first = opened(path, None)
    first.append(entries())
    with pytest.raises(CheckpointError, match="it holds 5 acknowledged requests, and the model file was replaced"):
        opened(path, None)
    with pytest.raises(CheckpointError, match="it holds 5 acknowledged requests"):
        opened(path, {"id": "other", "number": 5})
    with pytest.raises(
        CheckpointError, match="the model file holds the first 9 requests, and the journal those from 1"
    ):
        opened(path, first.held(9))
    first.compact(5, {})
    with pytest.raises(CheckpointError, match="the first 3 requests, and the journal those from 6 to 5"):
        opened(path, first.held(3))
    assert opened(path, None).number == 5  # nothing is lost: its number goes on


@pytest.mark.parametrize("held", [{"id": "x"}, {"id": 3, "number": 1}, {"id": "x", "number": -1}, [], "x"])
def test_what_a_model_file_says_of_its_journal_is_checked(tmp_path, held):
    with pytest.raises(CheckpointError, match=r"the model file says of its journal .*, which no server wrote"):
        opened(str(tmp_path / "m.journal"), held)


def test_answers_are_kept_and_the_oldest_go_first(tmp_path):
    path = str(tmp_path / "m.journal")
    first = opened(path, None)
    first.append(entries())
    answers = {f"id {i}": Answered(f"{i}", {"rows": i}) for i in range(1, 6)}
    first.compact(3, answers)
    again = opened(path, first.held(3))
    assert dict(again.answers) == {name: answers[name] for name in ("id 1", "id 2", "id 3")}
    assert [one.number for one in again.entries] == [4, 5]
    many = {f"{i}": Answered("", {}) for i in range(REMEMBERED + 7)}
    again.compact(5, many)
    assert list(opened(path, first.held(5)).answers) == list(many)[7:]


def test_an_append_that_fails_leaves_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "m.journal"
    first = opened(str(path), None)
    first.append(entries()[:1])
    data = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            first.append(entries()[1:])
    assert path.read_bytes() == data
    assert first.number == 1
    with Path(path).open("ab") as file:
        file.write(b"what a write that could not be undone has left")
    first.append(entries()[1:])
    assert opened(str(path), first.held(0)).entries == entries()


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    path = tmp_path / "m.journal"
    path.write_text("something else\n")
    with pytest.raises(CheckpointError, match="its first line is not that of a journal"):
        opened(str(path), None)
    assert path.read_text() == "something else\n"
