"""The Open Inference Protocol, version 2 over REST: requests of tensors into rows, predictions into tensors.

Rows come as one tensor per column, by name, or as one tensor of all columns. Tensors are JSON; those of a request may
also follow it as bytes, as the clients of Triton send them. Answers are JSON.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kampong._core.version import __version__
from kampong.serving.errors_of_requests import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.serving.served_model import Snapshot
    from kampong.streaming.columns.records import Batch

NUMBERS = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
"""The datatypes of the protocol that hold numbers, as NumPy has them."""

OUTPUTS = ("predicted", "probabilities", "classes", "set")


def server_metadata() -> dict[str, Any]:
    """Return what `GET /v2` answers."""
    return {"name": "kampong", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(snapshot: Snapshot) -> dict[str, Any]:
    """Return what `GET /v2/models/NAME` answers: the columns of the model and what it can say."""
    schema = snapshot.reader.schema
    inputs = [
        {"name": name, "datatype": "FP64" if name in schema.numeric else "BYTES", "shape": [-1]}
        for name in snapshot.reader.columns
    ]
    labels, count = _datatype(snapshot.classes), len(snapshot.classes)
    outputs = [{"name": "predicted", "datatype": labels, "shape": [-1]}]
    if snapshot.has_chances:
        outputs.append({"name": "probabilities", "datatype": "FP64", "shape": [-1, count]})
    outputs.append({"name": "classes", "datatype": labels, "shape": [count]})
    if snapshot.model.read("predict_set") is not None:
        outputs.append({"name": "set", "datatype": "BOOL", "shape": [-1, count]})
    return {
        "name": snapshot.name,
        "versions": [str(snapshot.version)],
        "platform": "kampong",
        "inputs": inputs,
        "outputs": outputs,
    }


def infer(snapshot: Snapshot, body: bytes, header_length: str | None = None) -> tuple[dict[str, Any], int]:
    """Return what `POST /v2/models/NAME/infer` answers, and for how many rows.

    Parameters
    ----------
    snapshot : Snapshot
        The model.
    body : bytes
        The request: JSON, perhaps followed by the bytes of its tensors.
    header_length : str or None
        The bytes of the JSON, as the header Inference-Header-Content-Length says, None if all are.
    """
    request, tail = _request(body, header_length)
    wanted, coverage = _outputs(snapshot, request)
    batch = _batch(snapshot, _tensors(request, tail))
    chances = snapshot.has_chances and "probabilities" in wanted
    found = snapshot.predict(batch, chances=chances, coverage=coverage)
    values = {"predicted": found.labels, "probabilities": found.chances, "classes": snapshot.classes, "set": found.sets}
    answer: dict[str, Any] = {
        "model_name": snapshot.name,
        "model_version": str(snapshot.version),
        "outputs": [_tensor(name, values[name]) for name in wanted if values[name] is not None],
    }
    if "id" in request:
        answer["id"] = request["id"]
    return answer, batch.rows


def _request(body: bytes, header_length: str | None) -> tuple[dict[str, Any], bytes]:
    """Return the request as an object, and the bytes after it."""
    size = len(body)
    if header_length is not None:
        if not (header_length.isascii() and header_length.isdecimal() and int(header_length) <= size):
            raise RefusedError(
                400, f"Inference-Header-Content-Length is {header_length!r:.40}, and the body has {size:,} bytes."
            )
        size = int(header_length)
    try:
        request = msgspec.json.decode(body[:size])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"The body is not JSON: {str(error)[:200]}.") from None
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list) or not request["inputs"]:
        raise RefusedError(400, 'The request is no object with a list of inputs. Send {"inputs": [{…}, …]}.')
    if not isinstance(request.get("id", ""), str):
        raise RefusedError(400, "id is not a text.")
    return request, body[size:]


def _outputs(snapshot: Snapshot, request: dict[str, Any]) -> tuple[list[str], float | None]:
    """Return the names of the outputs that are wanted, and the share of sets that are to be right."""
    asked, parameters = request.get("outputs") or [], request.get("parameters") or {}
    if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
        raise RefusedError(400, "outputs is no list of objects with a name.")
    if not isinstance(parameters, dict):
        raise RefusedError(400, "parameters is no object.")
    names = [one.get("name") for one in asked] or ["predicted", "probabilities"]
    for name in names:
        if name not in OUTPUTS:
            raise RefusedError(400, f"There is no output {name!r:.100}. There are {', '.join(OUTPUTS)}.")
    if "probabilities" in names and asked and not snapshot.has_chances:
        raise RefusedError(400, f"{snapshot.name}: this model has no probabilities. Ask for predicted alone.")
    coverage = parameters.get("set")
    if coverage is not None and (isinstance(coverage, bool) or not isinstance(coverage, int | float)):
        raise RefusedError(400, "The parameter set is no number: it is the share of sets that hold the true class.")
    if "set" in names and coverage is None:
        raise RefusedError(400, 'The output set needs the parameter set, such as {"parameters": {"set": 0.9}}.')
    if coverage is not None and "set" not in names:
        names.append("set")
    return names, None if coverage is None else float(coverage)


def _tensors(request: dict[str, Any], tail: bytes) -> dict[str, np.ndarray | list[Any]]:
    """Return the inputs by name: numbers as arrays of their shape, texts as lists or lists of lists."""
    found: dict[str, Any] = {}
    for one in request["inputs"]:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise RefusedError(400, "An input is no object with a name, a shape, a datatype and data.")
        name, shape, datatype = one["name"], one.get("shape"), one.get("datatype")
        if name in found:
            raise RefusedError(400, f"Two inputs are named {name!r:.100}.")
        if not isinstance(shape, list) or not shape or len(shape) > 2 or not all(_is_size(size) for size in shape):
            raise RefusedError(
                400, f"input {name!r:.100}: shape is {shape!r:.60}; give [rows] for a column, or [rows, columns]."
            )
        if datatype != "BYTES" and datatype not in NUMBERS:
            raise RefusedError(
                400, f"input {name!r:.100}: datatype is {datatype!r:.40}; there are {', '.join(NUMBERS)} and BYTES."
            )
        parameters = one.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is not None:
            if not _is_size(size) or size > len(tail):
                raise RefusedError(
                    400, f"input {name!r:.100}: binary_data_size is {size!r:.40}, and {len(tail):,} bytes are left."
                )
            found[name], tail = _from_bytes(name, tail[:size], shape, datatype), tail[size:]
        else:
            found[name] = _from_json(name, one.get("data"), shape, datatype)
    if tail:
        raise RefusedError(400, f"{len(tail):,} bytes after the last tensor belong to no input.")
    return found


def _from_json(name: str, data: Any, shape: Sequence[int], datatype: str) -> np.ndarray | list[Any]:
    if not isinstance(data, list):
        raise RefusedError(400, f"input {name!r:.100}: data is no list.")
    values = [item for one in data for item in one] if data and isinstance(data[0], list) and _nested(data) else data
    _check_size(name, len(values), shape)
    if datatype == "BYTES":
        if not all(one is None or isinstance(one, str) for one in values):
            raise RefusedError(400, f"input {name!r:.100}: datatype is BYTES, and data holds something else.")
        return _shaped(values, shape)
    kinds = {type(one) for one in values}
    if not kinds <= {int, float, bool, type(None)}:
        raise RefusedError(400, f"input {name!r:.100}: datatype is {datatype}, and data holds something else.")
    try:
        return np.array([math.nan if one is None else one for one in values], dtype=np.float64).reshape(shape)
    except OverflowError:
        raise RefusedError(400, f"input {name!r:.100}: data holds a whole number that is too large.") from None


def _from_bytes(name: str, data: bytes, shape: Sequence[int], datatype: str) -> np.ndarray | list[Any]:
    if datatype != "BYTES":
        kind = np.dtype(NUMBERS[datatype]).newbyteorder("<")
        if len(data) % kind.itemsize:
            raise RefusedError(400, f"input {name!r:.100}: {len(data):,} bytes are no whole number of {datatype}.")
        values = np.frombuffer(data, dtype=kind)
        _check_size(name, len(values), shape)
        return values.astype(np.float64).reshape(shape)
    texts = []
    while data:
        size = int.from_bytes(data[:4], "little")
        if len(data) < 4 + size:
            raise RefusedError(400, f"input {name!r:.100}: its bytes end within a text.")
        try:
            texts.append(data[4 : 4 + size].decode())
        except UnicodeDecodeError:
            raise RefusedError(400, f"input {name!r:.100}: a text is not UTF-8.") from None
        data = data[4 + size :]
    _check_size(name, len(texts), shape)
    return _shaped(texts, shape)


def _batch(snapshot: Snapshot, tensors: dict[str, Any]) -> Batch:
    """Return tensors as rows: those named as the columns, or one for all columns."""
    reader = snapshot.reader
    columns = reader.columns
    if len(tensors) == 1:
        ((name, values),) = tensors.items()
        width = len(values[0]) if len(values) and not np.isscalar(values[0]) and values[0] is not None else 1
        if not (name in columns and len(columns) == 1) and (name not in columns or width > 1):
            if width != len(columns):
                raise RefusedError(
                    400,
                    f"input {name!r:.100}: {width:,} columns, and the model has {len(columns):,}. Send a tensor of all "
                    f"columns, or one for each: {', '.join(columns[:6])}{', …' if len(columns) > 6 else ''}.",
                )
            by_column = values.T if isinstance(values, np.ndarray) else list(map(list, zip(*values, strict=True)))
            tensors = dict(zip(columns, by_column, strict=True))
    found: dict[str, Any] = {}
    for column in columns:
        if column not in tensors:
            raise RefusedError(
                400,
                f"the model needs a tensor named {column!r}, and there are {', '.join(map(repr, list(tensors)[:6]))}. "
                "GET the model's metadata to see all columns.",
            )
        found[column] = _column(column, tensors[column])
    sizes = {name: len(values) for name, values in found.items()}
    rows = next(iter(sizes.values()))
    for name, size in sizes.items():
        if size != rows:
            raise RefusedError(400, f"input {name!r}: {size:,} rows, and input {columns[0]!r} has {rows:,}.")
    if not rows:
        raise RefusedError(400, "The request holds no rows. Send at least one.")
    return reader.encoded(found, rows)


def _column(name: str, values: Any) -> Any:
    """Return the values of one column, which may have come as a matrix of one column."""
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] != 1:
            raise RefusedError(400, f"input {name!r}: {values.shape[1]:,} columns in the tensor of one column.")
        return values.reshape(len(values))
    if values and isinstance(values[0], list):
        if len(values[0]) != 1:
            raise RefusedError(400, f"input {name!r}: {len(values[0]):,} columns in the tensor of one column.")
        return [one[0] for one in values]
    return values


def _tensor(name: str, values: Any) -> dict[str, Any]:
    found = np.asarray(values)
    data = found.ravel().tolist()
    datatype = _datatype(found)
    if datatype == "BYTES":
        data = [str(one) for one in data]
    return {"name": name, "datatype": datatype, "shape": list(found.shape), "data": data}


def _datatype(values: np.ndarray) -> str:
    return {"i": "INT64", "u": "INT64", "f": "FP64", "b": "BOOL"}.get(values.dtype.kind, "BYTES")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**40


def _nested(data: list[Any]) -> bool:
    if not all(isinstance(one, list) for one in data):
        raise RefusedError(400, "data mixes lists with values. Send a list of values, or a list of rows.")
    return True


def _check_size(name: str, found: int, shape: Sequence[int]) -> None:
    if found != math.prod(shape):
        raise RefusedError(400, f"input {name!r:.100}: {found:,} values do not have the shape {list(shape)}.")


def _shaped(values: list[Any], shape: Sequence[int]) -> list[Any]:
    if len(shape) == 1:
        return values
    return [values[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]
