"""A word to whoever waits while loops are compiled, which happens once per machine; it imports no compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_waiting: list[Callable[[], None]] = []


def tell_when_compiling(say: Callable[[], None]) -> None:
    """Call `say` once, when this process first compiles a loop of kampong that its cache on disk does not hold."""
    _waiting.append(say)


def compiling(module: str) -> None:
    """Tell those who asked that a loop of a module is compiled now."""
    if module.partition(".")[0] == __name__.partition(".")[0]:
        while _waiting:
            _waiting.pop()()
