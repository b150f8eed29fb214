"""One lock per model: learning and reading wait for each other.

The lock is no attribute of the model, so that models are copied, cloned and pickled as before.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Method = TypeVar("Method", bound="Callable[..., Any]")

_locks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


def lock_of(model: Any) -> Any:
    """Return the lock of a model; the thread that holds it may take it again.

    Parameters
    ----------
    model : object
        Any object that can be referenced weakly, told from others by identity.

    Returns
    -------
    RLock
        The same one for the same object.
    """
    found = _locks.get(model)
    if found is None:
        with _guard:
            found = _locks.setdefault(model, threading.RLock())
    return found


def one_at_a_time(method: Method) -> Method:
    """Let a method hold the lock of its model; a decorator.

    Parameters
    ----------
    method : callable
        A method that changes what is learnt, or that reads more of it than one object.

    Returns
    -------
    callable
        The method, under the lock.
    """

    @wraps(method)
    def locked(self: Any, *arguments: Any, **named: Any) -> Any:
        with lock_of(self):
            return method(self, *arguments, **named)

    return cast("Method", locked)


@contextmanager
def both_locked(one: Any, other: Any) -> Iterator[None]:
    """Hold the locks of two models, taken in an order that two threads cannot cross.

    Parameters
    ----------
    one, other : object
        The models; they may be the same.

    Yields
    ------
    None
        While both are held.
    """
    with ExitStack() as held:
        for model in sorted((one, other), key=id):
            held.enter_context(lock_of(model))
        yield


def _after_fork() -> None:
    """Forget the locks of the parent: whoever held one does not exist in the child."""
    global _guard, _locks
    _guard, _locks = threading.Lock(), weakref.WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
