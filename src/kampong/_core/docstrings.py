"""Docstrings of classes that say only how a class differs from another one; the rest is copied from there."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = TypeVar("Kind", bound=type)

ORDER = ("", "Parameters", "Attributes", "See Also", "Notes", "References", "Examples")
HEADING = re.compile(r"^    ([A-Z][A-Za-z ]+)\n    -{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^    (?=\w)", re.MULTILINE)


def described_like(model: type) -> Callable[[Kind], Kind]:
    """Complete the docstring of a class with what another one says of the same parameters and attributes.

    Parameters
    ----------
    model : class
        A class with a complete docstring. From it come the parameters that the constructor of the decorated class has
        too, the attributes that this class has too, and the notes; each unless the decorated class describes its own.

    Returns
    -------
    callable
        The decorator. It returns the class itself.
    """

    def complete(kind: Kind) -> Kind:
        if kind.__doc__ and model.__doc__:  # python -OO leaves no docstrings
            kind.__doc__ = _completed(kind, _sections(kind.__doc__), _sections(model.__doc__))
        return kind

    return complete


def _completed(kind: type, own: dict[str, str], shared: dict[str, str]) -> str:
    """Return the docstring of a class from its own sections and those of another one."""
    known = _entries(shared["Parameters"]) | _entries(own.get("Parameters", ""))
    parameters = [known[name] for name in inspect.signature(kind).parameters if name in known]
    has = set(dir(kind)).union(*(vars(one).get("__annotations__", ()) for one in kind.__mro__))
    theirs = {name: text for name, text in _entries(shared["Attributes"]).items() if name in has}
    attributes = theirs | _entries(own.get("Attributes", ""))
    parts = {"Notes": shared.get("Notes", "")} | own
    parts |= {"Parameters": "".join(parameters), "Attributes": "".join(attributes.values())}
    return (
        "\n\n".join(
            (f"    {name}\n    {'-' * len(name)}\n" if name else "") + parts[name].rstrip()
            for name in ORDER
            if parts.get(name)
        )
        + "\n    "
    )


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their headings, "" for what stands before the first."""
    pieces = HEADING.split(text)
    return {"": pieces[0]} | dict(zip(pieces[1::2], pieces[2::2], strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the first name of each."""
    entries = [f"    {entry.rstrip()}\n" for entry in ENTRY.split(section) if entry.strip()]
    return {re.split(r"[ ,]", entry.strip(), maxsplit=1)[0]: entry for entry in entries}
