"""The state of a model as named values, and the strict reader that gives it back.

A model gives its state as one dictionary: arrays, plain values, and dictionaries of the same kind for its parts. To
load it, the model asks for each value by name and says what it must be. A value that nobody asked for is an error.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np

from kampong.files.model_errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


Label = bool | int | float | str
T = TypeVar("T")
LARGEST = 2**62
LARGEST_WIDTH = 2**40


def flatten(state: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays of a state and its other values, each under its full name."""
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            more_arrays, more_facts = flatten(value, f"{prefix}{name}.")
            arrays |= more_arrays
            facts |= more_facts
        elif isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            facts[prefix + name] = value
    return arrays, facts


def to_lines(values: Sequence[Label]) -> np.ndarray:
    """Return strings, numbers or booleans as one array of bytes: a line of JSON each, nothing lost."""
    text = "\n".join(json.dumps(value, allow_nan=False) for value in values)
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8)


def as_arrays(state: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return a state as arrays alone: its plain values become one array of JSON."""
    arrays, facts = flatten(state)
    text = json.dumps(facts, allow_nan=False, sort_keys=True).encode("ascii")
    return {**arrays, "facts": np.frombuffer(text, dtype=np.uint8)}


def digest_of(state: Mapping[str, Any]) -> str:
    """Return the SHA-256 digest of a state: equal for states that are equal bit for bit."""
    digest = hashlib.sha256()
    for name, array in sorted(as_arrays(state).items()):
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {array.shape}\n".encode())
        digest.update(little.reshape(-1).data.cast("B") if little.size else b"")
    return digest.hexdigest()


def from_arrays(arrays: Mapping[str, np.ndarray], owner: str) -> Contents:
    """Return the reader of a state that `as_arrays` wrote."""
    try:
        facts = json.loads(np.asarray(arrays["facts"], dtype=np.uint8).tobytes())
    except (KeyError, ValueError, TypeError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise CheckpointError(f"the state of {owner} is not valid: its facts are missing or are not JSON.")
    return Contents({name: array for name, array in arrays.items() if name != "facts"}, facts, owner)


class Contents:
    """Named values. Each must be asked for, and must be of the kind that is asked for.

    Parameters
    ----------
    arrays : mapping of str to array
        The arrays.
    facts : mapping of str to value
        The other values.
    owner : str
        Whose state it is, for the messages.
    trial : bool
        Whether what is read is only checked: then large arrays need not be unpacked.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], owner: str, *, trial: bool = False
    ) -> None:
        self._arrays, self._facts, self.owner, self.trial = dict(arrays), dict(facts), owner, trial

    def __contains__(self, name: str) -> bool:
        """Tell whether there is a value, or a part, of this name."""
        return any(key == name or key.startswith(f"{name}.") for key in (*self._arrays, *self._facts))

    def part(self, name: str) -> Contents:
        """Take a part out: the values whose names begin with its name."""
        start = f"{name}."
        result = Contents({}, {}, f"{self.owner}, {name}", trial=self.trial)
        for mine, theirs in ((self._arrays, result._arrays), (self._facts, result._facts)):
            for key in [key for key in mine if key.startswith(start)]:
                theirs[key.removeprefix(start)] = mine.pop(key)
        return result

    def array(
        self,
        name: str,
        dtype: Any,
        shape: tuple[int | None, ...],
        *,
        finite: bool = True,
        nan: bool = False,
        low: float | None = None,
        high: float | None = None,
    ) -> Any:
        """Take an array of one of some dtypes and of a shape, None for any length; all its entries in [low, high].

        If `finite` is false it may hold infinity, and with `nan` also NaN.
        """
        array = self._take(self._arrays, name, "array")
        dtypes = [np.dtype(item) for item in (dtype if isinstance(dtype, tuple) else (dtype,))]
        if array.dtype not in dtypes:
            self.refuse(f"{name} has dtype {array.dtype}, expected {' or '.join(map(str, dtypes))}")
        fits = len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        if not fits:
            expected = ", ".join("any" if n is None else str(n) for n in shape)
            self.refuse(f"{name} has shape {array.shape}, expected ({expected})")
        if array.size and array.dtype.kind != "b":
            least, most = array.min().item(), array.max().item()  # NaN where any entry is NaN
            good = np.isfinite([least, most]).all() if finite else nan or not np.isnan(least)
            if not good:
                self.refuse(f"{name} holds NaN or infinity")
            if (low is not None and least < low) or (high is not None and most > high):
                self.refuse(f"{name} lies in [{least}, {most}], expected [{low}, {high}]")
        return array

    def expect(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise an error unless there is an array of this shape, before anything of its size is allocated."""
        found = self._arrays[name].shape if name in self._arrays else "missing"
        self.require(found == shape, f"{name} has shape {found}, expected {shape}")

    def lines(self, name: str) -> list[Label]:
        """Take the values that `to_lines` has written."""
        data = self.array(name, np.uint8, (None,))
        try:
            lines = data.tobytes().decode("ascii").split("\n") if data.size else []
            if any(line[:1] not in tuple('"-0123456789tf') for line in lines):
                self.refuse(f"{name} holds something other than strings, numbers and booleans")
            values = [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as error:
            self.refuse(f"{name} is not a list of values ({str(error)[:100]})")
        if any(isinstance(value, float) and not math.isfinite(value) for value in values):
            self.refuse(f"{name} holds a number that is not finite")
        return values

    def whole(self, name: str, *, low: int = 0, high: int = LARGEST) -> int:
        """Take a whole number."""
        value = self._take(self._facts, name, "fact")
        if type(value) is not int or not low <= value <= high:
            self.refuse(f"{name} is {value!r:.100}, expected a whole number in [{low}, {high}]")
        return value

    def version(self, known: int, earliest: int | None = None) -> int:
        """Take the number of the format; refuse any but the one that is known, and those since the earliest that is."""
        value = self.whole("version")
        least = known if earliest is None else earliest
        if not least <= value <= known:
            read = f"format {known}" if least == known else f"formats {least} to {known}"
            raise CheckpointError(
                f"the state of {self.owner} has format {value}, and this version of kampong reads {read}."
            )
        return value

    def look(self, name: str) -> int:
        """Return a whole number that will be asked for later, 0 where there is none."""
        value = self._facts.get(name)
        return value if type(value) is int and 0 <= value <= LARGEST else 0

    def number(self, name: str, *, low: float = -math.inf, high: float = math.inf) -> float:
        """Take a finite number."""
        value = self._take(self._facts, name, "fact")
        if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
            self.refuse(f"{name} is {value!r:.100}, expected a finite number in [{low}, {high}]")
        return float(value)

    def flag(self, name: str) -> bool:
        """Take a boolean."""
        value = self._take(self._facts, name, "fact")
        if type(value) is not bool:
            self.refuse(f"{name} is {value!r:.100}, expected true or false")
        return value

    def word(self, name: str, choices: Sequence[str]) -> str:
        """Take one of a few words."""
        value = self._take(self._facts, name, "fact")
        if type(value) is not str or value not in choices:
            self.refuse(f"{name} is {value!r:.100}, expected one of {', '.join(map(repr, choices))}")
        return value

    def text(self, name: str) -> str:
        """Take a string."""
        value = self._take(self._facts, name, "fact")
        if type(value) is not str:
            self.refuse(f"{name} is {value!r:.100}, expected a string")
        return value

    def digest(self, name: str, digits: int) -> str:
        """Take the hexadecimal digits of a digest."""
        value = self.text(name)
        if len(value) != digits or not set(value) <= set("0123456789abcdef"):
            self.refuse(f"{name} is {value!r:.100}, expected {digits} hexadecimal digits")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """Take strings that `to_lines` has written."""
        values = self.lines(name)
        words = tuple(value for value in values if isinstance(value, str))
        self.require(len(words) == len(values), f"{name} holds something other than strings")
        return words

    def dtype(self, name: str) -> np.dtype[Any]:
        """Take the dtype of labels: booleans, integers, floats, strings or objects."""
        value = self._take(self._facts, name, "fact")
        plain = type(value) is str and value[:1] in ("<", ">", "|", "=") and value[2:].isdecimal() and len(value) < 9
        if value != "|O" and not (plain and value[1] in "biufU"):
            self.refuse(f"{name} is {value!r:.100}, expected the dtype of labels")
        try:
            dtype: np.dtype[Any] = np.dtype(str(value))
        except TypeError:
            self.refuse(f"{name} is {value!r}, which is not a dtype")
        return dtype

    def finish(self) -> None:
        """Raise an error if a value is left that nobody has asked for."""
        left = sorted((*self._arrays, *self._facts))
        if left:
            shown = ", ".join(f"{name!r:.100}" for name in left[:3])
            self.refuse(f"there {'is' if len(left) == 1 else 'are'} {len(left)} more than expected: {shown}")

    def require(self, truth: bool, reason: str) -> None:
        """Raise an error with this reason unless the condition holds."""
        if not truth:
            self.refuse(reason)

    def refuse(self, reason: str) -> NoReturn:
        """Raise the error."""
        raise CheckpointError(f"the state of {self.owner} is not valid: {reason}.")

    def _take(self, values: dict[str, Any], name: str, kind: str) -> Any:
        if name not in values:
            self.refuse(f"the {kind} {name} is missing")
        return values.pop(name)


def record_from(
    contents: Contents, kind: type[T], infinite: tuple[str, ...] = (), **shapes: tuple[int | None, ...]
) -> T:
    """Return a dataclass whose `vars` were written as a state.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.
    kind : type
        A dataclass of float64 arrays, numbers, booleans and strings.
    infinite : tuple of str
        The arrays that may hold infinity; none may hold NaN.
    **shapes : tuple
        The shape of each array.
    """
    readers: dict[str, Callable[[str], Any]] = {
        "int": contents.whole,
        "float": contents.number,
        "bool": contents.flag,
        "str": contents.text,
    }
    values: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        if field.name in shapes:
            values[field.name] = contents.array(
                field.name, np.float64, shapes[field.name], finite=field.name not in infinite
            )
        else:
            values[field.name] = readers[str(field.type)](field.name)
    contents.finish()
    return kind(**values)
