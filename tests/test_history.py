"""The history of a stream: its laws against a plain list of batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kampong.checkpoint import CheckpointError, Contents
from kampong.checkpoint.contents import flatten, to_lines
from kampong.streaming.history import History
from kampong.streaming.history_state import BATCH_SHARE, CLASSES, DIRECTIONS, OTHER_NAME, POINTS

counts = st.integers(0, 10**6)


@st.composite
def batches(draw):
    rows = draw(counts)
    scored = draw(st.sampled_from([0, rows]) | st.integers(0, rows))
    return {
        "rows": rows,
        "scored": scored,
        "correct": draw(st.integers(0, scored)),
        "seconds": draw(st.floats(0, 1e4)),
        "dead": draw(counts),
        "eigenvalues": draw(st.lists(st.floats(-1e9, 1e9), max_size=DIRECTIONS + 2)),
        "epsilon": draw(st.none() | st.floats(0, 10)),
    }


def arrays_of(history):
    return flatten(history.to_state())[0]


def again(history):
    """Return a history that went through its state."""
    return History.from_state(Contents(*flatten(history.to_state()), "History"))


def same(first, second):
    (mine, facts), (theirs, other_facts) = flatten(first.to_state()), flatten(second.to_state())
    return (
        facts == other_facts
        and mine.keys() == theirs.keys()
        and all(
            mine[key].dtype == theirs[key].dtype
            and mine[key].shape == theirs[key].shape
            and mine[key].tobytes() == theirs[key].tobytes()
            for key in mine
        )
    )


@given(stream=st.lists(batches(), max_size=70), capacity=st.sampled_from([2, 4, 6, 10, 64]))
def test_entries_are_the_batches_in_groups_of_the_smallest_power_of_two_that_fits(stream, capacity):
    history = History(capacity)
    for batch in stream:
        history.observe(**batch)
    stride = 1
    while -(-len(stream) // stride) > capacity:
        stride *= 2
    groups = [stream[start : start + stride] for start in range(0, len(stream), stride)]
    curves = history.curves()
    for name in ("rows", "correct", "dead"):
        assert getattr(curves, name).tolist() == [sum(batch[name] for batch in group) for group in groups]
    scored = [sum(batch["scored"] for batch in group) for group in groups]
    assert curves.scored.tolist() == scored
    nanoseconds = [sum(round(batch["seconds"] * 1e9) for batch in group) for group in groups]
    np.testing.assert_array_equal(curves.seconds, np.array(nanoseconds) / 1e9)
    assert history.n_batches == len(stream)
    assert history.rows == sum(batch["rows"] for batch in stream)
    assert history.dead == sum(batch["dead"] for batch in stream)
    assert (history.scored, history.correct) == (sum(scored), sum(batch["correct"] for batch in stream))
    # The state at the end of an entry is the last one told of until then.
    epsilon, leading, n_directions = np.nan, [], 0
    for number, group in enumerate(groups):
        for batch in group:
            epsilon = epsilon if batch["epsilon"] is None else batch["epsilon"]
            leading = batch["eigenvalues"][:DIRECTIONS] or leading
            n_directions = len(batch["eigenvalues"]) or n_directions
        np.testing.assert_array_equal(curves.epsilon[number], epsilon)
        assert curves.directions[number] == n_directions
        expected = [*leading, *[np.nan] * (DIRECTIONS - len(leading))]
        np.testing.assert_array_equal(curves.eigenvalues[number], expected)


def random_batch(rng, labels, rows=300, directions=3):
    chosen = rng.choice(labels, rows)
    right = rng.random(rows) < 0.8
    facts = {
        "rows": rows,
        "correct": int(right.sum()),
        "seconds": float(rng.random()),
        "dead": int(rng.integers(3)),
        "eigenvalues": rng.random(directions),
        "epsilon": 1.0,
        "class_rows": {label: int((chosen == label).sum()) for label in labels},
        "class_correct": {label: int(((chosen == label) & right).sum()) for label in labels},
    }
    return facts, rng.normal(size=(rows, directions)), chosen


@pytest.mark.parametrize("labels", [["a", "b", "<script>", "naïve 类"], [0, 1, 2], [False, True]])
@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_a_resumed_history_goes_on_bit_for_bit(labels, cut):
    rng = np.random.default_rng(3)
    whole, resumed = History(8), History(8)
    for number in range(45):
        if number == cut:
            resumed = again(resumed)
            assert same(whole, resumed)
        facts, points, chosen = random_batch(rng, labels)
        for history in (whole, resumed):
            history.observe(**facts)
            history.keep_points(points, chosen, chosen[::-1], centres=(labels, points[: len(labels)]))
    assert same(whole, resumed)
    assert same(whole, again(whole))
    assert all(np.isfinite(array).all() for array in arrays_of(whole).values())
    assert whole.class_table().names == [str(label) for label in labels]


def test_what_is_handed_out_is_a_copy():
    history = History()
    history.observe(rows=1, correct=1, seconds=0)
    history.keep_points(np.ones((1, 2)), ["a"])
    arrays, facts = flatten(history.to_state())
    other = History.from_state(Contents(arrays, facts, "History"))
    for array in arrays.values():
        if array.flags.writeable:
            array[...] = 7
    assert same(history, other)


def test_a_million_batches_keep_their_totals_and_their_size():
    history, size = History(64), 0
    for number in range(1_000_000):
        history.observe(rows=3, correct=number % 4, seconds=0.1, dead=number % 2, class_rows={number % 5: 3})
        if number == 10_000:
            size = sum(array.nbytes for array in arrays_of(history).values())
    assert (history.rows, history.correct, history.dead) == (3_000_000, 1_500_000, 500_000)
    assert history.seconds == 100_000.0  # nanoseconds are whole numbers: no rounding piles up
    assert history.n_batches == 1_000_000
    assert history.class_table().rows.tolist() == [600_000] * 5
    assert len(history.curves().rows) <= 64
    assert sum(array.nbytes for array in arrays_of(history).values()) < size + 64 * 200


def test_the_recent_window_is_the_last_rows():
    history = History()
    for number in range(100):  # slots of 300 rows, since 100 rows are less than a slot
        fell = number >= 52
        history.observe(
            rows=100,
            correct=40 if fell else 90,
            seconds=0.1,
            class_rows={"x": 60, "y": 40},
            class_correct={"x": 0 if fell else 50, "y": 40},
        )
    # 99 batches fill 33 slots; the window is the last 15 of those and the one that the 100th batch began.
    assert history.recent() == (4600, 46 * 40)
    table = history.class_table()
    assert table.recent_scored.tolist() == [46 * 60, 46 * 40]
    assert table.recent_correct.tolist() == [0, 46 * 40]
    assert table.rows.tolist() == [6000, 4000]
    assert table.correct.tolist() == [52 * 50, 4000]
    history.observe(rows=100, correct=0, seconds=0.1, scored=0, class_rows={"x": 100})
    later = history.class_table()
    assert history.recent() == (4600, 46 * 40)
    assert (later.rows - table.rows).tolist() == [100, 0]
    assert (later.scored - table.scored).tolist() == [0, 0]


def test_classes_beyond_the_limit_are_counted_together():
    history = History()
    for label in range(CLASSES + 500):
        history.observe(rows=2, correct=1, seconds=0, class_rows={label: 2}, class_correct={label: 1})
    table = history.class_table()
    assert len(table.names) == CLASSES
    assert table.names[0] == OTHER_NAME
    assert (table.rows[0], table.correct[0]) == (2 * 501, 501)
    assert table.rows.sum() == history.rows
    assert same(history, again(history))


@given(sizes=st.lists(st.integers(0, 700), max_size=20))
def test_kept_points_are_rows_of_the_stream_with_their_own_numbers(sizes):
    history, start = History(), 0
    for size in sizes:
        rows = np.arange(start + 1, start + size + 1)
        history.observe(rows=size, correct=0, seconds=0)
        history.keep_points(np.c_[rows, -rows], rows % 7, rows % 5)
        start += size
    points = history.points()
    numbers = points.row_numbers
    assert (np.diff(numbers) > 0).all()
    assert ((numbers >= 1) & (numbers <= start)).all()
    np.testing.assert_array_equal(points.coordinates[:, 0], numbers)
    np.testing.assert_array_equal(points.coordinates[:, 1], -numbers)
    assert np.isnan(points.coordinates[:, 2:]).all()
    assert points.labels == [str(number % 7) for number in numbers]
    assert points.predicted == [str(number % 5) for number in numbers]
    assert len(numbers) == min(POINTS, sum(min(size, POINTS // BATCH_SHARE) for size in sizes))


def test_a_large_batch_gives_its_classes_equal_shares_as_far_as_they_go():
    quota = POINTS // BATCH_SHARE
    labels = np.array(["common"] * 412 + ["rare"] * 20 + ["middle"] * 80)
    history = History()
    history.observe(rows=512, correct=0, seconds=0)
    history.keep_points(np.random.default_rng(0).normal(size=(512, 2)), labels)
    kept = history.points()
    assert {name: kept.labels.count(name) for name in set(kept.labels)} == {
        "rare": 20,
        "middle": 80,
        "common": quota - 100,
    }
    assert set(kept.predicted) == {""}
    assert kept.row_numbers.max() == 512


def test_a_larger_batch_is_thinned_evenly_first():
    history, n = History(), 100_000
    labels = np.array(["a", "b"])[np.arange(n) * 10 // n % 2]  # ten stretches of one class each
    history.observe(rows=n, correct=0, seconds=0)
    history.keep_points(np.zeros((n, 2)), labels, labels)
    kept = history.points()
    quota = POINTS // BATCH_SHARE
    assert len(kept.labels) == quota
    assert kept.labels.count("a") == quota // 2
    assert kept.labels == [str(labels[number - 1]) for number in kept.row_numbers]
    assert kept.row_numbers.max() == n


def test_the_newest_points_stay():
    history = History()
    for _ in range(1000):
        history.observe(rows=100, correct=0, seconds=0)
        history.keep_points(np.zeros((100, 12)), [0] * 100)
    assert history.points().row_numbers.tolist() == list(range(100_000 - POINTS + 1, 100_001))


def test_values_that_are_not_finite_are_left_out():
    history = History()
    history.observe(rows=3, correct=0, seconds=0, eigenvalues=[2.0, np.nan, 1.0], epsilon=np.inf)
    history.keep_points([[0.0, 1.0], [np.nan, 1.0], [1.0, np.inf]], ["a", "b", "c"])
    assert history.points().labels == ["a"]
    np.testing.assert_array_equal(history.curves().eigenvalues[0], [2.0] + [np.nan] * (DIRECTIONS - 1))
    assert np.isnan(history.curves().epsilon[0])


def test_the_last_centres_stay_with_their_classes():
    history = History()
    history.observe(rows=1, correct=0, seconds=0)
    first = (["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]]))
    history.keep_points(np.zeros((1, 2)), ["b"], centres=first)
    history.keep_points(np.zeros((1, 2)), ["b"], centres=first)
    history.keep_points(np.zeros((1, 2)), ["b"])
    assert {name: centre.tolist() for name, centre in history.centres().items()} == {"a": [1, 2], "b": [3, 4]}
    history.keep_points(np.zeros((1, 2)), ["b"], centres=(["b", "c"], np.array([[5.0], [np.nan]])))
    assert {name: centre.tolist() for name, centre in history.centres().items()} == {"b": [5]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": -1},
        {"rows": 1, "correct": 2},
        {"correct": 1, "scored": 0},
        {"dead": -1},
        {"seconds": -0.1},
        {"seconds": np.nan},
        {"seconds": np.inf},
    ],
)
def test_wrong_figures_are_refused(wrong):
    history = History()
    with pytest.raises(ValueError, match=r"History\.observe: rows="):
        history.observe(**{"rows": 3, "correct": 0, "seconds": 0.0} | wrong)
    assert same(history, History())


def test_wrong_points_and_capacities_are_refused():
    with pytest.raises(ValueError, match="Give one of each a row"):
        History().keep_points(np.zeros((3, 2)), ["a", "b"])
    with pytest.raises(ValueError, match="even number"):
        History(7)


def damaged(state):
    """Yield the state with one thing wrong."""
    for name, value in state.items():
        yield {key: other for key, other in state.items() if key != name}
        if isinstance(value, np.ndarray):
            yield state | {name: value.astype(np.complex128)}
            yield state | {name: value[..., None]}
        else:
            yield state | {name: str(value)}
            yield state | {name: -value}
    yield state | {"more": np.zeros(1)}
    yield state | {"capacity": 7}
    yield state | {"capacity": 2}
    yield state | {"stride": 3}
    yield state | {"stride": 2, "capacity": 512}
    yield state | {"filled": 10**6}
    yield state | {"class_names": to_lines(["a"])}
    yield state | {"class_names": to_lines(["a", "a"])}
    yield state | {"class_names": to_lines(["a", 2])}
    yield state | {"class_names": to_lines(["a", "b" * 121])}
    for name, place, value in [
        ("counts", (0, 0), -1),
        ("counts", (0, 1), 10**6),
        ("counts", (0, 3), 2**62),
        ("states", (0, 0), np.nan),
        ("states", (0, 8), 1.0),
        ("states_known", (0, 1), 99),
        ("class_counts", (1, 0), -5),
        ("class_counts", (1, 2), 10**6),
        ("recent", (0, 0), 3),
        ("recent", (0, 1), 2),
        ("recent", (1, 1), 99),
        ("recent", (2, 1), 1),
        ("recent", (1, 3), 10**6),
        ("points", (0, 0), np.inf),
        ("point_facts", (0, 1), 99),
        ("point_facts", (0, 2), -2),
        ("point_facts", (0, 3), 99),
        ("centres", (0, 0), np.nan),
        ("centre_facts", (0, 0), 0),
        ("centre_facts", (0, 0), 99),
        ("centre_facts", (0, 1), 99),
    ]:
        array = state[name].copy()
        array[place] = value
        yield state | {name: array}
    yield state | {"points": state["points"][:-1]}
    yield state | {"states": state["states"][:-1]}
    yield state | {"centres": state["centres"][:-1]}


def test_a_damaged_state_is_refused():
    history, rng = History(8), np.random.default_rng(0)
    for _ in range(5):
        facts, points, chosen = random_batch(rng, ["a", "b"])
        history.observe(**facts)
        history.keep_points(points, chosen, chosen, centres=(["a", "b"], np.ones((2, 3))))
    assert same(history, again(history))
    count = 0
    for state in damaged(history.to_state()):
        with pytest.raises(CheckpointError, match="the state of History is not valid"):
            History.from_state(Contents(*flatten(state), "History"))
        count += 1
    assert count == 3 * 13 + 1 + 9 + 21 + 3
