"""Adapters: a fitted model in another library answers as it did here."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine

from kampong import FisherDiscriminant, InterClassScatter, KernelFisherDiscriminant, MarginSubspace
from kampong.adapters.scikit_learn import export


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize(
    "model", [FisherDiscriminant(ridge=0.1), MarginSubspace(1, epsilon=0.1), InterClassScatter(head="nearest_mean")]
)
def test_scikit_learn_answers_the_same(model, load):
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = clone(model).partial_fit(X, y, classes=[*np.unique(y), 99])
    plain = export(model)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X)[:, :-1], atol=1e-9)


def test_a_calibrated_head_predicts_the_same():
    X, y = load_wine(return_X_y=True)
    for head in ("gaussian", "logistic"):
        model = FisherDiscriminant(head=head).fit(X, y)
        np.testing.assert_array_equal(export(model).predict(X), model.predict(X))


def test_names_come_along():
    X, y = load_wine(return_X_y=True, as_frame=True)
    plain = export(FisherDiscriminant(ridge=1.0).fit(X, y))
    assert plain.feature_names_in_.tolist() == X.columns.tolist()
    assert plain.score(X, y) > 0.95


def test_what_is_not_linear_is_named():
    X, y = load_wine(return_X_y=True)
    for model in (
        KernelFisherDiscriminant(landmarks=9).fit(X, y),
        FisherDiscriminant().fit(X, np.eye(3, dtype=int)[y]),
    ):
        needed = r"cannot be written as one set of weights. export takes a fitted linear estimator"
        with pytest.raises(TypeError, match=needed):
            export(model)


ALONE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"river", "dask", "distributed", "pyspark", "pandas"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import kampong
from sklearn.datasets import load_iris

X, y = load_iris(return_X_y=True)
for name in kampong.__all__:
    getattr(kampong, name)
apart = [kampong.statistics_of(kampong.FisherDiscriminant(ridge=0.1), [(X[i::2], y[i::2])], number=i) for i in (0, 1)]
carried = [kampong.from_bytes(model.to_bytes()) for model in apart]
print(kampong.merge_all(carried).score(X, y) > 0.95)
"""


def test_the_core_works_without_any_engine():
    found = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "True", found.stderr
