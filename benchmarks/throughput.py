"""Throughput of the stream tool, as ratios in one run: CSV against pyarrow's bare read, text against bare hashing.

Start to end, `kampong learn` is a process of its own: rows per second of processor time, imports included.

Start-up, for CSV, are the rows until the validation sample of ridge and head is full (16,384): up to there both are
chosen at every doubling. Rows per second after that are counted to the last row learnt; the end of a run solves again.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import data_folder, medians, present

CSV_ROWS, CSV_COLUMNS = 1_000_000, 20
TEXTS, WORDS = 49_000, 12

# Learns a text stream in a process of its own, after a first one that compiles; prints rows, seconds, peak, accuracy.
LEARN = """
import json, sys, time
from kampong.streaming import Layout, Source, learn
from kampong.streaming.options import estimator
first, path, model_file = sys.argv[1:]
learn(Source(first, Layout(label="label", text="text")), estimator())
begun = time.perf_counter()
run = learn(Source(path, Layout(label="label", text="text")), estimator(), model_file=model_file)
seconds = time.perf_counter() - begun
peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps([run.counters.rows, seconds, peak, run.counters.accuracy]))
"""

# The same stream through Vowpal Wabbit's own learner, row by row: predict, then learn.
PEER = """
import json, sys, time
from vowpalwabbit import Workspace
lines = open(sys.argv[1]).read().splitlines()[1:]
rows = [line.split("\\t") for line in lines]
codes = {label: i + 1 for i, label in enumerate(sorted({label for label, _ in rows}))}
learner = Workspace(f"--oaa {len(codes)} -b 18 --quiet")
begun, right = time.perf_counter(), 0
for label, text in rows:
    example = learner.example(f"{codes[label]} | {text.replace(':', ' ').replace('|', ' ')}")
    right += learner.predict(example) == codes[label]
    learner.learn(example)
    learner.finish_example(example)
