"""Every number of the contest. `python -m benchmarks contest` set them, on its fitting half."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The numbers of the contest.

    Attributes
    ----------
    effort : float
        Nominal microseconds per row of `columns` columns, without the model of all rows: the linear members at 5
        classes, also tiles and products at 10 columns and 2 classes ("contest effort").
    columns : int
        Rows of more columns take as much longer to read, and members get as much longer ("streams").
    learning_rates : tuple of float
        Of softmax regression: a step changes the scores of its row by this part of their gradient.
    strengths : tuple of float
        The longest passive-aggressive steps.
    half_life : float
        Rows until a row counts half: in standardised columns, label counts, and the shares and weights of answers.
    frequencies : int
        How many random directions the Fourier features have, each a cosine and a sine.
    widths : int
        How many kernel widths they have, each half the one before.
    curved_rate : float
        The learning rate of softmax regression on Fourier features and on tiles.
    cuts : int
        Into how many intervals a column is cut for tiles; its square for a column alone.
    window : int
        Among how many last rows neighbours are looked for.
    neighbours : int
        How many neighbours vote.
    wide_rate : float
        The learning rate of softmax regression on wide rows, before it adapts; set on Reuters ("streams").
    ridge : float
        The ridge that holds the weights of answers at their start, in rows.
    least_chance : float
        The least probability that an answer is taken to mean, so that one row does not rule a member out.
    narrow : int
        The most columns that are standardised and read as a whole; the entries of wider rows are read.
    most_numbers : int
        The most numbers that a member may remember: 128 MiB.
    recent : int
        Rows whose losses are kept for prediction sets; a rate of 10 % is then known to 1 % ("prediction_sets").
    """

    effort: float = 3.0
    columns: int = 20
    learning_rates: tuple[float, ...] = (0.05, 0.5)
    strengths: tuple[float, ...] = (0.01, 0.1)
    half_life: float = 1000.0
    frequencies: int = 100
    widths: int = 3
    curved_rate: float = 1.0
    cuts: int = 8
    window: int = 1000
    neighbours: int = 10
    wide_rate: float = 0.5
    ridge: float = 10.0
    least_chance: float = 1e-5
    narrow: int = 1024
    most_numbers: int = 2**24
    recent: int = 1000
