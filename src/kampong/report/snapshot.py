"""The numbers of a report: what its figures show of a model and a history, as plain columns, taken at one moment."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError

from kampong.streaming.history_state import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._runtime.compute import Float
    from kampong.streaming.history import ClassTable, Curves, History, Points

    Columns = dict[str, Any]

WINDOW_ROWS, WINDOW_SHARE = 1000, 0.02
"""A point of a "recent" curve covers so many past rows, or this share of the rows so far if that is more."""

FEWEST_POINTS = 5
"""The movement of a class is measured from at least so many recent points."""


@dataclass(frozen=True)
class Snapshot:
    """What the page shows, as a copy that later batches do not change.

    Attributes
    ----------
    title : str
        The heading.
    state : str
        One line below it: "running", "finished" or when the report was written.
    summary : list of pairs of str
        The key figures: name and value.
    progress : dict of str to array
        One value per entry of the history: `rows` so far, `accuracy`, `recent`, `speed`, `dead`, `epsilon`, `e1` to
        `e8`.
    n_eigenvalues : int
        How many of the columns `e1` … are in use.
    points : dict of str to array
        One value a kept point: `d1` to `d8`, `label`, `predicted`, `row` and `strip` (a height for each class).
    n_directions : int
        How many of the columns `d1` … are in use.
    classes : dict of str to array
        One value a class, the most frequent first: `name`, `rows`, `past`, `recent`, `change`, `errors` (the change in
        standard errors), `movement`.
    recent_rows : int
        The number of rows that count as recent.
    facts : list of pairs of str
        The model.
    provenance : list of pairs of str
        Where all this comes from.
    """

    title: str
    state: str
    summary: list[tuple[str, str]]
    progress: Columns
    n_eigenvalues: int
    points: Columns
    n_directions: int
    classes: Columns
    recent_rows: int
    facts: list[tuple[str, str]]
    provenance: list[tuple[str, str]]


def take(
    model: Any,
    history: History,
    *,
    title: str = "kampong",
    state: str = "",
    counters: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Snapshot:
    """Return what the page shows of a model and a history at this moment.

    Nothing is solved for it: only what the model has already computed is shown.

    Parameters
    ----------
    model : object or None
        An estimator of the library, fitted or not.
    history : History
        The course of its stream.
    title : str
        The heading.
    state : str
        One line below it.
    counters : mapping, optional
        Further figures of the stream, shown with the model.
    provenance : mapping, optional
        Where the data came from and how the run was made.

    Returns
    -------
    Snapshot
        Columns and texts that share nothing with the model or the history.
    """
    curves, points = history.curves(), history.points()
    names, columns = _classes(history.class_table())
    columns["movement"] = _movements(history.centres(), points, names)
    progress = _progress(curves)
    n_directions = int((~np.isnan(points.coordinates)).any(axis=0).sum())
    return Snapshot(
        title=title,
        state=state,
        summary=_summary(history, curves, progress, len(names)),
        progress=progress,
        n_eigenvalues=int((~np.isnan(curves.eigenvalues)).any(axis=0).sum()),
        points=_points(points, names),
        n_directions=n_directions,
        classes=columns,
        recent_rows=history.recent()[0],
        facts=_facts(model) + [(str(name), _text(value)) for name, value in (counters or {}).items()],
        provenance=[(str(name), _text(value)) for name, value in (provenance or {}).items()],
    )


def _progress(curves: Curves) -> Columns:
    """Return the curves over the rows so far; what is not known is NaN."""
    rows, scored, correct, seconds, dead = (np.cumsum(column) for column in curves[:5])
    reach = np.maximum(WINDOW_ROWS, WINDOW_SHARE * rows)
    before = np.searchsorted(np.r_[0, rows], rows - reach, side="right") - 1
    before = np.clip(before, 0, None)
    since = [total - np.r_[0, total][before] for total in (rows, scored, correct, seconds)]
    columns: Columns = {
        "rows": rows.astype(np.float64),
        "accuracy": _ratio(correct, scored),
        "recent": _ratio(since[2], since[1]),
        "speed": _ratio(since[0], since[3]),
        "dead": dead.astype(np.float64),
        "epsilon": curves.epsilon,
    }
    return columns | {f"e{place + 1}": curves.eigenvalues[:, place] for place in range(DIRECTIONS)}


def _classes(table: ClassTable) -> tuple[list[str], Columns]:
    """Return the names, the most frequent class first, and how recent rows compare with those before."""
    order = np.argsort(-table.rows, kind="stable")
    rows, scored, correct, recent_scored, recent_correct = (np.asarray(column)[order] for column in table[1:])
    names = [table.names[place] for place in order]
    past_scored = scored - recent_scored
    past, recent = _ratio(correct - recent_correct, past_scored), _ratio(recent_correct, recent_scored)
    overall = _ratio(correct, scored)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(overall * (1 - overall) * (1 / past_scored + 1 / recent_scored))
        errors = (recent - past) / error
    errors = np.where(np.isfinite(errors), errors, np.where(np.isnan(recent - past), np.nan, 0.0))
    columns: Columns = {"name": names, "rows": rows.astype(np.float64), "past": past, "recent": recent}
    return names, columns | {"change": recent - past, "errors": errors}


def _movements(centres: dict[str, Float], points: Points, names: list[str]) -> Float:
    """Return how far the recent points of each class lie from its mean over the whole stream, in spreads of a class.

    The distance of the mean of m points is measured in spreads within the classes along each direction. The distance
    expected by chance (p/m in squared spreads, for p directions) is subtracted.
    """
    moved = np.full(len(names), np.nan)
    if not centres or not points.labels:
        return moved
    p = next(iter(centres.values())).size
    coordinates, labels = points.coordinates[:, :p], np.array(points.labels)
    known = ~np.isnan(coordinates).any(axis=1)
    coordinates, labels = coordinates[known], labels[known]
    groups = {name: coordinates[labels == name] for name in names if name in centres}
    groups = {name: group for name, group in groups.items() if len(group) >= FEWEST_POINTS}
    freedom = sum(len(group) - 1 for group in groups.values())
    if not groups:
        return moved
    squares = sum((((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups.values()), np.zeros(p))
    spread = np.sqrt(squares / freedom)
    spread[spread == 0] = np.inf
    for place, name in enumerate(names):
        if name in groups:
            away = (groups[name].mean(axis=0) - centres[name][:p]) / spread
            moved[place] = math.sqrt(max(0.0, float(away @ away) - p / len(groups[name])))
    return moved


def _points(points: Points, names: list[str]) -> Columns:
    ranks = {name: rank for rank, name in enumerate(names)}
    rank = np.array([ranks.get(label, len(names)) for label in points.labels], dtype=np.float64)
    scatter = (points.row_numbers * 0.6180339887498949) % 1.0 - 0.5  # spreads points of a class; fixed for a row
    columns: Columns = {f"d{place + 1}": points.coordinates[:, place] for place in range(DIRECTIONS)}
    columns |= {"label": points.labels, "predicted": [text or "not predicted" for text in points.predicted]}
    return columns | {"row": points.row_numbers.astype(np.float64), "strip": rank + 0.7 * scatter}


def _summary(history: History, curves: Curves, progress: Columns, n_classes: int) -> list[tuple[str, str]]:
    def last(name: str) -> float:
        column = progress[name]
        return float(column[-1]) if len(column) else math.nan

    directions = int(curves.directions[-1]) if len(curves.directions) else 0
    return [
        ("rows", f"{history.rows:,}"),
        ("accuracy", _percent(last("accuracy"))),
        ("recent accuracy", _percent(last("recent"))),
        ("rows per second", "–" if math.isnan(last("speed")) else f"{last('speed'):,.0f}"),
        ("classes", f"{n_classes:,}"),
        ("directions", f"{directions:,}" if directions else "–"),
        ("ε", "–" if math.isnan(last("epsilon")) else f"{last('epsilon'):.4g}"),
        ("dead letters", f"{history.dead:,}"),
    ]


def _facts(model: Any) -> list[tuple[str, str]]:
    if model is None:
        return [("model", "not started")]
    facts = [("model", type(model).__name__)]
    if hasattr(model, "get_params"):
        facts += [(name, _text(value)) for name, value in model.get_params(deep=False).items()]
    reads = {"rows learnt": "n_samples_seen_", "features": "n_features_in_"}
    if getattr(model, "_predictor", None) is not None:  # solved already
        reads |= {"solver in use": "solver_", "products with S_w": "n_steps_", "ridge in use": "ridge_"}
    for name, attribute in reads.items():
        try:
            facts.append((name, _text(getattr(model, attribute))))
        except (AttributeError, NotFittedError):
            continue
    return facts


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        text = str(value)
        return text if len(text) <= 500 else text[:499] + "…"
    return f"{value:,}" if isinstance(value, numbers.Integral) else f"{float(value):.6g}"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.1%}"


def _ratio(part: np.ndarray, whole: np.ndarray) -> Float:
    """Divide, with NaN where there is nothing to divide by."""
    result: Float = np.full(len(whole), np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
