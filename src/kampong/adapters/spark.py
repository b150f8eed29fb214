"""The adapter to Spark: estimators fitted and applied where the rows are, by `mapInArrow` (extra `spark`).

    partition → mapInArrow: one row with the bytes of its statistics → merged by eight → merged on the driver

No RDD is used, so it works on Spark Connect too. Spark runs a failed task again from its partition, and counts the
result of one attempt only; so nothing is counted twice.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import sparse

from kampong._core.compute import alone
from kampong._core.extras import extra
from kampong.contract import stream_model
from kampong.estimators.kernel_subspace import KernelSubspace
from kampong.estimators.stream_model import KernelModel
from kampong.merging import FAN_IN, check_mergeable, merge_all, solved_as, statistics_of
from kampong.registry import from_bytes
from kampong.streaming.errors import StreamError

with extra("spark", "kampong.adapters.spark"):
    from kampong.streaming.arrow import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kampong.adapters.engines import FileTask

    Model = TypeVar("Model")

__all__ = ["fit", "predict", "transform"]

STATES = "part long, state binary"
JOINED = "part long, state binary, notes string"


def fit(
    estimator: Model,
    dataframe: Any,
    features: Any = None,
    label: str = "label",
    weight: str | None = None,
    *,
    rounds: int = 1,
) -> Model:
    """Return an estimator fitted on the rows of a Spark dataframe: equal to the local fit of all of them.

    Parameters
    ----------
    estimator : estimator
        A linear subspace, InformationGain, or a kernel subspace with landmarks (see `kampong.fit_landmarks`). It does
        not change.
    dataframe : pyspark.sql.DataFrame
        The rows, of classic Spark or Spark Connect.
    features : str or list of str, optional
        A column of vectors (of pyspark.ml, or arrays of numbers), or the numeric columns; by default all columns but
        label and weight.
    label : str
        The column of the class: integers, strings or booleans.
    weight : str, optional
        The column of weights, whatever their scale; 0 leaves a row out.
    rounds : int
        How often eight states are merged to one on the cluster before the driver merges the rest: 1 for up to a few
        thousand partitions, 0 for few.

    Returns
    -------
    estimator
        A fitted copy, an ordinary one.

    Examples
    --------
    With `spark`, the session:

    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import spark as on_spark
    >>> rows = [(float(i % 7), float(i % 3 + 5 * (i % 2)), i % 2) for i in range(60)]
    >>> frame = spark.createDataFrame(rows, ["length", "width", "label"])
    >>> model = on_spark.fit(FisherDiscriminant(ridge=0.1), frame)
    >>> model.predict([[3.0, 6.0], [3.0, 1.0]])
    array([1, 0])
    """
    model: Any = estimator
    check_mergeable(model)
    columns = _columns(dataframe, features, label, weight)
    if isinstance(model, KernelSubspace) and KernelModel(model).basis is None:
        raise ValueError(
            f"{type(model).__name__}: parts need the same landmarks. Place them on a sample of the rows first, with "
            "kampong.fit_landmarks(model, X, y), and fit what it returns."
        )
    data = statistics_of(model, []).to_bytes(solve=False)
    states = columns.select_from(dataframe, label, weight).mapInArrow(_Learn(data, columns, label, weight), STATES)
    for _ in range(rounds):
        group = (states["part"] / FAN_IN).cast("long")
        states = states.withColumn("group", group).groupBy("group").applyInArrow(_merge_group, STATES)
    rows = _in_order(states)
    result: Any = merge_all(from_bytes(bytes(row["state"])) for row in rows)
    if columns.kind == "numbers":
        result.feature_names_in_ = np.array(columns.names, dtype=object)
    fitted: Model = solved_as(result, model)
    return fitted


def reduce_files(
    task: FileTask,
    learn: Callable[[FileTask, int], tuple[bytes, str]],
    join: Callable[[Sequence[tuple[bytes, str]]], tuple[bytes, str]],
    watch: Callable[[int, int], None] | None = None,
) -> tuple[bytes, str]:
    """Learn files, one a task, and join what came of them by eight, in the session of Spark.

    Parameters
    ----------
    task : FileTask
        What every task is given.
    learn, join : callable
        Those of `kampong.adapters.engines`.
    watch : callable, optional
        Called at the beginning and at the end with the parts done and all parts.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession, functions

    if not {"PYSPARK_PYTHON", "SPARK_REMOTE", "MASTER"} & set(os.environ) and SparkSession.getActiveSession() is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # a session on this machine: its workers need our packages
    builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "FATAL")
    session = builder.getOrCreate()
    say = watch or (lambda done, total: None)
    say(0, task.count)
    states = session.range(0, task.count, 1, task.count).mapInArrow(_LearnFiles(task, learn), JOINED)
    left = task.count
    while left > FAN_IN:
        group = functions.floor(states["part"] / FAN_IN).cast("long")
        states = states.withColumn("group", group).groupBy("group").applyInArrow(_join_files(join), JOINED)
        left = -(-left // FAN_IN)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            return join([(bytes(row["state"]), row["notes"]) for row in _in_order(states)])
    except PySparkException as error:
        raise StreamError(f"--engine spark: {_last_word(str(error))}") from None
    finally:
        say(task.count, task.count)


def _in_order(states: Any) -> Iterator[Any]:
    """Return the states one by one, in the order of their parts; a plain sort would first compute them for a sample."""
    found: Iterator[Any] = states.repartition(1).sortWithinPartitions("part").toLocalIterator()
    return found


def _last_word(text: str) -> str:
    """Return what the exception of a task says, from the report that Spark makes of it."""
    said = [line.strip() for line in text.splitlines() if "Error: " in line]
    return said[-1].partition("Error: ")[2] if said else text[:300]


def predict(model: Any, dataframe: Any, features: Any = None, *, output: str = "prediction") -> Any:
    """Return the dataframe with the class of each row in one more column.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    dataframe : pyspark.sql.DataFrame
        The rows.
    features : str or list of str, optional
        As in `fit`; by default the names that the model has seen.
    output : str
        The name of the new column.

    Returns
    -------
    pyspark.sql.DataFrame
        All columns, and the new one.

    Examples
    --------
    With `spark`, the session:

    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import spark as on_spark
    >>> rows = [(float(i % 7), float(i % 3 + 5 * (i % 2)), i % 2) for i in range(60)]
    >>> frame = spark.createDataFrame(rows, ["length", "width", "label"])
    >>> model = on_spark.fit(FisherDiscriminant(ridge=0.1), frame)
    >>> [row.prediction for row in on_spark.predict(model, frame).limit(2).collect()]
    [0, 1]
    """
    with extra("spark", "kampong.adapters.spark"):
        from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType

    kinds = {"i": LongType(), "u": LongType(), "b": BooleanType(), "f": DoubleType()}
    kind = kinds.get(model.classes_.dtype.kind, StringType())
    return _answered(model, dataframe, features, output, kind, "predict")


def transform(model: Any, dataframe: Any, features: Any = None, *, output: str = "directions") -> Any:
    """Return the dataframe with the coordinates of each row, an array of numbers, in one more column.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    dataframe : pyspark.sql.DataFrame
        The rows.
    features : str or list of str, optional
        As in `fit`; by default the names that the model has seen.
    output : str
        The name of the new column.

    Returns
    -------
    pyspark.sql.DataFrame
        All columns, and the new one.

    Examples
    --------
    With `spark`, the session:

    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import spark as on_spark
    >>> rows = [(float(i % 7), float(i % 3 + 5 * (i % 2)), i % 2) for i in range(60)]
    >>> frame = spark.createDataFrame(rows, ["length", "width", "label"])
    >>> model = on_spark.fit(FisherDiscriminant(ridge=0.1), frame)
    >>> len(on_spark.transform(model, frame).first().directions)
    1
    """
    with extra("spark", "kampong.adapters.spark"):
        from pyspark.sql.types import ArrayType, DoubleType

    return _answered(model, dataframe, features, output, ArrayType(DoubleType()), "transform")


# Columns.


@dataclass(frozen=True)
class _Columns:
    """Which columns are features, and what they hold: "numbers", "arrays" or "vectors"."""

    kind: str
    names: tuple[str, ...]

    def select_from(self, dataframe: Any, *others: str | None) -> Any:
        """Return the dataframe with the features, as Arrow can carry them, and some other columns."""
        from pyspark.sql import functions

        rest = [functions.col(f"`{name}`") for name in others if name is not None]
        return dataframe.select(*(self.expression(name) for name in self.names), *rest)

    def expression(self, name: str) -> Any:
        """Return a feature as Arrow can carry it."""
        from pyspark.sql import functions

        column = functions.col(f"`{name}`")
        return functions.unwrap_udt(column).alias(name) if self.kind == "vectors" else column

    def rows(self, batch: Any) -> Any:
        """Return the features of a batch as rows."""
        if self.kind == "numbers":
            return np.column_stack([_numbers(batch, name) for name in self.names])
        column = batch.column(batch.schema.get_field_index(self.names[0]))
        if column.null_count:
            raise ValueError(f"the column {self.names[0]!r} holds a null. Fill it, or leave the row out.")
        if self.kind == "arrays":
            return _array_rows(column, self.names[0])
        return _vector_rows(column, self.names[0])


def _columns(dataframe: Any, features: Any, *apart: str | None) -> _Columns:
    with extra("spark", "kampong.adapters.spark"):
        from pyspark.sql.types import ArrayType, NumericType, UserDefinedType

    fields = {field.name: field.dataType for field in dataframe.schema.fields}
    for name in apart:
        if name is not None and name not in fields:
            raise ValueError(f"fit: there is no column {name!r}. There are {', '.join(map(repr, [*fields][:12]))}.")
    if features is None:
        features = [name for name in fields if name not in apart]
        features = features[0] if len(features) == 1 else features
    names = (features,) if isinstance(features, str) else tuple(features)
    missing = [name for name in names if name not in fields]
    if missing or not names:
        raise ValueError(f"fit: there is no column {missing}. There are {', '.join(map(repr, [*fields][:12]))}.")
    if len(names) == 1 and isinstance(fields[names[0]], ArrayType):
        return _Columns("arrays", names)
    if len(names) == 1 and isinstance(fields[names[0]], UserDefinedType):
        return _Columns("vectors", names)
    strange = [name for name in names if not isinstance(fields[name], NumericType)]
    if strange:
        raise TypeError(
            f"fit: the column {strange[0]!r} holds {fields[strange[0]].simpleString()}, and features are numbers. "
            "Leave it out of features, or encode it."
        )
    return _Columns("numbers", names)


def _numbers(batch: Any, name: str) -> Any:
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        raise ValueError(f"the column {name!r} holds a null. Fill it, or leave the row out.")
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _array_rows(column: Any, name: str) -> Any:
    lengths = np.diff(column.offsets.to_numpy())
    values = column.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        raise ValueError(
            f"the column {name!r} holds arrays of {lengths.min()} to {lengths.max()} numbers: rows need one width."
        )
    return values.reshape(len(lengths), -1) if len(lengths) else np.zeros((0, 0))


def _vector_rows(column: Any, name: str) -> Any:
    """Return vectors of pyspark.ml: CSR where any is sparse, else dense."""
    kinds, sizes = (column.field(place).to_numpy(zero_copy_only=False) for place in (0, 1))
    indices, values = column.field(2), column.field(3)
    if (kinds == 1).all():
        return _array_rows(values, name)
    parts = []
    for place, kind in enumerate(kinds):
        found = values[place].values.to_numpy()
        where = np.arange(len(found)) if kind == 1 else indices[place].values.to_numpy()
        parts.append((where, found))
    width = int(max(sizes[place] if kind == 0 else len(parts[place][1]) for place, kind in enumerate(kinds)))
    indptr = np.concatenate([[0], np.cumsum([len(found) for _, found in parts])])
    flat = (np.concatenate([part[side] for part in parts]) for side in (1, 0))
    return sparse.csr_array((*flat, indptr), shape=(len(parts), width))


def _labels(batch: Any, name: str) -> Any:
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        raise ValueError(f"the column {name!r} holds a null, and every row needs a label. Leave such rows out.")
    return np.array(column.to_pylist())


# What runs on the cluster.


@dataclass(frozen=True)
class _Learn:
    """Makes one row of a partition: the bytes of its statistics."""

    model: bytes
    columns: _Columns
    label: str
    weight: str | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        with alone():
            learnt = statistics_of(from_bytes(self.model), self._rows(batches), number=number)
            if learnt.__sklearn_is_fitted__():
                state = learnt.to_bytes(solve=False)
                yield pa.RecordBatch.from_pydict(
                    {"part": pa.array([number], pa.int64()), "state": pa.array([state], pa.binary())}
                )

    def _rows(self, batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            if batch.num_rows:
                weights = None if self.weight is None else _numbers(batch, self.weight)
                yield self.columns.rows(batch), _labels(batch, self.label), weights


def _merge_group(group: Any) -> Any:
    """Merge the states of a group, in the order of their parts: Spark gives them in any order."""
    with alone():
        states = group.sort_by("part")["state"].to_pylist()
        merged = merge_all(from_bytes(state) for state in states).to_bytes(solve=False)
    return pa.table({"part": group["group"][:1], "state": pa.array([merged], pa.binary())})


@dataclass(frozen=True)
class _LearnFiles:
    """Learns the files whose numbers come in."""

    task: FileTask
    learn: Callable[[FileTask, int], tuple[bytes, str]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict(_joined(number, *self.learn(self.task, number)))


def _join_files(join: Callable[[Sequence[tuple[bytes, str]]], tuple[bytes, str]]) -> Callable[[Any], Any]:
    """Return what joins the states of a group, in order of parts; Spark counts the arguments of a function."""

    def merged(group: Any) -> Any:
        group = group.sort_by("part")
        items = list(zip(group["state"].to_pylist(), group["notes"].to_pylist(), strict=True))
        return pa.table(_joined(group["group"][0].as_py(), *join(items)))

    return merged


def _joined(number: int, state: bytes, notes: str) -> dict[str, Any]:
    return {
        "part": pa.array([number], pa.int64()),
        "state": pa.array([state], pa.binary()),
        "notes": pa.array([notes], pa.string()),
    }


@dataclass(frozen=True)
class _Answer:
    """Appends the answers of a frozen predictor to every batch."""

    predictor: Any
    columns: _Columns
    what: str
    output: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            with alone():
                rows = self.columns.rows(batch)
                rows = rows.toarray() if not isinstance(rows, np.ndarray) and rows.shape[0] == 0 else rows
                if self.what == "predict":
                    found = pa.array(self.predictor.answers(rows)[1].tolist())
                else:
                    found = pa.array(self.predictor.points(rows).tolist(), pa.list_(pa.float64()))
            keep = [name for name in batch.schema.names if name != _HIDDEN]
            columns = [batch.column(batch.schema.get_field_index(name)) for name in keep]
            yield pa.RecordBatch.from_arrays([*columns, found], names=[*keep, self.output])


_HIDDEN = "__kampong_features"


def _answered(model: Any, dataframe: Any, features: Any, output: str, kind: Any, what: str) -> Any:
    from pyspark.sql.types import StructType

    learnt = stream_model(model)
    frozen = learnt.predictor() if learnt.can.freeze else None
    if frozen is None:
        raise TypeError(
            f"{what}: {type(model).__name__} has no frozen predictor. Give a fitted linear or kernel subspace of two "
            "classes or more."
        )
    if features is None and learnt.read("feature_names_in_") is not None:
        features = model.feature_names_in_.tolist()
    if features is None:
        raise ValueError(f"{what}: which columns are the features? Name them, as in fit.")
    if output in dataframe.columns:
        raise ValueError(f"{what}: there is a column {output!r} already. Give another name as output.")
    columns = _columns(dataframe, features)
    schema = StructType(list(dataframe.schema.fields)).add(output, kind)
    if columns.kind == "vectors":
        dataframe = dataframe.withColumn(_HIDDEN, columns.expression(columns.names[0]))
        columns = _Columns("vectors", (_HIDDEN,))
    return dataframe.mapInArrow(_Answer(frozen, columns, what, output), schema)
