"""
A pipeline of river
===================

In river rows are dictionaries and come one by one. ``StreamingSubspace`` is a classifier and a transformer there: it
stands at the end of a pipeline, or in the middle of one. Features and classes may come and go.
"""

import matplotlib.pyplot as plt
import numpy as np
from river import datasets, linear_model, metrics, multiclass, preprocessing, tree

from kampong import FisherDiscriminant
from kampong.adapters.river import StreamingSubspace
from kampong.report import draw_classes

# %%
# Four pipelines on the stream of image segments that river brings: each row is predicted before it is learnt.

pipelines = {
    "kampong": preprocessing.StandardScaler() | StreamingSubspace(),
    "kampong, all chosen": preprocessing.StandardScaler() | StreamingSubspace(FisherDiscriminant()),
    "logistic regression": preprocessing.StandardScaler()
    | multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "Hoeffding tree": tree.HoeffdingTreeClassifier(),
}
curves = {name: [] for name in pipelines}
scores = {name: metrics.Accuracy() for name in pipelines}
for x, y in datasets.ImageSegments():
    for name, pipeline in pipelines.items():
        guess = pipeline.predict_one(x)
        if guess is not None:
            scores[name].update(y, guess)
        pipeline.learn_one(x, y)
        curves[name].append(scores[name].get())
for name, score in scores.items():
    print(f"{name:<22} {score}")

# %%
# As a transformer it gives the coordinates of a row, here of all rows at the end.

scaler, subspace = pipelines["kampong"].steps.values()
points, kinds = [], []
for x, y in datasets.ImageSegments():
    points.append(list(subspace.transform_one(scaler.transform_one(x)).values()))
    kinds.append(y)

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
for name, curve in curves.items():
    left.plot(curve, label=name)
left.set(xlabel="row", ylabel="accuracy before learning, so far", ylim=(0.4, 1), title="rows one by one")
left.legend(loc="lower right")
draw_classes(np.array(points), kinds, axes=right, title="seven kinds of image segments")
plt.show()
