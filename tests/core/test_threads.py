"""The threads that help compiled loops and products: each part is done once, errors come in order, forks are safe."""

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kampong._core import compute


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr(compute, "available_threads", lambda: 3)


def test_every_part_is_done_once():
    done = np.zeros(500, dtype=int)

    def work(place):
        done[place] += 1

    for _ in range(20):
        compute.run(work, [(place,) for place in range(500)])
    assert (done == 20).all()


def test_the_first_error_in_the_order_of_the_parts_is_raised_and_the_others_are_still_done():
    done = []

    def work(place):
        if place in (3, 7):
            raise ValueError(f"part {place}")
        done.append(place)

    with pytest.raises(ValueError, match="part 3"):
        compute.run(work, [(place,) for place in range(10)])
    assert sorted(done) == [0, 1, 2, 4, 5, 6, 8, 9]


def test_calls_inside_calls_and_from_many_threads_do_not_wait_for_each_other():
    done = []

    def inner(place):
        done.append(place)

    def outer(first):
        compute.run(inner, [(place,) for place in range(first, first + 8)])

    callers = [threading.Thread(target=compute.run, args=(outer, [(i,) for i in range(0, 64, 8)])) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
        assert not caller.is_alive()
    assert sorted(done) == [place for place in range(64) for _ in range(4)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    compute.run(lambda: None, [()] * 8)
    child = os.fork()
    if not child:
        names = set()
        barrier = threading.Barrier(2, timeout=30)

        def work():
            barrier.wait()  # two threads must be there at once
            names.add(threading.get_ident())

        try:
            compute.run(work, [()] * 2)
            os._exit(0 if len(names) == 2 else 3)
        except BaseException:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@given(rows=st.integers(0, 70), columns=st.integers(0, 70), seed=st.integers(0, 99))
def test_a_transpose_in_tiles_is_the_transpose(rows, columns, seed):
    matrix = np.random.default_rng(seed).normal(size=(rows, columns))
    np.testing.assert_array_equal(compute.transposed(matrix), matrix.T)
