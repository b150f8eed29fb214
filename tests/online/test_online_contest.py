"""The compiled contest against naive loops, iterate by iterate, and the law of its weights."""

import copy
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import kampong
import reference_online as reference
from kampong._core.loops import Loop
from kampong.files.contents import flatten
from kampong.online import OnlineClassifier
from kampong.online.columns import cap_large_entries
from kampong.online.contest import Contest
from kampong.online.follower import Follower
from kampong.online.members import MEMBERS, Field, Member
from kampong.online.pooling import Pool
from kampong.online.settings import Settings
from kampong.selection.losses import HeldOutLosses


def as_they_came(codes):
    first = {}
    return np.array([first.setdefault(code, len(first)) for code in codes.tolist()])


def stream(rows=260, columns=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.integers(classes, size=rows), np.arange(rows) // 4)  # a new class at rows 0, 4, 8, …
    X = 1.5 * rng.normal(size=(classes, columns))[codes] + rng.normal(size=(rows, columns))
    codes[rows // 2 :] = (codes[rows // 2 :] + 1) % classes
    codes = as_they_came(codes)
    X[:, -1] = np.where(np.arange(rows) < 20, 7.0, X[:, -1])  # constant at first
    return X, codes, rng.choice([0.0, 1.0, 1.0, 2.0], size=rows) * (np.arange(rows) > 0) + (np.arange(rows) == 0)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_contest_matches_the_naive_loop(in_order, seed, monkeypatch):
    X, codes, weights = stream(seed=seed)
    # rows of weight 0 must not bring a class
    first = [int(np.flatnonzero(codes == code)[0]) for code in np.unique(codes)]
    weights[first] = 1.0
    contest, scores = Contest(Settings(), 100.0, 0, in_order), {}
    for kind in MEMBERS:

        def noted(member, rows, out, step=kind.step):
            step(member, rows, out)
            scores.setdefault(member.name, []).append(out.copy())

        monkeypatch.setattr(kind, "step", noted)
    answers = np.full((len(codes), 3), -np.inf)
    for i in range(len(codes)):
        found = contest.learn(X[i : i + 1], codes[i : i + 1], weights[i : i + 1])
        answers[i, : found.shape[1]] = found
    directions = next(m for m in contest.members if m.name == "fourier").arrays["directions"]
    wanted, pool, _ = reference.contest(X, codes, weights, directions, in_order)
    assert {member.name for member in contest.members} == set(wanted[-1][1])
    for i, (known, members, answer) in enumerate(wanted):
        for name, lines in members.items():
            for place, line in enumerate(lines):
                np.testing.assert_allclose(
                    scores[name][i][place, 0, :known], line, rtol=1e-7, atol=1e-7, err_msg=f"row {i}, {name} {place}"
                )
        if answer is not None:
            np.testing.assert_allclose(answers[i, :known], answer, rtol=1e-6, atol=1e-6, err_msg=f"row {i}")
        assert np.isneginf(answers[i, known:]).all()
    np.testing.assert_allclose(contest.pools[0].state.weights, pool.weights, rtol=1e-5, atol=1e-6)


def test_the_weights_of_members_are_chances_to_be_the_best_now():
    """By Bayes' rule over all rows, if the best answer changes before a row with a small chance."""
    X, codes, weights = stream(rows=120)
    weights[:] = 1.0
    contest = Contest(Settings(), 100.0, 0, False)
    contest.learn(X, codes, weights)
    directions = next(m for m in contest.members if m.name == "fourier").arrays["directions"]
    _, pool, _ = reference.contest(X, codes, weights, directions, False)
    found = contest.pools[0].member_weights()
    np.testing.assert_allclose(list(found.values()), pool.shares(), rtol=1e-6, atol=1e-9)
    assert sum(found.values()) == pytest.approx(1.0)


def test_an_answer_that_joins_starts_with_the_least_share():
    pool = Pool(Settings(), ["one", "two"])
    pool.state.shares[:], pool.state.losses[:], pool.state.weights[:] = [0.9, 0.1], [1.0, 3.0], [0.5, 0.3, 0.2]
    joined = pool.with_names(["two", "three", "one"])
    assert joined.member_weights() == pytest.approx({"two": 0.1 / 1.1, "three": 0.1 / 1.1, "one": 0.9 / 1.1})
    assert joined.state.losses.tolist() == [3.0, 3.0, 1.0]
    assert joined.state.weights.tolist() == [0.5, 0.2, 0.0, 0.3]


def test_a_change_of_the_last_bits_moves_no_answer():
    X, codes, weights = stream(rows=400, columns=4)
    rng = np.random.default_rng(0)
    plain = Contest(Settings(), 100.0, 0, True).learn(X, codes, weights)
    moved = Contest(Settings(), 100.0, 0, True).learn(X * (1.0 + 1e-13 * rng.normal(size=X.shape)), codes, weights)
    known = np.isfinite(plain)
    assert np.abs(plain[known] - moved[known]).max() < 1e-6


def test_a_column_without_rows_never_grows_out_of_bounds():
    """The ridge is given back as it fades: a direction that no row has does not end in infinity."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(60_000, 2)), as_they_came(rng.integers(2, size=60_000))
    X[50:, 1] = X[:50, 1].mean()
    contest = Contest(Settings(), 5.0, 0, False)
    contest.learn(X, codes, np.ones(len(codes)))
    for member in contest.members:
        for name, array in member.arrays.items():
            assert np.isfinite(array).all(), (member.name, name)
            if name == "inverse":
                assert np.linalg.eigvalsh(array).min() > 0
                assert np.abs(array).max() < 2.0
                np.testing.assert_array_equal(array, array.T)
    state = contest.pools[0].state
    assert np.linalg.eigvalsh(state.inverse).min() > 0
    np.testing.assert_array_equal(state.inverse, state.inverse.T)


class Repeats(Member):
    """A member of one's own: the class of the row three rows before."""

    name = "repeats"
    uses_last_label = True
    wide = None

    def fields(self):
        return {"last": Field((3,), low=0, dtype=np.int64)}

    def cost(self, columns, classes):
        return 1.0

    def step(self, rows, scores):
        last = self.arrays["last"]
        for i, code in enumerate(rows.codes):
            if last[0] < rows.known[i]:
                scores[0, i, last[0]] = 5.0
            if rows.learn[i]:
                last[:] = [*last[1:], code]


def test_a_new_member_is_one_class(monkeypatch):
    monkeypatch.setattr("kampong.online.contest.MEMBERS", [*MEMBERS, Repeats])
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=3)
    y = np.concatenate([y, np.zeros(597, dtype=np.int64)])
    for i in range(3, 600):
        y[i] = y[i - 3] if rng.random() < 0.9 else rng.integers(4)
    X = rng.normal(size=(600, 2))
    model = OnlineClassifier()
    assert (model.predict_then_learn(X[:300], y[:300])[100:] == y[100:300]).mean() > 0.8
    assert model.member_weights_["repeats 0"] > 0.9
    loaded = kampong.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(
        loaded.predict_then_learn(X[300:], y[300:]), model.predict_then_learn(X[300:], y[300:])
    )


def dispatchers():
    """Return the compiled loops of the contest that are called from Python, by name."""
    modules = [sys.modules[name] for name in sorted(sys.modules) if name.startswith("kampong.online")]
    held = [
        (module.__name__, name, getattr(one, "machine", one))
        for module in modules
        for name, one in vars(module).items()
    ]
    loops = {
        f"{module}.{name}": one
        for module, name, one in held
        if hasattr(one, "nopython_signatures") and one.__module__ == module
    }
    return {name: one for name, one in loops.items() if one.overloads}


def test_each_loop_is_compiled_for_one_form_of_its_arguments(monkeypatch):
    """A second form of the same loop would double what a first run waits for the compiler."""
    monkeypatch.setattr(Loop, "__call__", lambda self, *arguments: self.machine(*arguments))
    X, codes, weights = stream(rows=200)
    given = np.log(np.full((200, 3), 1 / 3))
    for order in ("C", "F"):
        contest = Contest(Settings(), 100.0, 0, True, given=True)
        contest.learn(np.array(X, order=order), codes, weights, np.array(given, order=order))
        contest.predict(np.array(X, order=order), np.array(given, order=order))
        contest.learn(X.astype(np.float32), codes, weights)
        for array in contest._places:  # as in a pickle whose arrays lie in a file
            array.setflags(write=False)
        pickle.loads(pickle.dumps(contest, protocol=5)).predict(X)
        copy.deepcopy(contest).predict(X)
        loops = [name for name in dispatchers() if name.endswith("._step") or "pooling" in name]
        assert len(loops) > 10
    called = ("._step", ".log_chances", "._pool", ".standardise", ".add_to_inverse", ".cap_large_entries")
    found = {name: len(one.signatures) for name, one in dispatchers().items() if name.endswith(called)}
    assert found == dict.fromkeys(found, 1)


@given(
    entries=st.lists(
        st.lists(st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6) | st.sampled_from([1.0, -1.0, 1e12]), max_size=12),
        min_size=1,
        max_size=5,
    )
)
def test_large_entries_of_wide_rows_are_brought_down_to_what_hides_no_others(entries):
    """A root of Σ min(x², c) = √n c, found by bisection, is where the squares end."""
    indptr = np.cumsum([0, *map(len, entries)])
    data = np.array([x for row in entries for x in row], dtype=np.float64)
    cap_large_entries(indptr, data)
    for number, row in enumerate(entries):
        found, squares = data[indptr[number] : indptr[number + 1]], np.square(row)
        wanted = np.sqrt(len(row))
        low, high = -60.0, np.log(max(squares, default=1.0))
        if not len(row) or squares.sum() >= wanted * np.exp(high) * (1 - 1e-12):
            np.testing.assert_allclose(found, row, rtol=1e-9)
            continue
        for _ in range(200):
            middle = (low + high) / 2
            fewer = np.minimum(squares, np.exp(middle)).sum() < wanted * np.exp(middle)
            low, high = (low, middle) if fewer else (middle, high)
        most = np.exp(low / 2)
        np.testing.assert_allclose(found, np.clip(row, -most, most), rtol=1e-9)


