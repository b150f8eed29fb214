"""Rows of a stream that look like no class: counted as predict_known says, listed, and those of a new class found."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")
pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")

import kampong
from command import call
from kampong import FisherDiscriminant
from kampong.contract import stream_model
from kampong.files import CheckpointError, read, write
from kampong.streaming import Layout, Source, learn
from kampong.streaming.errors import UsageError
from kampong.streaming.history.rejected import FIRST, LISTED, SURE, Rejected, sentences
from kampong.streaming.inspection import describe
from kampong.streaming.model_file import read_model
from kampong.streaming.unlearn_records import unlearn
from stream_problems import write_csv

COLUMNS = 8


def mixed(n, seed=0, *, burst=0, places=3):
    """Return rows of normal classes; of the rows from 2,000 on, one in fifteen lies elsewhere until `burst` do."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, places, n)
    X = rng.standard_normal((n, COLUMNS)) + 2.5 * np.eye(places, COLUMNS)[y]
    strange = 2000 + 15 * np.arange(burst)
    X[strange] = 0.7 * rng.standard_normal((burst, COLUMNS)) + 5.0 * np.eye(COLUMNS)[6]
    return X, np.array(list("abcdefgh"))[y], strange


def stream(folder, X, y, model=None, *, name="a.csv", model_file="m", **options):
    write_csv(folder / name, X, y)
    model = FisherDiscriminant(half_life="auto") if model is None else model
    return learn(
        Source(str(folder / name), Layout(label="label")), model, model_file=str(folder / model_file), **options
    )


def listening(X, y, rate, rows):
    """Return a model of the first rows, and what it needs to reject further ones."""
    model = FisherDiscriminant().partial_fit(X[:rows], y[:rows])
    found = Rejected(rate)
    found.due = rows
    found.renew(stream_model(model), model.freeze(), rows)
    return model, found


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_rows_are_rejected_as_predict_known_does(rate, scale):
    X, y, _ = mixed(1500, burst=0)
    X[:, 3] *= 100.0
    model = FisherDiscriminant(scale=scale).partial_fit(X[:700], y[:700])
    found = Rejected(rate)
    found.due = 700
    found.renew(stream_model(model), model.freeze(), 700)
    found.look(X[700:], y[700:], 700)
    expected = np.flatnonzero([label is None for label in model.predict_known(X[700:], rate).tolist()]) + 701
    assert found.rejected == len(expected) > 0
    assert [one["row"] for one in found.summary(str)["latest"]] == expected.tolist()[-LISTED:]


@pytest.mark.parametrize("size", [1, 7, 300])
def test_the_cut_into_batches_changes_nothing(size):
    X, y, _ = mixed(3000, burst=40)
    whole, parts = (listening(X, y, 0.02, 1000)[1] for _ in range(2))
    whole.look(X[1000:], y[1000:], 1000)
    for start in range(1000, 3000, size):
        parts.look(X[start : start + size], y[start : start + size], start)
    assert parts.summary(str) == whole.summary(str)
    assert (whole.rejected, len(whole.summary(str)["candidates"])) > (30, 0)


def test_known_rows_are_rejected_at_the_rate_that_was_asked_for(tmp_path):
    """The share varies by the held-out rows and by the new ones: together as a beta-binomial number."""
    X, y, _ = mixed(8192)
    run = stream(tmp_path, X, y, reject=0.05)
    assert run.rejected.asked == 8192 - FIRST
    pauses = FIRST * 2 ** np.arange(5)  # as many rows as were learnt before are compared each time
    held_out = np.minimum(pauses, 2048)
    variance = sum(stats.betabinom(n, 0.05 * m, 0.95 * m).var() for n, m in zip(pauses, held_out, strict=True))
    assert run.rejected.rejected < 0.05 * run.rejected.asked + 4.0 * np.sqrt(variance)
    assert run.rejected.rejected > 0.02 * run.rejected.asked  # rows held out have fewer neighbours than new ones


