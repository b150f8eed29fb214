"""001: "data streams such as streaming multimedia": images and spoken letters, each predicted before it is learnt."""

from __future__ import annotations

import numpy as np

from kampong import FisherDiscriminant
from kampong.recursions import MarginRecursion
from reproduction._result import HOLDS, Finding, Result
from reproduction._sets import whole

TITLE = "Streaming multimedia: images and audio features"
CLAIM = "The algorithms should carry over to streaming multimedia (future work of 001)."
SETS = {"mnist": 20_000, "mit_cbcl_face": 20_000, "isolet": 7797}


def run(quick: bool) -> Result:
    """Return the share of rows predicted right before they were learnt."""
    findings, told = [], []
    for name, limit in SETS.items():
        X, y = whole(name)
        order = np.random.default_rng(0).permutation(len(X))[: limit // (10 if quick else 1)]
        X, y = X[order], y[order]
        p = len(np.unique(y)) - 1
        models = {
            "IIS recursion, nearest mean": MarginRecursion.inter_class(p),
            "FisherDiscriminant, ridge by rule": FisherDiscriminant(ridge="rule"),
        }
        accuracies = []
        for label, model in models.items():
            right = seen = 0
            for start in range(0, len(X), 500):
                rows, labels = X[start : start + 500], y[start : start + 500]
                if start:
                    right, seen = right + int((model.predict(rows) == labels).sum()), seen + len(rows)
                model.partial_fit(rows, labels)
            accuracies.append(right / seen)
            findings.append(Finding(f"{name}: predicted right before learning, {label}", accuracies[-1], None, 0.02))
        told.append(f"{name} {accuracies[0]:.3f} and {accuracies[1]:.3f}")
    sentence = (
        "One pass in batches of 500, every batch predicted first, IIS by nearest mean and Fisher's criterion: "
        f"{'; '.join(told)}. The examples image_stream.py and audio_stream.py do it."
    )
    return Result(HOLDS, sentence, findings)
