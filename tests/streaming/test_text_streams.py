"""Text in a stream: as wide as its words, the same as at the full width, readable, merged and resumed."""

import threading
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import kampong
from command import call
from kampong.estimators.stream_model import FisherModel
from kampong.streaming import Layout, Source, learn
from kampong.streaming.inspection import describe, merge_files
from kampong.streaming.learner import Learner
from kampong.streaming.model_file import read_model
from kampong.streaming.sources import blocks

CLASSES = ("sea", "sky")
TELLING = {"sea": ("boat", "wave", "harbour"), "sky": ("cloud", "wing", "thunder")}


def write_texts(path, rows=1500, *, seed=0, start=0):
    """Write short texts: a telling word, and others of which many come only once or twice."""
    rng = np.random.default_rng(seed)
    lines = ["kind,note"]
    for i in range(rows):
        kind = CLASSES[int(rng.integers(2))]
        rare = [f"w{start + int(n)}" for n in rng.integers(0, 4 * rows, 3)]
        words = [*rare, "the", str(rng.choice(TELLING[kind])) if rng.random() < 0.9 else "and"]
        lines.append(f"{kind},{' '.join(rng.permutation(words))} number {i % 7}")
    path.write_text("\n".join(lines) + "\n")


def source(path, **more):
    return Source(str(path), Layout(label="kind", text="note", **more))


def model():
    return kampong.FisherDiscriminant(ridge=0.05)


def test_a_model_is_as_wide_as_its_words_and_says_the_same(tmp_path, monkeypatch):
    write_texts(tmp_path / "a.csv")
    (tmp_path / "new.csv").write_text("note\nboat boat wave\ncloud over the harbour\nunheard words only\n")
    said = {}
    for grows in (True, False):
        monkeypatch.setattr(FisherModel, "can", replace(FisherModel.can, widen=grows))
        files = {"model_file": str(tmp_path / f"m{grows}"), "out": str(tmp_path / f"o{grows}.csv")}
        run = learn(source(tmp_path / "a.csv"), model(), **files)
        rows = [line.split(",") for line in (tmp_path / f"o{grows}.csv").read_text().splitlines()[1:]]
        said[grows] = run, [row[2] for row in rows], np.array([float(row[3] or 0) for row in rows])
    (narrow, labels, points), (wide, expected, places) = said[True], said[False]
    assert (narrow.model.n_features_in_ - 1024) % 1024 == 0
    assert 3000 < narrow.model.n_features_in_ < 8192 < 2**18 == wide.model.n_features_in_
    assert type(narrow.model._statistics) is type(wide.model._statistics)
    assert narrow.counters.accuracy > 0.8
    assert labels == expected
    np.testing.assert_allclose(np.abs(points), np.abs(places), rtol=1e-6, atol=1e-8)
    assert len(narrow.model.to_bytes()) < 0.05 * len(wide.model.to_bytes())  # without the stream's history


def test_words_of_a_direction_can_be_read(tmp_path, capfd):
    write_texts(tmp_path / "a.csv")
    learn(source(tmp_path / "a.csv"), model(), model_file=str(tmp_path / "m"))
    ((*words,),) = describe(str(tmp_path / "m"))["words"]
    assert {word[1:] for word in words[:6]} == {*TELLING["sea"], *TELLING["sky"]}
    signs = {kind: {word[0] for word in words if word[1:] in TELLING[kind]} for kind in CLASSES}
    assert sorted(map(list, signs.values())) == [["+"], ["-"]]
    printed = call(capfd, "inspect", tmp_path / "m").out
    assert "thunder" in printed
    _, state, _ = read_model(str(tmp_path / "m"))
    assert all(len(name) <= 48 for name in state.memory.names)


@pytest.mark.parametrize("more", [{}, {"ngrams": 2}, {"tfidf": True}], ids=str)
def test_merged_texts_are_those_of_both_streams(tmp_path, more):
    for name, seed, start in (("a", 1, 0), ("b", 2, 500)):
        write_texts(tmp_path / f"{name}.csv", 400, seed=seed, start=start)
        learn(source(tmp_path / f"{name}.csv", **more), model(), model_file=str(tmp_path / name))
    both = (tmp_path / "a.csv").read_text() + (tmp_path / "b.csv").read_text().partition("\n")[2]
    (tmp_path / "both.csv").write_text(both)
    whole = learn(source(tmp_path / "both.csv", **more), model(), model_file=str(tmp_path / "whole"))
    merge_files([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "merged"))
    merged, state, _ = read_model(str(tmp_path / "merged"))
    _, expected, _ = read_model(str(tmp_path / "whole"))
    order = state.memory.places(np.array(expected.memory.columns)).tolist()
    assert sorted(order) == list(range(len(order))) == list(range(len(state.memory.columns)))
    names = [state.memory.names[place] for place in order]
    assert names == expected.memory.names
    np.testing.assert_array_equal(merged.class_counts_, whole.model.class_counts_)
    if not more.get("tfidf"):  # with tfidf a row is weighted by what its own stream had seen
        np.testing.assert_allclose(merged.class_means_[:, order], whole.model.class_means_[:, : len(order)], atol=1e-12)
    else:
        mine, theirs = state.memory, expected.memory
        assert mine.documents == theirs.documents == 800
        np.testing.assert_array_equal(mine.frequencies[order], theirs.frequencies[: len(order)])


