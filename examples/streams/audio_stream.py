"""
A microphone: spectra in batches
================================

Tones of ten pitches with noise, as spectra of 257 columns, batch after batch. Each batch is judged before it is
learnt. The exact discriminant keeps its statistics and nothing else.
"""

import matplotlib.pyplot as plt
import numpy as np

from kampong import FisherDiscriminant

rng = np.random.default_rng(0)
pitch = rng.integers(0, 10, 2000)
time = np.arange(512) / 8000
waves = np.sin(2 * np.pi * (300 + 60 * pitch[:, None]) * time + rng.uniform(0, 6, (2000, 1)))
X = np.log1p(np.abs(np.fft.rfft(waves + 3 * rng.normal(size=waves.shape), axis=1)))
y = np.array([f"{300 + 60 * k} Hz" for k in range(10)])[pitch]

# %%

model, BATCH, curve = FisherDiscriminant(ridge="rule"), 100, []
for start in range(0, len(X), BATCH):
    sounds, labels = X[start : start + BATCH], y[start : start + BATCH]
    if start:
        curve.append(np.mean(model.predict(sounds) == labels))
    model.partial_fit(sounds, labels)
print(f"all: {np.mean(curve):.3f} right before learning")

# %%
# The directions find the band in which the pitches differ, and leave the noise elsewhere alone.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
left.plot(np.arange(1, len(curve) + 1) * BATCH, curve, "o-")
left.set(xlabel="sounds heard", ylabel="accuracy on the next batch", ylim=(0, 1.02), title="better with every batch")
hertz = np.fft.rfftfreq(512, 1 / 8000)
for number in range(3):
    right.plot(hertz, model.components_[number], label=f"direction {number + 1}")
right.axvspan(300, 840, color="0.9", label="where the tones are")
right.set(xlabel="frequency in Hz", ylabel="weight", xlim=(0, 4000), title="what the directions listen to")
right.legend()
plt.show()
