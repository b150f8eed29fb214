"""Models to and from files: the registered classes, their parameters, and the state that each class writes itself."""

from __future__ import annotations

import inspect
import math
import numbers
import types
import typing
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import sklearn
from sklearn.base import BaseEstimator

from kampong._core.lazy import forget_unused
from kampong._core.locks import lock_of, whole
from kampong._core.version import __version__
from kampong.files.container import IN_MEMORY, RESTORE, TOO_LARGE, decode, encode, read, write
from kampong.files.contents import LARGEST_WIDTH, Contents, flatten, to_lines
from kampong.files.model_errors import CheckpointError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from kampong.files.signing import Key

forget_unused("pandas")  # else scikit-learn's check of any rows loads it: narwhals takes what is imported for used

Kind = TypeVar("Kind", bound="type[Any]")

CLASSES: dict[str, type[Any]] = {}
"""The classes that a file may name: only those that have been registered."""

PREFIX = "model."
LEARNT = "learnt."
GIVEN = "given."


def savable(kind: Kind) -> Kind:
    """Register a class of estimators, so that files of it can be loaded; a class decorator.

    Parameters
    ----------
    kind : type
        A subclass of `Savable`. Of two classes of one name, the later one counts.
    """
    CLASSES[kind.__name__] = kind
    return kind


class Savable(BaseEstimator):
    """Base of all estimators: parameters are set all or none, and `save` writes the state of `_to_state` to a file."""

    @whole
    def set_params(self, **params: Any) -> Self:
        """Set parameters; where one of them is unknown, none is set.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        object
            This estimator.
        """
        parent: Any = super()
        parent.set_params(**params)
        return self

    def save(self, path: str | os.PathLike[str], *, key: Key = None) -> None:
        """Save this model, fitted or not, to a file that `kampong.load` gives back bit for bit.

        No pickle: arrays and plain values under a digest, written whole or not at all, after the checks that `load`
        makes: what could not be loaded is not written, and an earlier file stays. The parameters, what was learnt,
        the feature names and the output container are saved; requests of metadata routing are not.

        Parameters
        ----------
        path : str or path
            The file; an existing one is replaced.
        key : bytes, str or path, optional
            The key that signs the file, or the file that holds it. `kampong.load` then wants the same key.
        """
        save(self, path, key=key)

    def to_bytes(self, *, solve: bool = True, key: Key = None) -> bytes:
        """Return this model, fitted or not, as bytes that `kampong.from_bytes` gives back bit for bit.

        They are the content of the file that `save` writes: arrays and plain values under a digest, no pickle.

        Parameters
        ----------
        solve : bool
            Whether to solve first, so that the model read back answers at once. False is for what is merged next.
        key : bytes, str or path, optional
            The key that signs the bytes, or the file that holds it. `kampong.from_bytes` then wants the same key.

        Returns
        -------
        bytes
            Equal models give equal bytes.
        """
        return to_bytes(self, solve=solve, key=key)

    def _before_save(self) -> None:
        """Compute what is needed for the first answer, so that a loaded model need not."""

    def _to_state(self) -> dict[str, Any] | None:
        """Return what was learnt: arrays, plain finite values, and dictionaries of both; None if nothing was learnt."""
        raise NotImplementedError

    def _from_state(self, contents: Contents) -> None:
        """Take back what `_to_state` returned: ask for every value by name; `n_features_in_` is known."""
        raise NotImplementedError


def save(model: Any, path: str | os.PathLike[str], *, key: Key = None) -> None:
    """Save a model, fitted or not, to a file that `load` gives back bit for bit.

    Parameters
    ----------
    model : estimator
        Any estimator of this library.
    path : str or path
        The file; an existing one is replaced.
    key : bytes, str or path, optional
        The key that signs the file, or the file that holds it.
    """
    with lock_of(model):
        if isinstance(model, Savable):
            model._before_save()
        arrays, facts = pack(model)
    write(path, arrays, facts, key=key, check=try_unpack)


