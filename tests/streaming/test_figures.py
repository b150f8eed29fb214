"""What an accuracy is compared with, and what late labels cost, against naive loops that know nothing of batches."""

import csv
import json
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Perceptron
from sklearn.metrics import cohen_kappa_score

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import itertools

import kampong
from command import call
from kampong.files import Contents, read
from kampong.files.contents import flatten
from kampong.streaming import History, Layout, Source, learn
from kampong.streaming import late as late_module
from kampong.streaming.apply_model import apply
from kampong.streaming.errors import StreamError, UsageError
from kampong.streaming.history import delays as delays_module
from kampong.streaming.history.baselines import compared, late
from kampong.streaming.history.delays import DELAYS, Copying, Delays, due_after, pause_after, right_of
from kampong.streaming.inspection import merge_files
from kampong.streaming.settings import SETTINGS
from kampong.streaming.sources import blocks
from stream_problems import without_clock, write_points

# Baselines.


def naive_baselines(labels, predicted, delay):
    """Return what the commonest class and the last label have right; labels come this many rows late."""
    counts, common, last, right = {}, None, None, [0, 0]
    for i, (label, said) in enumerate(zip(labels, predicted, strict=True)):
        if said is not None:
            right[0] += common == label
            right[1] += last == label
        if i >= delay:
            last = labels[i - delay]
            counts[last] = counts.get(last, 0) + 1
            if common is None or counts[last] > counts[common]:
                common = last
    return right


def resumed(history):
    """Return a history that was written and read."""
    arrays, facts = flatten(history.to_state())
    return History.from_state(Contents(arrays, facts, "the test"))


@given(
    rows=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["a", "b", "c", None])), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    delay=st.integers(0, 9),
)
def test_baselines_are_those_of_a_loop_over_rows(rows, cuts, delay):
    labels, predicted = [label for label, _ in rows], [said for _, said in rows]
    history, edges = History(), sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    history.baselines.delay = delay
    for start, stop in itertools.pairwise(edges):
        history.observe(np.array(labels[start:stop]), np.array(predicted[start:stop], dtype=object), seconds=0.0)
        history = resumed(history)
    assert [history.baselines.majority, history.baselines.last] == naive_baselines(labels, predicted, delay)


def test_kappas_are_those_of_their_definitions():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    said = np.where(rng.random(500) < 0.7, y, rng.integers(0, 3, 500))
    history = History()
    history.observe(y, said, seconds=0.0)
    found, accuracy = history.baseline_figures(), float(np.mean(y == said))
    last = np.count_nonzero(y[1:] == y[:-1]) / 500
    assert found["kappa"] == pytest.approx(cohen_kappa_score(y, said), abs=1e-12)
    assert found["last_label"] == last
    assert found["kappa_last_label"] == pytest.approx((accuracy - last) / (1 - last), abs=1e-12)


def test_a_stream_of_one_label_gains_nothing():
    history = History()
    history.observe(["a", "a"], [None, "a"], seconds=0.0)
    figures = history.summary()
    assert figures["unscored"] == 1
    assert figures["baselines"] == {"majority": 1.0, "last_label": 1.0, "kappa": None, "kappa_last_label": None}
    assert compared(figures) == ["Without a model: majority class 1.0000, last label 1.0000."]
    assert compared(History().summary()) == late(History().summary()) == []


# Late labels, measured by copies.


class Parrot:
    """Knows how many rows came before it, and says so of each row."""

    def __init__(self, rows):
        self.rows = rows

    def apart(self):
        return self

    def ways(self, X):
        return (np.full(len(X), self.rows),)


def naive_counts(delay, n):
    """Return rows asked about and their weight, from the definition: each as old as the delay, up to twice as old."""
    since, found, weight = delay, [], 0
    while since < n:
        step = 1 if delay <= 10 else 2
        asked = [
            (row, since) for row in range(since + delay, min(since + 2 * delay, n)) if (row - since - delay) % step == 0
        ]
        found += asked
        weight += len(asked) * pause_after(since, delay)
        since = due_after(since, delay)
    return found, weight


