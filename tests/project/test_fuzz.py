"""A short run of the attackers in `fuzz`; `make fuzz` runs them for an hour."""

import sys

import pytest

from fuzz import arrays, corpus, faults, labels, model_files, sparse_rows, subjects
from fuzz.children import campaign

if sys.platform != "linux":
    pytest.skip("the attackers fork, and read peaks from /proc", allow_module_level=True)


def test_no_estimator_is_left_out():
    assert subjects.left_out() == set()


def test_broken_matrices_are_refused():
    subjects.warm()
    outcome = campaign(sparse_rows.attempt, range(300))
    assert outcome.findings == {}
    assert outcome.counts["refused"] > 200


def test_odd_arrays_are_right_or_refused():
    cheap = {"InterClassScatter", "ClassMeans", "InformationGain", "MarginSubspace"}
    seeds = [i for i, (name, method, kind) in enumerate(arrays.CASES) if name in cheap or kind == "masked"]
    for seed in seeds:  # in this process: a child would be charged for what is compiled
        assert arrays.attempt(seed) in ("right", "refused")


def test_odd_labels_and_weights_are_right_or_refused():
    cheap = {"InterClassScatter", "ClassMeans", "InformationGain", "MarginRecursion"}
    seeds = [i for i, (name, _, what, kind) in enumerate(labels.CASES) if name in cheap or kind == "masked"]
    for seed in seeds:
        assert labels.attempt(seed) in ("right", "refused")


def test_model_files_that_lie_are_refused_or_give_numbers():
    model_files.prepare(one_in=7)
    outcome = campaign(model_files.attempt, range(500))
    assert outcome.findings == {}
    assert outcome.counts["refused"] > 250
    assert outcome.counts["answers"] > 20


@pytest.mark.parametrize("path", corpus.files(), ids=lambda path: path.name)
def test_what_once_broke_something_breaks_nothing(path):
    outcome = campaign(lambda _: corpus.replay(path), [0])
    assert outcome.findings == {}
    assert path.stat().st_size <= corpus.MOST


def test_a_run_survives_signals_a_clock_set_back_and_a_source_that_changes(monkeypatch):
    pytest.importorskip("typer", reason="the stream tool needs the `stream` extra")
    monkeypatch.setattr(faults, "ROWS", 2000)
    whole = faults.undisturbed()
    for name in ("SIGTERM", "SIGHUP", "clock set back, file times of 1970", "source replaced during the run"):
        assert not faults.tried(faults.ALL[name], whole, 0), name
