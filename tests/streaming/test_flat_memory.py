"""Memory does not grow with the rows, however many new words, categories, classes and dead labels they bring."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the stream tool needs the `stream` extra")
pytest.importorskip("msgspec", reason="the stream tool needs the `stream` extra")

import kampong
from kampong.files.contents import flatten
from kampong.streaming import Layout, Source, learn

KINDS = {
    "words": Layout(label="kind", text=("new",), hash_width=256),
    "categories": Layout(label="kind", category=("new",), hash_width=256),
    "dead labels": Layout(label="kind", drop=("new",)),
    "classes": Layout(label="kind", drop=("new",)),
}
CLASSES, MOST = ("a", "b"), 200
GROWTH, SPARE = 1.05, 16.0
"""By what factor, and by how many MB besides, the memory of a process may vary."""

# Learns in a process of its own; prints rows and resident megabytes after each batch.
LEARN = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from test_flat_memory import learnt
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024
found = []
learnt(sys.argv[2], sys.argv[3], watch=lambda run: found.append((run.counters.records, resident())))
print(json.dumps(found))
"""


def label_of(kind, i):
    """Return the label of a row: of "classes" new ones come until there are as many as may be."""
    if kind == "dead labels" and i % 3 == 2:
        return f"new{i}"
    return f"class{(i * 7919) % min(2 + i // 10, MOST)}" if kind == "classes" else CLASSES[i % 2]


def write(path, kind, n):
    """Write rows, each of which brings something new."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("x,new,kind\n")
        for start in range(0, n, 10_000):
            rows = range(start, min(start + 10_000, n))
            x = (rng.normal(size=len(rows)) + np.arange(len(rows)) % 2).round(3).tolist()
            file.writelines(f"{x[i - start]},word{i} other{i // 2},{label_of(kind, i)}\n" for i in rows)


def learnt(path, kind, watch=None):
    """Return a run over such rows."""
    classes = CLASSES if kind == "dead labels" else ()
    model = kampong.FisherDiscriminant(half_life="auto")
    return learn(Source(path, KINDS[kind]), model, classes=classes, max_classes=MOST, watch=watch)


def written(state):
    """Return the bytes of a state in a model file."""
    arrays, facts = flatten(state)
    return sum(array.nbytes for array in arrays.values()) + len(json.dumps(facts))


@pytest.mark.parametrize("kind", ["words", "categories", "dead labels"])
def test_history_and_tables_do_not_grow_with_the_rows(tmp_path, kind):
    sizes = []
    for n in (6_000, 12_000):
        write(tmp_path / "rows.csv", kind, n)
        run = learnt(str(tmp_path / "rows.csv"), kind)
        assert run.counters.records == n
        assert (run.counters.dead > n // 4) == (kind == "dead labels")
        sizes.append((written(run.history.to_state()), written(run.memory.to_state())))
    # Curves of the history have at most 512 entries, of at least 16 rows each; the rest is full from the start.
    assert sizes[1][0] <= 1.2 * sizes[0][0]
    assert sizes[1][1] <= 1.05 * sizes[0][1]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_flat_over_millions_of_rows(tmp_path, kind):
    n = int(os.environ.get("KAMPONG_ROWS", "5000000"))
    write(tmp_path / "rows.csv", kind, n)
    paths = json.dumps([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", LEARN, paths, str(tmp_path / "rows.csv"), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = np.array(json.loads(done.stdout))
    early, late = found[(found[:, 0] > n / 5) & (found[:, 0] <= n / 2)], found[found[:, 0] > n / 2]
    assert found[-1, 0] == n
    assert late[:, 1].max() <= GROWTH * early[:, 1].max() + SPARE
