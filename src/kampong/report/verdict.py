"""The verdict of a report: what a reader should take away from a stream, in a few sentences.

The accuracy comes first, compared with what needs no model, then what asks for attention, then the rest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.history.history import History

NAMED = 3
"""Columns that a sentence names."""


def verdict_of(history: History, memory: Memory | None = None) -> list[dict[str, Any]]:
    """Return sentences on a stream, each with whether it asks for attention; none where there was no course.

    Parameters
    ----------
    history : History
        The course of the stream.
    memory : Memory, optional
        What the stream remembers of its columns.

    Returns
    -------
    list of dict
        `text`, and `attention`: true for what a reader should look into.
    """
    figures = history.summary()
    if figures["accuracy"] is None:
        return []
    others = [_drift(history), _unusable(history), *_saved(figures), *_columns(history, memory), *_confused(history)]
    return [_accuracy(figures, history.scored), *sorted(others, key=lambda one: not one["attention"])]


def _accuracy(figures: dict[str, Any], scored: int) -> dict[str, Any]:
    """Compare the accuracy with what needs no model; a lead within two standard errors is none."""
    accuracy = figures["accuracy"]
    without = {
        "the most frequent class": figures["baselines"]["majority"],
        "the last label": figures["baselines"]["last_label"],
    }
    best = max(without, key=lambda name: without[name])
    error = math.sqrt(max(accuracy * (1 - accuracy), without[best] * (1 - without[best])) / scored)
    behind = accuracy <= without[best] + 2 * error
    guesses = " and ".join(f"{name} in {value:.1%}" for name, value in without.items())
    rows, were, they = ("row", "was", "it was") if scored == 1 else ("rows", "were", "they were")
    text = f"{accuracy:.1%} of {scored:,} {rows} {were} predicted correctly before {they} learnt. "
    text += f"Without a model, {guesses} of the rows would be correct."
    if behind:
        text += f" The model is no better than {best}."
    return {"text": text, "attention": behind}


def _drift(history: History) -> dict[str, Any]:
    """Say how often the accuracy changed, and where it stands since."""
    count, alarms = history.drift.n_alarms, history.drift.alarms()
    if not count or not alarms:
        return {"text": "The accuracy did not change along the stream.", "attention": False}
    last = alarms[-1]
    times = "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"
    text = f"The accuracy changed {times}; the latest change is at row {last.row:,}, "
    text += f"from {last.before:.1%} to {last.after:.1%}."
    whole, recent = history.measures()["accuracy"], history.measures(recent=True)["accuracy"]
    rows = len(history.outcomes.recent())
    fell = rows > 0 and recent < whole - 2 * math.sqrt(whole * (1 - whole) / rows)
    if fell:
        text += f" It is {recent:.1%} on the latest {rows:,} rows, less than on the whole stream."
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


def _saved(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Say what to expect of the saved model, which gets no labels."""
    saved = figures["saved_model"]
    if saved is None:
        return []
    delay, accuracy = saved["delay"], saved["accuracy"]
    error = next((one["standard_error"] for one in figures["late"] if one["delay"] == delay), 0.0)
    text = f"Expect the saved model to be correct on {accuracy:.1%} of rows that come {delay:,} "
    text += f"{'row' if delay == 1 else 'rows'} after its last label, if the classes stay as they were."
    return [{"text": text, "attention": accuracy < figures["accuracy"] - 2 * error}]


def _columns(history: History, memory: Memory | None) -> list[dict[str, Any]]:
    """Warn of columns that were left out, and of numbers that are often missing."""
    if memory is None:
        return []
    said, same = [], dict[str, list[str]]()
    for name in history.class_table().names:
        same.setdefault(name.casefold(), []).append(name)
    differing = [" and ".join(names) for names in same.values() if len(names) > 1]
    if differing:
        said.append(
            {"text": f"Classes that differ only in upper and lower case: {_some(differing)}.", "attention": True}
        )
    if memory.schema.left_out:
        names = _some(memory.schema.left_out)
        said.append({"text": f"Left out, because the values seem to name the rows: {names}.", "attention": True})
    known = zip(memory.schema.number_features, memory.counts.tolist(), strict=False)
    missing = {name: history.rows - there for name, there in known}
    often = sorted((name for name in missing if missing[name] > 0), key=lambda name: (-missing[name], name))
    if often:
        shares = [f"{name} in {missing[name] / history.rows:.1%}" for name in often]
        said.append({"text": f"Numbers are missing: {_some(shares)} of the rows.", "attention": False})
    return said


def _some(names: Sequence[str]) -> str:
    """Name a few, and say how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _confused(history: History) -> list[dict[str, Any]]:
    """Name the two classes that are taken for each other most often."""
    pairs, _ = history.outcomes.confusions()
    wrong = [(count, true, said) for true, said, count in pairs if true != said]
    if not wrong:
        return []
    count, true, said = max(wrong, key=lambda one: (one[0], one[1:]))
    rows = "row" if count == 1 else "rows"
    return [{"text": f"The most frequent mistake: {true} predicted as {said}, {count:,} {rows}.", "attention": False}]
