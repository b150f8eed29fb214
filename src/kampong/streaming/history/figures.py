"""The figures of a stream in plain words, the same on the terminal, in `inspect` and in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def unscored(rows: int) -> str:
    """Return how many rows the accuracy leaves out, "" for none."""
    return f"{rows:,} row{'' if rows == 1 else 's'} not scored" if rows else ""


def compared(figures: Mapping[str, Any]) -> list[str]:
    """Return what the accuracy of a `History.summary` is to be compared with, in sentences; none without accuracy."""
    if figures["accuracy"] is None:
        return []
    baselines = figures["baselines"]
    said = [f"Without a model: majority class {baselines['majority']:.4f}, last label {baselines['last_label']:.4f}."]
    gains = [("Kappa", baselines["kappa"]), ("over the last label", baselines["kappa_last_label"])]
    known = [f"{name} {value:.3f}" for name, value in gains if value is not None]
    said += ["; ".join(known) + "."] if known else []
    if baselines["last_label"] > figures["accuracy"]:
        said.append("Repeating the last label is right more often than this model.")
    return said


def late(figures: Mapping[str, Any]) -> list[str]:
    """Return the accuracy when labels come late, and what to expect of the saved model, in sentences."""
    said, measured = [], figures["late"]
    if measured:
        parts = [f"{one['accuracy']:.3f} ± {one['standard_error']:.3f} by {one['delay']:,}" for one in measured]
        parts[0] += " row" if measured[0]["delay"] == 1 else " rows"
        said.append(f"If labels come late: {', '.join(parts)}.")
    if figures["saved_model"] is not None:
        saved = figures["saved_model"]
        ahead = "row" if saved["delay"] == 1 else "rows"
        expected = f"Expect {saved['accuracy']:.3f} of the saved model, {saved['delay']:,} {ahead} from now"
        said.append(f"{expected}, if the classes stay as they were.")
        if saved["all_rows_answer"]:
            said.append("It answers by the model of all rows alone, which was right more often so late.")
    large = figures["too_large"]
    if large:
        size = max(one["bytes"] for one in large) / 2**20
        delays = ", ".join(f"{one['delay']:,}" for one in large)
        said.append(f"Not measured for labels {delays} rows late: a copy of the model takes {size:,.1f} MB.")
    return said
