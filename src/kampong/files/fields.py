"""The fields of a state, declared once: what is written to a file, how it is checked, and where it goes back.

A class lists its fields. Each names an attribute, the sizes of its axes in words, and the bounds of its entries.
`written` and `read` follow from the list; a law between several fields is checked by the class afterwards. In the
file a field has the name of its attribute without a leading underscore.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kampong.files.contents import Contents

Bound: TypeAlias = "float | Callable[[Mapping[str, int]], float] | None"
"""A number, or a function of the sizes; None for no bound."""


@dataclass(frozen=True)
class Field:
    """One attribute of a state.

    Attributes
    ----------
    attribute : str
        Where the value is kept.
    kind : object
        The dtype of an array, or several; int, float, bool or str for a plain value.
    axes : tuple of str or None
        The size of each axis: a name, a number, or a sum of both such as "1+classes". None for a plain value.
    low, high : number, callable or None
        The bounds of the entries, which may depend on the sizes.
    finite : bool
        Whether entries must be finite; if not, infinity is allowed and NaN is not.
    """

    attribute: str
    kind: Any
    axes: tuple[str, ...] | None
    low: Bound = None
    high: Bound = None
    finite: bool = True

    @property
    def name(self) -> str:
        """Return the name in the file."""
        return self.attribute.removeprefix("_")

    def zeros(self, sizes: Mapping[str, int]) -> np.ndarray:
        """Return an array of the declared shape and dtype, all zero."""
        return np.zeros(self.shape(sizes), dtype=self.kind)

    def grown(self, values: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
        """Return an array of the declared shape that begins with the given values along each axis, and then zeros."""
        result = self.zeros(sizes)
        result[tuple(slice(n) for n in values.shape)] = values
        return result

    def shape(self, sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """Return the shape; None for an axis whose size is not known yet."""
        return tuple(_size(axis, sizes) for axis in self.axes or ())


def array(
    attribute: str, *axes: str, dtype: Any = np.float64, low: Bound = None, high: Bound = None, finite: bool = True
) -> Field:
    """Declare an array with one name of a size for each axis."""
    return Field(attribute, dtype, axes, low, high, finite)


def plain(attribute: str, kind: type, low: Bound = None, high: Bound = None) -> Field:
    """Declare a whole number (int), a finite number (float), a boolean (bool) or a text (str)."""
    return Field(attribute, kind, None, low, high)


def written(
    fields: Iterable[Field], owner: Any, sizes: Mapping[str, int] | None = None, prefix: str = ""
) -> dict[str, Any]:
    """Return the fields of an object as a state that shares nothing with it; each name begins with the prefix.

    Where an array has room for more than the sizes that are given, the rest is left out.
    """
    state = {}
    for field in fields:
        value = getattr(owner, field.attribute)
        if field.axes is not None:
            value = value[tuple(slice(size) for size in field.shape(sizes or {}))]
            value = np.array(value, order="K")  # a copy, stored by columns where the array is
        state[prefix + field.name] = value
    return state


def read(fields: Iterable[Field], contents: Contents, sizes: dict[str, int], prefix: str = "") -> dict[str, Any]:
    """Take fields out of a state, each checked, and return them by attribute: what `vars(owner).update` takes.

    A size that is not given is that of the first array that has it, and is added to `sizes`.
    """
    found: dict[str, Any] = {}
    plain_values: dict[Any, Callable[..., Any]]
    plain_values = {int: contents.whole, float: contents.number, bool: contents.flag, str: contents.text}
    for field in fields:
        name, low, high = prefix + field.name, _bound(field.low, sizes), _bound(field.high, sizes)
        if field.axes is None:
            bounds = {key: value for key, value in (("low", low), ("high", high)) if value is not None}
            found[field.attribute] = plain_values[field.kind](name, **bounds)
            continue
        shape = field.shape(sizes)
        values = contents.array(name, field.kind, shape, finite=field.finite, low=low, high=high)
        sizes |= {axis: n for axis, n, known in zip(field.axes, values.shape, shape, strict=True) if known is None}
        found[field.attribute] = values
    return found


def _size(axis: str, sizes: Mapping[str, int]) -> int | None:
    parts = [int(part) if part.isdecimal() else sizes.get(part) for part in axis.split("+")]
    return None if None in parts else sum(part for part in parts if part is not None)


def _bound(bound: Bound, sizes: Mapping[str, int]) -> Any:
    return bound(sizes) if callable(bound) else bound
