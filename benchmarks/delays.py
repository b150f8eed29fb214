"""What late labels cost: accuracy of `kampong learn` before each row is learnt, what needs no model, and older models.

Every stream is learnt by the stream tool with its defaults. The columns: accuracy before learning; the majority class
and the last label, each predicted before its row; Cohen's kappa and kappa over the last label; accuracy when labels
come 1, 10, 100, 1,000 and 10,000 rows late, with "?" if the standard error is above one point; then what the model
that was saved after half of the rows has right on the next 10, 100, 1,000 and 10,000 rows: the end of a stream as
a user meets it; and what answers in that model. `python -m benchmarks delays NAME …` takes some of the streams.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

import kampong
from benchmarks.contest import REAL, ROWS, stream
from benchmarks.measure import present
from kampong.streaming import learn
from kampong.streaming.history.delays import DELAYS
from kampong.streaming.options import estimator
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

NAMES = ("electricity", "powersupply", "covertype", "RBF drift", "swap 10000", "hyperplane", "SEA", "sine")


def main(shrink: int = 1, sets: Sequence[str] = ()) -> None:
    """Print a line per stream; a large `shrink` takes two short ones."""
    late = "".join(f"{f'late {delay:,}':>13}" for delay in DELAYS)
    saved = "".join(f"{f'next {delay:,}':>13}" for delay in DELAYS if delay > 1)
    titles = ("accuracy", "majority", "last", "kappa", "k. last")
    print(f"{'stream':<14}{'rows':>7}" + "".join(f"{title:>9}" for title in titles) + late + saved + "  saved by")
    for name in NAMES if shrink == 1 else NAMES[3:5]:
        if (sets and name not in sets) or (name in REAL and not present(f"{name}.npz", small=shrink > 1)):
            continue
        X, y = stream(name, rows=ROWS // shrink)
        with tempfile.TemporaryDirectory() as folder:
            found = _learnt(Path(folder), X, y).history.summary()
            saved_at = len(y) // 2
            model = str(Path(folder) / "model")
            half = _learnt(Path(folder), X[:saved_at], y[:saved_at], model).history
            right = kampong.load(model).predict(X[saved_at:]) == y[saved_at:]
        base = found["baselines"]
        cells = (found["accuracy"], base["majority"], base["last_label"], base["kappa"], base["kappa_last_label"])
        print(f"{name:<14}{len(y):>7}" + "".join(f"{value:>9.3f}" for value in cells), end="")
        measured = {one["delay"]: one for one in found["late"]}
        print("".join(f"{_late(measured.get(delay)):>13}" for delay in DELAYS), end="")
        print("".join(f"{_next(right, delay):>13}" for delay in DELAYS if delay > 1), end="")
        print("  all rows" if half.delays.all_rows_answer else "  contest", flush=True)


def _learnt(folder: Path, X: np.ndarray, y: np.ndarray, model: str = "") -> Any:
    """Return a run of the stream tool with its defaults."""
    path = folder / "rows.csv"
    pa.csv.write_csv(pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "label": y}), path)
    return learn(str(path), estimator(), label="label", model_file=model)


def _late(one: dict[str, Any] | None) -> str:
    """Return an accuracy, marked if it is not measured well."""
    return "" if one is None else f"{one['accuracy']:.3f}{' ' if one['standard_error'] < SETTINGS.sure_error else '?'}"


def _next(right: np.ndarray, rows: int) -> str:
    """Return the accuracy on the next rows, if there are this many."""
    return f"{right[:rows].mean():.3f}" if len(right) >= rows else ""
