"""The predictor of a stream: a frozen predictor, renewed on a schedule, or a model that is always current."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.estimators.stream_model import KernelModel
from kampong.streaming.errors import StreamError, UsageError
from kampong.streaming.schedule import Schedule, places
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.contract import StreamModel
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


def answer(model: StreamModel, predictor: Predictor | None, X: Rows, shown: np.ndarray) -> Answers:
    """Return the coordinates and the predicted labels of rows, and how probable the labels of some of them are.

    Parameters
    ----------
    model : StreamModel
        The model of the stream.
    predictor : Predictor or None
        The predictor, if the model can be frozen.
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
        if len(shown) and found.ndim == 1:
            chances[shown] = predictor.probabilities(X[shown]).max(axis=1)
        return Answers(points, found, chances)
    if model.can.freeze or (model.classes is not None and len(model.classes) < 2):
        return Answers()
    return Answers(*model.answer(X))


def check_learns(model: StreamModel, model_file: str) -> None:
    """Refuse a model that cannot learn batches, or not be saved where it should be, before anything is read."""
    name = type(model.estimator).__name__
    if not model.can.learn:
        raise UsageError(
            f"a {name} has no partial_fit, so it cannot learn a stream. Use FisherDiscriminant, or another estimator "
            "with partial_fit."
        )
    if model_file and not model.can.save:
        raise UsageError(
            f"{model_file}: a {name} cannot be saved in a model file, which holds estimators of kampong. Leave out the "
            "model file, or use FisherDiscriminant."
        )


def check_classes(model: StreamModel, model_file: str) -> None:
    """Refuse a model that knows fewer than two classes, before anything is written."""
    classes = model.classes
    if classes is not None and len(classes) < 2:
        said = f"only the class {classes[0]!r}" if classes else "no class"
        raise StreamError(
            f"{model_file}: this model knows {said}, and needs two to tell apart. Learn records of another class."
        )


def classes_present(model: StreamModel) -> set[Any]:
    """Return the classes that have weight in the model."""
    return set(model.estimator.classes_[model.estimator.class_counts_ > 0].tolist())


def eigenvalues_of(model: StreamModel, predictor: Predictor | None) -> list[float]:
    """Return what each direction adds to the criterion, where there are directions."""
    if predictor is not None:
        return list(predictor.eigenvalues.tolist())
    found = None if model.can.freeze else model.read("eigenvalues_")
    return [] if found is None else list(found.tolist())


def renewed(model: StreamModel, predictor: Predictor | None, schedule: Schedule, rows: int) -> Predictor | None:
    """Return the predictor after this many rows: a new one where the schedule says so, or where classes are new.

    Parameters
    ----------
    model : StreamModel
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
        due = predictor is None or len(model.estimator.classes_) > len(predictor.classes)
    if not due:
        return predictor
    keep = kept_choice(model, predictor, schedule, rows)
    return model.predictor(keep, provisional=not schedule.is_full(rows)) or predictor


def kept_choice(model: StreamModel, predictor: Predictor | None, schedule: Schedule, rows: int) -> Predictor | None:
    """Return the predictor whose choices stay when it is renewed, None if all is chosen again.

    Choices come as the rows grow. Once one was made on enough of them, the next ones need evidence that it has aged.
    """
    if not schedule.chooses(rows) or predictor is None:
        return predictor
    return predictor if schedule.is_settled(rows) and not model.has_aged(predictor) else None


def settle(model: StreamModel, predictor: Predictor | None, rows: int, *, is_sorted: bool = False) -> None:
    """Solve before the end of a run, so that a loaded model answers at once; a choice on enough rows is kept.

    Parameters
    ----------
    model : StreamModel
        The model of the stream.
    predictor : Predictor or None
        What predicted last.
    rows : int
        Rows learnt.
    is_sorted : bool
        Whether all rows of a class came together, so that a half-life would forget classes.
    """
    model.settle(kept_at_end(model, predictor, rows), forget_nothing=is_sorted)


def placed_again(model: StreamModel, rows: int) -> Predictor | None:
    """Place the landmarks of a kernel model again where the rows have doubled.

    The first landmarks are the few rows with which the stream began. New ones are placed with the sample of rows that
    the model keeps, which then stands for all rows. Row numbers decide when, so that runs repeat.

    Parameters
    ----------
    model : StreamModel
        The model of the stream; it changes.
    rows : int
        Rows learnt.

    Returns
    -------
    Predictor or None
        The predictor from now on; None where nothing is due, or where landmarks cannot be placed again.
    """
    if not places(rows) or not isinstance(model, KernelModel):
        return None
    try:
        other = model.placed_again(SETTINGS.most_landmarks)
        predictor = None if other is None else other.predictor()
    except ValueError:  # a kernel may be infinite or zero there; the model has landmarks on which it is not
        return None
    if other is not None and predictor is not None:
        model.adopt(other)
    return predictor


def kept_at_end(model: StreamModel, predictor: Predictor | None, rows: int) -> Predictor | None:
    """Return the predictor whose choices a model that is saved after this many rows keeps, None if it chooses again."""
    kept = predictor is not None and model.can.freeze and Schedule.of(model).is_settled(rows)
    return predictor if kept else None


def half_life_of(model: StreamModel) -> float | None:
    """Return the half-life of the statistics, infinite where they forget nothing; None for a model that has none."""
    found = model.read("half_life_")
    return None if found is None else float(found)
