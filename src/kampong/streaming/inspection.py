"""Show what a model file holds, merge models into one file, and write the digits for the demo."""

from __future__ import annotations

import math
import warnings
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.files import pack
from kampong.files.model_errors import CriterionWarning
from kampong.files.replace import write_bytes
from kampong.streaming.errors import StreamError
from kampong.streaming.history.baselines import compared, late, unscored
from kampong.streaming.history.rejected import names_of, sentences
from kampong.streaming.model_file import Counters, StreamState, read_model, with_stream, write_model
from kampong.streaming.outputs.targets import check_targets, key_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kampong.contract import StreamModel
    from kampong.files.signing import Key
    from kampong.streaming.columns.column_memory import Memory
    from kampong.streaming.columns.schema import Schema

SHOWN = 24


def describe(model_file: str, *, key: Key = None) -> dict[str, Any]:
    """Return what a model file holds, as plain values.

    Parameters
    ----------
    model_file : str
        The file.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.

    Returns
    -------
    dict
        Class, parameters, versions, classes with their weights, eigenvalues, solver, and the state of the stream.
    """
    model, state, facts = read_model(model_file, key=key)
    found: dict[str, Any] = {
        "model": facts["model"]["class"],
        "parameters": facts["model"]["parameters"],
        "versions": facts["versions"],
    }
    one = stream_model(model)
    if one.fitted:
        found |= _learnt(one)
    if state is not None:
        schema = state.schema
        found["columns"] = {
            "format": schema.format,
            "numbers": list(schema.numbers),
            "categories": list(schema.categories),
            "texts": list(schema.texts),
            "dates": {name: {"order": order, "parts": list(parts)} for name, (order, parts) in schema.date_of.items()},
            "dropped": [name for name in schema.columns if name not in schema.used],
            "indicated": list(schema.indicated),
            "label": schema.label,
            "summary": schema.summary().removeprefix("columns: "),
        }
        found["words"] = _leading_words(model, state) if state.schema.hash_width and one.fitted else []
        found["stream"] = {"finished": state.finished, "counters": state.counters.to_state()}
        if state.course is None:
            found["stream"]["merged"] = list(state.merged)
        else:
            found["stream"] |= {"source": state.course.source, "place": state.course.place}
            found["stream"]["figures"] = state.course.history.summary()
            learnt = state.course.learnt
            found["stream"]["learnt"] = [
                {
                    "name": one.name,
                    "bytes": one.bytes.size,
                    "digest": one.bytes.digest,
                    "rows": one.rows,
                    "dead": one.dead,
                }
                for one in learnt.sources
            ]
            found["stream"]["learnt_in_all"] = learnt.count
            if state.course.rejected is not None:
                found["stream"]["rejected"] = state.course.rejected.summary(names_of(state.memory))
    return found


def _leading_words(model: Any, state: StreamState, most: int = 8) -> list[list[str]]:
    """Return what says most in each direction, both ends, from the strongest on: +word or -word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)
        try:
            components = model.components_[:SHOWN]
        except (AttributeError, ValueError):  # no directions, or none yet
            return []
    found = []
    for direction in components[:, : state.memory.used]:
        strongest = np.argsort(-np.abs(direction), kind="stable")[:most]
        named = [(direction[j], *state.memory.name_of(int(j))) for j in strongest]
        found.append([f"{'+' if sign * value > 0 else '-'}{name}" for value, name, sign in named])
    return found


def _learnt(model: StreamModel) -> dict[str, Any]:
    found: dict[str, Any] = {"features": model.estimator.n_features_in_}
    names = ["n_samples_seen_", "classes_", "class_counts_", "eigenvalues_", "solver_", "head_", "ridge_", "epsilon_"]
    names.append("half_life_")
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CriterionWarning)
                value = model.read(name)
        except ValueError:  # one class only: there are no directions yet
            continue
        if value is not None and not (isinstance(value, float) and math.isinf(value)):  # nothing is forgotten
            found[name.removesuffix("_")] = value.tolist() if isinstance(value, np.ndarray) else value
    return found


def show(facts: dict[str, Any]) -> None:
    """Print what `describe` found."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)  # names may hold brackets
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    plain = {key: value for key, value in facts.items() if not isinstance(value, (dict, list))}
    for key, value in plain.items():
        table.add_row(key.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value}")
    parameters = ", ".join(f"{key}={value!r}" for key, value in facts["parameters"].items() if value is not None)
    table.add_row("parameters", parameters)
    table.add_row("written by", ", ".join(f"{key} {value}" for key, value in facts["versions"].items()))
    if "columns" in facts:
        table.add_row("columns", facts["columns"]["summary"])
    stream, rejected = facts.get("stream", {}), facts.get("stream", {}).get("rejected")
    if stream:
        counters = stream["counters"]
        table.add_row("source", ", ".join(stream["merged"]) if "merged" in stream else _sources(stream))
        table.add_row("state", "finished" if stream["finished"] else "can go on")
        table.add_row("records", f"{counters['records']:,}, {counters['dead']:,} of them dead letters")
        if counters["scored"]:
            accuracy = f"{counters['correct'] / counters['scored']:.4f} before learning"
            left_out = unscored(counters["rows"] + counters["waiting"] - counters["scored"])
            table.add_row("accuracy", ", ".join(filter(None, (accuracy, left_out))))
        for sentence in (*compared(stream["figures"]), *late(stream["figures"])) if "figures" in stream else ():
            table.add_row("", sentence)
        for place, sentence in enumerate(() if rejected is None else sentences(rejected)):
            table.add_row("" if place else "rejected", sentence)
    console.print(table)
    if rejected and rejected["latest"]:
        console.print(_listed(rejected["latest"]))
    if "classes" in facts:
        weights = dict(zip(facts["classes"], facts["class_counts"], strict=True))
        console.print(_series("class", "weight", weights))
    if facts.get("words"):
        console.print(_words(facts["words"]))
    if "eigenvalues" in facts:
        console.print(
            _series("direction", "eigenvalue", {i + 1: value for i, value in enumerate(facts["eigenvalues"])})
        )


