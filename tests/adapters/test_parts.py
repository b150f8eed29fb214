"""Models of parts, as bytes and merged: the model of all rows, whatever the tree; nothing but numbers in the bytes."""

import itertools
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

import kampong
from kampong import (
    CandidCovarianceFreePCA,
    CheckpointError,
    CoreVectorClassifier,
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginRecursion,
    MarginSubspace,
    MaximumMarginDiscriminant,
    MinOverClassifier,
    fit_landmarks,
    from_bytes,
    load,
    merge_all,
    statistics_of,
)
from kampong.merging import pairwise, part_seed
from linear_models import MODELS, quiet


def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def apart(model, X, y, cuts, weights=None):
    """Return the models of the rows between the cuts."""
    edges = [0, *sorted(cuts), X.shape[0]]
    found = []
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        batch = (X[start:stop], y[start:stop], None if weights is None else weights[start:stop])
        found.append(statistics_of(model, [batch], number=number))
    return found


# Bytes.


EVERY = [
    *MODELS,
    KernelFisherDiscriminant(landmarks=20),
    KernelMarginSubspace(landmarks=20, epsilon=0.1),
    CoreVectorClassifier(),
    MinOverClassifier(),
    MaximumMarginDiscriminant(),
    MarginRecursion(),
    CandidCovarianceFreePCA(),
    InformationGain(3),
]


@quiet
@pytest.mark.parametrize("model", EVERY, ids=lambda model: type(model).__name__)
def test_bytes_are_the_file(model, tmp_path):
    X, y = wine()
    model = clone(model).fit(X, y)
    path = tmp_path / "a.kampong"
    model.save(path)
    data = model.to_bytes()
    assert data == Path(path).read_bytes()
    Path(path).write_bytes(data)
    for read in (from_bytes(data), from_bytes(memoryview(data)), load(path)):
        answer = model.predict if hasattr(model, "predict") else model.transform
        np.testing.assert_array_equal((read.predict if hasattr(read, "predict") else read.transform)(X), answer(X))


@quiet
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_bytes_to_merge_hold_no_answer(model):
    X, y = wine()
    model = clone(model).partial_fit(X, y)
    small = model.to_bytes(solve=False)
    read = from_bytes(small)
    assert read._predictor is None
    assert len(small) < len(model.to_bytes())
    np.testing.assert_array_equal(read.transform(X), model.transform(X))
    assert from_bytes(FisherDiscriminant().to_bytes()).get_params() == FisherDiscriminant().get_params()


