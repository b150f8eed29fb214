"""The callbacks of scikit-learn 1.9 and later: each round of a fit is a task, and a callback may end the fit."""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from kampong._core.compute import Rows

Method = TypeVar("Method", bound="Callable[..., Any]")


def _module() -> Any:
    """Return scikit-learn's module of callbacks, or None where its version has none."""
    try:
        return importlib.import_module("sklearn.callback")
    except ModuleNotFoundError:
        return None


if TYPE_CHECKING:

    class CallbackSupport:
        """Gives an estimator `set_callbacks`."""
else:
    CallbackSupport = getattr(_module(), "CallbackSupportMixin", type("CallbackSupport", (), {}))


def with_callbacks(method: Method) -> Method:
    """Remove the callbacks of an estimator when one of its methods ends, also on an error."""
    module = _module()
    return method if module is None else module.with_callbacks(method)


class FitWatcher:
    """Tells the callbacks of an estimator about the rounds of its fit; without callbacks it does nothing.

    Parameters
    ----------
    estimator : object
        The estimator, within `with_callbacks`.
    X : array or sparse matrix
        Its rows.
    y : array
        Their labels.
    store : callable
        Takes a copy of the estimator and what its fit has found so far, and sets the attributes of the copy.
    name : str
        What a round is called.
    n_rounds : int or None
        How many there will be, if known.
    """

    def __init__(
        self,
        estimator: Any,
        X: Rows,
        y: np.ndarray,
        store: Callable[[Any, Any], None],
        *,
        name: str = "round",
        n_rounds: int | None = None,
    ) -> None:
        self._estimator, self._data, self._store, self._name = estimator, {"X": X, "y": y}, store, name
        self._fit: Any = None
        self._task: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._fit = estimator._init_callback_context(max_subtasks=n_rounds)
            self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)

    def begin(self) -> None:
        """Say that a round begins."""
        if self._fit is not None:
            self._task = self._fit.subcontext(task_name=self._name)
            self._task.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def end(self, so_far: Callable[[], Any]) -> bool:
        """Say that a round has ended.

        Parameters
        ----------
        so_far : callable
            Returns the result if the fit ended here; called only if a callback asks for the model.

        Returns
        -------
        bool
            Whether a callback asks to end the fit.
        """
        if self._task is None:
            return False

        def attributes() -> dict[str, Any]:
            model = copy.copy(self._estimator)
            self._store(model, so_far())
            return dict(vars(model))

        task, self._task = self._task, None
        return bool(
            task.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=attributes, **self._data)
        )

    def finish(self) -> None:
        """Say that the fit has ended; the estimator has its attributes."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=dict, **self._data)