def _sources(stream: dict[str, Any]) -> str:
    """Return what was learnt, the latest sources last."""
    named = [f"{one['name']} ({one['rows']:,} rows)" for one in stream["learnt"][-SHOWN:]]
    if stream["learnt_in_all"] > len(named):
        named.insert(0, f"… {stream['learnt_in_all'] - len(named):,} more")
    return ", ".join(named if stream["finished"] else [*named, f"{stream['source']} (not yet at its end)"])


def _listed(rejected: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("rejected row", "label", "most unusual values"):
        table.add_column(name)
    for one in rejected[-SHOWN:]:
        values = ", ".join(f"{name} {value:.4g}" for name, value in one["values"].items())
        table.add_row(f"{one['row']:,}", one["label"], values)
    return table


def _words(directions: list[list[str]]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("direction")
    table.add_column("its strongest columns")
    for number, words in enumerate(directions):
        table.add_row(str(number + 1), " ".join(words))
    return table


def _series(name: str, what: str, values: dict[Any, float]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(name)
    table.add_column(what, justify="right")
    for key, value in list(values.items())[:SHOWN]:
        table.add_row(str(key), f"{value:,.6g}")
    if len(values) > SHOWN:
        table.add_row(f"… {len(values) - SHOWN} more", "")
    return table


def merge_files(models: Sequence[str], out: str, *, key: Key = None) -> Any:
    """Merge models into one file.

    Parameters
    ----------
    models : sequence of str
        The files.
    out : str
        The file to write.
    key : bytes, str or path, optional
        The key of all files, or the file that holds it, where model files are signed.

    Returns
    -------
    estimator
        The merged model.
    """
    check_targets({"one of the models": models, **key_file(key)}, {"--out": out})
    loaded = [read_model(name, key=key) for name in models]
    merged, state = merge_states([(model, state) for model, state, _ in loaded], models)
    write_model(out, *(pack(merged) if state is None else with_stream(merged, state)), key=key)
    return merged


def merge_states(
    loaded: Sequence[tuple[Any, StreamState | None]], names: Sequence[str]
) -> tuple[Any, StreamState | None]:
    """Merge models, and what is known of their streams.

    Parameters
    ----------
    loaded : sequence of tuple
        The models, each with the state of its stream or None.
    names : sequence of str
        What messages call them.

    Returns
    -------
    model : estimator
        The merged model.
    state : StreamState or None
        That of all streams.
    """
    states = [state for _, state in loaded if state is not None]
    first = loaded[0][1]
    for name, (_, state) in zip(names, loaded, strict=True):
        if (state and _features(state.schema)) != (first and _features(first.schema)):
            raise StreamError(f"{name}: its columns are not those of {names[0]}. Learn both from the same columns.")
        if state is not None and state.counters.waiting:
            raise StreamError(
                f"{name}: {state.counters.waiting:,} of its rows wait for their labels (--label-delay). Let the run "
                "come to its end first."
            )
    memory = None if first is None else _one_memory([model for model, _ in loaded], states)
    try:
        merged = reduce(lambda one, other: one.merge(other), [stream_model(model) for model, _ in loaded]).estimator
    except (TypeError, ValueError) as error:
        raise StreamError(f"{', '.join(names)}: {error}") from None
    if first is None or memory is None:
        return merged, None
    totals = Counters(*(sum(getattr(one.counters, key) for one in states) for key in vars(first.counters)))
    sources = tuple(source for one in states for source in one.sources)
    return merged, StreamState(first.schema, totals, totals.rows > 0, memory, merged=sources)


def _one_memory(models: Sequence[Any], states: Sequence[StreamState]) -> Memory:
    """Return the memory of all streams, after the columns of each model were moved to the places that it says."""
    memory = states[0].memory
    moves: list[Any] = [np.arange(memory.used)]
    for state in states[1:]:
        memory, places = memory.merged(state.memory)
        moves.append(places)
    for model, places in zip(models, moves, strict=True):
        if memory.schema.hash_width and memory.grows:
            stream_model(model).move_columns(places, memory.width)
        elif not np.array_equal(places, np.arange(len(places))):
            raise StreamError(
                f"{type(model).__name__} keeps its columns where they are, and the words and categories of these "
                "streams came in different orders. Learn one stream of all rows."
            )
    return memory


def _features(schema: Schema) -> tuple[Any, ...]:
    columns = schema.numbers, schema.categories, schema.texts, schema.date_parts, schema.indicated, schema.worded
    return *columns, schema.hash_width, schema.width, schema.ngrams, schema.tfidf, schema.label_kind


def write_digits(path: Path) -> None:
    """Write scikit-learn's 1,797 handwritten digits as CSV."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    names = [f"row{i}_column{j}" for i in range(8) for j in range(8)]
    lines = [",".join([*names, "digit"])]
    for image, digit in zip(images.astype(int).tolist(), digits.tolist(), strict=True):
        lines.append(",".join(map(str, [*image, digit])))
    write_bytes(path, ("\n".join(lines) + "\n").encode())