def test_rows_of_a_new_class_are_offered_and_rows_of_known_ones_are_not(tmp_path):
    X, y, strange = mixed(4000, burst=60)
    run = stream(tmp_path, X, y, reject=0.01)
    candidates = run.rejections()["candidates"]
    assert sum(one["rows"] for one in candidates) >= 20  # those that were learnt count as known from row 2,048 on
    for one in candidates:
        assert strange[0] < one["first"] <= one["last"] <= strange[-1] + 1
        assert one["columns"][0]["name"] == "x6"
        assert abs(one["columns"][0]["mean"] - 5.0) < 0.5 > abs(one["columns"][0]["usual"])
    offered = 0
    for seed in range(20):
        X, y, _ = mixed(1500, seed)
        found = listening(X, y, 0.05, 500)[1]
        found.look(X[500:], y[500:], 500)
        offered += bool(found.candidates())
    assert offered <= stats.binom.ppf(0.999, 20, SURE)


def test_rows_of_a_class_that_was_not_known_are_counted_apart(tmp_path):
    X, y, strange = mixed(3000, burst=60)
    y[strange] = "z"
    run = stream(tmp_path, X, y, reject=0.01)
    found = run.rejections()
    assert found["new_asked"] == 4  # the class is known from row 2,048 on
    assert found["new_rejected"] >= 3
    assert found["asked"] == 3000 - FIRST - 4
    assert all(one["label"] != "z" or one["row"] > 2048 for one in found["latest"])


@pytest.mark.parametrize("delay", [0, 300])
def test_a_stopped_run_goes_on_to_the_bit(tmp_path, delay):
    class Stop:
        def __init__(self, after):
            self.after = after

        def is_set(self):
            self.after -= 1
            return self.after < 0

        def wait(self, *_):
            return False

    X, y, _ = mixed(3000, burst=40)
    options = {"reject": 0.02, "label_delay": delay}
    whole = stream(tmp_path, X, y, model_file="whole", **options)
    for _ in range(40):
        run = stream(tmp_path, X, y, model_file="parts", stop=Stop(3), **options)
        if run.finished:
            break
    assert run.finished
    assert run.resumed
    ours, theirs = (read_model(str(tmp_path / name))[1].course.rejected.to_state() for name in ("parts", "whole"))
    assert whole.rejected.rejected > 20
    for name in ("rejected", "asked", "due"):
        assert ours[name] == theirs[name]
    for name in ("facts", "values", "rows", "labels", "noted_facts", "noted_numbers"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    np.testing.assert_array_equal(ours["known"]["white"], theirs["known"]["white"])


def test_what_is_kept_does_not_grow_with_the_rows(tmp_path):
    X, y, _ = mixed(6000)
    X[3000:] *= 3.0  # most of them look like no class
    run = stream(tmp_path, X, y, reject=0.02)
    assert run.rejected.rejected > 1000
    state = run.rejected.to_state()
    assert len(state["facts"]) == len(run.rejections()["latest"]) == LISTED >= len(state["rows"])
    assert len(state["known"]["rows"]) <= 2048


def test_rows_with_columns_that_came_later_are_compared_by_those_known(tmp_path):
    X, y, _ = mixed(1200)
    names = [*"abcdefgh", "label"]
    lines = [
        ",".join([*map("{:.3f}".format, row[:7]), f"k{place % (2 + place // 100)}", label])
        for place, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True))
    ]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    layout = Layout(label="label", category=("h",))
    run = learn(
        Source(str(tmp_path / "a.csv"), layout), FisherDiscriminant(), model_file=str(tmp_path / "m"), reject=0.05
    )
    assert run.rejected.asked == 1200 - FIRST
    assert describe(str(tmp_path / "m"))["stream"]["rejected"]["asked"] == 1200 - FIRST


def test_a_run_goes_on_with_another_rate_or_without(tmp_path):
    X, y, _ = mixed(3000)
    stream(tmp_path, X[:1000], y[:1000], reject=0.02)
    run = stream(tmp_path, X[1000:2000], y[1000:2000], name="b.csv", reject=0.02)
    assert run.rejected.asked == 2000 - FIRST
    run = stream(tmp_path, X[2000:2500], y[2000:2500], name="c.csv", reject=0.1)
    assert run.rejected.asked == 499  # after the first row of the source
    assert stream(tmp_path, X[2500:], y[2500:], name="d.csv").rejected is None
    assert "rejected" not in describe(str(tmp_path / "m"))["stream"]


def test_unlearnt_rows_are_forgotten(tmp_path):
    X, y, _ = mixed(1500)
    stream(tmp_path, X, y, FisherDiscriminant(half_life="auto"), reject=0.05)
    write_csv(tmp_path / "out.csv", X[:50], y[:50])
    unlearn(Source(str(tmp_path / "out.csv"), Layout(label="label")), str(tmp_path / "m"), str(tmp_path / "receipt"))
    arrays, facts = read(tmp_path / "m")
    assert not any(name.startswith("stream.rejected.") and array.size for name, array in arrays.items())
    assert facts["stream"]["rejected.asked"] == 1500 - FIRST


