"""The numbers of a report: a model and a history as plain values, taken at one moment."""

from __future__ import annotations

import inspect
import math
import numbers
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from kampong.contract import stream_model
from kampong.report.explanations import chosen, curve_of, directions_of
from kampong.report.verdict import verdict_of
from kampong.streaming.history.limits import DIRECTIONS
from kampong.streaming.history.outcomes import CLASSES, OTHER_NAME, RECENT, ClassTable, class_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong._core.compute import Float
    from kampong.predictor import Predictor
    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.history.history import Curves, History, Points

TURNED = 0.5
"""A point is left out where the mean of its class lay so much of the spread of all means from where it lies now."""

MOST_PAIRS = 1000
"""Confusions that the page gets: all of them up to 30 classes, which it shows as a matrix."""

FIRST_SPEED = 0.5
"""A point of the curve of the speed covers at least this many seconds."""


def take(
    model: Any,
    history: History,
    *,
    predictor: Predictor | None = None,
    memory: Memory | None = None,
    title: str = "kampong",
    state: str = "",
    counters: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    pictures: Float | None = None,
) -> dict[str, Any]:
    """Return what the page shows of a model and a history at this moment.

    Nothing is solved for it: only what the model has already computed is shown. A history without rows, as that of
    merged models, leaves the classes and their rows to the model.

    Parameters
    ----------
    model : object or None
        An estimator of the library, fitted or not.
    history : History
        The course of its stream.
    predictor : Predictor, optional
        The predictor of the stream; that of the model by default.
    memory : Memory, optional
        What the stream remembers of its columns: their names, and words.
    title : str
        The heading.
    state : str
        One line below it.
    counters : mapping, optional
        Further figures of the stream, shown with the model.
    provenance : mapping, optional
        Where the data came from and how the run was made.
    pictures : array of shape (rows, side, side), optional
        A small grey picture of each row of the stream in its order, levels from 0 to 1, which the map draws at the
        points. By default there are none.

    Returns
    -------
    dict of str to JSON
        Plain values that share nothing with the model or the history; what is not known is None.
    """
    predictor = stream_model(model).known if predictor is None else predictor
    curves, points = history.curves(), history.points()
    table, weights = (history.class_table(), None) if history.rows else _learnt_classes(model)
    order = np.array(sorted(range(len(table.names)), key=lambda place: _natural(table.names[place])), dtype=np.int64)
    names = [table.names[place] for place in order]
    pairs, forgotten = history.outcomes.confusions()
    places = {name: place for place, name in enumerate(names)}
    recent, figures = int(table.recent_scored.sum()), history.summary()
    return {
        "title": title,
        "state": state,
        "verdict": verdict_of(history, memory),
        "totals": {
            "rows": history.rows,
            "learnt": _learnt(model),
            "scored": history.scored,
            "correct": history.correct,
            "dead": history.dead,
            "seconds": history.seconds,
            "rows_per_second": history.rows / history.seconds if history.seconds else None,
            "classes": int((table.rows > 0).sum()),
            "directions": int(curves.directions[-1]) if history.rows else _count_directions(predictor),
        },
        "measures": _plain(table.measures()),
        **{name: figures[name] for name in ("unscored", "baselines", "label_delay", "late", "saved_model")},
        "recent": {"rows": recent, "most": RECENT, **_plain(table.measures(recent=True))},
        "chosen": chosen(model, history, predictor),
        "classes": {
            "name": names,
            **_classes(table, order, _movements(history.offsets(), points, names)),
            **({} if weights is None else {"rows": [_number(weights[place]) for place in order]}),
        },
        "points": _points(points, places, *_in_view(points, history.offsets(), predictor), pictures),
        "confusions": {
            "pairs": [[places[true], places[said], count] for true, said, count in pairs[:MOST_PAIRS]],
            "left_out": sum(count for _, _, count in pairs[MOST_PAIRS:]) + forgotten,
        },
        "directions": directions_of(model, predictor, memory, places),
        "progress": _progress(curves),
        "alarms": {
            "count": history.drift.n_alarms,
            "latest": [
                {"row": one.row, "before": one.before, "after": one.after, "rows": one.rows_after}
                for one in history.drift.alarms()
            ],
        },
        "choices": {
            "parameter": _parameter(history, predictor),
            "count": history.choices.n_changes,
            "log": [
                {"row": one.row, "value": one.value, "head": one.head, "half_life": _life(one.half_life)}
                for one in history.choices.log()
            ],
            **curve_of(model, predictor),
        },
        "dead": [one._asdict() for one in history.dead_kinds.kinds()],
        "facts": _facts(model, memory)
        + ([] if memory is None else [["columns", memory.schema.summary().removeprefix("columns: ")]])
        + [[str(name), as_text(value)] for name, value in (counters or {}).items()],
        "provenance": [[str(name), as_text(value)] for name, value in (provenance or {}).items()],
    }


