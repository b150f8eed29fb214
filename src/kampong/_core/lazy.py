"""Libraries that are imported for us and that a short command does not use: loaded when a name of theirs is."""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any


class _Waiting(ModuleType):
    """A module that is loaded when a name is asked for that it does not have yet.

    `importlib.util.LazyLoader` loads a module as soon as a second `import` names it.
    """

    def __getattr__(self, name: str) -> Any:
        """Load the module, and return what the name stands for; other threads wait."""
        state = self.__dict__
        other = sys.modules.setdefault(self.__name__, self)
        if other is not self:  # it was forgotten, and imported again
            return getattr(other, name)
        with state["_kampong_lock"]:
            if not state["_kampong_begun"]:  # once: while it is loaded, it may ask for what it has not defined
                state["_kampong_begun"] = True
                spec = state["__spec__"]
                try:
                    spec.loader.exec_module(self)
                except BaseException:
                    state["_kampong_begun"] = False
                    raise
                if self.__class__ is _Waiting:
                    object.__setattr__(self, "__class__", ModuleType)
        if name in state:
            return state[name]
        if "__getattr__" in state:
            return state["__getattr__"](name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def load_when_used(*names: str) -> None:
    """Let each library be loaded when one of its names is first used, even if another one imports it before.

    A library that is loaded already, or not installed, stays as it is. Name a package before its parts, so that they
    do not load it.
    """
    for name in names:
        try:
            spec = None if name in sys.modules else importlib.util.find_spec(name)
        except ModuleNotFoundError:  # the package of a part, or what a finder hides
            continue
        if spec is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        module.__dict__.update(_kampong_lock=threading.RLock(), _kampong_begun=False)
        module.__class__ = _Waiting
        sys.modules[name] = module
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, module)


def forget_unused(*names: str) -> None:
    """Let libraries that wait to be loaded look as if nobody had imported them: some look for them to tell types."""
    for name in names:
        if type(sys.modules.get(name)) is _Waiting:
            del sys.modules[name]