def test_the_tool_says_what_was_rejected(tmp_path, capfd):
    X, y, _ = mixed(4000, burst=60)
    write_csv(tmp_path / "a.csv", X, y)
    source, model, report = (str(tmp_path / name) for name in ("a.csv", "m", "r.html"))
    _, out = call(capfd, "learn", source, "-l", "label", "-m", model, "--reject", "0.01", "--report", report)
    assert "rows looked like no class when they came" in out
    assert "Candidate for a new class:" in out
    assert "labelled" in out
    found = describe(model)["stream"]["rejected"]
    again = str(tmp_path / "again.html")
    call(capfd, "report", model, "--out", again)
    for page in (report, again):
        assert "Candidate for a new class" in Path(page).read_text()
    out, _ = call(capfd, "inspect", model)
    assert "rejected row" in out
    assert f"{found['latest'][-1]['row']:,}" in out
    out, _ = call(capfd, "inspect", model, "--json")
    assert json.loads(out)["stream"]["rejected"] == found


def test_predict_offers_rejected_records_that_lie_together(tmp_path, capfd):
    X, y, strange = mixed(4000, burst=60)
    stream(tmp_path, X[:2000], y[:2000])
    write_csv(tmp_path / "new.csv", X[2000:], y[2000:])
    model, out = str(tmp_path / "m"), str(tmp_path / "o.csv")
    _, told = call(capfd, "predict", tmp_path / "new.csv", "-m", model, "--reject", "0.01", "--out", out)
    assert "Candidate for a new class:" in told
    assert f"rows {strange[0] - 1999:,} to" in told


def test_what_cannot_be_rejected_is_refused(tmp_path):
    X, y, _ = mixed(300)
    for rate in (-0.1, 1.0, 7):
        with pytest.raises(UsageError, match="--reject is the share of known rows"):
            stream(tmp_path, X, y, reject=rate)
    with pytest.raises(UsageError, match="MarginSubspace cannot tell that a row is of no class"):
        stream(tmp_path, X, y, kampong.MarginSubspace(), reject=0.01)
    with pytest.raises(UsageError, match=r"needs the rows that a model keeps to choose its ridge\. Leave --ridge out"):
        stream(tmp_path, X, y, FisherDiscriminant(ridge=0.1), reject=0.01)
    (tmp_path / "words.csv").write_text("text,kind\n" + "".join(f"a{i} b{i % 7} c,{'xy'[i % 2]}\n" for i in range(300)))
    words = Layout(label="kind", text=("text",))
    with pytest.raises(UsageError, match=r"up to 8,192 columns, and these have 262,144.* with --hash-width"):
        learn(Source(str(tmp_path / "words.csv"), words), FisherDiscriminant(), reject=0.01)


def test_a_share_that_held_out_rows_cannot_tell_is_told(tmp_path):
    X, y, _ = mixed(600)
    told = sentences(stream(tmp_path, X, y, reject=1e-6).rejections())
    assert told[1] == "512 held-out rows tell no share below 0.0019: give a larger --reject."
    assert told[0].endswith(
        "looked like no class when they came: 0.00%. --reject allows 0.0001% of rows of known classes."
    )
    assert len(sentences(stream(tmp_path, X, y, model_file="n", reject=0.002).rejections())) == 1


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("facts", lambda facts: facts + 1000, "facts holds no such column"),
        ("rows", lambda rows: rows[:, :-1], "rows has shape"),
        ("known.root", lambda root: root[:-1], "root has shape"),
        ("known.held_codes", lambda codes: codes + 99, "held_codes lies in"),
    ],
)
def test_a_state_that_lies_is_refused(tmp_path, name, change, said):
    X, y, _ = mixed(800)
    stream(tmp_path, X, y, reject=0.1)
    arrays, facts = read(tmp_path / "m")
    full = f"stream.rejected.{name}"
    write(tmp_path / "lies", {**arrays, full: np.ascontiguousarray(change(arrays[full]))}, facts)
    with pytest.raises(CheckpointError, match=said):
        describe(str(tmp_path / "lies"))
