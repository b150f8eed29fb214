"""When a stream's predictor is renewed: row numbers alone decide, so that a resumed run predicts the same bits.

Choosing a parameter and a head costs a trial of many; solving with the choice kept costs one solve. So the choice is
made when the rows have doubled; once its validation sample is full, eightfold, or if a contest predicts, only if
recent rows say that the choice has aged. The solve comes again after a fixed part of the rows so far. How small that
part may be follows from the width and the number of classes: so solving stays a bounded share of the work, and no
clock is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kampong.statistics.scatter import WIDEST
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    import numpy as np

    from kampong.contract import StreamModel


@dataclass(frozen=True)
class Schedule:
    """The row numbers at which a predictor is renewed.

    Attributes
    ----------
    least : int
        The fewest rows between two renewals, a power of two.
    parts : int
        How many renewals come while the rows double, a power of two.
    most : int
        The most rows between two renewals where rows are forgotten, a power of two; 0 for no limit.
    growth : int
        By what factor the rows grow from one choice to the next, until the sample is full.
    late : int
        How many renewals come while the rows double once there are `early` rows; 0 for as many as before.
    early : int
        See `late`.
    rare : bool
        Whether solves are slow and a contest predicts: then renewals come only when the rows have grown fourfold, past
        4,096 rows sixteenfold, and choices at row 16 and from 4,096 on.
    watched : bool
        Whether a contest says if a choice has aged: then choices may come at every doubling, and seldom do.
    """

    least: int
    parts: int
    most: int
    growth: int
    late: int = 0
    early: int = SETTINGS.early_rows
    rare: bool = False
    watched: bool = False

    @classmethod
    def of(cls, model: StreamModel) -> Schedule:
        """Return the schedule of a model that has learnt a row."""
        width, early, follows = model.width, SETTINGS.early_rows, model.follows_drift
        if width > WIDEST:
            # A solve takes some products of the sample with as many columns as there are classes; to learn a row takes
            # the parsing of its entries and one product. With 2 classes a solve costs a quarter of what all rows so far
            # have cost, with 10 as much, with 50 three times as much.
            classes = power_of_two(max(len(model.classes or ()), 2))
            least, parts = max(1024 * classes // 128, 16), max(128 // classes, 2)
            growth, late = (2 if classes <= 8 else 16), max(32 // classes, 1)
        elif width > SETTINGS.narrow_columns:
            # A solve takes width³ / 3 products and a dense row width², so after as many rows as columns a solve costs
            # less than they did. Without a contest nothing else predicts meanwhile: then it comes eight times as often.
            least = power_of_two(width if follows else width // 8)
            parts, growth, late, early = 16, 2, 8, SETTINGS.full_sample
        else:
            least, parts, growth, late, early = 1, 32, 2, 8, SETTINGS.full_sample
        if follows:  # a contest predicts, and the model of all rows is one of many
            early = min(early, SETTINGS.early_rows)
        half_life = model.read("half_life")
        most = 0 if half_life is None or isinstance(half_life, str) else power_of_two(int(half_life / 8))
        return cls(least, parts, most and max(most, least), growth, late, early, follows and width > WIDEST, follows)

    def interval(self, rows: int) -> int:
        """Return the rows between two renewals when this many have been learnt; a power of two."""
        parts = self.late if self.late and rows >= self.early else self.parts
        pace = max(self.least, power_of_two(rows) // parts)
        return min(pace, self.most) if self.most else pace

    def next_after(self, rows: int) -> int:
        """Return the next row number at which the predictor is renewed, or everything may be chosen again."""
        if self.rare:
            step = 2 if rows < SETTINGS.early_rows else 4
            return max(SETTINGS.first_choice, 1 << step * ((rows.bit_length() + step - 1) // step))
        pace = self.interval(rows)
        choice = max(SETTINGS.first_choice, 1 << rows.bit_length())
        return min((rows // pace + 1) * pace, choice)

    def renews(self, rows: int) -> bool:
        """Tell whether the predictor is renewed at this row number."""
        if self.rare:
            return rows >= SETTINGS.first_choice and self.next_after(rows - 1) == rows
        return rows % self.interval(rows) == 0 or self.chooses(rows)

    def chooses(self, rows: int) -> bool:
        """Tell whether parameter and head are chosen again at this row number."""
        if rows < SETTINGS.first_choice or rows & (rows - 1):
            return False
        if self.rare:
            return rows == SETTINGS.first_choice or (rows > SETTINGS.early_rows and self.renews(rows))
        step, since = self.growth.bit_length() - 1, SETTINGS.first_choice.bit_length()
        if rows > SETTINGS.full_sample and step < 3 and not self.watched:
            step, since = 3, SETTINGS.full_sample.bit_length()
        return (rows.bit_length() - since) % step == 0

    def is_full(self, rows: int) -> bool:
        """Tell whether a choice after this many rows may be one for good; earlier ones serve until the next."""
        return rows >= SETTINGS.full_sample

    def is_settled(self, rows: int) -> bool:
        """Tell whether, after this many rows, the last choice was made on enough of them to be kept at the end."""
        return rows > (SETTINGS.full_sample if self.growth < 16 else SETTINGS.full_sample // 4)

    def piece(self, rows: int, labels: np.ndarray, known: set[Any]) -> int:
        """Return how many of the next rows are predicted together, before any of them is learnt.

        Parameters
        ----------
        rows : int
            Rows learnt so far.
        labels : array
            The labels of the rows that wait.
        known : set
            The classes learnt so far.

        Returns
        -------
        int
            At least 1. A piece ends where the predictor is renewed, and with the first row of a new class.
        """
        stop = min(len(labels), self.next_after(rows) - rows)
        if self.least == 1 or len(known) < 2:
            listed = labels[:stop].tolist()
            if not known.issuperset(listed):
                return next(place for place, label in enumerate(listed) if label not in known) + 1
        return stop


def places(rows: int) -> bool:
    """Tell whether the landmarks of a kernel model are placed again at this row number."""
    return rows > SETTINGS.first_choice and rows & (rows - 1) == 0


def next_placing(rows: int) -> int:
    """Return the next row number at which landmarks are placed again."""
    return 1 << max(rows, SETTINGS.first_choice).bit_length()


def power_of_two(number: int) -> int:
    """Return the largest power of two up to a number, 1 at the least."""
    return 1 << max(int(number).bit_length() - 1, 0)
