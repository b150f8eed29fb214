"""A predictor that is solved beside the stream, on a copy of what was learnt, while further rows are learnt.

It takes its place when the rows have doubled, however quick the solve was: row numbers decide, so runs repeat. A run
that is saved before waits for it, and the file holds it.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from kampong._core.compute import available_threads, beside
from kampong.streaming.prediction import kept_choice
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from kampong.contract import StreamModel
    from kampong.predictor import Predictor
    from kampong.streaming.schedule import Schedule


class Coming:
    """A predictor that will take its place.

    Parameters
    ----------
    made : Predictor, Future or None
        The predictor, or what will be it.
    rows : int
        The rows that it knows.
    """

    def __init__(self, made: Predictor | Future[Predictor | None] | None, rows: int) -> None:
        self._made, self._rows = made, rows

    @property
    def due(self) -> int:
        """The row number at which it takes its place."""
        return 2 * self._rows

    def result(self, n_features: int) -> Predictor | None:
        """Return the predictor for rows of a width, when it is solved."""
        found = self._made.result() if isinstance(self._made, Future) else self._made
        return None if found is None else found.widened(n_features)


def begin(model: StreamModel, predictor: Predictor | None, schedule: Schedule, rows: int) -> Coming | None:
    """Begin to solve beside the stream, where that is worth it.

    Parameters
    ----------
    model : StreamModel
        The model of the stream; later changes do not matter.
    predictor : Predictor or None
        What predicted so far.
    schedule : Schedule
        When what is done.
    rows : int
        Rows learnt.

    Returns
    -------
    Coming or None
        None where nothing is due, or where a solve costs less than to hand it over: what would take its place among the
        early rows is solved at once.
    """
    if 2 * rows < SETTINGS.early_rows or not (schedule.rare and schedule.renews(rows)):
        return None
    # What is kept is decided before further rows come, as they change what says so.
    frozen, keep = model.copy(), kept_choice(model, predictor, schedule, rows)

    def work() -> Predictor | None:
        return frozen.predictor(keep, provisional=not schedule.is_full(rows)) or predictor

    return Coming(work() if available_threads() == 1 else beside(work), rows)
