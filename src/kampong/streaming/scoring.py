"""How well a saved model predicts labelled records: accuracy, F1, balanced accuracy, κ and the confusion of classes."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.contract import stream_model
from kampong.files.model_errors import CriterionWarning
from kampong.streaming.errors import ColumnError, SourceError, StreamError
from kampong.streaming.model_file import read_model
from kampong.streaming.prediction import check_classes

if TYPE_CHECKING:
    import threading

    from kampong.files.signing import Key
    from kampong.streaming.sources.source import Source


@dataclass
class Score:
    """What was predicted of which class.

    Parameters
    ----------
    pairs : Counter
        How often each pair of a true and a predicted class came.
    dead : int
        Records that could not be used.
    """

    pairs: Counter[tuple[Any, Any]] = field(default_factory=Counter)
    dead: int = 0

    @property
    def rows(self) -> int:
        """The labelled rows."""
        return sum(self.pairs.values())

    def confusion(self) -> tuple[list[Any], np.ndarray]:
        """Return the classes, true or predicted, sorted, and how often each true one was predicted as each."""
        classes = sorted({label for pair in self.pairs for label in pair})
        place = {label: i for i, label in enumerate(classes)}
        table = np.zeros((len(classes), len(classes)), dtype=np.int64)
        for (true, predicted), count in self.pairs.items():
            table[place[true], place[predicted]] += count
        return classes, table

    def measures(self) -> dict[str, float]:
        """Return all figures by name.

        Returns
        -------
        dict of str to float
            Accuracy (which is micro F1 too, with one label per row), macro F1 over all classes that came or were
            predicted, balanced accuracy over those that came, and Cohen's κ.
        """
        _, table = self.confusion()
        n, right = table.sum(), np.diag(table)
        true, predicted = table.sum(axis=1), table.sum(axis=0)
        chance = float(true @ predicted) / float(n) ** 2
        accuracy = float(right.sum() / n)
        return {
            "accuracy": accuracy,
            "micro_f1": accuracy,
            "macro_f1": float(np.mean(2.0 * right / (true + predicted))),
            "balanced_accuracy": float(np.mean(right[true > 0] / true[true > 0])),
            "kappa": (accuracy - chance) / (1.0 - chance) if chance < 1.0 else 1.0,
        }


def score(source: Source, model_file: str, *, stop: threading.Event | None = None, key: Key = None) -> Score:
    """Predict labelled records with a saved model, which learns nothing from them.

    Parameters
    ----------
    source : Source
        The records; columns are matched by name.
    model_file : str
        A model that a stream has written.
    stop : threading.Event, optional
        Set it to stop after the current batch.
    key : bytes, str or path, optional
        The key of the model file, or the file that holds it, where model files are signed.

    Returns
    -------
    Score
        What was predicted of which class.
    """
    model, state, _ = read_model(model_file, key=key)
    learnt = stream_model(model)
    if not learnt.fitted or not learnt.can.predict:
        raise StreamError(f"{model_file}: a {type(model).__name__} that cannot predict has no score. Learn first.")
    check_classes(learnt, model_file)
    if state is None:
        raise StreamError(f"{model_file}: no stream has learnt this model, so it does not know which column is what.")
    label = state.schema.label
    stream = source.open(schema=state.schema, apply=True, stop=stop)
    found = Score()
    with closing(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)  # said when the model was learnt
        if stream.schema.columns and label not in stream.schema.columns:
            raise ColumnError(f"{source.path}: the column of the class, {label!r}, is not there. A score needs it.")
        stream.schema = replace(stream.schema, label=label)
        for batch in stream:
            found.dead += len(batch.dead)
            if batch.rows and batch.y is not None:
                rows = batch if state.memory is None else state.memory.apply(batch)
                found.pairs.update(zip(batch.y.tolist(), model.predict(rows.X).tolist(), strict=True))
            if stop is not None and stop.is_set():
                break
    if not found.rows:
        raise SourceError(f"{source.path}: the source holds no record that could be used.")
    return found


def show_score(found: Score, most: int = 15) -> None:
    """Print the figures, and the confusion of the classes: whole where it fits, else the `most` frequent mistakes."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    console = Console(highlight=False, markup=False)  # names may hold brackets
    figures = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    figures.add_row("rows", f"{found.rows:,}")
    if found.dead:
        figures.add_row("dead letters", f"{found.dead:,}")
    for name, value in found.measures().items():
        figures.add_row(name.replace("_f1", " F1").replace("_", " "), f"{value:.4f}")
    console.print(figures)
    classes, table = found.confusion()
    grid = Table("true \\ predicted", *(str(label) for label in classes), box=None, padding=(0, 2, 0, 0))
    for label, counts in zip(classes, table.tolist(), strict=True):
        grid.add_row(str(label), *(f"{count:,}" if count else "." for count in counts))
    if Measurement.get(console, console.options.update(max_width=2**16), grid).maximum <= console.width:
        console.print(grid)
        return
    wrong = table - np.diag(np.diag(table))
    worst = [divmod(place, len(classes)) for place in np.argsort(-wrong, axis=None, kind="stable")[:most].tolist()]
    pairs = Table("true", "predicted", "rows", "share of the true class", box=None, padding=(0, 2, 0, 0))
    for true, said in worst:
        if wrong[true, said]:
            share = wrong[true, said] / table[true].sum()
            pairs.add_row(str(classes[true]), str(classes[said]), f"{wrong[true, said]:,}", f"{share:.1%}")
    mistakes = int(np.count_nonzero(wrong))
    console.print(f"{len(classes)} classes, {mistakes:,} kinds of mistakes. The most frequent ones; --json has all.")
    console.print(pairs)