@given(cuts=st.lists(st.integers(1, 3000), max_size=8), size=st.integers(1, 700))
def test_copies_are_asked_about_the_same_rows_under_any_cut(cuts, size):
    n, delays, first = 3000, Delays(), 0
    edges = sorted({n, *cuts, *range(0, n, size)})
    for edge in edges:
        while first < edge:
            stop = min(edge, *(one.due for one in delays.each))
            rows = np.arange(first, stop)
            delays.score(rows[:, None], rows, first)
            first = stop
            for one in delays.due(first):
                delays.take(one, Copying(Parrot(first), 0), first)
    for one in delays.each:
        asked, weight = naive_counts(one.delay, n)
        assert (one.scored, one.weight) == (len(asked), weight)


def test_a_row_that_is_too_large_for_an_old_copy_is_wrong():
    class Small(Parrot):
        def ways(self, X):
            if (X > 9).any():
                raise ValueError("scores are too large")
            return X[:, 0], np.full(len(X), 4)

    X = np.array([[1], [10], [3]])
    assert right_of(Small(0), X, np.array([1, 10, 4])).tolist() == [[True, False, False], [False, False, True]]


@pytest.mark.parametrize("delay", DELAYS)
def test_there_is_one_copy_at_a_time_and_few_of_them(delay):
    since, copies = delay, 0
    while since < 2**22:
        following = due_after(since, delay)
        assert following >= since + 2 * delay
        since, copies = following, copies + 1
    per_doubling = delays_module.COPIES if delay < SETTINGS.saved_delay else delays_module.SAVED_COPIES
    assert copies <= per_doubling * 24


def points(folder, n=2600, name="a.csv"):
    write_points(folder / name, n)
    return str(folder / name)


def prefix(folder, source, n):
    """Write the first n rows of a source, and return their path."""
    lines = (folder / source).read_text().splitlines()[: n + 1]
    (folder / f"first{n}.csv").write_text("\n".join(lines) + "\n")
    return str(folder / f"first{n}.csv")


