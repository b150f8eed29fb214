"""The benchmarks run from end to end on small sizes, so they cannot rot; their figures are not looked at."""

import importlib
import sys
from pathlib import Path

import pytest

pytest.importorskip("river", reason="river is a peer of the benchmarks, not a dependency")
ROOT = Path(__file__).resolve().parents[1]


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
        ("smo", 4, "MaxMinOver"),
        ("river_stream", 100, "one row of 64 features"),
        ("cluster", 400, "graph of 10,000 files"),
        ("loading", 50, "the first predict of a loaded model"),
        pytest.param("live_page", 50, "readers and a slow one", marks=pytest.mark.slow),
        ("defaults", 50, "text: micro"),
        ("stages", 50, "calibrated"),
        ("few_rows", 50, "within 0.003"),
        ("novelty", 50, "KernelFisherDiscriminant"),
        ("gate", 100, "the pass alone"),
        ("continual", 10, "unlearning:"),
        ("crossings", 10, "KernelFisherDiscriminant.partial_fit"),
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
