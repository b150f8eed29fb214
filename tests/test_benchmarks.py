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
    monkeypatch.setattr(sys.modules["benchmarks.measure"].time, "sleep", lambda _: None)
    module.main(shrink=500)
    printed = capsys.readouterr().out
    for title in ("sparse:", "wide:", "dense:", "growth:", "memory of partial_fit", "small batches:"):
        assert title in printed


@pytest.mark.filterwarnings("ignore")
def test_other_benchmarks_run(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module("benchmarks.recursions").main(shrink=100)
    importlib.import_module("benchmarks.ridge").main(shrink=100)
    importlib.import_module("benchmarks.wide").main(shrink=400)
    importlib.import_module("benchmarks.drift").main(shrink=400)
    printed = capsys.readouterr().out
    for title in ("sparse rows/s", "best of grid", "one pass", "resident memory", "keep all"):
        assert title in printed