def column(path, name):
    with path.open(newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def rows_between(folder, source, start, stop, step):
    header, *lines = (folder / source).read_text().splitlines()
    (folder / "next.csv").write_text("\n".join([header, *lines[start:stop:step]]) + "\n")
    return [line.rsplit(",", 1)[1] for line in lines[start:stop:step]]


def follows_the_law(folder, model, n, since, path=None):
    """Compare a stream of n rows with one that ended after some of them, on the rows 1,000 later."""
    path = path or points(folder, n)
    going_on = learn(path, eval(f"kampong.{model}"), label="kind")
    saved = str(folder / "m")
    ended = learn(prefix(folder, "a.csv", since), eval(f"kampong.{model}"), label="kind", model_file=saved)
    kept, before = (next(one for one in run.history.delays.each if one.delay == 1000) for run in (going_on, ended))
    true = rows_between(folder, "a.csv", since + 1000, n, 2)
    apply(Source(str(folder / "next.csv"), Layout(label="kind")), saved, "predict", out=str(folder / "p.csv"))
    said = column(folder / "p.csv", "predicted")
    right = sum(one == other for one, other in zip(true, said, strict=True))
    assert kept.since == before.since == since
    all_rows = ended.history.delays.all_rows_answer
    name = "weight_all_rows" if all_rows else "weight_right"
    assert kept.scored - before.scored == len(true)
    assert getattr(kept, name) - getattr(before, name) == right * kept.pause
    assert 0 < right < len(true)
    return all_rows, kept.weight_right - before.weight_right


@pytest.mark.parametrize("model", ["FisherDiscriminant()", "FisherDiscriminant(half_life='auto')", "MarginSubspace()"])
def test_the_saved_model_answers_what_the_copy_of_its_time_answered(tmp_path, model):
    """The law: a stream that ended at row n and one that went on agree on the rows after n + 1,000."""
    follows_the_law(tmp_path, model, 2600, 1000)


def test_a_saved_model_is_what_was_best_so_late(tmp_path, monkeypatch):
    """One column changes its sign every 250 rows: what follows it is wrong 1,000 rows later, and all rows know it."""
    monkeypatch.setattr(delays_module, "SETTINGS", replace(SETTINGS, sure_error=0.03))
    rng, n, since = np.random.default_rng(0), 5000, 3000
    y = rng.integers(0, 2, n)
    sign, turn = 2 * y - 1, 1 - 2 * (np.arange(n) // 250 % 2)
    X = np.column_stack([2 * sign * turn, sign, np.zeros(n)]) + rng.normal(size=(n, 3))
    lines = [",".join([*map(str, np.round(x, 3).tolist()), "ab"[c]]) for x, c in zip(X, y.tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["u,v,w,kind", *lines]) + "\n")
    model = "FisherDiscriminant(half_life='auto')"
    assert follows_the_law(tmp_path, model, n, since, str(tmp_path / "a.csv"))[0]
    saved, rows = kampong.load(tmp_path / "m"), X[since : since + 500]
    np.testing.assert_array_equal(saved.predict(rows), saved.freeze().labels(rows))
    np.testing.assert_array_equal(saved.predict_proba(rows), saved.freeze().probabilities(rows))
    assert np.mean(saved.predict(rows) == np.array(["a", "b"])[y[since : since + 500]]) > 0.75
    facts = learn(str(tmp_path / "first3000.csv"), saved, label="kind").history.summary()
    assert facts["saved_model"]["all_rows_answer"]
    assert facts["saved_model"]["accuracy"] > facts["late"][-1]["accuracy"] + 0.05
    assert late(facts)[-1] == "It answers by the model of all rows alone, which was right more often so late."
    saved.partial_fit(rows[:1], ["a"])  # what was measured says nothing of a model that learns on
    assert saved._answering() is saved._follows() is not None


@pytest.mark.slow
@pytest.mark.parametrize("model", ["FisherDiscriminant()", "FisherDiscriminant(half_life='auto')", "MarginSubspace()"])
def test_the_law_holds_when_a_save_keeps_what_was_chosen(tmp_path, model):
    copies = [1000]
    while due_after(copies[-1], 1000) < 25_000:
        copies.append(due_after(copies[-1], 1000))
    assert copies[-1] > 2**14
    follows_the_law(tmp_path, model, copies[-1] + 1900, copies[-1])


def test_each_short_delay_is_that_of_the_predictor_so_many_rows_before(tmp_path):
    path = points(tmp_path, 700)
    run = learn(path, kampong.FisherDiscriminant(ridge=0.1), label="kind")
    kept = next(one for one in run.history.delays.each if one.delay == 100)
    X = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(4))
    y = np.loadtxt(path, delimiter=",", skiprows=1, usecols=4, dtype=str)
    scored = right = 0
    starts = [100, due_after(100, 100)]
    assert due_after(starts[1], 100) > 600
    for start in starts:
        earlier = learn(prefix(tmp_path, "a.csv", start), kampong.FisherDiscriminant(ridge=0.1), label="kind")
        some = slice(start + 100, min(start + 200, 700), 2)
        right += np.count_nonzero(earlier.predictor.answers(X[some])[1] == y[some])
        scored += len(y[some])
    assert (kept.scored, kept.right) == (scored, right)
    assert 50 < scored < 100


def figures_of(run):
    """Return all that batches must not change."""
    found = run.history.summary()
    return {name: found[name] for name in ("accuracy", "unscored", "baselines", "label_delay", "late", "saved_model")}


@pytest.mark.parametrize("delay", [0, 37])
@pytest.mark.parametrize("model", ["FisherDiscriminant(ridge=0.1)", "FisherDiscriminant(ridge=0.1, half_life='auto')"])
def test_batches_do_not_change_a_figure(tmp_path, monkeypatch, model, delay):
    path, found = points(tmp_path, 500), []
    for smallest, largest in ((2**9, 2**9), (2**10, 2**12), (2**20, 2**20)):
        monkeypatch.setattr(blocks, "SMALLEST", smallest)
        monkeypatch.setattr(blocks, "LARGEST", largest)
        found.append(figures_of(learn(path, eval(f"kampong.{model}"), label="kind", label_delay=delay)))
    assert found[0]["late"]
    assert found[0] == found[1] == found[2]


# Labels that are learnt late.


def test_a_label_delay_is_that_of_a_loop_over_rows(tmp_path):
    path, delay = points(tmp_path, 300), 20
    run = learn(
        path,
        Perceptron(shuffle=False),
        label="kind",
        classes=["a", "b", "c"],
        label_delay=delay,
        out=str(tmp_path / "o.csv"),
    )
    X = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(4))
    y = np.loadtxt(path, delimiter=",", skiprows=1, usecols=4, dtype=str)
    model, right, scored = Perceptron(shuffle=False), 0, 0
    for i in range(300):
        if i > delay:
            scored, right = scored + 1, right + (model.predict(X[i : i + 1])[0] == y[i])
        if i >= delay:
            model.partial_fit(X[i - delay : i - delay + 1], y[i - delay : i - delay + 1], classes=["a", "b", "c"])
    assert (run.counters.scored, run.counters.correct, run.counters.unscored) == (scored, right, delay + 1)
    assert (run.counters.rows, run.counters.waiting) == (300, 0)
    majority, last = naive_baselines(y.tolist(), [None] * (delay + 1) + y.tolist()[delay + 1 :], delay)
    assert (run.history.baselines.majority, run.history.baselines.last) == (majority, last)


