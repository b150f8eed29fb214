"""
Drift and half-lives
====================

Two classes change places slowly, stand still, and then change places at once. With a half-life old rows count less,
so the model can follow. Which half-life is right changes with the stream; ``half_life="auto"`` needs none: a contest of
learners, weighed by their recent losses, predicts.
"""

import matplotlib.pyplot as plt
import numpy as np

from kampong import FisherDiscriminant

ROWS, BATCH = 6000, 20
rng = np.random.default_rng(0)
time = np.arange(ROWS)
# The angle at which class 1 lies: half a turn in the first third, at rest in the second, a jump of half a turn in the
# last.
angle = np.where(time < 2000, np.pi * time / 2000, np.pi) + np.where(time >= 4000, np.pi, 0)
y = rng.integers(0, 2, ROWS)
towards = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(y == 1, 1.2, -1.2)[:, None]
X = towards + rng.standard_normal((ROWS, 2))

# %%
# Each batch is predicted before it is learnt. Three models are asked: one that keeps everything, one with a half-life
# of 100 rows, and one whose contest weighs learners by how well they did recently.

models = {
    "keep all rows": FisherDiscriminant(ridge="rule"),
    "half-life 100": FisherDiscriminant(ridge="rule", half_life=100),
    'half_life="auto"': FisherDiscriminant(ridge="rule", half_life="auto"),
}
hits = {name: np.zeros(ROWS) for name in models}
shares = []
for start in range(0, ROWS, BATCH):
    rows = slice(start, start + BATCH)
    for name, model in models.items():
        if start:
            hits[name][rows] = model.predict(X[rows]) == y[rows]
        model.partial_fit(X[rows], y[rows])
    weights = models['half_life="auto"'].member_weights_
    shares.append([weights.get(name, 0.0) for name in ("discriminant 0", "softmax 0", "passive_aggressive 1")])
for name, right in hits.items():
    print(f"{name:<18} {right[BATCH:].mean():.3f} right before learning")

# %%

figure, (above, below) = plt.subplots(2, 1, figsize=(9, 6.5), layout="constrained", sharex=True, height_ratios=(2, 1))
for name, right in hits.items():
    above.plot(time[400:], np.convolve(right, np.ones(400) / 400, mode="valid")[: ROWS - 400], label=name)
for place, said in ((0, "classes turn"), (2000, "at rest"), (4000, "one jump")):
    above.axvline(place, color="0.7", linestyle=":")
    above.annotate(said, (place + 60, 0.03), color="0.4")
above.set(ylabel="accuracy, mean of the last 400 rows", ylim=(0, 1), title="a stream that drifts in three ways")
above.legend(loc="lower right")
below.plot(np.arange(0, ROWS, BATCH), shares, label=["all rows equally", "slow steps", "fast steps"])
below.set(xlabel="row", ylabel="weight", title="how much three of the learners count")
below.legend(loc="upper right")
plt.show()
