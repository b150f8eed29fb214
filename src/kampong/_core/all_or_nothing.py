"""All or nothing: a call that is refused leaves its object unchanged."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kampong._core.locks import lock_of

if TYPE_CHECKING:
    from collections.abc import Callable

Method = TypeVar("Method", bound="Callable[..., Any]")


def whole(method: Method) -> Method:
    """Let a method that raises an error give its object back the attributes it had; a decorator.

    No array is copied: a method sets attributes again, or hands a batch to something that checks all of it before it
    changes (`ClassMeans.update`).

    Parameters
    ----------
    method : callable
        A method that changes its object. It holds the lock of the object while it runs.

    Returns
    -------
    callable
        The method, which changes everything or nothing.
    """

    @wraps(method)
    def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
        with lock_of(self):
            mine = vars(self)
            before = dict(mine)
            try:
                return method(self, *arguments, **named)
            except Exception:
                for name in mine.keys() - before.keys():
                    del mine[name]
                mine.update(before)
                raise

    return cast("Method", guarded)
