"""How everything here is measured: contenders interleaved, medians, memory as the peak above what was there before."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def data_folder() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("KAMPONG_DATA", default))


def present(*names: str, small: bool = False) -> bool:
    """Tell whether a run uses files of the data folder: a small one never does, any other ends here without them.

    Nothing takes their place, so that two runs of a benchmark are always of the same rows.

    Parameters
    ----------
    *names : str
        Names of files or folders.
    small : bool
        Whether a small run was asked for.

    Returns
    -------
    bool
        Whether to use them.
    """
    if small:
        return False
    missing = [name for name in names if not (data_folder() / name).exists()]
    if missing:
        sys.exit(f"not found in {data_folder()}: {', '.join(missing)}. Set KAMPONG_DATA to the folder that holds them.")
    return True


def medians(contenders: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each contender; they take turns, after one run of each that is not counted."""
    for run in contenders.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            time.sleep(0.1)  # BLAS threads of the one before spin for a while; let them come to rest
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def peak_memory(run: Callable[[], Any]) -> float:
    """Return by how many MiB the resident memory of this process rises at most while `run` runs (Linux)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    result = run()
    peak = _status("VmHWM") - before
    del result
    return max(peak, 0) / 1024


def resident() -> float:
    """Return the resident memory of this process in MiB (Linux)."""
    gc.collect()
    return _status("VmRSS") / 1024


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def race(
    title: str, contenders: Mapping[str, Callable[[], Any]], *, ours: str, goals: Mapping[str, str], repeats: int = 5
) -> dict[str, float]:
    """Run contenders in turns and print seconds, peak memory and how many times our seconds each one takes."""
    print(f"\n{title}")
    peaks = {name: peak_memory(run) for name, run in contenders.items()}
    seconds = medians(contenders, repeats)
    width = max(len(name) for name in contenders)
    print(f"  {'':<{width}} {'median s':>9} {'peak MiB':>9} {'its s / ours':>13} {'ours / its s':>13}")
    for name, value in seconds.items():
        other, mine = value / seconds[ours], seconds[ours] / value
        goal = f"   goal: {goals[name]}" if name in goals else ""
        print(f"  {name:<{width}} {value:9.4f} {peaks[name]:9.0f} {other:13.2f} {mine:13.2f}{goal}")
    return seconds


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log seconds against log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
