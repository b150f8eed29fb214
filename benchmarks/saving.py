"""What the check before a save costs: a save runs the checks of loading first, and only then replaces the file."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kampong import FisherDiscriminant
from kampong.datasets import sparse_text
from kampong.files.container import write
from kampong.files.saved_models import pack, try_unpack


def main(shrink: int = 1, tries: int = 15) -> None:
    """Print the medians of saves without and with the check, taken in turn, on a wide scatter and on text."""
    columns, width, rows = 2_000 // shrink, 2**18 // shrink, 4_000 // shrink
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    X = rng.standard_normal((rows, columns)) + y[:, None]
    models: dict[str, Any] = {f"scatter of {columns:,} columns": FisherDiscriminant(ridge=0.1).partial_fit(X, y)}
    words = sparse_text(rows, width, 40, n_classes=4, random_state=0)
    models[f"text of {width:,} columns"] = FisherDiscriminant(ridge=0.1).partial_fit(*words)
    print(f"{'a save, ms':<28} {'MB':>6} {'before':>9} {'with check':>11} {'check alone':>12} {'share':>6}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for name, model in models.items():
            model._before_save()
            took: dict[str, list[float]] = {"before": [], "with": [], "alone": []}
            for _ in range(tries):
                for kind, check in (("before", None), ("with", try_unpack)):
                    start = time.perf_counter()
                    write(path, *pack(model), check=check)
                    took[kind].append(1e3 * (time.perf_counter() - start))
                packed = pack(model)
                start = time.perf_counter()
                try_unpack(*packed)
                took["alone"].append(1e3 * (time.perf_counter() - start))
            before, checked, alone = (median(values) for values in took.values())
            size = path.stat().st_size / 1e6
            print(f"{name:<28} {size:>6.1f} {before:>9.1f} {checked:>11.1f} {alone:>12.1f} {alone / before:>6.0%}")


if __name__ == "__main__":
    main()