def test_tfidf_is_what_its_definition_says(tmp_path):
    (tmp_path / "a.csv").write_text("kind,note\na,the boat\nb,the the cloud\na,the boat boat\nb,wing\n")
    run = learn(source(tmp_path / "a.csv", tfidf=True), model(), model_file=str(tmp_path / "m"))
    _, state, _ = read_model(str(tmp_path / "m"))
    memory = state.memory
    assert [name.decode() for name in memory.names] == ["the", "boat", "cloud", "wing"]
    np.testing.assert_array_equal(memory.frequencies, [3, 2, 1, 1])
    weights = np.log((1 + 4) / (1 + memory.frequencies)) + 1
    counts = np.array([[1, 1, 0, 0], [2, 0, 1, 0], [1, 2, 0, 0], [0, 0, 0, 1]])
    rows = counts * weights / np.linalg.norm(counts * weights, axis=1, keepdims=True)
    expected = [rows[[0, 2]].mean(axis=0), rows[[1, 3]].mean(axis=0)]
    np.testing.assert_allclose(np.abs(run.model.class_means_[:, :4]), expected, rtol=1e-12)


def test_a_stopped_text_stream_ends_with_the_same_bits_across_a_growth(tmp_path):
    from stream_problems import without_clock

    write_texts(tmp_path / "a.csv")
    options = {"ngrams": 2, "tfidf": True}
    widths = []
    for name, stops in (("whole", []), ("parts", [400, 700])):
        for rows in [*stops, 10**9]:
            stop = threading.Event()

            def watch(run, rows=rows, stop=stop):
                widths.append(run.model.n_features_in_)
                if run.counters.rows >= rows:
                    stop.set()

            learn(
                source(tmp_path / "a.csv", **options),
                model(),
                model_file=str(tmp_path / name),
                out=str(tmp_path / f"{name}.csv"),
                stop=stop,
                watch=watch,
            )
    assert len(set(widths)) > 2
    assert without_clock(tmp_path / "parts") == without_clock(tmp_path / "whole")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def write_late_class(path, rows=1500, late=1010):
    """Write texts of two classes, and of a third one from a row on."""
    write_texts(path, rows)
    lines = path.read_text().splitlines()
    lines[late:] = [f"fog{line[3:]} mist" if i % 3 == 0 else line for i, line in enumerate(lines[late:])]
    path.write_text("\n".join(lines) + "\n")


def test_late_labels_cost_what_they_cost_in_short_pieces_under_any_cut(tmp_path, monkeypatch):
    """The reference ends a piece where a copy is due; else the contest pauses there and is asked at once."""
    write_late_class(tmp_path / "a.csv")
    found = []
    for inside, size in ((False, 2**16), (True, 2**16), (True, 7000), (True, 2**22)):
        if not inside:
            monkeypatch.setattr(Learner, "_asked_inside", lambda self, one: False)
        monkeypatch.setattr(blocks, "SMALLEST", size)
        monkeypatch.setattr(blocks, "LARGEST", size)
        out = tmp_path / f"{inside}{size}.csv"
        run = learn(source(tmp_path / "a.csv"), kampong.FisherDiscriminant(half_life="auto"), out=str(out))
        monkeypatch.undo()
        said = [line.split(",")[2] for line in out.read_text().splitlines()]
        found.append((run.history.delays.to_state()["counts"][:, :8].tolist(), said))
    assert found[0][0][3][1] == 1000  # the copy for labels that are 1,000 rows late
    assert found[1:] == found[:1] * 3


def test_a_stream_stopped_with_a_copy_of_fewer_classes_ends_with_the_same_bits(tmp_path, monkeypatch):
    """The copy of row 1,000 is kept, and a class comes after it in the same piece."""
    from stream_problems import without_clock

    write_late_class(tmp_path / "a.csv")
    monkeypatch.setattr(blocks, "SMALLEST", 30_000)
    monkeypatch.setattr(blocks, "LARGEST", 30_000)
    copied = []
    for name, stops in (("whole", []), ("parts", [1010])):
        for rows in [*stops, 10**9]:
            stop = threading.Event()

            def watch(run, rows=rows, stop=stop):
                copied.append((run.counters.rows, run.history.delays.each[3].copy is not None))
                if run.counters.rows >= rows:
                    stop.set()

            file, out = str(tmp_path / name), str(tmp_path / f"{name}.csv")
            texts, estimator = source(tmp_path / "a.csv"), kampong.FisherDiscriminant(half_life="auto")
            learn(texts, estimator, model_file=file, out=out, stop=stop, watch=watch)
    assert [kept for rows, kept in copied if 1010 < rows < 1500] == [True] * 2
    assert without_clock(tmp_path / "parts") == without_clock(tmp_path / "whole")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_wide_stream_of_very_few_rows_predicts_without_a_choice(tmp_path):
    (tmp_path / "a.csv").write_text("kind,note\nsea,the boat\nsky,one cloud\nsea,a wave\nsky,the wing\n")
    run = learn(source(tmp_path / "a.csv"), kampong.FisherDiscriminant())
    assert run.counters.rows == 4
    assert run.predictor is not None
