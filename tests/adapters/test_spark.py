"""Spark: a fit by mapInArrow is the local fit; skipped where there is no Java or no pyspark."""

import os
import shutil
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine

pytest.importorskip("pyspark", reason="the spark extra is not installed")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java (Debian: default-jre-headless)", allow_module_level=True)

import pandas as pd
import pyarrow as pa
from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginRecursion, MarginSubspace, fit_landmarks
from kampong.adapters import spark as on_spark
from kampong.merging import statistics_of

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning", "ignore::FutureWarning:pyspark")


@pytest.fixture(scope="module")
def session():
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def wine():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def frame(session, X, y, parts=7):
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).assign(
        label=y, weight=np.arange(len(y)) % 3.0
    )
    return session.createDataFrame(table).coalesce(1).repartition(parts).cache()


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_fit_on_spark_is_the_local_fit(session, rounds):
    X, y = wine()
    names = [f"c{j}" for j in range(X.shape[1])]
    rows = frame(session, X, y, parts=10)
    X = pd.DataFrame(X, columns=names)
    local = FisherDiscriminant(ridge=0.1).fit(X, y, sample_weight=np.arange(len(y)) % 3.0)
    found = on_spark.fit(FisherDiscriminant(ridge=0.1), rows, names, "label", "weight", rounds=rounds)
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.predict_proba(X), local.predict_proba(X), rtol=0, atol=1e-10)
    assert found.get_params() == local.get_params()
    assert found.feature_names_in_.tolist() == names


def test_vectors_arrays_strings_and_kernels(session):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    names = np.array([f"digit {label}" for label in y])
    model = MarginSubspace(3, epsilon=0.05)
    local = clone(model).fit(X, names)
    plain = frame(session, X, names, parts=2)
    arrays = plain.select(sql.array(*[f"c{j}" for j in range(64)]).alias("row"), "label")
    dense = arrays.select(array_to_vector("row").alias("row"), "label")
    mixed = [
        (Vectors.sparse(64, np.flatnonzero(x), x[np.flatnonzero(x)]) if number % 3 else Vectors.dense(x), label)
        for number, (x, label) in enumerate(zip(X, names.tolist(), strict=True))
    ]
    sparse_rows = session.createDataFrame(mixed, ["row", "label"]).repartition(2)
    for rows in (arrays, dense, sparse_rows):
        found = on_spark.fit(model, rows, "row")
        np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-9)
        answers = on_spark.transform(found, on_spark.predict(found, rows, "row"), "row").collect()
        assert sorted(answers[0].asDict()) == ["directions", "label", "prediction", "row"]
        got = np.array([one["row"].toArray() if hasattr(one["row"], "toArray") else one["row"] for one in answers])
        assert local.predict(got).tolist() == [one["prediction"] for one in answers]
        np.testing.assert_allclose([one["directions"] for one in answers], local.transform(got), rtol=0, atol=1e-9)
    prepared = fit_landmarks(KernelFisherDiscriminant(landmarks=30), X[::2], names[::2])
    found = on_spark.fit(prepared, arrays, "row")
    np.testing.assert_allclose(found.transform(X), statistics_of(prepared, [(X, names)]).transform(X), atol=1e-8)


def test_a_task_that_throws_once_is_counted_once(session, tmp_path):
    X, y = wine()
    rows, mark = frame(session, X, y, parts=4), str(tmp_path / "thrown")

    def throw_once(batches):
        from pathlib import Path

        yield from batches
        if not Path(mark).exists():
            Path(mark).write_text("once")
            raise RuntimeError("this worker fails once, after all of its rows")

    flaky = rows.mapInArrow(throw_once, rows.schema)
    names = [f"c{j}" for j in range(X.shape[1])]
    found = on_spark.fit(FisherDiscriminant(ridge=0.1), flaky, names)
    assert (tmp_path / "thrown").exists()
    assert found.n_samples_seen_ == len(X)
    X = pd.DataFrame(X, columns=names)
    np.testing.assert_allclose(found.transform(X), FisherDiscriminant(ridge=0.1).fit(X, y).transform(X), atol=1e-10)


