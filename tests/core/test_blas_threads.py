"""Threads of BLAS: one while our own compute, as many as before afterwards; results do not depend on them."""

import threading

import numpy as np
import pytest
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_info, threadpool_limits

from kampong import CoreVectorClassifier, FisherDiscriminant, MarginSubspace
from kampong._core.compute import one_blas_thread


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """Ask for two, whatever the environment says: the tests run with one a worker."""
    with threadpool_limits(2, user_api="blas"):
        if not all(count == 2 for count in blas_threads()):
            pytest.skip("this BLAS does not take two threads")
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_one_thread_inside_and_as_many_as_before_outside():
    def fail():
        with one_blas_thread():
            assert set(blas_threads()) == {1}
            raise ZeroDivisionError

    with one_blas_thread():
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}  # the outer one still holds
    assert set(blas_threads()) == {2}
    with pytest.raises(ZeroDivisionError):
        fail()
    assert set(blas_threads()) == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_one_thread_from_the_first_user_to_the_last():
    inside, leave = threading.Event(), threading.Event()

    def use():
        with one_blas_thread():
            inside.set()
            leave.wait(60)

    other = threading.Thread(target=use)
    with one_blas_thread():
        other.start()
        assert inside.wait(60)
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}  # the other thread is still inside
    leave.set()
    other.join()
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize(
    "model",
    [
        FisherDiscriminant(ridge=0.1, solver="scatter"),
        FisherDiscriminant(ridge=0.1, solver="resolvent"),
        MarginSubspace(3, epsilon=0.1, solver="reservoir"),
        CoreVectorClassifier(tol=1e-6),
    ],
    ids=str,
)
@pytest.mark.usefixtures("two_blas_threads")
def test_results_do_not_depend_on_the_threads_of_blas(model):
    X, y = load_digits(n_class=4, return_X_y=True)
    two = model.fit(X, y).decision_function(X)
    with threadpool_limits(1, user_api="blas"):
        one = model.fit(X, y).decision_function(X)
    np.testing.assert_allclose(two, one, atol=1e-6 * np.abs(one).max())


def test_a_task_of_an_engine_computes_on_its_own_thread():
    from kampong._core.compute import alone, available_threads

    before = available_threads()
    with alone():
        with alone():
            assert available_threads() == 1
        assert available_threads() == 1
        others = []
        thread = threading.Thread(target=lambda: others.append(available_threads()))
        thread.start()
        thread.join()
    assert available_threads() == others[0] == before
