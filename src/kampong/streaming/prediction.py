"""What predicts during a stream: a frozen predictor, renewed on a schedule, or a model that is always current."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kampong.files import Savable
from kampong.statistics.drift import DriftingScatter
from kampong.streaming.errors import StreamError
from kampong.streaming.schedule import Schedule

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.predictor import Predictor


class Answers(NamedTuple):
    """What is said of some rows before they are learnt; None where a model has no such answer, or none yet."""

    points: Float | None = None
    labels: np.ndarray | None = None
    chances: Float | None = None


class Said(NamedTuple):
    """What was said of all rows of a batch: the class (None where nothing), where they lie, how probable it was."""

    predicted: np.ndarray
    points: Float | None
    chances: Float

    @classmethod
    def nothing(cls, rows: int) -> Said:
        """Return what is said of rows before anything can be."""
        return cls(np.full(rows, None, dtype=object), None, np.full(rows, np.nan))


def together(parts: list[tuple[int, Answers]]) -> Said:
    """Return the answers of consecutive pieces as those of one batch.

    Parameters
    ----------
    parts : list of pairs of int and Answers
        The rows of each piece, and what was said of them.

    Returns
    -------
    Said
        Coordinates are those along as many directions as the last piece had; rows that had another number are NaN.
    """
    said = Said.nothing(sum(rows for rows, _ in parts))
    if all(part.labels is not None and part.labels.dtype != object for _, part in parts):
        said = said._replace(predicted=np.concatenate([part.labels for _, part in parts if part.labels is not None]))
    width = 0 if parts[-1][1].points is None else parts[-1][1].points.shape[1]
    points = np.full((len(said.predicted), width), np.nan)
    start = 0
    for rows, part in parts:
        if part.labels is not None and said.predicted.dtype == object:
            said.predicted[start : start + rows] = part.labels
        if part.chances is not None:
            said.chances[start : start + rows] = part.chances
        if part.points is not None and part.points.shape[1] == width:
            points[start : start + rows] = part.points
        start += rows
    return said._replace(points=points if width else None)


def answer(model: Any, predictor: Predictor | None, X: Rows, shown: np.ndarray) -> Answers:
    """Return the coordinates and the predicted labels of rows, and how probable the labels of some of them are.

    Parameters
    ----------
    model : estimator
        The model of the stream.
    predictor : Predictor or None
        What predicts, where the model can be frozen.
    X : array or sparse matrix
        The rows.
    shown : array of int
        The rows whose probabilities are wanted.

    Returns
    -------
    Answers
        A model that cannot be frozen has no solution apart from its state: it answers by itself.
    """
    if predictor is not None:
        points, found = predictor.answers(X)
        chances = np.full(len(found), np.nan)
        if len(shown) and found.ndim == 1 and not watches(model):
            chances[shown] = predictor.probabilities(X[shown]).max(axis=1)
        return Answers(points, found, chances)
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


def check_classes(model: Any, model_file: str) -> None:
    """Refuse a model that knows fewer than two classes, before anything is written."""
    classes = known_classes(model)
    if classes is not None and len(classes) < 2:
        said = f"only the class {classes[0]!r}" if classes else "no class"
        raise StreamError(
            f"{model_file}: this model knows {said}, and needs two to tell apart. Learn records of another class."
        )


def classes_present(model: Any) -> set[Any]:
    """Return the classes that have weight in the model."""
    return set(model.classes_[model.class_counts_ > 0].tolist())


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


def renewed(model: Any, predictor: Predictor | None, schedule: Schedule, rows: int) -> Predictor | None:
    """Return what predicts after so many rows: anew where the schedule says so, or where classes are new.

    Parameters
    ----------
    model : estimator
        The model of the stream.
    predictor : Predictor or None
        What predicted so far.
    schedule : Schedule
        When what is done.
    rows : int
        Rows learnt.

    Returns
    -------
    Predictor or None
        None while fewer than two classes are known, or while something else predicts and none is due. Between two
        choices parameter and head are kept.
    """
    due = schedule.renews(rows)
    if not due and not schedule.rare and (predictor is None or schedule.least == 1):
        due = predictor is None or len(model.classes_) > len(predictor.classes)
    if not due:
        return predictor
    keep = None if schedule.chooses(rows) else predictor
    brief = not schedule.is_full(rows)
    both = watches(model) or schedule.rare
    found: Predictor | None = model._freeze_all(keep, brief=brief) if both else model.freeze(keep=keep)
    return found or predictor


def settle(model: Any, predictor: Predictor | None, rows: int) -> None:
    """Solve before the end of a run, so that a loaded model answers at once; a choice on enough rows is kept.

    Parameters
    ----------
    model : estimator
        The model of the stream.
    predictor : Predictor or None
        What predicted last.
    rows : int
        Rows learnt.
    """
    if predictor is not None and hasattr(model, "freeze") and Schedule.of(model).is_settled(rows):
        try:
            found = model.freeze(keep=predictor)
            if found is not None:
                model._remember(found)
        except ValueError:  # what cannot be solved says so when it is read
            return
    elif isinstance(model, Savable):
        model._before_save()


def chances_of(model: Any) -> Float | None:
    """Return how probable a model that watches for drift found what it said of the last rows."""
    ladder = model._statistics.ladder
    return None if ladder is None else ladder.chances


def half_life_of(model: Any) -> float | None:
    """Return the half-life in use, infinite where nothing is forgotten; None for a model that has none."""
    found = getattr(model, "half_life_", None)
    return None if found is None else float(found)


def turn_of(model: Any, rows: int) -> int:
    """Return how many of so many rows come before a model that watches for drift may rest or must look again."""
    return min(rows, model._statistics.ladder.turn) if watches(model) else rows


def watches(model: Any) -> bool:
    """Tell whether the model predicts each row itself before it learns it: half_life="auto"."""
    statistics = getattr(model, "_statistics", None)
    return isinstance(statistics, DriftingScatter) and statistics.ladder is not None
