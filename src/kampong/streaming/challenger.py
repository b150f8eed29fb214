"""A kernel model on new landmarks, which learns and predicts beside the model of a stream until the better one stays.

The first landmarks are the few rows with which the stream began. When the rows have doubled, new ones are placed with
the sample that the model keeps, and both are compared on the rows that come next. Row numbers decide when, so that runs
repeat, and a run that is saved in between goes on with both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong.estimators.stream_model import KernelModel
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.streaming.prediction import renewed
from kampong.streaming.schedule import Schedule
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from kampong._core.compute import Rows
    from kampong.contract import StreamModel
    from kampong.files import Contents
    from kampong.predictor import Predictor


class Challenger:
    """A model of the same rows on other landmarks.

    Parameters
    ----------
    model : KernelModel
        The model.
    predictor : Predictor
        What it predicts with.
    since : int
        The rows after which it began, a power of two.
    """

    def __init__(self, model: KernelModel, predictor: Predictor, since: int) -> None:
        self.model, self.predictor, self.since = model, predictor, since
        self.alone = np.zeros(2, dtype=np.int64)  # rows on which it alone was right, or alone was wrong

    @property
    def due(self) -> int:
        """The row number at which one of the two stays."""
        return self.since + self.since // SETTINGS.compared_parts

    @property
    def wins(self) -> bool:
        """Whether it stays: not clearly worse where it lacks no row, beyond doubt better where it does.

        More landmarks pay as more rows come, so that a tie speaks for them. Rows that only the others know are a loss
        for good. One standard error is "clearly", two are "beyond doubt".
        """
        better, worse = self.alone.tolist()
        error = math.sqrt(better + worse)
        if _sums(self.model).estimated:
            return bool(better - worse > 2 * error)
        return bool(better - worse >= -error)

    def take(self, X: Rows, y: np.ndarray, said: np.ndarray | None, rows: int) -> bool:
        """Predict rows, learn them, and renew the predictor where it is due.

        Parameters
        ----------
        X : array or sparse matrix
            Rows that the model of the stream has predicted.
        y : array
            Their labels.
        said : array or None
            What the model of the stream said of them.
        rows : int
            Rows learnt with them.

        Returns
        -------
        bool
            False where it cannot: then it is out, and the stream goes on without it.
        """
        try:
            if said is not None:
                mine, theirs = self.predictor.answers(X)[1] == y, said == y
                self.alone += [np.count_nonzero(mine & ~theirs), np.count_nonzero(theirs & ~mine)]
            self.model.learn(X, y)
            self.predictor = renewed(self.model, self.predictor, Schedule.of(self.model), rows) or self.predictor
        except ValueError:
            return False
        return True

    def give(self, model: StreamModel) -> Predictor:
        """Give the model of the stream what was learnt here, and return the predictor from now on."""
        assert isinstance(model, KernelModel)
        model.adopt(self.model)
        return self.predictor

    # To and from a model file.

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        model = {name: value for name, value in self.model.to_state().items() if name != "predictor"}
        return {"model": model, "predictor": self.predictor.to_state(), "since": self.since, "alone": self.alone}

    @classmethod
    def from_state(cls, contents: Contents, model: StreamModel, rows: int) -> Self:
        """Return the challenger that `to_state` wrote, each value checked.

        Parameters
        ----------
        contents : Contents
            The values, which are used up.
        model : StreamModel
            The model of the stream.
        rows : int
            Rows learnt.

        Returns
        -------
        Challenger
            It goes on with the same bits.
        """
        if not isinstance(model, KernelModel):
            contents.refuse(f"a {type(model.estimator).__name__} has no landmarks")
        other = model.from_state(contents.part("model"))
        mine, theirs = _sums(other), _sums(model)
        same = mine.classes.tolist() == theirs.classes.tolist() and mine.n_samples == theirs.n_samples
        contents.require(same and mine.kept is not None, "it has not learnt the rows that the model has")
        predictor = other.predictor_from(contents.part("predictor"))
        known = set(predictor.classes.tolist()) <= set(mine.classes.tolist()) and predictor.n_rows <= rows
        contents.require(known, "its predictor knows classes or rows that it does not")
        result = cls(other, predictor, contents.whole("since", low=1))
        contents.require(begins(result.since), f"since is {result.since}, expected a power of two")
        in_time = result.since <= rows < result.due
        contents.require(in_time, f"since is {result.since}, and {rows} rows have been learnt")
        result.alone = contents.array("alone", np.int64, (2,), low=0, high=rows - result.since).copy()
        contents.require(result.alone.sum() <= rows - result.since, "alone counts more rows than there were")
        contents.finish()
        return result


def begins(rows: int) -> bool:
    """Tell whether landmarks are placed again at this row number."""
    return rows > SETTINGS.first_choice and rows & (rows - 1) == 0


def next_after(rows: int) -> int:
    """Return the next row number at which landmarks are placed again."""
    return 1 << max(rows, SETTINGS.first_choice).bit_length()


def challenge(model: StreamModel, rows: int) -> Challenger | None:
    """Return what competes with the model of a stream from this row number on.

    Parameters
    ----------
    model : StreamModel
        The model of the stream.
    rows : int
        Rows learnt.

    Returns
    -------
    Challenger or None
        None where nothing is due, or where landmarks cannot be placed again.
    """
    if not begins(rows) or not isinstance(model, KernelModel):
        return None
    try:
        other = model.placed_again(_most_landmarks(rows))
        predictor = None if other is None else other.predictor()
    except ValueError:  # a kernel may be infinite or zero there; the model has landmarks on which it is not
        return None
    return None if other is None or predictor is None else Challenger(other, predictor, rows)


def _most_landmarks(rows: int) -> int:
    """Return how many new landmarks a model of this many rows gets at most."""
    return min(SETTINGS.most_landmarks, max(SETTINGS.few_landmarks, rows // SETTINGS.rows_per_landmark))


def _sums(model: KernelModel) -> KernelScatter:
    """Return the sums over the kernel values of a model that has learnt rows."""
    assert isinstance(model.statistics, KernelScatter)
    return model.statistics
