"""The benchmarks run from end to end on small sizes, so they cannot rot; their figures are not looked at."""

import importlib
import sys
from pathlib import Path

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
        ("streams", 20, "best peer"),
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
        ("cliffs", 20, "harms cost more than"),
        pytest.param("stream", 100, "pyarrow", marks=pytest.mark.slow),
        pytest.param("throughput", 100, "dense CSV", marks=pytest.mark.slow),
        pytest.param("margin", 100, "covertype", marks=pytest.mark.slow),
        pytest.param("kernel_fisher", 400, "KernelFisherDiscriminant", marks=pytest.mark.slow),
    ],
)
def test_other_benchmarks_run(monkeypatch, capsys, name, shrink, title):
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module(f"benchmarks.{name}").main(shrink=shrink)
    assert title in capsys.readouterr().out


SUBSTITUTES = {
    "continual": (lambda module: module._embeddings(1), "banking77_minilm.npz", "digits in place of it"),
    "few_rows": (lambda module: list(module._sets(1)), "ionosphere.npz", "it is left out"),
    "ridge": (lambda module: module._sets(small=False), "ionosphere.npz", "scikit-learn's four sets alone"),
    "river_stream": (lambda module: module.streams(1), "electricity.npz", "it is left out"),
}


@pytest.mark.parametrize("name", SUBSTITUTES)
def test_a_benchmark_without_its_data_says_what_takes_their_place(monkeypatch, capsys, tmp_path, name):
    monkeypatch.setenv("KAMPONG_DATA", str(tmp_path))
    ask, file, instead = SUBSTITUTES[name]
    monkeypatch.syspath_prepend(str(ROOT))
    ask(importlib.import_module(f"benchmarks.{name}"))
    said = capsys.readouterr().out
    assert f"not found in {tmp_path} (set KAMPONG_DATA): " in said
    assert file in said
    assert instead in said


def test_no_benchmark_looks_for_data_silently():
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        text = path.read_text()
        if path.name != "measure.py" and ".exists()" in text:
            assert "is not here" in text or "KAMPONG_DATA" in text, path.name
