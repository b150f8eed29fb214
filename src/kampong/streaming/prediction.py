"""What predicts during a stream: a frozen predictor, renewed on a schedule, or a model that is always current."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from kampong._runtime.compute import Float, Rows
    from kampong.subspace.predictor import Predictor

PACES = {
    (True, False): (64, 0.25, 16_384),
    (True, True): (64, 3.0, 500_000),
    (False, False): (1024, 3.0, 100_000),
    (False, True): (2048, 7.0, 2_000_000),
}
"""By whether a scatter fits and whether a parameter is chosen: rows of the first predictor, by what part they must have
grown for the next, and the most rows between two."""


class Answers(NamedTuple):
    """What is said of some rows before they are learnt; None where a model has no such answer, or none yet."""

    points: Float | None = None
    labels: np.ndarray | None = None


def answer(model: Any, predictor: Predictor | None, X: Rows) -> Answers:
    """Return the coordinates and the predicted labels of rows.

    Parameters
    ----------
    model : estimator
        The model of the stream.
    predictor : Predictor or None
        What predicts, where the model can be frozen.
    X : array or sparse matrix
        The rows.

    Returns
    -------
    Answers
        A model that cannot be frozen has no solution apart from its state: it answers by itself.
    """
    if predictor is not None:
        return Answers(*predictor.answers(X))
    classes = known_classes(model)
    if hasattr(model, "freeze") or (classes is not None and len(classes) < 2):
        return Answers()
    projected: Any = model.transform(X) if hasattr(model, "transform") else None
    labels = model.predict(X) if hasattr(model, "predict") else None
    return Answers(projected if isinstance(projected, np.ndarray) else None, labels)


def is_fitted(model: Any) -> bool:
    """Tell whether a model has learnt anything."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def known_classes(model: Any) -> list[Any] | None:
    """Return the classes that a model knows; None for a model that learns without labels."""
    try:
        return list(model.classes_.tolist())
    except NotFittedError:
        return []
    except AttributeError:
        return None


def eigenvalues_of(model: Any, predictor: Predictor | None) -> list[float]:
    """Return what each direction adds to the criterion, where there are directions."""
    if predictor is not None:
        return list(predictor.eigenvalues.tolist())
    if hasattr(model, "freeze"):
        return []
    return list(getattr(model, "eigenvalues_", np.empty(0)).tolist())


def epsilon_of(predictor: Predictor | None) -> float | None:
    """Return the ε in use, None for a criterion that has none."""
    if predictor is None or predictor.criterion.parameter != "epsilon":
        return None
    return predictor.criterion.value


def learn_batch(model: Any, X: Rows, y: np.ndarray, declared: tuple[Any, ...]) -> None:
    """Have a model learn a batch; the classes that may come are told to one that asks for them."""
    takes = inspect.signature(model.partial_fit).parameters
    if "classes" in takes:
        model.partial_fit(X, y, classes=list(declared) or None)
    else:
        model.partial_fit(X, y)


def is_due(model: Any, predictor: Predictor | None, rows: int) -> bool:
    """Tell whether the predictor should be renewed: when the rows have grown by a part at first, then at a fixed pace.

    The pace keeps solving cheaper than learning. A parameter that is chosen by the data ("auto") costs a
    cross-validation on a sample, and rows past the width of a scatter cost products with the sample: both are renewed
    less often. It depends on rows alone, so a resumed run predicts the same.
    """
    if not hasattr(model, "freeze"):
        return False
    width = model.landmarks_.shape[0] if hasattr(model, "landmarks_") else model.n_features_in_
    parameters = model.get_params()
    chosen = any(parameters.get(name) == "auto" for name in ("ridge", "epsilon", "a", "parameter"))
    narrow = width <= WIDEST
    first, growth, pace = PACES[narrow, chosen]
    before = 0 if predictor is None else predictor.n_rows
    pace = max(pace, 4.0 * width) if narrow else pace
    if model.half_life is not None:
        pace = min(pace, max(model.half_life / 4, first))
    return bool(rows - before >= min(max(before * growth, first, width / 8 if narrow else 0), pace))