def test_a_price_beside_words_hides_none_of_them():
    rng = np.random.default_rng(0)
    codes, weights = as_they_came(rng.integers(3, size=600)), np.ones(600)
    words = (rng.random((600, 30)) < 0.1 + 0.5 * (np.arange(30) % 3 == codes[:, None])).astype(float)
    right = {}
    for name, price in (("words", np.zeros(600)), ("price", rng.uniform(1e3, 9e3, 600)), ("date", np.full(600, 1.7e9))):
        rows = sparse.csr_array(np.column_stack([words, price]))
        rows.resize((600, 5000))
        contest = Contest(Settings(), 100.0, 0, False)
        logs = contest.learn(rows, codes, weights)
        right[name] = np.mean(np.argmax(logs[100:], axis=1) == codes[100:])
    assert right["words"] > 0.9
    assert min(right.values()) > right["words"] - 0.03


def test_a_copy_keeps_its_time():
    X, codes, weights = stream()
    contest = Contest(Settings(), 100.0, 0, True)
    contest.learn(X[:200], codes[:200], weights[:200])
    kept, before = copy.deepcopy(contest), contest.predict(X)
    contest.learn(X[200:], codes[200:], weights[200:])
    assert np.array_equal(kept.predict(X), before)
    assert not np.array_equal(contest.predict(X), before)
    kept.learn(X[200:], codes[200:], weights[200:])
    assert np.array_equal(kept.predict(X), contest.predict(X))
    assert kept.nbytes == sum(array.nbytes for array in flatten(contest.to_state())[0].values())