def to_bytes(model: Any, *, solve: bool = True, key: Key = None) -> bytes:
    """Return a model, fitted or not, as the bytes of the file that `save` would write.

    Parameters
    ----------
    model : estimator
        Any estimator of this library.
    solve : bool
        Whether to solve first, so that the model read back answers at once.
    key : bytes, str or path, optional
        The key that signs the bytes, or the file that holds it.

    Returns
    -------
    bytes
        What `from_bytes` takes.
    """
    with lock_of(model):
        if solve and isinstance(model, Savable):
            model._before_save()
        packed = pack(model)
    return encode(*packed, key=key, check=try_unpack)


def from_bytes(data: bytes, *, key: Key = None) -> Any:
    """Return the model in bytes that `to_bytes` has made; nothing in them is run, and every byte is verified.

    Parameters
    ----------
    data : bytes
        What `model.to_bytes()` has returned, or the content of a file that `model.save` has written.
    key : bytes, str or path, optional
        The key that they were signed with, or the file that holds it. Signed bytes are refused without their key, and
        with a key all others are refused.

    Returns
    -------
    estimator
        It transforms, predicts and goes on learning exactly as the one that was written.

    Examples
    --------
    >>> import kampong
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = kampong.InterClassScatter().fit(X, y)
    >>> (kampong.from_bytes(model.to_bytes()).transform(X) == model.transform(X)).all()
    np.True_
    """
    arrays, facts = decode(data, key=key)
    try:
        return unpack(arrays, facts)
    except CheckpointError as error:
        raise CheckpointError(f"{IN_MEMORY}: {error}") from None


