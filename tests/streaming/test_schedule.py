"""When a stream renews what predicts: row numbers decide, not blocks; the first rows are scored at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

import kampong
from kampong.contract import stream_model
from kampong.streaming import learn
from kampong.streaming.prediction import kept_choice
from kampong.streaming.schedule import Schedule, power_of_two
from kampong.streaming.settings import SETTINGS
from kampong.streaming.sources import blocks
from stream_problems import write_points

powers = st.sampled_from([1, 2, 4, 8, 64, 256])


def is_power(rows):
    return rows & (rows - 1) == 0


@given(least=powers, parts=st.sampled_from([8, 16, 32]), most=st.sampled_from([0, 64, 512]), rows=st.integers(1, 10**7))
def test_renewals_are_row_numbers_that_any_cut_meets(least, parts, most, rows):
    schedule = Schedule(least, parts, most and max(most, least), 2)
    due = schedule.next_after(rows)
    assert due > rows
    assert due % schedule.interval(due) == 0 or schedule.interval(due) > schedule.interval(rows) or is_power(due)
    assert due - rows <= max(schedule.interval(rows), least)
    for between in range(rows + 1, min(due, rows + 2000)):
        assert not schedule.renews(between)  # a piece would hold it, and the cut of the source decide
    for between in np.unique(np.linspace(rows, due - 1, 5).astype(int)).tolist():
        assert schedule.next_after(between) == due  # wherever a block ends, the next renewal is the same
    assert schedule.interval(rows) <= max(least, rows / parts)
    labels = np.zeros(5000, dtype=int)
    assert schedule.piece(rows, labels, {0, 1}) == min(5000, due - rows)


def test_a_wide_model_of_few_classes_is_renewed_more_often():
    rng = np.random.default_rng(0)
    found = {}
    for n_classes in (2, 8, 64):
        model = kampong.InterClassScatter().partial_fit(rng.normal(size=(128, 9000)), np.arange(128) % n_classes)
        found[n_classes] = Schedule.of(stream_model(model))
    assert [(one.least, one.parts) for one in found.values()] == [(16, 64), (64, 16), (512, 2)]
    assert [one.interval(1024) for one in found.values()] == [16, 64, 512]
    assert [one.interval(8192) for one in found.values()] == [512, 2048, 8192]  # solving costs about what learning does


@pytest.mark.parametrize("columns", [129, 256, 617, 1024, 1025, 4588, 8192])
def test_where_a_contest_predicts_solving_costs_no_more_than_learning(columns):
    """Solves of width³ / 3 products, and rows of width² of them, from the row on that has the number of the width."""
    rng, found = np.random.default_rng(0), {}
    X, y = rng.normal(size=(3, columns)), np.array([0, 1, 0])
    for half_life in ("auto", None):
        model = kampong.FisherDiscriminant(ridge=1.0, half_life=half_life, effort=0).partial_fit(X, y)
        found[half_life] = Schedule.of(stream_model(model))
    assert found["auto"].least == power_of_two(columns)
    assert found[None].least == power_of_two(columns // 8)  # nothing else predicts
    schedule = found["auto"]
    for last in (2 * columns, 5 * columns, 40 * columns):
        rows, solves = columns, 0
        while (rows := schedule.next_after(rows)) <= last:
            solves += 1
        assert solves * columns**3 / 3 <= (last - columns) * columns**2
    few = [rows for rows in range(columns) if schedule.renews(rows) and rows >= SETTINGS.first_choice]
    assert all(is_power(rows) for rows in few)  # before that they come with the choices


def test_choices_come_at_doublings_and_then_eightfold():
    every, few = Schedule(1, 32, 0, 2), Schedule(64, 8, 0, 16)
    assert [rows for rows in range(1, 300_000) if every.chooses(rows)] == [2**i for i in range(4, 15)] + [
        8 * SETTINGS.full_sample
    ]
    assert [rows for rows in range(1, 300_000) if few.chooses(rows)] == [16, 256, 4096, 65536]


@given(rows=st.integers(1, 10**7))
def test_where_something_else_predicts_renewals_are_rare(rows):
    schedule = Schedule(64, 8, 0, 16, rare=True)
    due = schedule.next_after(rows)
    assert rows < due <= max(16, (4 if rows < 4096 else 16) * rows)
    assert schedule.renews(due)
    assert [n for n in range(rows + 1, min(due, rows + 2000)) if schedule.renews(n)] == []
    assert schedule.piece(rows, np.zeros(5000, dtype=int), {0, 1}) == min(5000, due - rows)
    assert [n for n in range(70_000) if schedule.renews(n)] == [16, 64, 256, 1024, 4096, 65536]
    assert [n for n in range(70_000) if schedule.chooses(n)] == [16, 4096, 65536]


def test_a_contest_looks_at_every_doubling():
    watched = Schedule(1, 32, 0, 2, watched=True)
    assert [rows for rows in range(1, 300_000) if watched.chooses(rows)] == [2**i for i in range(4, 19)]


@pytest.mark.parametrize("change", [False, True])
def test_what_was_chosen_on_enough_rows_is_chosen_again_if_it_has_aged(monkeypatch, tmp_path, change):
    monkeypatch.setattr("kampong.streaming.schedule.SETTINGS", replace(SETTINGS, full_sample=2**9))
    rng, n = np.random.default_rng(0), 2100
    y = rng.integers(0, 2, n)
    turn = np.where(change & (np.arange(n) >= 1500), -1, 1)
    X = np.column_stack([2 * y * turn, np.zeros(n)]) + rng.normal(size=(n, 2))
    lines = [f"{a},{b},{'no' if c else 'yes'}" for (a, b), c in zip(X.round(3).tolist(), y.tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["u,v,kind", *lines]) + "\n")
    run = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(half_life="auto"), label="kind")
    alone = learn(str(tmp_path / "a.csv"), kampong.FisherDiscriminant(), label="kind")
    model, schedule = stream_model(run.model), Schedule.of(stream_model(run.model))
    assert model.has_aged(run.predictor) == change
    for rows, chosen_again in ((256, True), (2048, change), (2049, False)):
        kept = kept_choice(model, run.predictor, schedule, rows)
        assert (kept is None) == chosen_again
    assert stream_model(alone.model).has_aged(alone.predictor)  # nobody knows: row numbers alone decide


@given(number=st.integers(0, 2**40))
def test_power_of_two(number):
    found = power_of_two(number)
    assert found & (found - 1) == 0
    assert found <= max(number, 1) < 2 * found


def test_a_piece_ends_with_the_first_row_of_a_new_class():
    schedule = Schedule(1, 32, 0, 2)
    assert schedule.piece(6400, np.array(["a", "a", "b", "c", "a"]), {"a", "b"}) == 4
    wide = Schedule(64, 8, 0, 4)
    assert wide.piece(6400, np.array(["a", "a", "b", "c", "a"]), {"a"}) == 3  # the second class: something can be said
    assert wide.piece(6400, np.array(["a", "a", "b", "c", "a"]), {"a", "b"}) == 5


@pytest.mark.parametrize("model", [kampong.FisherDiscriminant(), kampong.MarginSubspace(epsilon=0.1, half_life=100)])
def test_blocks_do_not_matter(tmp_path, monkeypatch, model):
    """The same predictions, to rounding, whatever the size of the blocks that the source comes in."""
    write_points(tmp_path / "a.csv", 1200)
    found = []
    for size in (512, 4096, 2**20):
        monkeypatch.setattr(blocks, "SMALLEST", size)
        monkeypatch.setattr(blocks, "LARGEST", size)
        out = tmp_path / f"{size}.csv"
        learn(str(tmp_path / "a.csv"), clone(model), label="kind", out=str(out))
        found.append([line.split(",")[:3] for line in out.read_text().splitlines()])
    assert found[0] == found[1] == found[2]


def write(path, X, y):
    header = ",".join([*(f"x{j}" for j in range(X.shape[1])), "kind"])
    path.write_text("\n".join([header, *(",".join(map(str, [*x, c])) for x, c in zip(X.tolist(), y, strict=True))]))


def test_iris_is_scored_from_its_second_row_on(tmp_path):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    write(tmp_path / "iris.csv", X[order], np.array(["setosa", "versicolor", "virginica"])[y[order]])
    run = learn(str(tmp_path / "iris.csv"), kampong.FisherDiscriminant(), label="kind")
    assert run.counters.scored == 149
    assert run.counters.accuracy > 0.9


def test_sorted_classes_are_met_one_after_the_other(tmp_path):
    """A class counts from its first row on: each of the others is wrong once or twice, not a block long.

    The first one, of 50 rows, is predicted while it is alone.
    """
    X, y = load_iris(return_X_y=True)
    write(tmp_path / "iris.csv", X, np.array(["setosa", "versicolor", "virginica"])[y])
    run = learn(str(tmp_path / "iris.csv"), kampong.FisherDiscriminant(), label="kind")
    assert run.counters.scored == 149
    assert run.counters.correct >= 49 + 85


def test_digits_are_predicted_by_a_fresh_model(tmp_path):
    X, y = load_digits(return_X_y=True)
    write(tmp_path / "digits.csv", X, y)
    run = learn(str(tmp_path / "digits.csv"), kampong.FisherDiscriminant(), label="kind")
    assert run.counters.accuracy > 0.96  # 0.839 where the predictor was renewed with every fourfold of the rows