@pytest.mark.parametrize("model", ["FisherDiscriminant(ridge=0.1)", "FisherDiscriminant(ridge=0.1, half_life='auto')"])
def test_row_i_is_predicted_by_a_model_of_all_labels_that_have_come(tmp_path, model):
    path, delay, out = points(tmp_path, 260), 50, tmp_path / "o.csv"
    learn(path, eval(f"kampong.{model}"), label="kind", label_delay=delay, out=str(out))
    said = column(out, "predicted")
    X = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(4))
    for i in (60, 111, 200, 259):
        earlier = learn(prefix(tmp_path, "a.csv", i - delay), eval(f"kampong.{model}"), label="kind")
        frozen = earlier.model.freeze(keep=earlier.predictor) if "auto" in model else earlier.predictor
        assert frozen.answers(X[i : i + 1])[1][0] == said[i]
    assert said[: delay + 1] == [""] * (delay + 1)


@pytest.mark.parametrize("options", [{}, {"half_life": "auto"}])
def test_at_the_end_all_labels_have_been_learnt(tmp_path, options):
    path = points(tmp_path, 400)
    for name, delay in (("m", 0), ("n", 90)):
        model = kampong.FisherDiscriminant(ridge=0.1, **options)
        learn(path, model, label="kind", model_file=str(tmp_path / name), label_delay=delay)
    first, second = (read(tmp_path / name)[0] for name in "mn")
    for name in first:
        if name.startswith("model."):
            # Sums of what follows drift are taken over pieces of rows, and with a delay row by row.
            np.testing.assert_allclose(first[name], second[name], rtol=1e-9 if options else 0.0, atol=0.0)


@pytest.mark.parametrize("columns", [{"drop": ("note",)}, {"text": ("note",), "hash_width": 32}])
@pytest.mark.parametrize("delay", [0, 130])
def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path, monkeypatch, columns, delay):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 700)
    X = np.round(rng.normal(size=(700, 2)) + 2 * np.eye(3, 2)[y], 3)
    lines = [
        f"{u},{v},word{i // 50} {'abc'[c]},{'abc'[c]}" for i, ((u, v), c) in enumerate(zip(X.tolist(), y, strict=True))
    ]
    (tmp_path / "a.csv").write_text("\n".join(["u,v,note,kind", *lines]) + "\n")
    monkeypatch.setattr(blocks, "SMALLEST", 2**10)
    monkeypatch.setattr(blocks, "LARGEST", 2**11)
    source, left = Source(str(tmp_path / "a.csv"), Layout(label="kind", **columns)), []
    for name, stops in (("whole", []), ("parts", [1, 2, 3])):
        for size in [*stops, 10**9]:
            stop, batches = threading.Event(), []

            def watch(run, stop=stop, batches=batches, size=size):
                batches.append(run.counters.waiting)
                if len(batches) == size:
                    stop.set()

            model, file = kampong.FisherDiscriminant(ridge=0.1), str(tmp_path / name)
            run = learn(source, model, model_file=file, watch=watch, stop=stop, label_delay=delay)
            assert max(batches) == min(delay, run.counters.records, max(batches))
            if size < 10**9:
                assert run.stopped
                assert run.counters.waiting == min(delay, run.counters.arrived)
        left.append(without_clock(tmp_path / name))
    assert left[0] == left[1]


@pytest.mark.parametrize("delay", [-1, 1_000_001, 2.5, True])
def test_a_delay_that_cannot_be_is_refused(tmp_path, delay):
    said = f"--label-delay must be a whole number of rows from 0 to 1,000,000; got {delay!r}."
    with pytest.raises(UsageError, match=re.escape(said)):
        learn(points(tmp_path, 20), kampong.FisherDiscriminant(), label="kind", label_delay=delay)


def test_rows_that_would_wait_in_too_much_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(late_module, "MOST", 2**20)
    with pytest.raises(
        StreamError, match=r"--label-delay 100,000: rows like these, of 4 columns, would take more than 1 MB"
    ):
        learn(points(tmp_path, 20), kampong.FisherDiscriminant(), label="kind", label_delay=100_000)


