"""What the tests of the report share: generated streams, hostile names, and the data in a report."""

import json
import re
from collections import deque

import numpy as np

from kampong import InterClassScatter
from kampong.streaming.columns.records import Dead
from kampong.streaming.history.history import History


def run_stream(n_classes, n_batches=30, size=300, *, names=None, seed=0, falls_at=None, dead=0):
    """Yield the model and the history of a generated stream after each batch; class 1 moves onto 0 at `falls_at`."""
    rng = np.random.default_rng(seed)
    names = np.array([f"class {number:03d}" for number in range(n_classes)] if names is None else names)
    centres = 2.0 * rng.normal(size=(n_classes, 12))
    model, history = InterClassScatter(), History()
    for number in range(n_batches):
        codes = rng.integers(n_classes, size=size)
        if falls_at is not None and number == falls_at:
            centres[1] = centres[0]
        X, y = centres[codes] + rng.normal(size=(size, 12)), names[codes]
        predicted = model.predict(X) if number else None
        chances = model.predict_proba(X).max(axis=1) if number else None
        model.partial_fit(X, y)
        letters = [Dead(0, 9, 80, f"column 'x{number}' holds 'a'", "a,b")] * dead
        history.observe(y, predicted, seconds=0.01 * (1 + number % 3), dead=letters, eigenvalues=model.eigenvalues_)
        centre = (model.class_means_ - model.mean_) @ model.components_.T
        history.keep_points(model.transform(X), y, predicted, chances, centres=(model.classes_, centre))
        yield model, history


def last(stream):
    return deque(stream, maxlen=1).pop()


def data_of(path):
    """Return the data in a report."""
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL
    )
    return json.loads(found)


EVIL = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "a\u2028b\u2029c",
    "x" * 256,
    "עברית",
    "\ud800",
]
