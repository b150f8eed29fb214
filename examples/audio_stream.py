"""A stream of audio features: spoken letters, speaker after speaker, judged before they are learnt.

The features are isolet's (617 a letter, 150 speakers) where KAMPONG_DATA has them, else spectra of generated tones. The
exact discriminant keeps its statistics and a bounded sample, nothing else. Run it with
`python examples/audio_stream.py`.
"""

import os
from pathlib import Path

import numpy as np

from kampong import FisherDiscriminant

BATCH = 130
"""Five speakers say the alphabet once."""


def spoken() -> tuple[np.ndarray, np.ndarray, str]:
    """Return features, labels, and what they are."""
    path = Path(os.environ.get("KAMPONG_DATA", "../shared/data")) / "isolet.npz"
    rng = np.random.default_rng(0)
    if path.exists():
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(float) * float(arrays["scale"]), arrays["classes"][arrays["y"]]
        what = "spoken letters"
    else:
        pitch = rng.integers(0, 10, 2000)
        time = np.arange(512) / 8000
        waves = np.sin(2 * np.pi * (300 + 60 * pitch[:, None]) * time + rng.uniform(0, 6, (2000, 1)))
        X = np.log1p(np.abs(np.fft.rfft(waves + rng.normal(size=waves.shape), axis=1)))
        y, what = np.array([f"tone {k}" for k in range(10)])[pitch], "generated tones"
    order = rng.permutation(len(X))
    return X[order], y[order], what


def main() -> None:
    X, y, what = spoken()
    print(f"{len(X)} {what}, {X.shape[1]} features, in batches of {BATCH}")
    model = FisherDiscriminant(ridge="rule")
    right = seen = 0
    for start in range(0, len(X), BATCH):
        sounds, labels = X[start : start + BATCH], y[start : start + BATCH]
        if start:
            right, seen = right + int((model.predict(sounds) == labels).sum()), seen + len(labels)
        model.partial_fit(sounds, labels)
        if start and (start // BATCH) & (start // BATCH - 1) == 0:
            heard = start + len(labels)
            print(f"{heard:>6} heard, {len(model.classes_):>3} classes: {right / seen:.3f} right before learning")
    print(f"all: {right / seen:.3f}")


if __name__ == "__main__":
    main()
