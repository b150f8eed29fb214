"""The callbacks of scikit-learn 1.9 and later: each round of a fit is a task, and a callback may end the fit."""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from kampong._linalg import Rows
    from kampong.kernels import KernelRows
    from kampong.margin.core_set import Solution
    from kampong.margin.hull import Hull


class _NoCallbacks:
    """Stands for scikit-learn's mixin where its version has none."""


def _unchanged(method: Any) -> Any:
    return method


try:
    _module: Any = importlib.import_module("sklearn.callback")
except ModuleNotFoundError:
    _module = None
CallbackSupport: Any = getattr(_module, "CallbackSupportMixin", _NoCallbacks)
with_callbacks: Any = getattr(_module, "with_callbacks", _unchanged)


class FitWatcher:
    """Tells the callbacks of a classifier about the rounds of its fit; without callbacks it does nothing.

    Parameters
    ----------
    estimator : MarginClassifier
        The classifier, with its kernel fixed, within `with_callbacks`.
    X : array or sparse matrix
        Its rows.
    y : array
        Their labels.
    hulls : list of Hull
        Its problems.
    rows : KernelRows
        Its kernel values.
    """

    def __init__(self, estimator: Any, X: Rows, y: np.ndarray, hulls: list[Hull], rows: KernelRows) -> None:
        self._estimator, self._data, self._hulls, self._rows = estimator, {"X": X, "y": y}, hulls, rows
        self._fit: Any = None
        self._task: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._fit = estimator._init_callback_context(max_subtasks=None)
            self._fit.call_on_fit_task_begin(estimator=estimator, **self._data)

    def begin(self) -> None:
        """Say that a round begins."""
        if self._fit is not None:
            self._task = self._fit.subcontext(task_name="round")
            self._task.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def end(self, so_far: Callable[[], list[Solution]]) -> bool:
        """Say that a round has ended.

        Parameters
        ----------
        so_far : callable
            Returns the solutions that the fit would end with here; called only if a callback asks for the model.

        Returns
        -------
        bool
            Whether a callback asks for the end of the fit.
        """
        if self._task is None:
            return False

        def attributes() -> dict[str, Any]:
            model = copy.copy(self._estimator)
            model._store(self._data["X"], self._hulls, so_far(), self._rows)
            return dict(vars(model))

        task, self._task = self._task, None
        return bool(
            task.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=attributes, **self._data)
        )

    def finish(self) -> None:
        """Say that the fit has ended; the estimator has its attributes."""
        if self._fit is not None:
            self._fit.call_on_fit_task_end(estimator=self._estimator, reconstruction_attributes=dict, **self._data)
