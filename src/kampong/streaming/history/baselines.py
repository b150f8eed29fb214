"""What an accuracy must be compared with: the commonest class and the last label, each known before its row.

Both predict each row that the stream could score, then learn its label, row after row: the cut into batches does not
matter. If labels come late, both learn them as late. With p the accuracy and q that of a baseline, kappa is
(p − q) / (1 − q): 1 for no error, 0 for no gain, negative for a loss. "Kappa over the last label" is the temporal
kappa of Žliobaitė et al., Evaluation methods and decision theory for classification of streaming data with temporal
dependence, 2015. The plain kappa (Cohen) takes for q what labels drawn at random, as often as they came and were
predicted, would have right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.loops import Loop, part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._core.compute import Integer
    from kampong.files import Contents

NOBODY = 0
"""The code of no class, and of the classes that are counted together: never predicted, never right."""


class Baselines:
    """The commonest class so far and the last label, counted on the rows that the stream could score.

    The commonest class is replaced when another one has come more often than it.

    Parameters
    ----------
    delay : int
        How many rows late the labels come.

    Attributes
    ----------
    delay : int
        How many rows late the labels come.
    majority, last : int
        Rows that the commonest class, and the last label, had right.
    """

    def __init__(self, delay: int = 0) -> None:
        self.delay = delay
        self.majority = self.last = 0
        self._counts: Integer = np.zeros(1, dtype=np.int64)
        self._says: Integer = np.full(2, NOBODY, dtype=np.int64)  # the commonest class, the last label
        self._waiting: Integer = np.zeros(0, dtype=np.int64)  # labels that have not come yet

    def add(self, codes: Integer, scored: np.ndarray, n_codes: int) -> None:
        """Predict rows and learn their labels, one after the other.

        Parameters
        ----------
        codes : array of int
            The classes of the rows.
        scored : array of bool
            Which of them count.
        n_codes : int
            The number of classes so far.
        """
        self._counts = np.pad(self._counts, (0, n_codes - len(self._counts)))
        labels = np.concatenate([self._waiting, codes])
        first = len(self._waiting) - self.delay  # the label that comes with the first row; negative while none does
        majority, last = follow(codes, scored, labels, first, self._counts, self._says)
        self.majority, self.last = self.majority + int(majority), self.last + int(last)
        self._waiting = labels[max(len(labels) - self.delay, 0) :]

    def flush(self) -> None:
        """Let all labels that wait come: the source has ended."""
        nobody: Integer = np.zeros(len(self._waiting), dtype=np.int64)
        follow(nobody, nobody > 0, self._waiting, 0, self._counts, self._says)
        self._waiting = self._waiting[:0]

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "delay": self.delay,
            "right": np.array([self.majority, self.last], dtype=np.int64),
            "counts": self._counts.copy(),
            "says": self._says.copy(),
            "waiting": self._waiting.copy(),
        }

    @classmethod
    def from_state(cls, contents: Contents, rows: Integer, scored: int) -> Self:
        """Return what `to_state` wrote, if it can be of this many rows of each class, this many of them scored."""
        found, require = cls(contents.whole("delay")), contents.require
        right = contents.array("right", np.int64, (2,), low=0, high=scored)
        found._counts = contents.array("counts", np.int64, (len(rows),), low=0).copy()
        found._says = contents.array("says", np.int64, (2,), low=0, high=len(rows) - 1).copy()
        found._waiting = contents.array("waiting", np.int64, (None,), low=0, high=len(rows) - 1).copy()
        contents.finish()
        known = found._counts + np.bincount(found._waiting, minlength=len(rows))
        require(bool((known == rows).all()), "counts and waiting are not the rows of the classes")
        short = len(found._waiting) <= found.delay
        require(short, f"waiting holds {len(found._waiting)} labels, and delay is {found.delay}")
        others = found._counts[1:]
        top = int(others.max(initial=0))
        came = found._counts[found._says] > 0
        require(bool((came | (found._says == NOBODY)).all()), "says names a class that has not come")
        leads = top == (0 if found._says[0] == NOBODY else int(found._counts[found._says[0]]))
        require(leads, "says names a class that is not the commonest")
        found.majority, found.last = right.tolist()
        return found


def kappa(accuracy: float, chance: float) -> float:
    """Return what an accuracy gains over a baseline, as a part of what could be gained; NaN where nothing could."""
    return (accuracy - chance) / (1.0 - chance) if chance < 1.0 else float("nan")


def chance_of(scored: Integer, predicted: Integer) -> float:
    """Return what labels drawn as often as they came and were predicted would have right, NaN without any."""
    n = int(scored.sum())
    return float(scored.astype(np.float64) @ predicted.astype(np.float64)) / n**2 if n else float("nan")


@Loop
def follow(
    codes: Integer, scored: np.ndarray, labels: Integer, first: int, counts: Integer, says: Integer
) -> tuple[int, int]:
    """Predict each row, then learn the label that comes with it; return how many rows each of both had right."""
    majority, last = 0, 0
    for i in range(len(codes)):
        if scored[i] and codes[i] != NOBODY:
            majority += says[0] == codes[i]
            last += says[1] == codes[i]
        if first + i >= 0:
            learn(labels[first + i], counts, says)
    return majority, last


@part
def learn(code: int, counts: Integer, says: Integer) -> None:
    """Learn a label."""
    counts[code] += 1
    says[1] = code
    if code != NOBODY and counts[code] > (0 if says[0] == NOBODY else counts[says[0]]):
        says[0] = code


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
