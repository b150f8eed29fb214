"""The benchmarks run from end to end on small sizes, so they cannot rot; their figures are not looked at."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("river", reason="river is a peer of the benchmarks, not a dependency")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.filterwarnings("ignore")
def test_linear_benchmarks_run(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.linear")
    measure = importlib.import_module("benchmarks.measure")
    monkeypatch.setattr(measure.time, "sleep", lambda _: None)
    medians = measure.medians
    for place in (measure, module):
        monkeypatch.setattr(place, "medians", lambda contenders, _: medians(contenders, 1))
    module.main(shrink=500)
    printed = capsys.readouterr().out
    for title in ("sparse:", "wide:", "dense:", "growth:", "memory of partial_fit", "small batches:"):
        assert title in printed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "shrink", "title"),
    [
        ("recursions", 100, "sparse rows/s"),
        ("ridge", 100, "best of grid"),
        ("wide", 2000, "resident memory"),
        ("drift", 400, "keep all"),
        ("streams", 20, "apart"),
        ("peers", 60, "majority"),
        ("contest", 60, "reporting half"),
        ("delays", 20, "late 10,000"),
        ("smo", 4, "MaxMinOver"),
        ("river_stream", 100, "one row of 64 features"),
        ("cluster", 400, "graph of 10,000 files"),
        ("loading", 50, "the first predict of a loaded model"),
        ("saving", 50, "check alone"),
        ("messy", 10, "behind the clean file"),
        pytest.param("brokers", 100, "JSON objects of 20 numbers", marks=pytest.mark.slow),
        pytest.param("serving", 40, "while four clients teach", marks=pytest.mark.slow),
        pytest.param("live_page", 50, "readers and a slow one", marks=pytest.mark.slow),
        ("defaults", 50, "text: micro"),
        ("stages", 50, "calibrated"),
        ("first_page", 50, "| digits |"),
        ("few_rows", 50, "within 0.003"),
        ("novelty", 50, "KernelFisherDiscriminant"),
        ("verification", 50, "cosine, reduced"),
        ("retrieval", 50, "first columns"),
        ("prediction_sets", 50, "classes that move"),
        ("gate", 100, "the pass alone"),
        ("continual", 10, "unlearning:"),
        ("crossings", 10, "kampong learn, 300 rows"),
        ("counts", 1, "private reaches"),
        pytest.param("same_results", 10, "largest relative difference", marks=pytest.mark.slow),
        ("tables", 50, "half reported"),
        ("choosing", 50, "first fit, cold"),
        ("cliffs", 20, "harms cost more than"),
        pytest.param("stream", 100, "pyarrow", marks=pytest.mark.slow),
        pytest.param("throughput", 100, "dense CSV", marks=pytest.mark.slow),
        pytest.param("texts", 100, "made up", marks=pytest.mark.slow),
        pytest.param("margin", 100, "growth:", marks=pytest.mark.slow),
        pytest.param("kernel_fisher", 400, "KernelFisherDiscriminant", marks=pytest.mark.slow),
    ],
)
def test_other_benchmarks_run(monkeypatch, capsys, name, shrink, title):
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module(f"benchmarks.{name}").main(shrink=shrink)
    assert title in capsys.readouterr().out


NEEDS = {
    "cliffs": lambda module: module.main(),
    "continual": lambda module: module.main(),
    "contest": lambda module: module.main(),
    "defaults": lambda module: module.main(),
    "delays": lambda module: module.main(),
    "drift": lambda module: module.main(),
    "few_rows": lambda module: list(module._sets(1)),
    "linear": lambda module: module.sparse_rows(),
    "margin": lambda module: module.load("mnist"),
    "novelty": lambda module: module.main(),
    "prediction_sets": lambda module: list(module.streams(1)),
    "recursions": lambda module: module.convergence(20),
    "retrieval": lambda module: module.main(),
    "ridge": lambda module: module.main(),
    "river_stream": lambda module: module.streams(1),
    "smo": lambda module: module.load("iris", "class 0 or not"),
    "stages": lambda module: module.main(),
    "streams": lambda module: list(module.stored(1)),
    "tables": lambda module: module.main(),
    "texts": lambda module: module.main(),
    "throughput": lambda module: module.short_texts(10),
    "verification": lambda module: module.main(),
    "wide": lambda module: module.main(),
}
"""How to ask a benchmark for its first file of the data folder."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NEEDS)
def test_a_benchmark_without_its_data_says_so_and_stops(monkeypatch, tmp_path, name):
    monkeypatch.setenv("KAMPONG_DATA", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module(f"benchmarks.{name}")
    for constant, value in {"ROWS": 400, "MOST": 400}.items():
        if hasattr(module, constant):
            monkeypatch.setattr(module, constant, value)
    if name == "recursions":
        monkeypatch.setattr(module, "DATA", tmp_path)
    with pytest.raises(SystemExit, match=r"not found in .*: .*\. Set KAMPONG_DATA to the folder that holds them\."):
        NEEDS[name](module)


def test_every_benchmark_that_reads_the_data_folder_is_asked_for_it():
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "present(" in path.read_text()}
    assert scripts - {"measure"} == set(NEEDS)


def test_all_results_are_written_and_the_pages_that_change_are_named(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.__main__")
    found = {"streams": lambda: print("0.5"), "drift": lambda: print("0.7"), "tables": lambda: sys.exit("no data")}
    for name, main in found.items():
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", type("Script", (), {"main": staticmethod(main)}))
    monkeypatch.setattr(module, "NAMES", list(found))
    (tmp_path / "drift.txt").write_text("date: earlier\n\n0.7\n")
    (tmp_path / "tables.txt").write_text("date: earlier\n\n0.9\n")
    with pytest.raises(SystemExit, match=r"(?s)the earlier files stay:.*tables: no data"):
        module.command(["--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "3 benchmarks in 0 minutes, 1 changed" in printed
    assert "streams: docs/guide/drift.md" in printed
    assert (tmp_path / "tables.txt").read_text().startswith("date: earlier")
    about = (tmp_path / "streams.txt").read_text()
    assert "\ncommit: " in about
    assert about.endswith("\n\n0.5\n")


def test_accuracies_of_peers_are_kept_for_one_stream_and_one_version(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.peers")
    monkeypatch.setattr(module, "FILE", tmp_path / "peers.json")
    installed = {"numpy": "2.0", "scikit-learn": "1.9", "river": "0.26", "vowpalwabbit": "9.11"}

    def version(library):
        if library not in installed:
            raise module.PackageNotFoundError(library)
        return installed[library]

    monkeypatch.setattr(module, "version", version)
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    for peer, found in {"last": 0.5, "SGD": 0.6, "LR": 0.7, "tree": 0.8, "VW": 0.9}.items():
        module.keep("dice", 1, X, y, peer, found)
    every = {"last": 0.5, "SGD": 0.6, "VW": 0.9, "LR": 0.7, "tree": 0.8}
    assert module.kept("dice", 1, X, y) == every
    assert module.kept("dice", 1, X + 1, y) == {}
    assert module.kept("dice", 1, X, 1 - y) == {}
    del installed["vowpalwabbit"]  # one that is not installed cannot be run again
    assert module.kept("dice", 1, X, y) == every
    installed["river"] = "0.27"
    assert module.kept("dice", 1, X, y) == {"last": 0.5, "SGD": 0.6, "VW": 0.9}
    module.keep("dice", 1, X, y, "LR", 0.75)  # the tree of the version before does not become one of this version
    assert module.kept("dice", 1, X, y) == {"last": 0.5, "SGD": 0.6, "VW": 0.9, "LR": 0.75}
