"""A stream of images: frames come as .npy files, one after another; each is judged, then learnt, then forgotten.

The frames are faces and other things (MIT CBCL) where KAMPONG_DATA has them, else handwritten digits. The papers' own
recursion learns them row by row and says where each frame lay at its own time. Run it with
`python examples/image_stream.py [folder]`.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from kampong.recursions import MarginRecursion

FRAMES = 600


def write_frames(folder: Path) -> str:
    """Write frames as a camera would, `0001-label.npy` and so on, and say what they show."""
    path = Path(os.environ.get("KAMPONG_DATA", "../shared/data")) / "mit_cbcl_face.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as arrays:
            images, labels = arrays["X"].reshape(-1, 19, 19), arrays["y"]
        what = "faces and other things"
    else:
        digits = load_digits()
        images, labels, what = digits.images, digits.target, "handwritten digits"
    order = np.random.default_rng(0).permutation(len(images))[:FRAMES]
    for number, place in enumerate(order):
        np.save(folder / f"{number:04d}-{labels[place]}.npy", images[place])
    return what


def main(folder: Path) -> None:
    frames = folder / "frames"
    frames.mkdir(parents=True, exist_ok=True)
    what = write_frames(frames)
    print(f"{FRAMES} frames of {what}")
    model = MarginRecursion(1 if "faces" in what else 9, epsilon="auto")
    right = seen = 0
    places = []
    start = time.perf_counter()
    for path in sorted(frames.glob("*.npy")):
        frame = np.load(path, allow_pickle=False).reshape(1, -1) / 255.0
        label = np.array([int(path.stem.split("-")[1])])
        if seen and len(model.classes_) > 1:
            right += int(model.predict(frame)[0] == label[0])
        seen += 1
        places.append(model.partial_fit_transform(frame, label)[0, 0])
        if seen in (64, 256, FRAMES):
            told = f"{right / seen:.3f} right before learning, ε = {model.epsilon_:g}, moved {model.convergence_:.3f}"
            print(f"{seen:>5} frames: {told}")
    rate = seen / (time.perf_counter() - start)
    print(f"{rate:,.0f} frames a second; the last frame lay at {places[-1]:+.2f} on the first direction")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-output"))
