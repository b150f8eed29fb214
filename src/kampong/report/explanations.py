"""Explanations for the report: what was chosen and why, and what the directions consist of and separate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.streaming.history.outcomes import class_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.predictor import Predictor
    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.history.history import History

MOST_DIRECTIONS, MOST_COLUMNS, MOST_CLASSES = 24, 8, 3
"""Directions that are explained, columns named for each, and classes named at each of its ends."""

SPELT = {"epsilon": "ε"}


def chosen(model: Any, history: History, predictor: Predictor | None) -> list[dict[str, Any]]:
    """Return what is in use, and the row from which on it is.

    Parameters
    ----------
    model : object or None
        The model.
    history : History
        The course of its stream.
    predictor : Predictor or None
        The predictor.

    Returns
    -------
    list of dict
        `name`, `value` (a number or a word) and `since`, the row after which it was chosen.
    """
    log, since = history.choices.log(), history.choices.since
    if not log:
        if predictor is None:
            return []
        kind = predictor.criterion
        return [
            {"name": "head", "value": predictor.head.name, "since": None},
            {"name": SPELT.get(kind.parameter, kind.parameter), "value": kind.value, "since": None},
        ]
    last, parameter = log[-1], history.choices.parameter
    same = predictor is not None and predictor.criterion.parameter == parameter
    value = predictor.criterion.value if same and predictor is not None else last.value
    found: list[dict[str, Any]] = [{"name": "head", "value": last.head, "since": since["head"]}]
    if value is not None and math.isfinite(value):
        found.append({"name": SPELT.get(parameter, parameter), "value": value, "since": since["value"]})
    if last.half_life is not None:
        half_life = "none" if math.isinf(last.half_life) else last.half_life
        found.append({"name": "half-life", "value": half_life, "since": since["half_life"]})
    return found


def curve_of(model: Any, predictor: Predictor | None) -> dict[str, Any]:
    """Return what the choices were made from: losses of values and of heads, and the weights of a contest.

    Parameters
    ----------
    model : object or None
        The model.
    predictor : Predictor or None
        The predictor.

    Returns
    -------
    dict of str to JSON
        `curve` with `values`, `losses` and the value `chosen`, and `heads` with the loss of each; empty where there was
        nothing to choose. `members` has the weight of each answer of the contest that follows drift, if there is one.
    """
    found: dict[str, Any] = {"curve": None, "heads": {}, "members": {}, "validation_rows": 0}
    choice = None if predictor is None else predictor.choice
    if choice is not None:
        found["validation_rows"] = int(choice.n_rows)
        found["heads"] = {name: float(loss) for name, loss in choice.heads.items()}
        if len(choice.values) > 1:
            found["curve"] = {
                "values": choice.values.tolist(),
                "losses": choice.losses.tolist(),
                "chosen": float(choice.value),
            }
    learnt = stream_model(model)
    if learnt.follows_drift:
        found["members"] = learnt.read("member_weights_")
    return found


def directions_of(
    model: Any, predictor: Predictor | None, memory: Memory | None, places: dict[str, int]
) -> list[dict[str, Any]]:
    """Return what each direction is worth, which columns it is made of, and which classes lie at its ends.

    Parameters
    ----------
    model : object or None
        The model.
    predictor : Predictor or None
        The predictor.
    memory : Memory or None
        The names of the columns.
    places : dict of str to int
        The place of each class in the table of the page.

    Returns
    -------
    list of dict
        `eigenvalue`, `share` of all positive ones, `columns` as pairs of name and weight (in spreads of the column
        within the classes where these are known), and `low` and `high`, the classes at the two ends.
    """
    if predictor is None:
        return []
    name_of, spreads = _names(model, predictor, memory), _spreads(model, predictor)
    labels = [places.get(class_name(label)) for label in predictor.classes.tolist()]
    found = []
    for number, value in enumerate(predictor.eigenvalues[:MOST_DIRECTIONS].tolist()):
        one: dict[str, Any] = {"eigenvalue": value if math.isfinite(value) else None, "columns": []}
        one["share"] = value / predictor.total if predictor.total > 0 and math.isfinite(value) else None
        if name_of is not None:
            weights = predictor.components[number] if spreads is None else predictor.components[number] * spreads
            used = len(weights) if memory is None else memory.used
            strongest = np.argsort(-np.abs(weights[:used]), kind="stable")[:MOST_COLUMNS].tolist()
            named = [(*name_of(column), float(weights[column])) for column in strongest if weights[column]]
            one["columns"] = [[name, sign * weight] for name, sign, weight in named]
        order = [
            place for place in np.argsort(predictor.centres[:, number], kind="stable") if labels[place] is not None
        ]
        few = min(MOST_CLASSES, len(order) // 2)
        one["low"], one["high"] = [labels[i] for i in order[:few]], [labels[i] for i in order[::-1][:few]]
        one["in_spreads"] = spreads is not None
        found.append(one)
    return found


def _names(model: Any, predictor: Predictor, memory: Memory | None) -> Callable[[int], tuple[str, int]] | None:
    """Return what names a column and says the sign of its values; None where directions are not made of columns."""
    learnt = stream_model(model)
    if learnt.can.landmarks or predictor.components.shape[1] != learnt.read("n_features_in_"):
        return None
    if memory is not None:
        return memory.name_of if memory.schema.columns else lambda column: (f"column {column + 1}", 1)
    given = learnt.read("feature_names_in_")
    return lambda column: (f"column {column + 1}" if given is None else str(given[column]), 1)


def _spreads(model: Any, predictor: Predictor) -> Float | None:
    """Return the standard deviations of the columns within the classes, where they are known."""
    statistics = stream_model(model).statistics
    if statistics is None or not statistics.holds_scatter or statistics.n_features != predictor.components.shape[1]:
        return None
    variances = statistics.within_variances()
    return np.sqrt(np.maximum(variances, 0.0)) if statistics.total > 0 else None
