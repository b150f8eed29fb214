"""A model card: what a model file says of its data, its choices, its accuracy and its limits, as Markdown."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.files.model_errors import CriterionWarning
from kampong.selection.settings import SETTINGS
from kampong.statistics.answers import keeps_rows
from kampong.statistics.receipt import Receipt
from kampong.streaming.errors import UsageError
from kampong.streaming.history.baselines import compared, late, unscored
from kampong.streaming.inspection import SHOWN, describe
from kampong.streaming.model_file import read_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.files.signing import Key

MEANING = {
    "ridge": "what is added to the within-class variances",
    "epsilon": "the weight of the within-class scatter",
    "head": "the classifier along the directions",
    "solver": "what found the directions",
}
"""What is chosen, in plain words."""


def model_card(model_file: str, *, receipts: Sequence[str] = (), key: Key = None) -> str:
    """Return a model card: what the file holds of data, choices, accuracy and limits.

    Parameters
    ----------
    model_file : str
        The file.
    receipts : sequence of str
        Receipts of `unlearn`, which are compared with the file.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from kampong import FisherDiscriminant
    >>> from kampong.streaming import model_card
    >>> file = Path(tempfile.mkdtemp()) / "model.kampong"
    >>> FisherDiscriminant().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]).save(file)
    >>> print(model_card(str(file)).splitlines()[0])
    # Model card: model.kampong
    """
    facts, model = describe(model_file, key=key), read_model(model_file, key=key)[0]
    parts = {
        "": _about(facts),
        "Data": _data(facts),
        "Choices": _choices(facts, model),
        "Accuracy": _accuracy(facts, model),
        "Rows taken out": [_receipt(path, model) for path in receipts],
        "Limits": _limits(facts, model),
    }
    lines = [f"# Model card: {_plain(Path(model_file).name)}"]
    for title, found in parts.items():
        if found:
            lines += ["", *([f"## {title}", ""] if title else []), *found]
    return "\n".join(lines) + "\n"


def _about(facts: dict[str, Any]) -> list[str]:
    written = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    said = f"A `{facts['model']}`, written by {written}."
    if "classes" in facts:
        said = f"{said[:-1]}. It tells {len(facts['classes']):,} classes apart by {facts['features']:,} columns."
    return [said]


def _data(facts: dict[str, Any]) -> list[str]:
    if "n_samples_seen" not in facts:
        return ["It has learnt nothing yet."]
    lines = [f"- {facts['n_samples_seen']:,} rows."]
    stream = facts.get("stream", {})
    if "merged" in stream:
        lines.append(f"- Merged from: {_names(stream['merged'])}.")
    for one in stream.get("learnt", ())[-SHOWN:]:
        dead = f", {one['dead']:,} records of it could not be used" if one["dead"] else ""
        lines.append(f"- Learnt from {_plain(one['name'])}: {one['rows']:,} rows{dead}; digest `{one['digest']}`.")
    if "counters" in stream and stream["counters"]["filled"]:
        lines.append(f"- {stream['counters']['filled']:,} missing numbers were filled in with means.")
    if "columns" in facts:
        lines.append(f"- Columns: {_plain(facts['columns']['summary'])}.")
        if facts["columns"]["dropped"]:
            lines.append(f"- Left out: {_names(facts['columns']['dropped'])}.")
    shares = np.array(facts["class_counts"]) / sum(facts["class_counts"])
    lines += ["", "| class | weight | share |", "|---|---:|---:|"]
    table = list(zip(facts["classes"], facts["class_counts"], shares, strict=True))
    lines += [f"| {_plain(label)} | {count:,.6g} | {share:.1%} |" for label, count, share in table[:SHOWN]]
    if len(table) > SHOWN:
        lines.append(f"| … {len(table) - SHOWN:,} more | | |")
    return lines


def _choices(facts: dict[str, Any], model: Any) -> list[str]:
    parameters = ", ".join(f"`{name}={value!r}`" for name, value in facts["parameters"].items() if value is not None)
    lines = [f"- Parameters: {parameters}."]
    for name in (name for name in MEANING if name in facts):
        value = f"{facts[name]:.4g}" if isinstance(facts[name], float) else facts[name]
        lines.append(f"- `{name}`: {value}, {MEANING[name]}.")
    choice = _quietly(model, "choice_")
    if choice is not None:
        lines.append(
            f"- Chosen on {choice.n_rows:,} validation rows." if choice.n_rows else "- Chosen by held-out rows."
        )
        if choice.heads:
            said = ", ".join(
                f"{name} {loss:.4g}" for name, loss in sorted(choice.heads.items(), key=lambda one: one[1])
            )
            lines.append(f"- Selection loss of the heads, less is better: {said}.")
    reason = _quietly(model, "scale_reason_")
    return [*lines, f"- {reason}"] if reason else lines


def _accuracy(facts: dict[str, Any], model: Any) -> list[str]:
    lines, stream = [], facts.get("stream", {})
    counters = stream.get("counters")
    if counters and counters["scored"]:
        left_out = unscored(counters["rows"] + counters["waiting"] - counters["scored"])
        more = f" ({left_out})" if left_out else ""
        share = counters["correct"] / counters["scored"]
        lines.append(f"- {share:.4f} of the rows were predicted rightly, each before it was learnt{more}.")
    if "figures" in stream:
        lines += [f"- {sentence}" for sentence in (*compared(stream["figures"]), *late(stream["figures"]))]
    known = stream_model(model).known
    held_out = None if known is None else known.held_out
    if held_out is not None and known is not None:
        mine = held_out.learnt == 0
        losses, weights = held_out.losses[mine], held_out.weights[mine]
        counts = np.bincount(held_out.codes[mine], weights, minlength=len(known.classes))
        chances = counts[counts > 0] / counts.sum()
        if np.isfinite(losses).all() and weights.sum() > 0:
            lines.append(
                f"- Log-loss of {len(losses):,} validation rows, each left out of the model that predicts it: "
                f"{np.average(losses, weights=weights):.4f}. The shares of the classes alone have "
                f"{-chances @ np.log(chances):.4f}."
            )
    return lines or ["The file holds no measurement. `kampong score` compares it with labelled rows."]


def _receipt(path: str, model: Any) -> str:
    """Return what a receipt says, and whether the file is in the state that it names."""
    try:
        receipt = Receipt.from_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--receipt {path}: {error.strerror}. Give a file that kampong unlearn wrote.") from None
    except ValueError as error:
        raise UsageError(f"--receipt {path}: {error}") from None
    digest = stream_model(model).read("state_digest")
    now = "" if digest is None else digest()
    state = "this file is in that state" if now == receipt.after else "this file has changed since, or is another one"
    exact = "as if they had never come" if receipt.exact else "not exactly"
    remarks = "".join(f" {remark.rstrip('.')}." for remark in receipt.remarks)
    return f"- {_plain(path)}: {receipt.rows:,} rows were taken out, {exact}; {state}.{remarks}"


def _limits(facts: dict[str, Any], model: Any) -> list[str]:
    lines, one = [], stream_model(model)
    if "classes" in facts:
        pairs = zip(facts["classes"], facts["class_counts"], strict=True)
        small = [label for label, count in pairs if count < SETTINGS.fewest_rows]
        if small:
            lines.append(f"- Fewer than {SETTINGS.fewest_rows} rows: {_names(small)}. Do not rely on these classes.")
        if one.read("predict_known") is not None:
            lines.append("- It predicts a known class for every row, unless it is asked to reject rows of none.")
        elif one.can.predict:
            lines.append("- It predicts a known class for every row, also for rows of none.")
    figures = facts.get("stream", {}).get("figures", {})
    if figures.get("alarms"):
        lines.append(f"- The accuracy changed {figures['alarms']:,} times along the stream: it may change again.")
    if facts["parameters"].get("half_life") == "auto" and one.follows_drift:
        lines.append("- It follows drift by recent labels. Without new labels, expect what late labels gave.")
    if one.statistics is not None and keeps_rows(one.statistics):
        lines.append("- The file holds a sample of the training rows. An export (`to_sklearn`, ONNX) holds none.")
    return [
        *lines,
        "- The figures are of the rows that it has learnt. They say little of rows from elsewhere.",
        "- What it may be used for, and whom it may harm, is not in the file. Write it here.",
    ]


def _quietly(model: Any, name: str) -> Any:
    """Return a result, None where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)
        try:
            return stream_model(model).read(name)
        except ValueError:
            return None


def _names(values: Sequence[Any]) -> str:
    more = f" and {len(values) - SHOWN:,} more" if len(values) > SHOWN else ""
    return ", ".join(_plain(value) for value in values[:SHOWN]) + more


def _plain(value: Any) -> str:
    """Return text in which nothing is Markdown, on one line."""
    text = " ".join(str(value).split())
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