def _progress(curves: Curves) -> dict[str, Any]:
    """Return the curves over the rows so far; what is not known is None."""
    rows, scored, correct, seconds = (np.cumsum(column) for column in curves[:4])
    # A batch may take a millisecond: the speed is over the last second, or the last tenth of the time.
    reach = np.maximum(FIRST_SPEED, 0.1 * seconds)
    before = np.clip(np.searchsorted(np.r_[0, seconds], seconds - reach, side="right") - 1, 0, None)
    since_rows, since_seconds = (total - np.r_[0, total][before] for total in (rows, seconds))
    used = int((~np.isnan(curves.eigenvalues)).any(axis=0).sum())
    return {
        "rows": rows.tolist(),
        "accuracy": listed(_ratio(correct, scored)),
        "recent": listed(_ratio(curves.recent_correct, curves.recent_scored)),
        "speed": listed(_ratio(since_rows, since_seconds), 4),
        "dead": np.cumsum(curves.dead).tolist(),
        "eigenvalues": [listed(curves.eigenvalues[:, place], 5) for place in range(used)],
    }


def _classes(table: ClassTable, order: np.ndarray, moved: Float) -> dict[str, Any]:
    """Return the columns of the table of classes."""
    columns = ("rows", "scored", "correct", "predicted", "recent_scored", "recent_correct", "recent_predicted")
    counts = {name: getattr(table, name)[order] for name in columns}
    return {
        **{name: values.tolist() for name, values in counts.items()},
        "precision": listed(_ratio(counts["correct"], counts["predicted"])),
        "recall": listed(_ratio(counts["correct"], counts["scored"])),
        "recent_recall": listed(_ratio(counts["recent_correct"], counts["recent_scored"])),
        "moved": listed(moved, 3),
    }


