"""What predicts between two solves of a wide stream: it steps row by row, and the better of both is believed."""

import csv
import threading
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
from kampong.datasets import sparse_text
from kampong.files import CheckpointError, read, write
from kampong.files.contents import as_arrays, from_arrays, to_lines
from kampong.selection import folds
from kampong.streaming import Layout, Source, expert, learn, renewal
from kampong.streaming.apply import apply
from kampong.streaming.expert import Expert
from kampong.streaming.inspection import merge_files
from kampong.streaming.model_file import read_model
from kampong.streaming.options import estimator
from kampong.streaming.sources import blocks
from stream_problems import without_clock


def rows_of(n=400, d=60, classes=5, *, seed=0):
    """Return sparse rows, some of them empty, whose classes have columns of their own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    y[:20] %= 2  # classes come one after the other
    X = (rng.random((n, d)) < 0.1) * rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))
    X[np.arange(n), y] += 3 * (rng.random(n) < 0.7) * np.abs(X).max(axis=1)
    X[::50] = 0.0
    return sparse.csr_array(X), np.array(["lime", "fig", "pear", "plum", "sloe"])[y]


def naive(X, y):
    """Return what logistic regression that steps row by row says, in double precision; the definition as loops."""
    names = list(dict.fromkeys(y.tolist()))
    W, b = np.zeros((X.shape[1], len(names))), np.zeros(len(names))
    squares, all_squares, known, said = np.zeros(X.shape[1]), 0.0, 0, []
    for x, label in zip(X.toarray(), y.tolist(), strict=True):
        code = names.index(label)
        x = x / np.linalg.norm(x) if x.any() else x
        scores = x @ W + b
        if known:
            p = np.exp(scores[:known] - scores[:known].max())
            said.append((names[int(np.argmax(p))], p.max() / p.sum()))
        else:
            said.append((label, 1.0))
        known = max(known, code + 1)
        p = np.exp(scores[:known] - scores[:known].max())
        g = np.append(p / p.sum(), np.zeros(len(names) - known))
        g[code] -= 1.0
        all_squares += g @ g
        b -= 0.1 / np.sqrt(all_squares + 1e-3) * g
        squares += (g @ g) * x**2
        rate = 3.0 * (1 - 1 / known) ** 2
        W -= (rate * x / np.sqrt(squares + 1e-3))[:, None] * g
    return said, W


def test_it_says_what_the_definition_says():
    X, y = rows_of()
    one = Expert(X.shape[1])
    found = one.take(X, y)
    said, weights = naive(X, y)
    close = np.abs(found.chances - [chance for _, chance in said])
    assert close.max() < 1e-3  # float32 against float64, over 400 steps
    assert (found.labels == [label for label, _ in said]).mean() > 0.99
    np.testing.assert_allclose(one._weights[:, :5], weights, atol=2e-3)
    assert (found.labels == y)[200:].mean() > 0.6


def test_the_cut_into_pieces_does_not_matter():
    X, y = rows_of()
    whole, parts = Expert(X.shape[1]), Expert(X.shape[1])
    expected, found, start = whole.take(X, y), [], 0
    for stop in (1, 2, 3, 20, 21, 150, 399, 400):
        found.append(parts.take(X[start:stop], y[start:stop]))
        start = stop
    np.testing.assert_array_equal(np.concatenate([one.labels for one in found]), expected.labels)
    np.testing.assert_array_equal(np.concatenate([one.chances for one in found]), expected.chances)
    for name, array in whole.to_state().items():
        np.testing.assert_array_equal(array, parts.to_state()[name])


def test_no_row_is_known_before_it_is_said():
    X, y = rows_of()
    expected = Expert(X.shape[1]).take(X, y)
    for place in (30, 200, 399):
        other = y.copy()
        other[place] = "lime" if y[place] != "lime" else "fig"
        found = Expert(X.shape[1]).take(X, other)
        np.testing.assert_array_equal(found.labels[: place + 1], expected.labels[: place + 1])
        np.testing.assert_array_equal(found.chances[: place + 1], expected.chances[: place + 1])
        assert place == 399 or (found.chances[place + 1 :] != expected.chances[place + 1 :]).any()


def test_columns_that_come_later_were_always_zero():
    X, y = rows_of()
    X = sparse.csr_array(X.toarray() * (np.arange(60) < np.where(np.arange(400) < 200, 40, 60)[:, None]))
    whole, grown = Expert(60), Expert(40)
    expected = whole.take(X, y)
    first = grown.take(sparse.csr_array(X[:200, :40]), y[:200])
    grown.widen(60)
    second = grown.take(X[200:], y[200:])
    np.testing.assert_array_equal(np.concatenate([first.chances, second.chances]), expected.chances)
    np.testing.assert_array_equal(grown._weights, whole._weights)


def test_who_is_right_more_often_of_late_is_believed():
    one = Expert(1)
    assert one.leads
    one.judge(np.array([True, False] * 20), np.array([False, True] * 20))
    assert one.leads  # neither is better
    one.judge(np.array([True] * 100), np.array([True] * 100))
    assert one.leads
    one.judge(np.array([False] * 5), np.array([True] * 5))
    assert one.leads  # five rows say little
    one.judge(np.array([False] * 40), np.array([True] * 40))
    assert not one.leads
    one.judge(np.array([True] * 20), np.array([False] * 20))
    assert not one.leads  # still ahead
    one.judge(np.array([True] * 60), np.array([False] * 60))
    assert one.leads


def test_what_is_written_comes_back_and_lies_are_refused():
    X, y = rows_of()
    one = Expert(60)
    one.take(X[:300], y[:300])
    state = as_arrays(one.to_state())
    again = Expert.from_state(from_arrays(state, "expert"), 60)
    np.testing.assert_array_equal(again.take(X[300:], y[300:]).chances, one.take(X[300:], y[300:]).chances)
    lies = {
        "labels": to_lines(["a", "a", "b", "c", "d"]),
        "weights": np.full((60, 8), np.nan, dtype=np.float32),
        "squares": np.full(60, -1.0, dtype=np.float32),
        "offsets": np.zeros(16, dtype=np.float32),
        "contest": np.array([1.0, 0.0, 0.0, 0.5]),
    }
    for name, value in lies.items():
        with pytest.raises(CheckpointError, match=name):
            Expert.from_state(from_arrays({**state, name: value}, "expert"), 60)
    many = {**state, "labels": to_lines([str(i) for i in range(10_000)])}
    with pytest.raises(CheckpointError, match="weights has shape"):  # before so many weights are made
        Expert.from_state(from_arrays(many, "expert"), 2**14)


# In a stream.

WORDS = {"sea": "boat wave harbour tide", "sky": "cloud wing thunder wind", "land": "tree hill road stone"}


def write_texts(path, rows=1500, *, seed=0, late=0):
    """Write short texts of three classes, one of which may come late; words have noise in them."""
    rng = np.random.default_rng(seed)
    lines = ["kind,note"]
    for i in range(rows):
        kind = str(rng.choice(list(WORDS)[: 2 if i < late else 3]))
        other = str(rng.choice(list(WORDS)))
        words = [*rng.choice(WORDS[kind].split(), 2), rng.choice(WORDS[other].split())]
        words += [f"w{int(n)}" for n in rng.integers(0, rows, 4)]
        lines.append(f"{kind},{' '.join(words)}")
    path.write_text("\n".join(lines) + "\n")


def source(path, **more):
    return Source(str(path), Layout(label="kind", text="note", **more))


def test_a_stream_of_text_is_predicted_by_it_and_kept_as_a_subspace(tmp_path):
    write_texts(tmp_path / "a.csv", 2000)
    write_texts(tmp_path / "new.csv", 500, seed=1)
    with_it = learn(source(tmp_path / "a.csv"), estimator(), model_file=str(tmp_path / "m"))
    without = learn(source(tmp_path / "a.csv"), estimator(half_life="none"))
    _, state, _ = read_model(str(tmp_path / "m"))
    assert state.course.expert.labels == list(dict.fromkeys(state.course.expert.labels))
    assert set(state.course.expert.labels) == set(WORDS)
    assert state.course.expert.leads
    assert with_it.counters.scored == without.counters.scored
    assert with_it.counters.accuracy > without.counters.accuracy - 0.02
    assert with_it.predictor.n_rows == 1024  # renewed when the rows have grown fourfold
    apply(source(tmp_path / "new.csv"), str(tmp_path / "m"), "predict", out=str(tmp_path / "said.csv"))
    with (tmp_path / "said.csv").open() as said, (tmp_path / "new.csv").open() as new:
        right = [a["predicted"] == b["kind"] for a, b in zip(csv.DictReader(said), csv.DictReader(new), strict=True)]
    assert len(right) == 500
    assert np.mean(right) > with_it.counters.accuracy - 0.02


@pytest.mark.parametrize("more", [{}, {"tfidf": True, "ngrams": 2}], ids=str)
def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path, monkeypatch, more):
    monkeypatch.setattr(blocks, "LARGEST", 4096)
    write_texts(tmp_path / "a.csv", late=900)
    files = {"model_file": str(tmp_path / "whole"), "out": str(tmp_path / "whole.csv")}
    learn(source(tmp_path / "a.csv", **more), estimator(), **files)
    files = {"model_file": str(tmp_path / "parts"), "out": str(tmp_path / "parts.csv")}
    for rows in (1, 10, 17, 300, 301, 950, 1400):
        stop = threading.Event()

        def watch(run, rows=rows, stop=stop):
            if run.counters.rows >= rows:
                stop.set()

        learn(source(tmp_path / "a.csv", **more), estimator(), stop=stop, watch=watch, **files)
    assert learn(source(tmp_path / "a.csv", **more), estimator(), **files).finished
    assert without_clock(tmp_path / "parts") == without_clock(tmp_path / "whole")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_subspace_that_is_better_takes_over(tmp_path, monkeypatch):
    """With steps of nothing the expert says one class for ever; the subspace must be heard."""
    write_texts(tmp_path / "a.csv", 3000)
    good = learn(source(tmp_path / "a.csv"), estimator(half_life="none")).counters.accuracy
    take = Expert.take

    def dull(self, X, y):
        said = take(self, X, y)
        return said._replace(labels=np.full(len(y), "sea"))

    monkeypatch.setattr(Expert, "take", dull)
    run = learn(source(tmp_path / "a.csv"), estimator(), model_file=str(tmp_path / "m"))
    assert not read_model(str(tmp_path / "m"))[1].course.expert.leads
    assert run.counters.accuracy > good - 0.1
    assert run.predictor.n_rows > 2048  # renewed as often as without an expert


def test_too_many_weights_end_it(tmp_path, monkeypatch):
    monkeypatch.setattr(expert, "MOST", 2 * 1024 * 8)
    write_texts(tmp_path / "a.csv", 3000)
    run = learn(source(tmp_path / "a.csv"), estimator(), model_file=str(tmp_path / "m"))
    _, state, _ = read_model(str(tmp_path / "m"))
    assert run.model.n_features_in_ > 2 * 1024
    assert state.course.expert is None
    assert run.counters.scored > 2990
    assert run.counters.accuracy > 0.6


def test_wide_sparse_rows_have_one_and_others_do_not(tmp_path):
    X, y = rows_of(300, 9000)
    y = np.unique(y, return_inverse=True)[1]
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)

    def has_one(model, **more):
        name = str(tmp_path / f"m{len(list(tmp_path.iterdir()))}")
        learn(Source(str(tmp_path / "a.svm"), Layout(**more)), model, model_file=name)
        return read_model(name)[1].course.expert is not None

    assert has_one(estimator(), max_features=9000)
    assert not has_one(estimator(half_life="50"), max_features=9000)  # the user says what is forgotten
    assert not has_one(estimator(head="gaussian"), max_features=9000)  # or what predicts
    assert not has_one(estimator(method="margin"), max_features=9000)
    assert not has_one(kampong.FisherDiscriminant(), max_features=9000)


def test_models_of_two_streams_merge_without_it(tmp_path):
    for name, seed in (("a", 1), ("b", 2)):
        write_texts(tmp_path / f"{name}.csv", 600, seed=seed)
        learn(source(tmp_path / f"{name}.csv"), estimator(), model_file=str(tmp_path / name))
    merge_files([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "both"))
    model, state, _ = read_model(str(tmp_path / "both"))
    assert state.course is None
    assert model._statistics.n_samples == 1200
    # A merged file that claims to have an expert is refused.
    mine = {name: array for name, array in read(str(tmp_path / "a"))[0].items() if name.startswith("stream.expert.")}
    merged, said = read(str(tmp_path / "both"))
    write(str(tmp_path / "lie"), {**merged, **mine}, said)
    with pytest.raises(CheckpointError, match="has none"):
        read_model(str(tmp_path / "lie"))


def test_what_is_solved_beside_the_stream_is_what_was_learnt_then(tmp_path, monkeypatch):
    """It is that of row 1,024 and takes its place at row 2,048, however quick or slow the solve was."""
    write_texts(tmp_path / "a.csv", 2500)
    head = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "part.csv").write_text("\n".join(head[:1025]) + "\n")
    part = learn(source(tmp_path / "part.csv"), estimator()).predictor
    assert part.n_rows == 1024
    solve, found = renewal.renewed, []

    def late(*given):
        time.sleep(0.3)
        return solve(*given)

    for threads, work in ((1, solve), (2, solve), (2, late)):
        monkeypatch.setattr(renewal, "available_threads", lambda threads=threads: threads)
        monkeypatch.setattr(renewal, "renewed", work)
        seen = []

        def watch(run, seen=seen):
            seen.append((run.counters.rows, run.predictor.n_rows if run.predictor else 0))

        found.append(learn(source(tmp_path / "a.csv"), estimator(), watch=watch))
        assert {made for rows, made in seen if 1024 <= rows < 2048} == {256}
        assert {made for rows, made in seen if rows >= 2048} == {1024}
    width = part.components.shape[1]
    for run in found:
        assert run.counters == found[0].counters
        np.testing.assert_array_equal(run.predictor.components, found[0].predictor.components)
        np.testing.assert_array_equal(run.predictor.mean, found[0].predictor.mean)
    # The width at row 1,024 depends on where its block ends, and with it the rounding.
    known = found[0].predictor
    np.testing.assert_allclose(known.components[:, :width], part.components, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(known.mean[:width], part.mean, atol=1e-12)
    assert not known.components[:, width:].any()


def test_a_saved_run_holds_what_is_to_come_and_lies_of_it_are_refused(tmp_path):
    write_texts(tmp_path / "a.csv", 2500)
    stop = threading.Event()

    def watch(run):
        if run.counters.rows >= 1024:
            stop.set()

    learn(source(tmp_path / "a.csv"), estimator(), model_file=str(tmp_path / "m"), stop=stop, watch=watch)
    course = read_model(str(tmp_path / "m"))[1].course
    assert (course.coming.n_rows, course.predictor.n_rows) == (1024, 256)
    arrays, facts = read(str(tmp_path / "m"))
    for n_rows, said in ((16, "n_rows is 16, and"), (10**6, "n_rows is 1000000, and")):
        lie = {**facts, "stream": {**facts["stream"], "coming.n_rows": n_rows}}
        write(str(tmp_path / "lie"), arrays, lie)
        with pytest.raises(CheckpointError, match=said):
            read_model(str(tmp_path / "lie"))


def test_a_solve_that_fails_beside_the_stream_is_told(tmp_path, monkeypatch):
    write_texts(tmp_path / "a.csv", 2500)

    def fails(*given):
        raise ValueError("no solution")

    monkeypatch.setattr(renewal, "renewed", fails)
    with pytest.raises(ValueError, match="no solution"):
        learn(source(tmp_path / "a.csv"), estimator())


def test_a_brief_choice_trains_nothing_on_all_columns(monkeypatch):
    X, y = sparse_text(1500, 9000, 30, n_classes=3, random_state=0)
    model = kampong.FisherDiscriminant(half_life="auto").partial_fit(X, y)

    def trained(*given):
        raise AssertionError("machines were trained")

    monkeypatch.setattr(folds, "Machines", trained)
    brief = model._freeze_all(None, brief=True)
    assert brief.choice is not None
    assert not len(brief.hidden)
    assert (brief.answers(X)[1] == y).mean() > 0.9
    with pytest.raises(AssertionError, match="trained"):
        model._freeze_all(None)