def load(path: str | os.PathLike[str], *, key: Key = None) -> Any:
    """Return the model that a file holds; nothing in the file is run, and every byte is verified.

    Parameters
    ----------
    path : str or path
        A file that `save`, or a stream, has written.
    key : bytes, str or path, optional
        The key that the file was signed with, or the file that holds it. A signed file is refused without its key, and
        with a key all other files are refused.

    Returns
    -------
    estimator
        It transforms, predicts and goes on learning exactly as the one that was saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import kampong
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = kampong.InterClassScatter().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "iris.kampong"
    ...     model.save(path)
    ...     loaded = kampong.load(path)
    >>> (loaded.transform(X) == model.transform(X)).all()
    np.True_
    """
    arrays, facts = read(path, key=key)
    try:
        return unpack(arrays, facts)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def pack(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return a model as arrays and facts, for `write`; other arrays and facts may be added."""
    name = type(model).__name__
    if CLASSES.get(name) is not type(model):
        raise CheckpointError(
            f"a {name} cannot be saved: a checkpoint holds one of {', '.join(sorted(CLASSES))}. Register a class of "
            "your own with the decorator kampong.files.savable."
        )
    kinds = _kinds(type(model))
    given = {key: _as_matrix(value) for key, value in model.get_params(deep=False).items()}
    parameters = {key: _encode(name, key, value, kinds[key]) for key, value in given.items()}
    common: dict[str, Any] = {GIVEN[:-1]: {key: value for key, value in given.items() if parameters[key] == MATRIX}}
    if hasattr(model, "n_features_in_"):
        common["n_features_in_"] = int(model.n_features_in_)
    if hasattr(model, "feature_names_in_"):
        common["feature_names_in_"] = to_lines(model.feature_names_in_.tolist())
    learnt = model._to_state()
    arrays, state = flatten(common if learnt is None else {**common, LEARNT[:-1]: learnt})
    facts = {"class": name, "parameters": parameters, "fitted": learnt is not None, "state": state}
    output = getattr(model, "_sklearn_output_config", {}).get("transform")
    if output is not None:
        facts["output"] = output
    versions = {"kampong": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    return {PREFIX + key: array for key, array in arrays.items()}, {"model": facts, "versions": versions}


def unpack(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> Any:
    """Return the model in what `pack` has returned, or in what `read` has read.

    Parameters
    ----------
    arrays : mapping of str to array
        Those whose names begin with "model." belong to the model; others are allowed only if there are other facts.
    facts : mapping of str to JSON
        The facts "model" and "versions", and those of others.
    """
    try:
        return _unpack(arrays, facts)
    except CheckpointError as error:
        raise CheckpointError(f"{error} {advice(facts)}") from None


def try_unpack(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> Any:
    """Return a model that has passed every check of `unpack`, for comparisons only; what is large is not unpacked."""
    return _unpack(arrays, facts, trial=True)


def _unpack(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], *, trial: bool = False) -> Any:
    known = facts.get("model")
    if not isinstance(known, dict) or not isinstance(facts.get("versions"), dict):
        raise CheckpointError("this checkpoint holds no model.")
    unknown = [name for name in arrays if not name.startswith(PREFIX)]
    if unknown and set(facts) == {"model", "versions"}:
        raise CheckpointError(f"this checkpoint holds the array {unknown[0]!r:.100}, which is not the model's.")
    if set(known) - {"output"} != {"class", "parameters", "fitted", "state"}:
        raise CheckpointError(f"the model is described by {sorted(known)}, which is not what a model needs.")
    name = known["class"]
    if not isinstance(name, str) or name not in CLASSES:
        raise CheckpointError(f"the class {name!r:.100} is not one of {', '.join(sorted(CLASSES))}.")
    if not isinstance(known["state"], dict):
        raise CheckpointError(f"the state of {name} is {known['state']!r:.100}.")
    mine = {key.removeprefix(PREFIX): array for key, array in arrays.items() if key.startswith(PREFIX)}
    contents = Contents(mine, known["state"], name, trial=trial)
    model = CLASSES[name](**_parameters(name, known["parameters"], contents.part(GIVEN[:-1])))
    if "output" in known:
        if known["output"] not in ("default", "pandas", "polars") or not hasattr(model, "set_output"):
            raise CheckpointError(f"{name} cannot return its output as {known['output']!r:.100}.")
        model.set_output(transform=known["output"])
    _restore(model, contents, known["fitted"])
    return model


def _restore(model: Any, contents: Contents, fitted: Any) -> None:
    """Give a new model its state."""
    if type(fitted) is not bool:
        contents.refuse(f"fitted is {fitted!r:.100}")
    if "n_features_in_" in contents:
        model.n_features_in_ = contents.whole("n_features_in_", low=1, high=LARGEST_WIDTH)
    if "feature_names_in_" in contents:
        names = contents.lines("feature_names_in_")
        if len(names) != getattr(model, "n_features_in_", None) or any(type(name) is not str for name in names):
            contents.refuse(f"there are {len(names)} feature names, or some are not strings")
        model.feature_names_in_ = np.array(names, dtype=object)
    if fitted:
        if not hasattr(model, "n_features_in_"):
            contents.refuse("the fact n_features_in_ is missing")
        learnt = contents.part(LEARNT[:-1])
        learnt.owner = contents.owner
        try:
            model._from_state(learnt)
        except CheckpointError:
            raise
        except (ValueError, TypeError) as error:
            contents.refuse(str(error))
        except MemoryError:
            contents.refuse(f"it does not fit into memory. {TOO_LARGE}")
        learnt.finish()
    contents.finish()


def advice(facts: Mapping[str, Any]) -> str:
    """Say what to do about a file whose state is not valid."""
    versions = facts.get("versions")
    written, here = versions.get("kampong") if isinstance(versions, dict) else None, __version__
    if isinstance(written, str) and written != here:
        return f"It was written by kampong {written:.40}, and this is {here}: load it with that version, or fit again."
    return RESTORE


# Parameters.

MATRIX = {"array": 2}
"""What stands for a parameter that is a matrix, such as landmarks; its entries are among the arrays."""

MOST_NUMBERS = 10_000
"""The longest list of numbers that a parameter of a file may be."""


def _kinds(kind: type) -> dict[str, set[str]]:
    """Return what each parameter of a constructor may be: a text, a number, None, or any plain value."""
    found = {}
    for name, parameter in inspect.signature(kind, eval_str=True).parameters.items():
        hint = parameter.annotation
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        found[name] = set().union(*(_kind_of_hint(option) for option in options))
    return found


def _kind_of_hint(hint: Any) -> set[str]:
    if hint is str:
        return {"text"}
    if hint in (int, float, bool):
        return {"number"}
    if hint is type(None):
        return {"nothing"}
    return {"text", "number", "nothing", "other"}


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    return "text" if isinstance(value, str) else "number" if isinstance(value, numbers.Real) else "other"


def _as_matrix(value: Any) -> Any:
    """Return rows of real numbers, an array or nested lists, as float32 or float64; any other value as it is."""
    rows = (
        isinstance(value, list | tuple) and value and all(isinstance(row, list | tuple | np.ndarray) for row in value)
    )
    try:
        matrix = np.asarray(value) if rows else value
    except ValueError:  # rows of several lengths
        return value
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        return value
    matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
    return matrix if np.isfinite(matrix).all() else value


def _encode(owner: str, name: str, value: Any, kinds: set[str]) -> Any:
    """Return a parameter as JSON."""
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind == "f" and np.isfinite(value).all():
        return MATRIX
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if _kind_of(value) in kinds:
        if isinstance(value, list | tuple) and value and all(isinstance(item, numbers.Real) for item in value):
            return {"numbers": [_encode(owner, name, float(item), {"number"}) for item in value]}
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return value
        if type(value) is float:
            return {"float": repr(value)}
        if isinstance(value, np.random.RandomState):
            state: Any = value.get_state(legacy=False)
            if state["bit_generator"] == "MT19937":
                key, position = state["state"]["key"].tolist(), int(state["state"]["pos"])
                return {"random_state": [key, position, int(state["has_gauss"]), float(state["gauss"])]}
    what = "a function, and a checkpoint holds no code" if callable(value) else f"a {type(value).__name__}"
    raise CheckpointError(
        f"{owner} cannot be saved: its parameter {name}={value!r:.100} is {what}. Set it to a plain value, such as a "
        "number or a name, with set_params."
    )


def _parameters(owner: str, values: Any, given: Contents) -> dict[str, Any]:
    """Return the parameters in a file; one that the file does not name gets its default."""
    kinds = _kinds(CLASSES[owner])
    if not isinstance(values, dict) or not set(values) <= set(kinds):
        unknown = sorted(set(values) - set(kinds))[:3] if isinstance(values, dict) else values
        raise CheckpointError(f"{owner} has no parameters {unknown!r:.100}.")
    matrices = {name: value for name, value in values.items() if value == MATRIX and "other" in kinds[name]}
    found = {name: _decode(owner, name, value, kinds[name]) for name, value in values.items() if name not in matrices}
    found |= {name: given.array(name, (np.float32, np.float64), (None, None)) for name in matrices}
    given.finish()
    return found


def _decode(owner: str, name: str, value: Any, kinds: set[str]) -> Any:
    found = value
    if isinstance(value, dict) and set(value) == {"float"} and value["float"] in ("inf", "-inf", "nan"):
        found = float(value["float"])
    elif isinstance(value, dict) and set(value) == {"random_state"}:
        found = _random_state(value["random_state"])
    elif isinstance(value, dict) and set(value) == {"numbers"} and isinstance(value["numbers"], list):
        found = tuple(_decode(owner, name, item, {"number"}) for item in value["numbers"][:MOST_NUMBERS])
    if isinstance(found, dict | list) or _kind_of(found) not in kinds:
        raise CheckpointError(f"{owner}: the parameter {name} cannot be {value!r:.100}.")
    return found


def _random_state(value: Any) -> np.random.RandomState | dict[str, Any]:
    shape = [type(item) for item in value] if isinstance(value, list) else []
    if shape not in ([list, int, int, float], [list, int, int, int]):
        return {}
    key, position, has_gauss, gauss = value
    whole = len(key) == 624 and all(type(word) is int and 0 <= word < 2**32 for word in key)
    if not whole or not 0 <= position <= 624 or has_gauss not in (0, 1):
        return {}
    generator = np.random.RandomState()
    generator.set_state(("MT19937", np.array(key, dtype=np.uint32), position, has_gauss, float(gauss)))
    return generator
