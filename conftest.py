"""Examples in docstrings that need more than Python: those of the Spark adapter get a session, or are left out."""

import importlib.util
import os
import shutil
import sys

import pytest

SPARK = "src/kampong/adapters/spark.py"
MLFLOW = "src/kampong/adapters/mlflow.py"  # importing MLflow warns; tests/adapters/test_mlflow.py runs its examples
collect_ignore = [MLFLOW] if importlib.util.find_spec("pyspark") and shutil.which("java") else [MLFLOW, SPARK]


def pytest_collection_modifyitems(items):
    """Let pyspark warn of what it will."""
    for item in items:
        if str(item.path).endswith(SPARK):
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(autouse=True)
def spark_session(request, doctest_namespace):
    """Give the examples of the Spark adapter a session of two local threads."""
    if not str(request.path).endswith(SPARK):
        yield
        return
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    doctest_namespace["spark"] = session
    yield
    session.stop()
