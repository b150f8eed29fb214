"""
A camera: images one by one
===========================

Frames come as files, one after another; each is judged, then learnt, then forgotten. The papers' own recursion does
this row by row. It keeps no statistics, only its directions, and it says where each frame lay at its own time.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kampong import MarginRecursion

digits = load_digits()
folder = Path(tempfile.mkdtemp())
order = np.random.default_rng(0).permutation(len(digits.images))[:600]
for number, place in enumerate(order):
    np.save(folder / f"{number:04d}-{digits.target[place]}.npy", digits.images[place])

# %%
# The stream: ε is chosen among recursions that run side by side, and ``convergence_`` says how far the directions
# still move.

model = MarginRecursion(9, epsilon="auto")
right, curve, moved = 0, [], []
for seen, path in enumerate(sorted(folder.glob("*.npy"))):
    frame = np.load(path, allow_pickle=False).reshape(1, -1) / 16.0
    label = np.array([int(path.stem.split("-")[1])])
    if seen and len(model.classes_) > 1:
        right += int(model.predict(frame)[0] == label[0])
    model.partial_fit_transform(frame, label)
    curve.append(right / (seen + 1))
    moved.append(model.convergence_)
print(
    f"{right / len(curve):.3f} right before learning, ε = {model.epsilon_:g}, directions moved {model.convergence_:.3f}"
)

# %%
# Each direction is an image too: bright where more ink speaks for one side, dark where it speaks for the other.

figure, panels = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained", width_ratios=(1.6, 1, 1, 1))
panels[0].plot(curve)
panels[0].set(xlabel="frame", ylabel="accuracy before learning", ylim=(0, 1), title="one frame after the other")
for number, axes in enumerate(panels[1:]):
    direction = model.components_[number].reshape(8, 8)
    axes.imshow(direction, cmap="PuOr", vmin=-np.abs(direction).max(), vmax=np.abs(direction).max())
    axes.set(title=f"direction {number + 1}", xticks=[], yticks=[])
plt.show()