def test_a_copy_that_is_too_large_is_left_out_and_said(tmp_path, monkeypatch):
    path = points(tmp_path, 700)
    predictor = learn(path, kampong.FisherDiscriminant(ridge=0.1), label="kind").predictor
    size = sum(array.nbytes for array in flatten(predictor.to_state())[0].values())
    monkeypatch.setattr(delays_module, "ROOM", int(2.5 * size))
    run = learn(path, kampong.FisherDiscriminant(ridge=0.1), label="kind")
    assert [one.delay for one in run.history.delays.too_large()] == [100]
    assert [one.delay for one in run.history.delays.found()] == [1, 10]
    assert late(run.history.summary())[-1] == "Not measured for labels 100 rows late: a copy of the model takes 0.0 MB."


def test_a_run_whose_rows_wait_is_not_merged(tmp_path):
    path, file, stop = points(tmp_path, 400), str(tmp_path / "m"), threading.Event()
    stop.set()
    model = kampong.FisherDiscriminant(ridge=0.1)
    run = learn(path, model, label="kind", model_file=file, label_delay=20, stop=stop)
    assert run.counters.waiting == 20
    said = f"{file}: 20 of its rows wait for their labels (--label-delay). Let the run come to its end first."
    with pytest.raises(StreamError, match=re.escape(said)):
        merge_files([file, file], str(tmp_path / "both"))


# What is printed.


def test_the_summary_says_what_the_json_and_inspect_say(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(delays_module, "SETTINGS", replace(SETTINGS, sure_error=0.2))
    write_points(tmp_path / "a.csv", 1200)
    arguments = ("learn", tmp_path / "a.csv", "-l", "kind", "--ridge", "0.1", "--half-life", "none")
    lines = call(capfd, *arguments, "-m", tmp_path / "m").err.splitlines()
    facts = json.loads(call(capfd, *arguments, "-m", tmp_path / "n", "--json").out)
    baselines, saved = facts["baselines"], facts["saved_model"]
    start = next(place for place, line in enumerate(lines) if line.startswith(f"{tmp_path / 'm'}: 1,200 rows"))
    assert lines[start].endswith(
        f"accuracy {facts['accuracy']:.4f} before learning ({facts['unscored']} row not scored); finished."
    )
    majority, last = baselines["majority"], baselines["last_label"]
    assert lines[start + 1] == f"Without a model: majority class {majority:.4f}, last label {last:.4f}."
    assert (
        lines[start + 2] == f"Kappa {baselines['kappa']:.3f}; over the last label {baselines['kappa_last_label']:.3f}."
    )
    one, ten, hundred = (f"{entry['accuracy']:.3f} ± {entry['standard_error']:.3f}" for entry in facts["late"])
    assert lines[start + 3] == f"If labels come late: {one} by 1 row, {ten} by 10, {hundred} by 100."
    hundred = facts["late"][-1]["accuracy"]
    assert (saved["delay"], saved["accuracy"]) == (100, hundred)
    assert (
        lines[start + 4]
        == f"Expect {hundred:.3f} of the saved model, 100 rows from now, if the classes stay as they were."
    )
    shown = call(capfd, "inspect", tmp_path / "m").out
    assert f"{facts['accuracy']:.4f} before learning, {facts['unscored']} row not scored" in shown
    assert lines[start + 1] in shown
    assert (
        json.loads(call(capfd, "inspect", tmp_path / "m", "--json").out)["stream"]["figures"]["late"] == facts["late"]
    )


def test_the_summary_says_that_labels_came_late(tmp_path, capfd):
    write_points(tmp_path / "a.csv", 300)
    arguments = ("learn", tmp_path / "a.csv", "-l", "kind", "-m", tmp_path / "m", "--ridge", "0.1")
    said = call(capfd, *arguments, "--label-delay", "50").err
    assert re.search(
        r"300 rows, accuracy 0\.\d{4} before learning, with labels 50 rows late \(\d+ rows not scored\)", said
    )
    refused = call(capfd, *arguments, "--engine", "local", "--label-delay", "50", expect=2).err
    assert "--label-delay" in refused


def test_a_model_worse_than_the_last_label_is_called_so():
    y = np.repeat([0, 1], 100)
    history = History()
    history.observe(y, 1 - y, seconds=0.0)
    assert compared(history.summary())[-1] == "Repeating the last label is right more often than this model."