def _movements(offsets: Float, points: Points, names: list[str]) -> Float:
    """Return how far the recent points of each class lie from its mean over the whole stream, in spreads of a class.

    The distance of the mean of m points is measured in spreads within the classes along each direction. The distance
    expected by chance (p/m in squared spreads, for p directions) is subtracted; a class needs more points than there
    are directions, so that this is less than one. Each point was compared with the mean by the directions of its time.
    """
    moved = np.full(len(names), np.nan)
    p = int((~np.isnan(offsets)).any(axis=0).sum())
    known = ~np.isnan(offsets[:, :p]).any(axis=1)
    offsets, labels = offsets[known, :p], np.array(points.labels)[known]
    groups = {name: offsets[labels == name] for name in names}
    groups = {name: group for name, group in groups.items() if len(group) > p}
    freedom = sum(len(group) - 1 for group in groups.values())
    if not groups or not p:
        return moved
    squares = sum((((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups.values()), np.zeros(p))
    spread = np.sqrt(squares / freedom)
    spread[spread == 0] = np.inf
    for place, name in enumerate(names):
        if name in groups:
            away = groups[name].mean(axis=0) / spread
            moved[place] = math.sqrt(max(0.0, float(away @ away) - p / len(groups[name])))
    return moved


def _in_view(points: Points, offsets: Float, predictor: Predictor | None) -> tuple[np.ndarray, bool]:
    """Tell which points lie where one set of directions would put them, and whether those are earlier directions.

    A point less its offset is the mean of its class by the directions of its time. If that lies further from the
    mean of today than TURNED times the spread of all means, the directions have turned or stretched since. If they
    have for every point, the directions of the latest points are taken instead of those of today.
    """
    kept = np.ones(len(points.labels), dtype=bool)
    if predictor is None or not len(kept):
        return kept, False
    width = min(predictor.centres.shape[1], DIRECTIONS)
    places = {class_name(label): place for place, label in enumerate(predictor.classes.tolist())}
    mine = np.array([places.get(name, -1) for name in points.labels], dtype=np.int64)
    means = (points.coordinates - offsets)[:, :width]
    known = (mine >= 0) & ~np.isnan(means).any(axis=1)
    centres = np.array(predictor.centres[:, :width], dtype=np.float64)  # a copy
    near = _near(means, centres, mine)
    earlier = bool(known.any()) and not near[known].any()
    if earlier:
        centres[mine[known]] = means[known]  # the points come oldest first, so the latest of a class stays
        near = _near(means, centres, mine)
    return near | ~known, earlier


def _near(means: Float, centres: Float, mine: np.ndarray) -> np.ndarray:
    """Tell which means lie near the centre of their class, compared with the spread of the centres."""
    spread = math.sqrt(float(np.square(centres - centres.mean(axis=0)).sum(axis=1).mean()))
    near: np.ndarray = np.sqrt(np.square(np.nan_to_num(means - centres[mine])).sum(axis=1)) <= TURNED * spread
    return near


def _points(
    points: Points, places: dict[str, int], kept: np.ndarray, earlier: bool, pictures: Float | None
) -> dict[str, Any]:
    """Return the columns of the points that are kept; classes as their places in the table, pictures as digits."""
    used = int((~np.isnan(points.coordinates[kept])).any(axis=0).sum())
    some = np.flatnonzero(kept).tolist()
    return {
        "row": points.row_numbers[kept].tolist(),
        "label": [places.get(points.labels[i], -1) for i in some],
        "predicted": [places.get(points.predicted[i], -1) for i in some],
        "probability": listed(points.probability[kept], 4),
        "coordinates": [listed(points.coordinates[kept, place], 5) for place in range(min(used, DIRECTIONS))],
        "turned": len(kept) - len(some),
        "earlier": earlier,
        "pictures": [] if pictures is None else _levels(pictures[points.row_numbers[kept] - 1]),
    }


def _levels(pictures: Float) -> list[str]:
    """Return each picture line by line, one hexadecimal digit per point: 0 for nothing, f for full."""
    levels = np.round(15 * np.clip(pictures, 0.0, 1.0)).astype(np.int64).reshape(len(pictures), -1)
    return ["".join(f"{level:x}" for level in picture) for picture in levels.tolist()]


def _learnt(model: Any) -> int:
    """Return the rows that a model has learnt, which may be more than its history knows of."""
    try:
        return int(model.n_samples_seen_)
    except (AttributeError, NotFittedError):
        return 0


def _learnt_classes(model: Any) -> tuple[ClassTable, Float]:
    """Return the classes that a model has learnt, the commonest if they are many, and the weight of each."""
    try:
        labels, weights = model.classes_.tolist(), np.asarray(model.class_counts_, dtype=np.float64)
    except (AttributeError, NotFittedError):
        labels, weights = [], np.zeros(0)
    common = np.sort(np.argsort(-weights, kind="stable")[:CLASSES])
    common = common[weights[common] > 0]
    names, rest = [class_name(labels[place]) for place in common], float(weights.sum() - weights[common].sum())
    weights = weights[common]
    if len(labels) > CLASSES and rest > 0:
        names, weights = [*names, OTHER_NAME], np.append(weights, rest)
    unknown = np.zeros(len(names), dtype=np.int64)
    return ClassTable(names, np.ceil(weights).astype(np.int64), *[unknown] * 6), weights


def _number(value: float) -> float:
    """Return a count as a whole number, a weight with six digits."""
    return int(value) if float(value).is_integer() else float(f"{value:.6g}")


def _count_directions(predictor: Predictor | None) -> int:
    return 0 if predictor is None else len(predictor.eigenvalues)


def _parameter(history: History, predictor: Predictor | None) -> str:
    """Return the name of the parameter that was chosen."""
    if predictor is None or history.choices.log():
        return history.choices.parameter
    return predictor.criterion.parameter


def _facts(model: Any, memory: Memory | None = None) -> list[list[str]]:
    """Return what the model is and what it uses, without parameters that were left at None."""
    if model is None:
        return [["model", "not started"]]
    facts = [["model", type(model).__name__]]
    reads = {"rows learnt": "n_samples_seen_"} | ({"features": "n_features_in_"} if memory is None else {})
    if stream_model(model).known is not None:  # solved already
        reads |= {"solver": "solver_"}
    for name, attribute in reads.items():
        try:
            facts.append([name, as_text(getattr(model, attribute))])
        except (AttributeError, NotFittedError):
            continue
    facts += [] if memory is None else [["features", as_text(memory.used)]]  # the model has room for more
    if isinstance(model, BaseEstimator):
        usual = inspect.signature(type(model)).parameters
        given = {name: value for name, value in model.get_params(deep=False).items() if _is_set(usual.get(name), value)}
        facts += [[f"parameter {name}", as_text(value)] for name, value in given.items()]
        facts += [["other parameters", "at their defaults"]]
    return facts


def _is_set(parameter: inspect.Parameter | None, value: Any) -> bool:
    """Tell whether a parameter has another value than its default."""
    return parameter is None or parameter.default is inspect.Parameter.empty or repr(parameter.default) != repr(value)


def as_text(value: Any) -> str:
    """Return a value as the page writes it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        text = str(value)
        return text if len(text) <= 500 else text[:499] + "…"
    return f"{value:,}" if isinstance(value, numbers.Integral) else f"{float(value):.6g}"


def listed(values: Sequence[float] | Float, digits: int = 0) -> list[float | None]:
    """Return numbers as a list, None for NaN, with this many significant digits, all of them for 0."""
    found = np.asarray(values, dtype=np.float64)
    if digits:
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.floor(np.log10(np.abs(found)))
        unit = 10.0 ** np.where(np.isfinite(size), digits - 1 - size, 0.0)
        found = np.where(np.isfinite(unit) & (unit > 0), np.round(found * unit) / unit, found)
    return [value if math.isfinite(value) else None for value in found.tolist()]


def _natural(name: str) -> tuple[Any, ...]:
    """Return what to sort names by, so that 9 comes before 10 and the classes counted together come last."""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d{1,15})", name) if part]
    return (name == OTHER_NAME, *parts)


def _plain(measures: dict[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in measures.items()}


def _life(half_life: float | None) -> float | str | None:
    return "none" if half_life is not None and math.isinf(half_life) else half_life


def _ratio(part: np.ndarray, whole: np.ndarray) -> Float:
    """Divide, with NaN where there is nothing to divide by."""
    result: Float = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