def test_a_recent_loss_is_a_mean_whose_rows_are_forgotten():
    rng, pool = np.random.default_rng(0), Pool(Settings(), ["one", "two"])
    assert pool.recent_loss("one") == pool.recent_loss("three") == (0.0, 0.0)
    chances = rng.dirichlet([1.0, 1.0], size=(50, 2)).transpose(0, 2, 1).copy()
    logs, codes, ones = np.log(chances), rng.integers(2, size=50), np.ones(50, dtype=bool)
    pool.step(logs, chances, np.arange(2), codes, np.full(50, 2), ones)
    weights = 0.5 ** (np.arange(50)[::-1] / Settings.half_life)
    for place, name in enumerate(pool.names):
        loss, rows = pool.recent_loss(name)
        assert loss == pytest.approx(np.average(-logs[np.arange(50), codes, place], weights=weights), rel=1e-12)
        assert rows == pytest.approx(weights.sum(), rel=1e-12)


def test_a_model_has_aged_if_recent_rows_cost_far_more_than_validation_rows():
    rng, follower = np.random.default_rng(0), Follower(3.0, 0)
    codes = rng.integers(2, size=400)
    told = np.log(np.where(np.eye(2, dtype=bool)[codes], 0.8, 0.2))
    assert not follower.has_aged(validation(np.zeros(9)))  # nothing has come
    follower.learn(rng.normal(size=(400, 2)), codes, np.ones(400), 2, told)
    recent, rows = follower.contest.pools[-1].recent_loss("all_rows 0")
    losses = np.array([0.0, np.inf, 2.0]) / 10  # an infinite one counts as the least chance
    losses = np.append(losses, rng.random(50))
    mean, deviation = validation(losses).mean(np.log(1e5))
    capped = np.minimum(losses, np.log(1e5))
    assert (mean, deviation) == (pytest.approx(capped.mean()), pytest.approx(capped.std()))
    most = np.sqrt(
        2.0 * np.log(400)
    )  # standard errors: what the greatest of 400 normal deviations is below, on average
    assert most - 0.6 < rng.normal(size=(200, 400)).max(axis=1).mean() < most
    for errors, aged in ((0.98 * most, False), (1.02 * most, True)):
        moved = losses[2:] - losses[2:].mean() + 10.0
        far = recent - errors * moved.std() / np.sqrt(rows)
        assert follower.has_aged(validation(moved - 10.0 + far)) == aged


def validation(losses):
    """Return what validation rows cost, and one row besides that had been learnt."""
    n, codes = len(losses), np.zeros(len(losses) + 1, dtype=np.int64)
    return HeldOutLosses(np.append(losses, 99.0), codes, np.ones(n + 1), np.append(np.zeros(n, dtype=np.int64), 1))
