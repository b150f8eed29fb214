"""Adapters: the core works where none of their engines is installed."""

import subprocess
import sys

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
