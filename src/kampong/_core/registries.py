"""Registries of things by name: a new name enters, and a name that is taken is refused."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def enter(registry: dict[str, T], what: str, name: str, new: T, reserved: tuple[str, ...] = ()) -> None:
    """Add something to a registry.

    Parameters
    ----------
    registry : dict
        Everything known so far, by name.
    what : str
        What is added, for the message: "a head".
    name : str
        Its name.
    new : object
        What is added. The same definition may come again, as when a cell of a notebook is run twice.
    reserved : tuple of str
        Names with a meaning of their own.
    """
    known = registry.get(name, new)
    if name in reserved or not name or not (known is new or _same(known, new)):
        taken = [*registry, *(word for word in reserved if word not in registry)]
        raise ValueError(
            f"{what} cannot be named {name!r}; these names are taken: {', '.join(taken)}. Give it another name."
        )
    registry[name] = new


def _same(known: object, new: object) -> bool:
    """Tell whether two things are one definition, run twice: classes, functions, or objects of one class."""
    homes = []
    for thing in (known, new):
        defined: Any = thing if hasattr(thing, "__qualname__") else type(thing)
        homes.append((defined.__module__, defined.__qualname__))
    return homes[0] == homes[1] and homes[0][0] not in ("builtins", "types") and "<lambda>" not in homes[0][1]
