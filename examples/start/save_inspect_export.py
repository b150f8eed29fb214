"""
Save, inspect, export
=====================

A model goes to a file without pickle, tells what it is, and leaves for places where kampong is not installed.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

import kampong
from kampong import FisherDiscriminant
from kampong.adapters.onnx import to_onnx
from kampong.report import LoadingsDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
model = FisherDiscriminant().fit(X_train, y_train)

# %%
# Save
# ----
# The file holds what the model remembers and the predictor made from it. A loaded model answers at once, with the
# same bits, and can go on learning.

folder = Path(tempfile.mkdtemp())
path = folder / "wine.kampong"
model.save(path)
again = kampong.load(path)
same = bool((again.predict_proba(X_test) == model.predict_proba(X_test)).all())
print(f"{path.stat().st_size:,} bytes; the same probabilities, bit for bit: {same}")

# %%
# Inspect
# -------
# The command line tells what a file holds. (``kampong inspect wine.kampong`` in a terminal.)

told = subprocess.run(
    [sys.executable, "-m", "kampong", "inspect", str(path)], capture_output=True, text=True, check=True
)
print(told.stdout)

# %%
# A damaged file is refused before anything in it is used.

data = bytearray(path.read_bytes())
data[len(data) // 2] ^= 1
(folder / "damaged.kampong").write_bytes(data)
try:
    kampong.load(folder / "damaged.kampong")
except kampong.CheckpointError as error:
    print(str(error).replace(str(folder), "…"))

# %%
# Export
# ------
# ``to_sklearn`` makes plain scikit-learn of a fitted model, whatever its head. It predicts the same, and needs no
# kampong.

plain = model.to_sklearn()
print("steps:", ", ".join(name for name, _ in plain.steps))
change = np.abs(plain.predict_proba(X_test) - model.predict_proba(X_test)).max()
print(f"the largest difference of a probability is {change:.0e}")

# %%
# ONNX is for places without Python. It takes rows of 32 bits, and gives labels and probabilities.

session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
rows = X_test.to_numpy(np.float32)
labels, probabilities = session.run(None, {session.get_inputs()[0].name: rows})
print(f"labels equal on {np.mean(labels == model.predict(X_test)):.0%} of the test rows")
print(f"the largest difference of a probability is {np.abs(probabilities - model.predict_proba(X_test)).max():.0e}")

# %%
# What is inside
# --------------
# Each direction is a combination of columns. A bar is what one standard deviation of the column adds to the coordinate.

LoadingsDisplay.from_estimator(model, X_train, n_columns=8)
plt.show()