def test_files_are_learnt_by_the_session(session, tmp_path):
    from kampong.adapters.engines import learn_files
    from kampong.streaming import Layout
    from kampong.streaming.errors import StreamError

    X, y = wine()
    (tmp_path / "parts").mkdir()
    table = pd.DataFrame(X.round(3), columns=[f"c{j}" for j in range(13)]).assign(kind=y)
    for number in range(10):
        table.iloc[number::10].to_csv(tmp_path / "parts" / f"{number}.csv", index=False)
    with (tmp_path / "parts" / "3.csv").open("a") as file:
        file.write(",".join(["oops"] * 13) + ",1\n")
    options = {"layout": Layout(label="kind"), "model_file": str(tmp_path / "m.kampong")}
    found = learn_files("spark", [str(tmp_path / "parts")], FisherDiscriminant(ridge=0.1), **options)
    local = FisherDiscriminant(ridge=0.1).fit(X.round(3), y)
    np.testing.assert_allclose(found.model.transform(X), local.transform(X), rtol=0, atol=1e-10)
    assert (found.counters.rows, found.counters.dead, found.parts) == (178, 1, 10)
    assert [part["dead"] for part in found.dead] == [1]
    (tmp_path / "m.kampong").unlink()
    with pytest.raises(StreamError, match=r"--engine spark: .*3\.csv: line 20: column 'c0' holds 'oops'"):
        learn_files("spark", [str(tmp_path / "parts")], FisherDiscriminant(ridge=0.1), strict=True, **options)


@pytest.mark.slow
def test_a_thousand_partitions(session):
    X, y = wine()
    X, y = np.tile(X, (12, 1)), np.tile(y, 12)
    names = [f"c{j}" for j in range(13)]
    found = on_spark.fit(FisherDiscriminant(ridge=0.1), frame(session, X, y, parts=1000), names, "label", rounds=2)
    X = pd.DataFrame(X, columns=names)
    np.testing.assert_allclose(found.transform(X), FisherDiscriminant(ridge=0.1).fit(X, y).transform(X), atol=1e-10)


CONNECT = """
import sys, numpy as np, pandas as pd
from pyspark.sql import SparkSession
from sklearn.datasets import load_wine
from kampong import FisherDiscriminant
from kampong.adapters import spark as on_spark
session = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert "connect" in type(session).__module__
X, y = load_wine(return_X_y=True)
table = pd.DataFrame(X, columns=[f"c{j}" for j in range(13)])
frame = session.createDataFrame(table.assign(label=y)).repartition(6)
model = on_spark.fit(FisherDiscriminant(ridge=0.1), frame, table.columns.tolist(), "label")
local = FisherDiscriminant(ridge=0.1).fit(table, y)
np.testing.assert_allclose(model.transform(table), local.transform(table), rtol=0, atol=1e-10)
answers = on_spark.predict(model, frame).toPandas()
assert (answers["prediction"].to_numpy() == local.predict(answers[table.columns])).all()
session.stop()
print("the same on Spark Connect")
"""


@pytest.mark.slow
def test_spark_connect_gives_the_same():
    import subprocess

    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    found = subprocess.run(
        [sys.executable, "-c", CONNECT], env=environment, capture_output=True, text=True, check=False
    )
    assert "the same on Spark Connect" in found.stdout, found.stderr[-2000:]


def test_no_rdd_is_used():
    """Spark Connect has none, nor a SparkContext on the caller's side."""
    from pathlib import Path

    text = Path(on_spark.__file__).read_text(encoding="utf-8")
    assert not any(word in text for word in (".rdd", "sparkContext", "SparkContext("))


def test_what_does_not_fit_is_said(session):
    X, y = wine()
    rows = frame(session, X, y, parts=2).withColumn("word", sql.lit("red"))
    with pytest.raises(TypeError, match="MarginRecursion cannot be learnt in parts"):
        on_spark.fit(MarginRecursion(), rows)
    with pytest.raises(ValueError, match=r"there is no column 'kind'. There are 'c0'"):
        on_spark.fit(FisherDiscriminant(), rows, label="kind")
    with pytest.raises(TypeError, match="the column 'word' holds string, and features are numbers"):
        on_spark.fit(FisherDiscriminant(), rows, weight="weight")
    with pytest.raises(ValueError, match="parts need the same landmarks"):
        on_spark.fit(KernelFisherDiscriminant(), rows, ["c0"])
    model = FisherDiscriminant(ridge=0.1).fit(X, y)
    with pytest.raises(ValueError, match="which columns are the features"):
        on_spark.predict(model, rows)
    with pytest.raises(ValueError, match="there is a column 'weight' already"):
        on_spark.predict(model, rows, [f"c{j}" for j in range(13)], output="weight")


def test_nulls_are_refused():
    from kampong.adapters.spark import _Columns, _labels

    batch = pa.RecordBatch.from_pydict({"c": [1.0, None], "label": ["a", None]})
    with pytest.raises(ValueError, match="the column 'c' holds a null"):
        _Columns("numbers", ("c",)).rows(batch)
    with pytest.raises(ValueError, match="every row needs a label"):
        _labels(batch, "label")
