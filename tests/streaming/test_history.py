"""The history of a stream: its laws against a plain list of batches."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from kampong.files import CheckpointError, Contents
from kampong.files.contents import flatten, to_lines
from kampong.streaming.columns.records import Dead
from kampong.streaming.history import outcomes
from kampong.streaming.history.history import History
from kampong.streaming.history.limits import BATCH_SHARE, DIRECTIONS, POINTS
from kampong.streaming.history.notes import CHOICES, KINDS, OTHERS, Chosen
from kampong.streaming.history.outcomes import CLASSES, OTHER_NAME, RECENT

LABELS = ("a", "b", "<script>", "naïve 类", "e")


@st.composite
def batches(draw):
    """Return the arguments of a batch: labels, predictions (None for some), time, dead letters, eigenvalues."""
    size = draw(st.integers(0, 60))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    labels = rng.choice(LABELS, size)
    predicted = np.where(rng.random(size) < 0.7, labels, rng.choice(LABELS, size)).astype(object)
    predicted[rng.random(size) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = None
    return {
        "labels": labels,
        "predicted": predicted,
        "seconds": draw(st.floats(0, 1e4)),
        "dead": [letter(f"the label {number!r} is empty") for number in range(draw(st.integers(0, 4)))],
        "eigenvalues": draw(st.lists(st.floats(-1e9, 1e9), max_size=DIRECTIONS + 2)),
    }


def cut_to_pieces(stream):
    """Return the batches as a history takes them: at most an eighth of the rows so far at once, from 16 to 512."""
    pieces, rows = [], 0
    for batch in stream:
        n, start = len(batch["labels"]), 0
        while True:
            size = 16
            while size < 512 and 2 * size <= rows / 8:
                size *= 2
            stop = min(n, start + size)
            share = (stop - start) / n if n else 1.0
            last = {"dead": batch["dead"], "eigenvalues": batch["eigenvalues"], "seconds": batch["seconds"]}
            rest = last if stop == n else {"dead": [], "eigenvalues": [], "seconds": 0.0}
            some = {name: batch[name][start:stop] for name in ("labels", "predicted")}
            pieces.append({**some, **rest, "part": share * batch["seconds"]})
            rows, start = rows + stop - start, stop
            if stop == n:
                break
    return pieces


def letter(reason, line=7):
    return Dead(0, line, 100, reason, "the record")


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


@given(stream=st.lists(batches(), max_size=40), capacity=st.sampled_from([2, 4, 6, 10, 64]))
def test_entries_are_the_batches_in_groups_of_the_smallest_power_of_two_that_fits(stream, capacity):
    history = History(capacity)
    for batch in stream:
        history.observe(**batch)
    stream = cut_to_pieces(stream)
    stride = 1
    while -(-len(stream) // stride) > capacity:
        stride *= 2
    groups = [stream[start : start + stride] for start in range(0, len(stream), stride)]
    curves = history.curves()

    def sums(count):
        return [sum(count(batch) for batch in group) for group in groups]

    said = [[p is not None for p in batch["predicted"]] for batch in stream]
    assert curves.rows.tolist() == sums(lambda batch: len(batch["labels"]))
    assert curves.dead.tolist() == sums(lambda batch: len(batch["dead"]))
    assert curves.scored.tolist() == sums(lambda batch: sum(p is not None for p in batch["predicted"]))
    assert curves.correct.tolist() == sums(lambda batch: int((batch["predicted"] == batch["labels"]).sum()))
    assert history.seconds == sum(round(batch["seconds"] * 1e9) for batch in stream) / 1e9
    np.testing.assert_allclose(curves.seconds, sums(lambda batch: batch["part"]), rtol=1e-9, atol=1e-7)
    assert history.n_batches == len(stream)
    assert history.rows == sum(len(batch["labels"]) for batch in stream)
    assert history.dead == sum(len(batch["dead"]) for batch in stream) == history.dead_kinds.count
    assert history.scored == sum(map(sum, said))
    # The state at the end of an entry is the last one told of until then.
    leading, n_directions, rights = [], 0, []
    for number, group in enumerate(groups):
        for batch in group:
            leading = batch["eigenvalues"][:DIRECTIONS] or leading
            n_directions = len(batch["eigenvalues"]) or n_directions
            pairs = zip(batch["labels"], batch["predicted"], strict=True)
            rights += [label == p for label, p in pairs if p is not None]
        assert curves.directions[number] == n_directions
        expected = [*leading, *[np.nan] * (DIRECTIONS - len(leading))]
        np.testing.assert_array_equal(curves.eigenvalues[number], expected)
        window = rights[len(rights) - min(RECENT, -(-len(rights) // 2)) :]
        assert (curves.recent_scored[number], curves.recent_correct[number]) == (len(window), sum(window))


def test_a_predicted_class_is_not_cut_to_the_longest_label_of_its_batch():
    history = History()
    history.observe(["ab", "abcdef"], ["ab", "ab"], seconds=0.1)
    history.observe(np.array(["ab", "ab"]), np.array(["abcdef", "ab"]), seconds=0.1)
    history.observe(np.array(["ab"]), np.array(["abcdef"], dtype=object), seconds=0.1)
    assert history.class_table().names == ["ab", "abcdef"]
    assert history.outcomes.confusions() == ([("ab", "abcdef", 2), ("abcdef", "ab", 1)], 0)


def outcome_rows(seed, n, kinds):
    rng = np.random.default_rng(seed)
    labels = rng.integers(kinds, size=n)
    predicted = np.where(rng.random(n) < 0.6, labels, rng.integers(kinds + 2, size=n)).astype(object)
    predicted[rng.random(n) < 0.1] = None
    return labels, predicted


@pytest.mark.parametrize(("n", "kinds"), [(40, 3), (1999, 5), (5000, 40)])
def test_figures_are_scikit_learns_on_all_rows_and_on_the_latest(n, kinds):
    labels, predicted = outcome_rows(n, n, kinds)
    history, start = History(), 0
    for size in np.random.default_rng(1).integers(1, 400, size=n):
        history.observe(labels[start : start + size], predicted[start : start + size], seconds=0.1)
        start += size
        if start >= n:
            break
    known = np.array([p is not None for p in predicted])
    true, said = labels[known], predicted[known].astype(int)
    latest = min(1000, (len(true) + 1) // 2)
    for recent, (y, z) in ((False, (true, said)), (True, (true[-latest:], said[-latest:]))):
        found = history.measures(recent=recent)
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, z), abs=1e-15)
        recalls = metrics.recall_score(y, z, labels=np.unique(y), average=None)
        assert found["balanced_accuracy"] == pytest.approx(recalls.mean(), abs=1e-14)
        everyone = np.union1d(y, z)
        f1 = metrics.f1_score(y, z, labels=everyone, average="macro", zero_division=0)
        assert found["macro_f1"] == pytest.approx(f1, abs=1e-14)
    table = history.class_table()
    everyone = sorted(set(labels) | set(said))
    assert sorted(table.names, key=int) == [str(label) for label in everyone]
    matrix = metrics.confusion_matrix(true, said, labels=everyone)
    place = [everyone.index(int(name)) for name in table.names]
    np.testing.assert_array_equal(table.scored, matrix.sum(axis=1)[place])
    np.testing.assert_array_equal(table.predicted, matrix.sum(axis=0)[place])
    np.testing.assert_array_equal(table.correct, np.diag(matrix)[place])
    confusions, forgotten = history.outcomes.confusions()
    assert forgotten == 0
    wrong = Counter((str(y), str(z)) for y, z in zip(true, said, strict=True) if y != z)
    assert {(y, z): count for y, z, count in confusions} == wrong
    assert [count for _, _, count in confusions] == sorted(wrong.values(), reverse=True)


def test_past_their_room_the_rarer_confusions_are_forgotten_and_counted(monkeypatch):
    monkeypatch.setattr(outcomes, "PAIRS", 64)
    rng, history = np.random.default_rng(0), History()
    for _ in range(30):
        labels = rng.integers(30, size=200)
        predicted = rng.integers(30, size=200)
        labels[:40], predicted[:40] = 3, 4  # one confusion that must not be lost
        history.observe(labels, predicted, seconds=0)
        assert same(history, again(history))
    confusions, forgotten = history.outcomes.confusions()
    assert len(confusions) <= 64
    assert confusions[0][:2] == ("3", "4")
    assert confusions[0][2] >= 30 * 40
    assert forgotten > 0
    assert sum(count for _, _, count in confusions) + forgotten == history.scored - history.correct


def test_choices_are_noted_when_they_change():
    history, seen = History(), []
    steps = [(8, 0.1, "gaussian", np.inf), (9, 0.1, "gaussian", np.inf), (16, 0.2, "gaussian", np.inf)]
    steps += [(32, 0.2, "logistic", 128.0), (64, 0.2, "logistic", np.inf), (70, None, "logistic", None)]
    history.observe(np.zeros(100, dtype=int), seconds=0)
    for row, value, head, half_life in steps:
        history.choices.note(row, "ridge", value, head, half_life)
        assert same(history, again(history))
        seen = seen if seen and seen[-1][1:] == (value, head, half_life) else [*seen, (row, value, head, half_life)]
    assert history.choices.log() == [Chosen(*one) for one in seen]
    assert history.choices.since == {"value": 70, "head": 32, "half_life": 70}
    assert history.choices.n_changes == len(seen) == 5


def test_a_value_that_a_formula_moves_is_noted_after_a_tenth():
    history = History()
    history.observe(np.zeros(2000, dtype=int), seconds=0)
    for row in range(100, 2000):
        history.choices.note(row, "ridge", 1 / row, "gaussian", exactly=False)
    rows = [one.row for one in history.choices.log()]
    assert [after for before, after in itertools.pairwise(rows) if not 1.1 * before < after < 1.2 * before] == []
    assert history.choices.since["head"] == 100


def test_choices_of_a_long_stream_stay_few():
    history = History()
    history.observe(np.zeros(5000, dtype=int), seconds=0)
    for row in range(2000):
        history.choices.note(row, "epsilon", 1.0, "gaussian", [8.0, np.inf][row % 2])
    assert len(history.choices.log()) == CHOICES
    assert history.choices.since == {"value": 0, "head": 0, "half_life": 1999}
    assert same(history, again(history))


def test_dead_letters_are_counted_by_what_is_wrong():
    history = History()
    reasons = [f"'x{n}' is 'abc{n}', which is not a number" for n in range(50)] + [f"{n} columns" for n in (3, 4, 9)]
    dead = [letter(reason, line=10 + place) for place, reason in enumerate(reasons)]
    history.observe((), seconds=0, dead=dead)
    first, second = history.dead_kinds.kinds()
    assert (first.kind, first.rows, first.line) == ("… is …, which is not a number", 50, 10)
    assert (first.reason, first.record) == (reasons[0], "the record")
    assert (second.kind, second.rows) == ("… columns", 3)
    words = [letter("because of " + "abcdefghijklmnop"[n], line=n) for n in range(16)]
    history.observe((), seconds=0, dead=words + words)
    kinds = {one.kind: one.rows for one in history.dead_kinds.kinds()}
    assert len(kinds) == KINDS
    assert kinds[OTHERS] == 2 * (16 - (KINDS - 1 - 2))
    assert sum(kinds.values()) == history.dead == 53 + 32
    history.observe((), seconds=0, dead=[letter("x" * 1000 + "\ud800")])
    assert same(history, again(history))


def random_batch(rng, labels, rows=300, directions=3):
    chosen = rng.choice(labels, rows)
    predicted = np.where(rng.random(rows) < 0.8, chosen, rng.choice(labels, rows))
    facts = {
        "labels": chosen,
        "predicted": predicted,
        "seconds": float(rng.random()),
        "dead": [letter("bad")] * int(rng.integers(3)),
        "eigenvalues": rng.random(directions),
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
            history.choices.note(history.rows, "ridge", 1.0 / (number // 3 + 1), "gaussian", np.inf)
            history.observe(**facts)
            history.keep_points(
                points, chosen, chosen[::-1], np.abs(points[:, 0]) % 1, centres=(labels, points[: len(labels)])
            )
    assert same(whole, resumed)
    assert same(whole, again(whole))
    assert all(np.isfinite(array).all() for array in arrays_of(whole).values())
    assert sorted(whole.class_table().names) == sorted(str(label) for label in labels)


def test_what_is_handed_out_is_a_copy():
    history = History()
    history.observe(["a"], ["a"], seconds=0)
    history.keep_points(np.ones((1, 2)), ["a"])
    arrays, facts = flatten(history.to_state())
    other = History.from_state(Contents(arrays, facts, "History"))
    for array in arrays.values():
        if array.flags.writeable:
            array[...] = 7
    assert same(history, other)


def test_many_batches_keep_their_totals_and_their_size():
    history, size = History(64), 0
    for number in range(20_000):
        label = number % 5
        history.observe(
            [label] * 3, [label] * (number % 4) + [9] * (3 - number % 4), seconds=0.1, dead=[letter("x")] * (number % 2)
        )
        if number == 2_000:
            size = sum(array.nbytes for array in arrays_of(history).values())
    assert (history.rows, history.correct, history.dead) == (60_000, 30_000, 10_000)
    assert history.seconds == 2_000.0  # nanoseconds are whole numbers: no rounding piles up
    assert history.n_batches == 20_000
    assert history.class_table().rows.tolist() == [12_000, 0, *[12_000] * 4]
    assert len(history.curves().rows) <= 64
    assert sum(array.nbytes for array in arrays_of(history).values()) < size + 64 * 200


def test_classes_beyond_the_limit_are_counted_together():
    history = History()
    for label in range(CLASSES + 500):
        history.observe([label] * 2, [label, 0], seconds=0)
    table = history.class_table()
    assert len(table.names) == CLASSES
    assert table.names[0] == OTHER_NAME
    assert (table.rows[0], table.correct[0], table.predicted[0]) == (2 * 501, 501, 501)
    assert table.rows.sum() == history.rows
    assert same(history, again(history))


@given(sizes=st.lists(st.integers(0, 700), max_size=20))
def test_kept_points_are_rows_of_the_stream_with_their_own_numbers(sizes):
    history, start = History(), 0
    for size in sizes:
        rows = np.arange(start + 1, start + size + 1)
        history.observe(rows % 7, seconds=0)
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
    history.observe([0] * 512, seconds=0)
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
    history.observe([0] * n, seconds=0)
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
        history.observe([0] * 100, seconds=0)
        history.keep_points(np.zeros((100, 12)), [0] * 100)
    assert history.points().row_numbers.tolist() == list(range(100_000 - POINTS + 1, 100_001))


def test_values_that_are_not_finite_are_left_out():
    history = History()
    history.observe(["a", "b", "c"], seconds=0, eigenvalues=[2.0, np.nan, 1.0])
    history.keep_points([[0.0, 1.0], [np.nan, 1.0], [1.0, np.inf]], ["a", "b", "c"])
    assert history.points().labels == ["a"]
    np.testing.assert_array_equal(history.curves().eigenvalues[0], [2.0] + [np.nan] * (DIRECTIONS - 1))


def test_points_know_how_far_they_are_from_the_mean_of_their_class():
    history = History()
    history.observe(["b", "a", "c"], seconds=0)
    points = np.array([[3.0, 3.0], [1.0, 1.0], [0.0, 0.0]])
    history.keep_points(points, ["b", "a", "c"], centres=(["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_array_equal(history.offsets()[:, :2], [[0, -1], [0, -1], [np.nan, np.nan]])
    history.observe(["b"], seconds=0)
    history.keep_points(points[:1], ["b"])
    history.observe(["b"], seconds=0)
    history.keep_points(points[:1, :1], ["b"], centres=(["b"], np.array([[5.0]])))
    history.observe(["b"], seconds=0)
    history.keep_points(points[:1], ["b"], centres=(["b"], np.array([[np.nan, 1.0]])))
    expected = [[np.nan, np.nan], [-2.0, np.nan], [np.nan, np.nan]]
    np.testing.assert_array_equal(history.offsets()[3:, :2], expected)
    assert same(history, again(history))


@pytest.mark.parametrize(
    "wrong",
    [{"predicted": ["a"]}, {"labels": [["a", "b", "c"]]}, {"seconds": -0.1}, {"seconds": np.nan}, {"seconds": np.inf}],
)
def test_wrong_figures_are_refused(wrong):
    history = History()
    with pytest.raises(ValueError, match=r"History\.observe: .* Give one label"):
        history.observe(**{"labels": ["a", "b", "c"], "predicted": None, "seconds": 0.0} | wrong)
    assert same(history, History())


def test_wrong_points_and_capacities_are_refused():
    with pytest.raises(ValueError, match="Give one of each a row"):
        History().keep_points(np.zeros((3, 2)), ["a", "b"])
    with pytest.raises(ValueError, match="even number"):
        History(7)


def damaged(state):
    """Yield the state, flat, with one thing wrong."""
    for name, value in state.items():
        yield {key: other for key, other in state.items() if key != name}
        if isinstance(value, np.ndarray):
            yield state | {name: value.astype(np.complex128)}
            yield state | {name: value[..., None]}
        elif isinstance(value, int):
            yield state | {name: str(value)}
            yield state | {name: -value - 1}
        else:
            yield state | {name: 5}
    for part in ("", "outcomes.", "drift.", "choices.", "choices.since.", "dead_kinds."):
        yield state | {f"{part}more": np.zeros(1)}
    yield state | {"capacity": 7}
    yield state | {"capacity": 2}
    yield state | {"stride": 3}
    yield state | {"stride": 2, "capacity": 512}
    yield state | {"filled": 10**6}
    yield state | {"outcomes.forgotten": 1}
    yield state | {"drift.n_alarms": 2}
    yield state | {"choices.since.head": 10**6}
    yield state | {"choices.n_changes": 3}
    for words in (["a"], ["a", "a"], ["a", 2], ["a", "b" * 257]):
        yield state | {"outcomes.class_names": to_lines(words)}
    yield state | {"dead_kinds.kinds": to_lines(["k" * 121])}
    yield state | {"choices.head_names": to_lines(["b", "a"])}
    for name, place, value in [
        ("counts", (0, 0), -1),
        ("counts", (0, 0), 10**6),
        ("counts", (0, 1), 10**6),
        ("counts", (0, 3), 2**62),
        ("counts", (0, 4), 10**6),
        ("eigenvalues", (0, 0), np.nan),
        ("eigenvalues", (0, 7), 1.0),
        ("directions", (0, 0), 99),
        ("recent", (0, 0), 10**6),
        ("recent", (-1, 1), 0),
        ("points", (0, 0), np.inf),
        ("points", (0, DIRECTIONS), 2.0),
        ("point_facts", (0, 1), 99),
        ("point_facts", (0, 2), -2),
        ("point_facts", (0, 3), 99),
        ("point_facts", (0, 4), 2),
        ("offsets", (0, 0), np.nan),
        ("offsets", (0, 5), 1.0),
        ("outcomes.class_counts", (1, 0), -5),
        ("outcomes.class_counts", (1, 2), 10**6),
        ("outcomes.class_counts", (1, 3), 0),
        ("outcomes.pairs", (0, 0), 99),
        ("outcomes.pairs", (0, 2), 0),
        ("outcomes.pairs", (0, 2), 10**6),
        ("outcomes.latest", (0, 0), 99),
        ("outcomes.latest", (0, 2), 2),
        ("drift.sizes", (0,), 6),
        ("drift.sizes", (40,), 1),
        ("drift.errors", (0, 5), 1),
        ("drift.errors", (0, 0), 2),
        ("choices.rows", (0,), 10**6),
        ("choices.heads", (0,), 7),
        ("choices.numbers", (0, 0), 3),
        ("choices.numbers", (0, 3), 8.0),
        ("dead_kinds.counts", (0, 0), 0),
        ("dead_kinds.counts", (0, 0), 10**6),
    ]:
        array = state[name].copy()
        array[place] = value
        yield state | {name: array}
    for name in ("points", "eigenvalues", "offsets", "outcomes.latest", "outcomes.pairs", "choices.rows"):
        yield state | {name: state[name][:-1]}


def test_a_damaged_state_is_refused():
    history, rng = History(8), np.random.default_rng(0)
    history.choices.note(0, "ridge", 0.1, "gaussian", np.inf)
    for _ in range(5):
        facts, points, chosen = random_batch(rng, ["a", "b"])
        history.observe(**facts | {"dead": [letter("bad")]})
        history.keep_points(points, chosen, chosen, centres=(["a", "b"], np.ones((2, 3))))
    assert same(history, again(history))
    arrays, facts = flatten(history.to_state())
    accepted = []
    for number, state in enumerate(damaged(arrays | facts)):
        parts = [
            {key: value for key, value in state.items() if isinstance(value, np.ndarray) is kind}
            for kind in (True, False)
        ]
        try:
            History.from_state(Contents(*parts, "History"))
            accepted.append(number)
        except CheckpointError as error:
            if "the state of History" not in str(error):
                accepted.append(str(error))
    assert not accepted
    assert number > 110
