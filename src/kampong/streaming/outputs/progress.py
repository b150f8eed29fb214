"""Progress, a line each time the rows have doubled: rows, accuracy, speed, classes, the parameter, dead letters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from kampong.streaming.run import Run

COLUMNS = {
    "rows": 10,
    "accuracy": 9,
    "since last": 10,
    "rows/s": 10,
    "classes": 8,
    "parameter": 9,
    "directions": 10,
    "dead": 7,
}
HEADER = " ".join(f"{name:>{width}}" for name, width in COLUMNS.items())


class Progress:
    """Writes a line when the rows have doubled since the line before, and one at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._next, self._lines = stream, 0, 0
        self._started = time.monotonic()
        self._last: tuple[int, int, int, float] | None = None

    def __call__(self, run: Run) -> None:
        """Look at a run after a batch."""
        if self._last is None:
            self._last = 0, 0, 0, self._started
            if run.resumed:
                counters = run.counters
                self._last = counters.rows, counters.scored, counters.correct, time.monotonic()
                self._next = counters.rows + 1
        if run.counters.rows >= max(self._next, 1):
            self.write(run)
            self._next = 2 * run.counters.rows

    def write(self, run: Run) -> None:
        """Write a line."""
        counters, now = run.counters, time.monotonic()
        rows, scored, correct, then = self._last or (0, 0, 0, now)
        self._last = counters.rows, counters.scored, counters.correct, now
        if counters.rows == rows:
            return
        if self._lines % 20 == 0:
            print(HEADER, file=self._stream)
        self._lines += 1
        predictor = run.predictor
        fresh = counters.scored - scored
        print(
            f"{counters.rows:>10,} {_share(counters.correct, counters.scored):>9} "
            f"{_share(counters.correct - correct, fresh):>10} {_speed(counters.rows - rows, now - then):>10} "
            f"{'–' if predictor is None else len(predictor.classes):>8} "
            f"{'–' if predictor is None else f'{predictor.criterion.value:.3g}':>9} "
            f"{'–' if predictor is None else len(predictor.components):>10} {counters.dead:>7,}",
            file=self._stream,
            flush=True,
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.4f}" if whole else "–"


def _speed(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f}" if seconds > 0 else "–"