seconds = time.perf_counter() - begun
peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps([len(rows), seconds, peak, right / len(rows)]))
"""


def main(shrink: int = 1) -> None:
    """Print the ratios; `shrink` divides the rows."""
    with tempfile.TemporaryDirectory() as name:
        _dense(Path(name), CSV_ROWS // shrink, 5 if shrink == 1 else 1)
        _text(Path(name), TEXTS // shrink, 3 if shrink == 1 else 1)


def _dense(folder: Path, rows: int, repeats: int) -> None:
    import pyarrow.csv as arrow_csv

    import kampong
    from kampong.streaming import Layout, Source, learn
    from kampong.streaming.options import estimator
    from kampong.streaming.settings import SETTINGS

    path = folder / "rows.csv"
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, rows)
    X = rng.normal(size=(5, CSV_COLUMNS))[y] + 2 * rng.normal(size=(rows, CSV_COLUMNS))
    header = ",".join([*(f"x{j}" for j in range(CSV_COLUMNS)), "label"])
    np.savetxt(
        path, np.column_stack([X, y]), fmt=["%.4f"] * CSV_COLUMNS + ["%d"], delimiter=",", header=header, comments=""
    )
    source = Source(str(path), Layout(label="label"))
    later: list[float] = []

    def defaults() -> None:
        marks: list[tuple[int, float]] = []
        learn(source, estimator(), watch=lambda run: marks.append((run.counters.rows, time.perf_counter())))
        (first, begun), (last, ended) = (
            next(mark for mark in marks if mark[0] > min(SETTINGS.full_sample, rows // 2)),
            marks[-1],
        )
        later.append((last - first) / (ended - begun))

    contenders: dict[str, Any] = {
        "pyarrow.csv.read_csv": lambda: arrow_csv.read_csv(path),
        "the source alone": lambda: sum(batch.rows for batch in source.open()),
        "learn, defaults": defaults,
        "learn, FisherDiscriminant(ridge=0.1)": lambda: learn(source, kampong.FisherDiscriminant(ridge=0.1)),
    }
    seconds = medians(contenders, repeats)
    bare = seconds["pyarrow.csv.read_csv"]
    print(f"\ndense CSV, {rows:,} rows × {CSV_COLUMNS} ({path.stat().st_size / 2**20:.0f} MiB)")
    for name, value in seconds.items():
        print(f"  {name:<38} {value:7.3f} s {rows / value:12,.0f} rows/s {bare / value:6.2f} × the bare read")
    print(f"  {'kampong learn, start to end':<38} {_command(path, folder, '--label', 'label')}   goal: 250,000")
    rate = float(np.median(later[1:] or later))
    print(
        f"  {'learn, defaults, after start-up':<48} {rate:12,.0f} rows/s {rate * bare / rows:6.2f}   goal: at least 0.5"
    )


def short_texts(count: int, *, small: bool = False) -> list[tuple[str, str]]:
    """Return runs of a few words of Reuters stories (R52), each with the topic of its story, in random order."""
    path = data_folder() / "reuters_r52.tsv.gz"
    if not path.exists() and not present(path.name, small=small):
        return []
    found = []
    with gzip.open(path, "rt") as file:
        for line in file.read().splitlines()[1:]:
            _, label, text = line.split("\t")
            words = text.split()
            parts = [words[i : i + WORDS] for i in range(0, len(words), WORDS)]
            found += [(label, " ".join(part)) for part in parts if len(part) >= WORDS // 2]
    random.Random(0).shuffle(found)
    return found[:count]


def _text(folder: Path, count: int, repeats: int) -> None:
    from sklearn.feature_extraction.text import HashingVectorizer

    rows = short_texts(count, small=repeats == 1)
    if not rows:
        print("\ntext: reuters_r52.tsv.gz is not in the data folder (KAMPONG_DATA)")
        return
    path, first, model = folder / "texts.tsv", folder / "first.tsv", folder / "texts.kampong"
    for file, part in ((path, rows), (first, rows[:600])):
        file.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in part))
    texts = [text for _, text in rows]
    bare, ours = [], []
    for _ in range(repeats):  # in turns
        begun = time.perf_counter()
        HashingVectorizer(n_features=2**18).transform(texts)
        bare.append(time.perf_counter() - begun)
        model.unlink(missing_ok=True)
        ours.append(_printed(LEARN, first, path, model))
    seconds = float(np.median(bare))
    _, mine, peak, accuracy = (float(np.median(values)) for values in zip(*ours, strict=True))
    print(f"\ntext, {len(rows):,} runs of {WORDS} words, {len({label for label, _ in rows})} classes")
    print(f"  {'HashingVectorizer alone':<38} {seconds:7.3f} s {len(rows) / seconds:12,.0f} rows/s")
    ratio = f"{seconds / mine:6.2f} × bare hashing   goal: at least 0.5"
    print(f"  {'learn, defaults':<38} {mine:7.3f} s {len(rows) / mine:12,.0f} rows/s {ratio}")
    size = model.stat().st_size / 2**20
    print(f"  peak memory {peak:.0f} MiB   goal: at most 500;   model file {size:.1f} MiB   goal: far below 115")
    whole = _command(path, folder, "--label", "label", "--text", "text")
    print(f"  {'kampong learn, start to end':<38} {whole}   goal: 60,000")
    _peer(path, accuracy, seconds)
    _predict(folder, model, texts[:50])


def _peer(path: Path, accuracy: float, bare: float) -> None:
    try:
        _, seconds, peak, theirs = _printed(PEER, path)
    except subprocess.CalledProcessError:
        print(f"  accuracy before learning {accuracy:.4f}   (Vowpal Wabbit is not installed)")
        return
    print(f"  accuracy before learning {accuracy:.4f}, Vowpal Wabbit {theirs:.4f}   goal: at least its less 0.01")
    print(f"  Vowpal Wabbit: {seconds:.2f} s with Python's calls, {bare / seconds:.2f} × bare hashing, {peak:.0f} MiB")


def _command(path: Path, folder: Path, *options: str) -> str:
    """Return rows per second of processor time of `kampong learn`, in a process of its own."""
    with path.open("rb") as file:
        rows = sum(1 for _ in file) - 1
    spent = []
    for turn in range(3):
        model = folder / f"{path.stem}{turn}.kampong"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "kampong", "learn", str(path), *options, "-m", str(model), "-q"],
            check=True,
            cwd=folder,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{rows / float(np.median(spent)):12,.0f} rows per second of processor time"


def _predict(folder: Path, model: Path, texts: list[str]) -> None:
    """Print the processor time of `kampong predict` of a few rows."""
    (folder / "new.tsv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    command = [sys.executable, "-m", "kampong", "predict", str(folder / "new.tsv"), "-m", str(model)]
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"  predict of {len(texts)} rows: {np.median(spent):.2f} s of processor time in all   goal: at most 2")


def _printed(code: str, *arguments: Path) -> Any:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "MALLOC_ARENA_MAX": "2"}
    )
    return json.loads(done.stdout.splitlines()[-1])