def test_damaged_bytes_are_refused():
    X, y = wine()
    data = FisherDiscriminant(ridge=1.0).fit(X, y).to_bytes()
    rng = np.random.default_rng(0)
    for place in [*range(64), *rng.integers(64, len(data), 300)]:
        bad = bytearray(data)
        bad[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(CheckpointError, match=r"^bytes in memory: "):
            from_bytes(bytes(bad))
    for length in [*range(100), len(data) - 1]:
        with pytest.raises(CheckpointError, match=r"^bytes in memory: "):
            from_bytes(data[:length])
    with pytest.raises(TypeError, match=r"got a str. Give the bytes that `to_bytes` has returned"):
        from_bytes("model")


# Merges.


@quiet
@settings(max_examples=min(20, settings.default.max_examples))
@given(cuts=st.lists(st.integers(0, 178), min_size=1, max_size=12), fan_in=st.integers(2, 9), seed=st.integers(0, 9))
def test_any_parts_and_any_tree_are_one_model(cuts, fan_in, seed):
    X, y = wine()
    order = np.random.default_rng(seed).permutation(len(X))
    if seed % 2:  # classes on one part only
        order = order[np.argsort(y[order], kind="stable")]
    X, y = X[order], y[order]
    rows = sparse.csr_array(X) if seed % 3 == 0 else X
    for model in (FisherDiscriminant(ridge=0.1), [MarginSubspace(2, epsilon=0.2), FisherDiscriminant()][seed % 2]):
        whole, merged = clone(model).fit(rows, y), merge_all(apart(model, rows, y, cuts), fan_in=fan_in)
        np.testing.assert_allclose(merged.transform(X), whole.transform(X), rtol=0, atol=1e-8)
        np.testing.assert_allclose(merged.predict_proba(X), whole.predict_proba(X), rtol=0, atol=1e-8)


@quiet
@pytest.mark.parametrize(
    # ε="auto" holds out other rows where they have other numbers: the same by its rule, not to the last digit
    "model",
    [*(model for model in MODELS if getattr(model, "epsilon", 0) != "auto"), InformationGain(3)],
    ids=lambda model: type(model).__name__,
)
def test_bytes_of_parts_merge_to_one_model(model):
    X, y = wine()
    weights = np.arange(len(X)) % 4.0
    parts = apart(model, X, y, [1, 5, 5, 60, 61, 100], weights)
    merged = merge_all(from_bytes(part.to_bytes(solve=False)) for part in parts)
    whole = clone(model).partial_fit(X, y, sample_weight=weights)
    assert merged.n_samples_seen_ == whole.n_samples_seen_
    np.testing.assert_allclose(merged.transform(X), whole.transform(X), rtol=0, atol=1e-8)


def test_a_tree_is_the_same_to_the_bit_and_holds_few_models():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant(ridge=1.0)
    parts = apart(model, X, y, range(1, 300))
    data = merge_all(parts).to_bytes()
    assert merge_all(iter(parts)).to_bytes() == data
    held, most = [], 0

    def one_by_one():
        nonlocal most
        import gc
        import weakref

        for number in range(100):
            made = statistics_of(model, [(X[number : number + 1], y[number : number + 1])])
            held.append(weakref.ref(made))
            yield made
            if number % 25 == 8:
                gc.collect()
                most = max(most, sum(ref() is not None for ref in held))

    merge_all(one_by_one())
    assert 0 < most <= 9


def test_the_tree_is_balanced():
    class Node(FisherDiscriminant):
        """Notes how deep the tree above each leaf is."""

        def merge(self, other):
            result = Node()
            result.depths = [depth + 1 for depth in (*self.depths, *other.depths)]
            return result

        def __sklearn_is_fitted__(self):
            return True

    for count, fan_in, deepest in ((64, 2, 6), (63, 2, 6), (65, 2, 7), (512, 8, 21), (500, 8, 21)):
        leaves = [Node() for _ in range(count)]
        for leaf in leaves:
            leaf.depths = [0]
        depths = merge_all(leaves, fan_in=fan_in).depths
        assert len(depths) == count
        assert max(depths) <= deepest


# Samples.


def test_samples_of_parts_are_a_sample_of_the_whole():
    """Without seeds of their own all parts would keep the rows of the same places."""
    rng = np.random.default_rng(0)
    n_parts, rows, d = 40, 250, 3
    X = rng.normal(size=(n_parts * rows, d))
    place = np.tile(np.arange(rows), n_parts)
    X[:, 0] = place  # a column that tells where in its part a row was
    y = rng.integers(0, 2, len(X))
    model = FisherDiscriminant(reservoir_bytes=150_000)
    merged = merge_all(apart(model, X, y, range(rows, len(X), rows)))
    kept = merged._statistics.sample().rows[:, 0].astype(int)
    assert 500 < len(kept) < 3000
    counts = np.bincount(kept, minlength=rows)
    expected = len(kept) / rows
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert abs(statistic - rows) < 5 * np.sqrt(2 * rows)  # χ² with 249 degrees of freedom
    same = merge_all(statistics_of(model, [(X[i::n_parts], y[i::n_parts])], number=0) for i in range(n_parts))
    assert same.n_samples_seen_ == merged.n_samples_seen_


def test_seeds_differ_by_part():
    seeds = {part_seed(seed, number) for seed in (0, 1, 2**64 - 1) for number in range(20_000)}
    assert len(seeds) == 60_000
    assert part_seed(7, 0) == 7
    assert all(0 <= seed < 2**64 for seed in seeds)
    with pytest.raises(ValueError, match="part_seed: seed must be an integer of at least 0, got None"):
        part_seed(None, 3)


# Landmarks.


@pytest.mark.parametrize("model", [KernelFisherDiscriminant(landmarks=30), KernelMarginSubspace(landmarks=30)])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@quiet
def test_kernel_models_of_parts_are_one_model(model, form):
    X, y = load_digits(return_X_y=True)
    rows = form(X)
    prepared = fit_landmarks(model, rows[::4], y[::4])
    assert not prepared.__sklearn_is_fitted__()
    travelled = from_bytes(prepared.to_bytes())
    merged = merge_all(apart(travelled, rows, y, [3, 400, 401, 1000]))
    whole = statistics_of(prepared, [(rows, y)])
    np.testing.assert_array_equal(np.asarray(merged.get_params()["landmarks"]), 30)
    np.testing.assert_allclose(merged.transform(rows), whole.transform(rows), rtol=0, atol=1e-7)
    again = from_bytes(merged.to_bytes())
    np.testing.assert_array_equal(again.predict(rows), merged.predict(rows))


def test_a_column_that_is_constant_in_the_sample_counts_later():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 2
    X[:, 2] = 0.0
    X[200:, 2] = 3.0 * y[200:]
    prepared = fit_landmarks(KernelFisherDiscriminant(landmarks=50), X[:200], y[:200])
    assert statistics_of(prepared, [(X[200:], y[200:])]).score(X[200:], y[200:]) > 0.99


# Refusals.


@pytest.mark.parametrize("model", [MarginRecursion(), CandidCovarianceFreePCA(), MinOverClassifier(), object()])
def test_what_cannot_merge_is_named_with_what_can(model):
    needed = rf"{type(model).__name__} cannot be learnt in parts.*Use one of FisherDiscriminant"
    with pytest.raises(TypeError, match=needed):
        statistics_of(model, [])
    with pytest.raises(TypeError, match=needed):
        merge_all([model])


def test_other_refusals():
    with pytest.raises(ValueError, match=r"half_life=100 ages rows.*Set decay=1 and half_life=None"):
        statistics_of(FisherDiscriminant(half_life=100), [])
    with pytest.raises(ValueError, match=r"decay=0.9 ages rows"):
        merge_all([FisherDiscriminant(decay=0.9)])
    with pytest.raises(ValueError, match="none of the models has learnt a row"):
        merge_all([FisherDiscriminant(), InterClassScatter()])
    with pytest.raises(ValueError, match="fan_in must be an integer of at least 2, got 1"):
        merge_all([], fan_in=1)
    with pytest.raises(TypeError, match="FisherDiscriminant has no landmarks"):
        fit_landmarks(FisherDiscriminant(), *wine())
    with pytest.raises(ValueError, match="the 178 rows have no weight"):
        fit_landmarks(KernelFisherDiscriminant(), *wine(), np.zeros(178))
    with pytest.raises(TypeError, match=r"FisherDiscriminant is a class, and a model is needed"):
        merge_all([FisherDiscriminant])


def test_nothing_of_the_operands_changes():
    X, y = wine()
    model = FisherDiscriminant(ridge=1.0).partial_fit(X, y)
    before = model.to_bytes()
    single, both = merge_all([model]), merge_all([model, model])
    assert single is not model
    single.partial_fit(X, y)
    assert model.to_bytes() == before
    assert both.n_samples_seen_ == 2 * len(X)
    assert statistics_of(model, [(X[:0], y[:0])]).__sklearn_is_fitted__() is False


def test_public_names():
    for name in ("from_bytes", "merge_all", "statistics_of", "fit_landmarks"):
        assert name in kampong.__all__


def test_values_are_joined_as_a_binary_tree_over_their_places():
    def join(first, second):
        return f"({first}{second})"

    assert [pairwise("abcdefg"[:n], join) for n in (1, 2, 3, 6, 7)] == [
        "a",
        "(ab)",
        "((ab)c)",
        "(((ab)(cd))(ef))",
        "(((ab)(cd))((ef)g))",
    ]
    # any aligned cut gives the same
    letters = "abcdefghijklmnopqrstu"
    whole = pairwise(letters, join)
    for size in (2, 4, 8):
        groups = [pairwise(letters[start : start + size], join) for start in range(0, len(letters), size)]
        assert pairwise([pairwise(groups[i : i + 8], join) for i in range(0, len(groups), 8)], join) == whole
    held, most = [0], [0]

    def values():
        for _ in range(1000):
            held[0] += 1
            most[0] = max(most[0], held[0])
            yield 1

    def add(first, second):
        held[0] -= 1
        return first + second

    assert pairwise(values(), add) == 1000
    assert most[0] <= 11


# Processes.


def read(number):
    """Read a part, as a file would be read in the process that learns it; the classes come late."""
    X, y = wine()
    return X[number::5], y[number::5], np.arange(len(y[number::5])) % 3.0


def read_in_two(number):
    X, y, weights = read(number)
    yield X[:7], y[:7], weights[:7]
    yield X[7:], y[7:], weights[7:]


JOBS = [
    FisherDiscriminant(ridge=0.1),
    FisherDiscriminant(reservoir_bytes=3000),
    InterClassScatter(),
    fit_landmarks(KernelFisherDiscriminant(landmarks=20), *wine()),
    fit_landmarks(KernelFisherDiscriminant(landmarks="fourier"), *wine()),
    InformationGain(5),
]


@pytest.mark.parametrize("model", JOBS, ids=lambda model: type(model).__name__)
def test_any_number_of_processes_gives_the_same_bits(model):
    parts = [partial(read, number) for number in range(5)]
    X, y, weights = (np.concatenate(several) for several in zip(*map(read, range(5)), strict=True))
    one, two = (statistics_of(model, parts, n_jobs=jobs) for jobs in (1, 2))
    assert one.to_bytes(solve=False) == two.to_bytes(solve=False)
    with parallel_config(backend="threading"):
        assert statistics_of(model, parts, n_jobs=2).to_bytes(solve=False) == one.to_bytes(solve=False)
    batches = statistics_of(model, [read(number) for number in range(5)], n_jobs=2)
    assert batches.to_bytes(solve=False) == one.to_bytes(solve=False)
    if isinstance(model, InformationGain):
        np.testing.assert_array_equal(one.get_support(), clone(model).fit(X, y, sample_weight=weights).get_support())
    elif model.get_params().get("reservoir_bytes") != 3000:  # that one is a sample
        local = statistics_of(model, parts)
        np.testing.assert_allclose(one.transform(X), local.transform(X), rtol=0, atol=1e-7)
    assert one.get_params() == model.get_params()


def test_items_may_be_functions_of_several_batches_and_empty():
    nothing = (np.zeros((0, 13)), np.zeros(0, dtype=int))
    model = FisherDiscriminant(ridge=0.1)
    parts = [nothing, partial(read_in_two, 0), nothing, partial(read_in_two, 1)]
    found, batch_by_batch = statistics_of(model, parts, n_jobs=2), statistics_of(model, parts)
    np.testing.assert_allclose(found.transform(wine()[0]), batch_by_batch.transform(wine()[0]), rtol=0, atol=1e-10)
    assert found.random_state == model.random_state
    assert not statistics_of(model, [nothing], n_jobs=1).__sklearn_is_fitted__()
    assert not statistics_of(model, [], n_jobs=1).__sklearn_is_fitted__()
    with pytest.raises(ValueError, match=r"n_jobs=0 would learn nothing\. Give 1 or more, or -1 for all cores"):
        statistics_of(model, parts, n_jobs=0)


def test_samples_of_items_have_seeds_of_their_own():
    """Items of one part, and of other parts, never draw from the same seed."""
    parts = [partial(read, number) for number in range(3)]
    model = FisherDiscriminant(reservoir_bytes=3000, random_state=7)
    seeds = {part_seed(7, number + (place << 40)) for number in range(20) for place in range(20)}
    assert len(seeds) == 400
    first = statistics_of(model, parts, n_jobs=1)
    apart = [statistics_of(model, [part], number=place << 40) for place, part in enumerate(parts)]
    by_hand = apart[0].merge(apart[1]).merge(apart[2])
    assert first.to_bytes(solve=False) == by_hand.to_bytes(solve=False)
    other = statistics_of(model, parts, n_jobs=1, number=4)
    assert (first.random_state, other.random_state) == (7, part_seed(7, 4))
    assert first.merge(other).n_samples_seen_ == 2 * first.n_samples_seen_


def count_threads(number):
    """Return rows whose labels tell how many threads may work here, ours and those of BLAS."""
    from threadpoolctl import threadpool_info

    from kampong._core.compute import available_threads

    blas = max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
    return np.eye(2), np.array([available_threads(), 10 * blas])


def test_a_process_uses_one_core():
    found = statistics_of(InterClassScatter(), [partial(count_threads, number) for number in range(4)], n_jobs=2)
    np.testing.assert_array_equal(found.classes_, [1, 10])
