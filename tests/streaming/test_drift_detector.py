"""Alarms of drift: ADWIN's rule against river's, bit by bit, and its laws."""

import numpy as np
import pytest

from kampong.files import Contents
from kampong.files.contents import flatten
from kampong.streaming.history.drift import ALARMS, CLOCK, DriftDetector


def errors_of(seed, n=6000):
    """Return errors whose rate changes three times."""
    rng = np.random.default_rng(seed)
    cuts, rates = np.sort(rng.integers(0, n, 3)), rng.random(4) ** 2
    return rng.random(n) < rates[np.searchsorted(cuts, np.arange(n))]


def run(wrong, sizes=(10**9,), detector=None, start=0):
    detector, place = DriftDetector() if detector is None else detector, 0
    while start < len(wrong):
        stop = min(start + sizes[place % len(sizes)], len(wrong))
        detector.update(~wrong[start:stop], np.arange(start + 1, stop + 1))
        start, place = stop, place + 1
    return detector


@pytest.mark.parametrize("seed", range(30))
def test_alarms_are_those_of_river(seed):
    drift = pytest.importorskip("river.drift", reason="river is the reference")
    wrong = errors_of(seed)
    # `ADWIN` itself begins anew after an alarm; the published rule, which goes on with what is left, is inside it.
    theirs, rows = drift.ADWIN()._helper, []
    for row, error in enumerate(wrong.tolist(), start=1):
        if theirs.update(float(error)):
            rows.append(row)
    mine = run(wrong, sizes=(1, 7, 500, 33))
    assert [alarm.row for alarm in mine.alarms()] == rows
    assert (mine.n_alarms, mine.width, mine.errors) == (len(rows), theirs.get_width(), theirs.get_total())


def test_batches_and_stops_change_nothing():
    wrong = errors_of(1)
    whole = run(wrong)
    for cut in (0, 1, 31, 32, 3000, 5999):
        first = run(wrong[:cut], sizes=(13,))
        again = DriftDetector.from_state(Contents(*flatten(first.to_state()), "drift"), cut, cut)
        resumed = run(wrong, sizes=(100, 3), detector=again, start=cut)
        state, other = whole.to_state(), resumed.to_state()
        assert all(np.array_equal(state[name], other[name]) for name in state)


def test_an_alarm_says_what_was_before_and_after():
    rng = np.random.default_rng(0)
    wrong = np.r_[rng.random(5000) < 0.05, rng.random(1000) < 0.5]
    alarm = run(wrong).alarms()[0]
    assert 5000 < alarm.row < 5150
    assert alarm.row % CLOCK == 0
    gone, left = alarm.rows_before, alarm.rows_after
    assert gone + left == alarm.row
    assert alarm.right_before == (~wrong[:gone]).sum()
    assert alarm.right_after == (~wrong[gone : gone + left]).sum()
    assert alarm.before == pytest.approx(0.95, abs=0.01)
    assert alarm.after < alarm.before


def test_few_false_alarms_and_bounded_memory():
    rng = np.random.default_rng(5)
    steady = run(rng.random(200_000) < 0.2)
    assert steady.n_alarms == 0
    restless = run(rng.random(40_000) < np.repeat(np.tile([0.1, 0.7], 100), 200))
    assert restless.n_alarms > ALARMS
    assert len(restless.alarms()) == ALARMS
    assert sum(np.asarray(value).nbytes for value in restless.to_state().values()) < 8192
