"""The verdict of a report: what a reader should take away from a stream, in a few sentences, the worst first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kampong.streaming.history.history import History


def verdict_of(history: History) -> list[dict[str, Any]]:
    """Return sentences on a stream, each with whether it asks for attention; none where there was no course.

    Parameters
    ----------
    history : History
        The course of the stream.

    Returns
    -------
    list of dict
        `text`, and `attention`: true for what a reader should look into.
    """
    figures = history.summary()
    if figures["accuracy"] is None:
        return []
    said = [_accuracy(figures, history.scored), _drift(history), _unusable(history), *_confused(history)]
    said.sort(key=lambda one: not one["attention"])
    return said


def _accuracy(figures: dict[str, Any], scored: int) -> dict[str, Any]:
    """Compare the accuracy with what needs no model; a lead within two standard errors is none."""
    accuracy = figures["accuracy"]
    without = {
        "the commonest class": figures["baselines"]["majority"],
        "the last label": figures["baselines"]["last_label"],
    }
    best = max(without, key=lambda name: without[name])
    error = math.sqrt(max(accuracy * (1 - accuracy), without[best] * (1 - without[best])) / scored)
    behind = accuracy <= without[best] + 2 * error
    guesses = " and ".join(f"{name} {value:.1%}" for name, value in without.items())
    text = (
        f"{accuracy:.1%} of {scored:,} rows were predicted rightly before they were learnt; without a model, {guesses}."
    )
    if behind:
        text += f" The model is no better than {best}."
    return {"text": text, "attention": behind}


def _drift(history: History) -> dict[str, Any]:
    """Say how often the accuracy changed, and where it stands since."""
    count, alarms = history.drift.n_alarms, history.drift.alarms()
    if not count or not alarms:
        return {"text": "The accuracy did not change along the stream.", "attention": False}
    last = alarms[-1]
    times = "once" if count == 1 else f"{count:,} times"
    text = f"The accuracy changed {times}; the latest change is at row {last.row:,}, "
    text += f"from {last.before:.1%} to {last.after:.1%}."
    whole, recent = history.measures()["accuracy"], history.measures(recent=True)["accuracy"]
    rows = len(history.outcomes.recent())
    fell = rows > 0 and recent < whole - 2 * math.sqrt(whole * (1 - whole) / rows)
    if fell:
        text += f" The latest {rows:,} rows have {recent:.1%}, less than the whole stream."
    return {"text": text, "attention": fell}


def _unusable(history: History) -> dict[str, Any]:
    """Say how many records could not be used, and why."""
    kinds = history.dead_kinds.kinds()
    if not history.dead:
        return {"text": "Every record could be used.", "attention": False}
    records = history.rows + history.dead
    text = f"{history.dead:,} of {records:,} records could not be used"
    text += f"; most often: {kinds[0].reason}." if kinds else "."
    return {"text": text, "attention": True}


def _confused(history: History) -> list[dict[str, Any]]:
    """Name the two classes that are taken for each other most often."""
    pairs, _ = history.outcomes.confusions()
    wrong = [(count, true, said) for true, said, count in pairs if true != said]
    if not wrong:
        return []
    count, true, said = max(wrong, key=lambda one: (one[0], one[1:]))
    rows = "row" if count == 1 else "rows"
    return [{"text": f"The most frequent mistake: {true} taken for {said}, {count:,} {rows}.", "attention": False}]
