"""The tuned numbers of streams: what each means, its unit, and the benchmark that measures it.

Benchmarks are named as `python -m benchmarks NAME`: "throughput" measures time, "streams" accuracy before each row is
learnt, "delays" accuracy when labels come late. Limits of memory and time stay where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Numbers that decide when a stream solves, chooses and compares; none of them is an option.

    Attributes
    ----------
    first_choice : int
        Rows, a power of two: parameter and head are chosen first after as many ("streams").
    full_sample : int
        Rows, a power of two: from here on the validation sample of a choice does not grow, and choices become rare
        ("throughput").
    early_rows : int
        Rows, a power of two: up to here a wide model is solved more often, as its sample is small, and at once instead
        of beside the stream ("throughput").
    narrow_columns : int
        Columns up to which a solve is quick enough to come after every row at first, and after each row of a new class
        ("throughput").
    most_landmarks : int
        New landmarks of a kernel model at most. To learn a row costs their square, a solve their cube ("streams
        kernel").
    saved_delay : int
        Rows: copies for delays from here on are what a saved model answers with, shorter ones what the stream answers
        with ("delays").
    sure_error : float
        A delay is measured well if the standard error of its accuracy is below this ("delays").
    """

    first_choice: int = 2**4
    full_sample: int = 2**14
    early_rows: int = 2**11
    narrow_columns: int = 128
    most_landmarks: int = 2**10
    saved_delay: int = 1000
    sure_error: float = 0.01


SETTINGS = Settings()
"""The settings in use."""
