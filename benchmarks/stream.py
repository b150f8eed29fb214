"""The stream tool: learning against bare parsing, memory over a long stream, and the time until --help is there."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import medians

CSV_ROWS, CSV_COLUMNS = 1_000_000, 50
TEXT_ROWS, TEXT_COLUMNS, TEXT_ENTRIES = 200_000, 300_000, 76
LONG_ROWS = 10_000_000

# Prints what it learns from a pipe: rows, and the peak of its memory after a tenth of them and at the end.
LONG = """
import sys
from pathlib import Path
import kampong
from kampong.streaming import Layout, Source, learn
peaks = {}
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
def watch(run):
    for rows in (int(sys.argv[1]) // 10, int(sys.argv[1])):
        if run.counters.rows >= rows:
            peaks.setdefault(rows, peak())
model = kampong.FisherDiscriminant(ridge=0.1)
source = Source("-", Layout(label="label", format="csv"))
learn(source, model, model_file=sys.argv[2], checkpoint_every=1.0, watch=watch)
print(*peaks.values())
"""


def main(shrink: int = 1) -> None:
    """Print the tables; `shrink` divides the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _csv(folder, CSV_ROWS // shrink, 5 if shrink == 1 else 1)
        _libsvm(folder, TEXT_ROWS // shrink, 3 if shrink == 1 else 1)
        _long(folder, LONG_ROWS // shrink)
    _start()


def _csv(folder: Path, rows: int, repeats: int) -> None:
    import pyarrow.csv as arrow_csv

    path = folder / "rows.csv"
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join([*(f"x{j}" for j in range(CSV_COLUMNS)), "label"]) + "\n")
        for _, part in _points(rng, rows):
            file.write(part)
    _race(
        f"CSV, {rows:,} rows × {CSV_COLUMNS} ({path.stat().st_size / 2**20:.0f} MiB)",
        lambda: arrow_csv.read_csv(path),
        "pyarrow.csv.read_csv",
        path,
        {"label": "label"},
        repeats,
        "at least 0.6",
    )


def _libsvm(folder: Path, rows: int, repeats: int) -> None:
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    from kampong.datasets import sparse_text

    X, y = sparse_text(rows, TEXT_COLUMNS, TEXT_ENTRIES, n_classes=10, random_state=0)
    path = folder / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    _race(
        f"libsvm, {rows:,} rows × {TEXT_COLUMNS:,} ({path.stat().st_size / 2**20:.0f} MiB)",
        lambda: load_svmlight_file(str(path), n_features=TEXT_COLUMNS, zero_based=False),
        "load_svmlight_file",
        path,
        {"max_features": TEXT_COLUMNS},
        repeats,
        "above 1",
    )


def _race(title: str, peer: Any, name: str, path: Path, layout: dict[str, Any], repeats: int, goal: str) -> None:
    import kampong
    from kampong.streaming import Layout, Source, learn

    source = Source(str(path), Layout(**layout))

    def read() -> int:
        return sum(batch.rows for batch in source.open())

    contenders: dict[str, Any] = {
        name: peer,
        "the source alone": read,
        "learn, InterClassScatter": lambda: learn(source, kampong.InterClassScatter()),
        "learn, FisherDiscriminant(ridge=0.1)": lambda: learn(source, kampong.FisherDiscriminant(ridge=0.1)),
    }
    if path.suffix == ".csv":  # the choice of a ridge past the width of a scatter takes minutes
        contenders["learn, FisherDiscriminant()"] = lambda: learn(source, kampong.FisherDiscriminant())
    seconds = medians(contenders, repeats)
    print(f"\n{title}")
    for contender, value in seconds.items():
        ratio = f"{seconds[name] / value:6.2f} × the speed of {name}" if contender != name else ""
        print(f"  {contender:<38} {value:8.2f} s {ratio}{f'   goal: {goal}' if 'ridge' in contender else ''}")


def _points(rng: np.random.Generator, rows: int, columns: int = CSV_COLUMNS) -> Any:
    """Yield rows of five classes as CSV, a few thousand at a time."""
    means = rng.normal(size=(5, columns))
    for start in range(0, rows, 5000):
        size = min(5000, rows - start)
        y = rng.integers(0, 5, size)
        X = means[y] + 2 * rng.normal(size=(size, columns))
        form = ",".join(["%.4f"] * columns) + ",%d\n"
        yield size, "".join(form % (*x, c) for x, c in zip(X.tolist(), y.tolist(), strict=True))


def _long(folder: Path, rows: int) -> None:
    """Learn a long stream from a pipe: the same block of lines again and again, never on disk."""
    part = "".join(text for _, text in _points(np.random.default_rng(0), 50_000, 8)).encode()
    command = [sys.executable, "-c", LONG, str(rows), str(folder / "model")]
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write((",".join([*(f"x{j}" for j in range(8)), "label"]) + "\n").encode())
        written = 0
        while written < rows:
            process.stdin.write(part)
            written += 50_000
        printed, _ = process.communicate()
    peaks = [float(value) for value in printed.split()]
    print(f"\na stream of {rows:,} rows × 8 from a pipe, {time.perf_counter() - start:.0f} s, saved every second")
    print(f"  peak memory after {rows // 10:,} rows {peaks[0]:.1f} MiB, at the end {peaks[-1]:.1f} MiB")
    print(f"  growth {peaks[-1] - peaks[0]:.1f} MiB   goal: below 5")


def _start() -> None:
    """Print the processor time of `kampong --help`."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "kampong", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"\nkampong --help: {np.median(spent):.2f} s of processor time   goal: below 0.5")
