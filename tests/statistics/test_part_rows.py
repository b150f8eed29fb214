"""Wide rows in parts: a fit by products with the parts is the local fit with the rows in memory, whatever is chosen."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

pytest.importorskip("dask", reason="the dask extra is not installed")

import dask.array as da

from kampong import FisherDiscriminant, InterClassScatter, MarginSubspace, from_bytes
from kampong.adapters import dask as on_dask
from kampong.adapters.dask_margin import WideParts
from kampong.adapters.dask_parts import parts_of
from kampong.statistics.all_rows import ClassRows, PartRows

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
WIDTH = 9000


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    n = 500
    y = np.sort(rng.integers(0, 4, n))  # classes on one part only
    noise = sparse.random_array((n, WIDTH), density=0.005, rng=rng, format="csr")
    places = y[:, None] * 50 + rng.integers(0, 60, (n, 3))
    signal = sparse.csr_array((np.ones(3 * n), (np.repeat(np.arange(n), 3), places.ravel())), shape=(n, WIDTH))
    X = sparse.csr_array(noise + signal)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, np.array(["a", "b", "c", "d"])[y], rng.integers(0, 3, n).astype(float)


CUTS = ((1, 130, 0, 200, 169),)


def in_parts(column):
    if column is None:
        return None
    rows = column.toarray() if sparse.issparse(column) else column
    return da.from_array(rows, chunks=(*CUTS, *((n,) for n in rows.shape[1:])))


def sparse_parts(X):
    return in_parts(X).map_blocks(sparse.csr_array, dtype=X.dtype, meta=sparse.csr_array((0, 0)))


@pytest.mark.parametrize(
    "model",
    [
        FisherDiscriminant(ridge=0.01),
        FisherDiscriminant(),
        MarginSubspace(2, epsilon=0.1, head="logistic"),
        MarginSubspace(epsilon="auto"),
    ],
    ids=["ridge", "auto", "logistic", "epsilon"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_parts_are_rows_in_hand(problem, model, weighted):
    X, y, weights = problem
    weights = weights if weighted else None
    local = clone(model).fit(X, y, sample_weight=weights)
    found = on_dask.fit(model, sparse_parts(X), in_parts(y), in_parts(weights), keep_rows=True)
    assert found.solver_ == local.solver_ == "resolvent"
    assert found.head_ == local.head_
    assert found.n_steps_ == local.n_steps_
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.predict_proba(X), local.predict_proba(X), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(from_bytes(found.to_bytes()).predict(X), found.predict(X))
    assert found.moved_["steps"] >= found.n_steps_  # one sum over the parts a step


def test_dense_rows_and_files(problem, tmp_path):
    from sklearn.datasets import dump_svmlight_file

    from kampong.streaming import Layout

    X, y, _ = problem
    model = FisherDiscriminant(ridge=0.01)
    local = clone(model).fit(X, y)
    found = on_dask.fit(model, in_parts(X), in_parts(y), keep_rows=True)
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-10)
    codes = np.unique(y, return_inverse=True)[1]
    for number in range(3):
        dump_svmlight_file(X[number::3], codes[number::3], str(tmp_path / f"{number}.svm"), zero_based=False)
    found = on_dask.fit(model, tmp_path, layout=Layout(max_features=WIDTH), keep_rows=True)
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-8)


def test_the_statistics_answer_as_rows_here(problem):
    """Products, variances and the sample, against the rows themselves."""
    X, y, weights = problem
    here = ClassRows(WIDTH).update(X, y, weights)
    holder = WideParts(parts_of(sparse_parts(X), in_parts(y), in_parts(weights), None), None, 1.0, "test")
    there = PartRows(holder.means, holder)
    block = np.random.default_rng(1).normal(size=(WIDTH, 3))
    np.testing.assert_allclose(there.within_times(block), here.within_times(block), rtol=0, atol=1e-12)
    np.testing.assert_allclose(there.within_variances(), here.within_variances(), rtol=0, atol=1e-12)
    for most in (7, 200, 10_000):
        one, other = there.sample(most, 5), here.sample(most, 5)
        np.testing.assert_array_equal(one.numbers, other.numbers)
        np.testing.assert_array_equal(one.members.codes, other.members.codes)
        np.testing.assert_allclose(one.weights, other.weights)
        np.testing.assert_array_equal(one.rows.toarray(), other.rows.toarray())
    with pytest.raises(ValueError, match="the rows lie elsewhere"):
        there.held()


def test_where_no_rows_are_needed_one_pass_is_taken(problem):
    X, y, _ = problem
    found = on_dask.fit(InterClassScatter(), sparse_parts(X), in_parts(y), keep_rows=True)
    assert found.solver_ == "gram"
    narrow = on_dask.fit(FisherDiscriminant(ridge=0.1), in_parts(X[:, :40]), in_parts(y), keep_rows=True)
    assert narrow.solver_ == "scatter"
    with pytest.raises(ValueError, match="all sample weights are zero"):
        on_dask.fit(FisherDiscriminant(), sparse_parts(X), in_parts(y), in_parts(np.zeros(len(y))), keep_rows=True)
