"""The main use on one page: a labelled stream comes in batches, and a subspace is kept up to date.

Each batch is first predicted from the batches before it, then learnt. So no row is tested after it was learnt
(prequential accuracy). Run it with `python examples/digits_stream.py [folder]`.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from kampong import FisherDiscriminant
from kampong.report import draw_classes

BATCH = 60


def main(folder: Path) -> None:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    model = FisherDiscriminant()
    seen = right = right_since = seen_since = 0
    next_line = 2 * BATCH
    print(f"{len(X)} handwritten digits, {X.shape[1]} features, in batches of {BATCH}")
    print(f"{'rows':>6} {'classes':>8} {'directions':>11} {'accuracy so far':>16} {'since last line':>16}")
    for start in range(0, len(X), BATCH):
        batch, labels = X[start : start + BATCH], y[start : start + BATCH]
        if start:
            hits = int((model.predict(batch) == labels).sum())
            right, right_since = right + hits, right_since + hits
            seen, seen_since = seen + len(batch), seen_since + len(batch)
        model.partial_fit(batch, labels)
        rows = start + len(batch)
        if rows >= next_line or rows == len(X):
            print(
                f"{rows:>6} {len(model.classes_):>8} {len(model.components_):>11} "
                f"{right / seen:>16.3f} {right_since / seen_since:>16.3f}"
            )
            right_since = seen_since = 0
            next_line *= 2
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "digits.png"
    title = f"{len(X)} digits in the first two of {len(model.components_)} directions"
    axes = draw_classes(model.transform(X), y, title=title)
    axes.figure.savefig(picture, dpi=120)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-output"))
