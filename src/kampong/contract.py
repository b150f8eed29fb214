"""The contract between a model and what uses it from outside: streams, adapters, reports, the command line.

    estimator → stream_model → StreamModel: learn, predict then learn, predictor, widen, merge, unlearn, state

`StreamModel` lists all that may be asked of a model. `PartialFitModel` gives it to any estimator with `partial_fit`,
also one of scikit-learn, and says what such an estimator cannot do. The subspaces can do more: see
`kampong.estimators.stream_model`.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kampong.files.contents import flatten
from kampong.files.saved_models import CLASSES, from_bytes, to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.predictor import Predictor
    from kampong.selection.known_rows import KnownRows
    from kampong.statistics.means import ClassMeans
    from kampong.statistics.receipt import Receipt

__all__ = ["Abilities", "Frozen", "FrozenEstimator", "PartialFitModel", "Pauses", "StreamModel", "stream_model"]


@dataclass(frozen=True)
class Abilities:
    """What a model can do. A method that a model cannot do raises a TypeError that says so.

    Attributes
    ----------
    learn : bool
        Learn a batch.
    predict, transform : bool
        Predict the classes of rows, and give their coordinates.
    save : bool
        Be written to a model file.
    freeze : bool
        Give a frozen `Predictor`. Other models answer by themselves, with all rows learnt so far.
    widen : bool
        Gain columns between two batches.
    merge : bool
        Be merged with a model of other rows.
    unlearn : bool
        Take rows out again.
    landmarks : bool
        Place landmarks with the first batch, which should therefore be large.
    reject : bool
        Tell rows that look like no class.
    """

    learn: bool = True
    predict: bool = True
    transform: bool = True
    save: bool = True
    freeze: bool = False
    widen: bool = False
    merge: bool = False
    unlearn: bool = False
    landmarks: bool = False
    reject: bool = False


class Pauses(NamedTuple):
    """Where a model that follows drift pauses while it learns a batch, so that it can be asked in between.

    Attributes
    ----------
    places : sequence of int
        After how many rows of the batch, in rising order.
    at : callable
        What is called there, with this number: what answers then knows the rows up to there and no others.
    """

    places: Sequence[int]
    at: Callable[[int], None]


class Frozen(Protocol):
    """What answers rows as a model did at one time. A `Predictor` is one."""

    def answers(self, X: Rows) -> tuple[Float | None, np.ndarray]:
        """Return the coordinates of rows, None if there are none, and their classes."""

    def ways(self, X: Rows) -> tuple[np.ndarray, ...]:
        """Return the classes of rows, as the stream answers, and after them those of another way to answer.

        A second way is that of the model of all rows where a contest answers the stream: a saved model may take it.
        """

    def apart(self) -> Self:
        """Return the same, sharing nothing with the model that later rows change."""

    def widened(self, n_features: int) -> Self:
        """Return the same for wider rows; the further columns count for nothing."""

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""

    def to_state(self) -> dict[str, Any]:
        """Return everything by name, for `StreamModel.frozen_from`."""


class StreamModel(Protocol):
    """What streams, adapters, reports and the command line may ask of a model. They use nothing else of it."""

    @property
    def estimator(self) -> Any:
        """The estimator, for its public parameters, results and answers."""

    @property
    def can(self) -> Abilities:
        """What the model can do: a stream asks before it begins, not when a row fails."""

    @property
    def fitted(self) -> bool:
        """Whether it has learnt a row: nothing can be predicted or saved as learnt before."""

    @property
    def classes(self) -> list[Any] | None:
        """The classes it knows, None if it learns without labels: with one alone a stream predicts that one."""

    @property
    def width(self) -> int:
        """How many numbers a row is learnt as, or will be: this decides how often a stream can afford a solve."""

    @property
    def statistics(self) -> ClassMeans | None:
        """What it remembers of the rows, None if it has no statistics: for reports and checks, never to change."""

    @property
    def known(self) -> Predictor | None:
        """The predictor that has been solved already, None if there is none: a live page must not solve."""

    @property
    def follows_drift(self) -> bool:
        """Whether it predicts each row itself before it learns it: then the stream's predictor only takes part."""

    def read(self, name: str) -> Any:
        """Return a public member by its name, a parameter or a result, None if there is none: for reports and notes."""

    def learn(self, X: Rows, y: np.ndarray, classes: Sequence[Any] = ()) -> None:
        """Learn a batch; `classes` are those that may come, told with the first batch."""

    def predict_then_learn(
        self,
        X: Rows,
        y: np.ndarray,
        predictor: Predictor | None = None,
        classes: Sequence[Any] = (),
        pauses: Pauses | None = None,
    ) -> tuple[np.ndarray, Float] | None:
        """Learn a batch. A model that follows drift predicts each row before it learns it, and pauses where it is told.

        It returns the classes and how probable they were. `predictor` is the stream's own, and takes part.
        """

    def answer(self, X: Rows, predictor: Predictor | None = None) -> tuple[Float | None, np.ndarray | None]:
        """Return coordinates and classes, None for what it cannot give: for a stream that needs more than a predictor.

        `predictor` is the stream's own, where it has one: a model that follows drift lets it take part.
        """

    def predictor(self, keep: Predictor | None = None, *, provisional: bool = False) -> Predictor | None:
        """Return a frozen predictor, None before two classes: a stream answers with it until the next solve.

        With `keep` nothing is chosen again. `provisional` says that the choice serves only until the next one.
        """

    def has_aged(self, predictor: Predictor) -> bool:
        """Tell whether recent rows say that what was chosen for a predictor should be chosen again; if nobody knows."""

    def frozen(self, predictor: Predictor | None = None, *, saved: bool = False) -> Frozen | None:
        """Return who answers as the stream would now, None if nobody can; `apart` does not change with later rows.

        `predictor` is the stream's own. With `saved` the answers are those of the model file, if the stream ended now
        and `settle` were called with this predictor: so a stream measures what its saved model is worth later on.
        """

    def frozen_from(self, contents: Contents) -> Frozen:
        """Return what `Frozen.to_state` wrote, each value checked."""

    def settle(self, keep: Predictor | None = None, *, forget_nothing: bool = False) -> None:
        """Solve, so that a saved model answers at once; what cannot be solved says so when it is read.

        With `keep` its choices stay. `forget_nothing` ends what follows drift: a stream that was sorted by class says
        nothing about drift.
        """

    def let_all_rows_answer(self, alone: bool) -> None:
        """Say before a save whether the second of `Frozen.ways` is to answer for the saved model."""

    def expect_width(self, n_features: int) -> None:
        """Say before the first rows how wide they may become: text brings columns while it is read."""

    def move_columns(self, places: Integer, n_features: int) -> None:
        """Move columns to new places of a new width: for new columns, and before two models are merged."""

    def merge(self, other: Self) -> Self:
        """Return the model of the rows of both: parts of a source are learnt apart."""

    def unlearn(self, X: Rows, y: np.ndarray) -> Receipt:
        """Take rows out again: for `kampong unlearn`."""

    def known_rows(self, predictor: Predictor, most: int) -> KnownRows | None:
        """Return what tells rows that look like no class, by at most this many kept rows; None while they are few."""

    def blank(self, seed: int | None = None) -> Self:
        """Return a model with the same parameters that has learnt nothing: every part of a source begins with one.

        `seed` is that of its sample of rows. Landmarks stay, so that parts can be merged.
        """

    def copy(self) -> Self:
        """Return a copy that later rows do not change: a stream solves it while it learns on."""

    def predictor_from(self, contents: Contents) -> Predictor:
        """Return a predictor of this model that a file holds: a resumed stream predicts the same bits."""


class FrozenEstimator:
    """A copy of an estimator that nothing learns any more.

    Parameters
    ----------
    estimator : estimator
        The copy.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def answers(self, X: Rows) -> tuple[Float | None, np.ndarray]:
        """Return no coordinates, and the classes of rows."""
        return None, self.estimator.predict(X)

    def ways(self, X: Rows) -> tuple[np.ndarray, ...]:
        """Return the classes of rows: there is one way to answer."""
        return (self.estimator.predict(X),)

    def apart(self) -> Self:
        """Return a copy."""
        return type(self)(copy.deepcopy(self.estimator))

    def widened(self, n_features: int) -> Self:
        """Return itself: the columns of such an estimator are fixed."""
        return self

    @property
    def nbytes(self) -> int:
        """The bytes of a model file."""
        return sum(array.nbytes for array in flatten(self.to_state())[0].values())

    def to_state(self) -> dict[str, Any]:
        """Return the estimator as the bytes of a model file."""
        return {"estimator": np.frombuffer(to_bytes(self.estimator, solve=False), dtype=np.uint8)}


class PartialFitModel:
    """The contract for any estimator with `partial_fit`, also one of scikit-learn.

    It learns and answers; what needs statistics of the rows is refused with a message that names the estimator.

    Parameters
    ----------
    estimator : estimator
        What learns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from kampong.contract import stream_model
    >>> model = stream_model(GaussianNB())
    >>> model.learn(np.array([[0.0], [1.0]]), np.array([0, 1]), classes=[0, 1])
    >>> model.classes, model.can.predict, model.can.merge
    ([0, 1], True, False)
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def can(self) -> Abilities:
        """What the estimator can do, by its public methods."""
        has = {name: callable(getattr(self.estimator, name, None)) for name in ("predict", "transform", "merge")}
        name = type(self.estimator).__name__
        learns = callable(getattr(self.estimator, "partial_fit", None))
        return Abilities(learn=learns, save=CLASSES.get(name) is type(self.estimator), **has)

    @property
    def fitted(self) -> bool:
        """Whether it has learnt a row."""
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    @property
    def classes(self) -> list[Any] | None:
        """The classes it knows, None if it learns without labels."""
        try:
            return list(self.estimator.classes_.tolist())
        except NotFittedError:
            return []
        except AttributeError:
            return None

    @property
    def width(self) -> int:
        """The number of columns, 0 before the first row."""
        return int(self.read("n_features_in_") or 0)

    @property
    def statistics(self) -> ClassMeans | None:
        """None: it has no statistics."""
        return None

    @property
    def known(self) -> Predictor | None:
        """None: it has no predictor apart from its state."""
        return None

    @property
    def follows_drift(self) -> bool:
        """False: it learns a batch at a time."""
        return False

    def read(self, name: str) -> Any:
        """Return a public member by its name, None if there is none."""
        return getattr(self.estimator, name, None)

    def learn(self, X: Rows, y: np.ndarray, classes: Sequence[Any] = ()) -> None:
        """Learn a batch.

        Parameters
        ----------
        X : array or sparse matrix
            The rows.
        y : array
            Their classes.
        classes : sequence
            The classes that may come; they are told to an estimator that asks for them.
        """
        if not self.can.learn:
            self._refuse("learn a stream: it has no partial_fit")
        if "classes" not in inspect.signature(self.estimator.partial_fit).parameters:
            self.estimator.partial_fit(X, y)
            return
        first = not self.fitted
        try:
            self.estimator.partial_fit(X, y, classes=list(classes) or None)
        except ValueError as error:
            if not first or classes or "classes" not in str(error):
                raise
            raise ValueError(
                f"{type(self.estimator).__name__}: {error} Declare all classes that may come: classes=[…] in learn, or "
                "--classes on the command line."
            ) from None

    def predict_then_learn(
        self,
        X: Rows,
        y: np.ndarray,
        predictor: Predictor | None = None,
        classes: Sequence[Any] = (),
        pauses: Pauses | None = None,
    ) -> tuple[np.ndarray, Float] | None:
        """Learn a batch, without a pause; it is predicted by `answer` before."""
        self.learn(X, y, classes)
        return None

    def answer(self, X: Rows, predictor: Predictor | None = None) -> tuple[Float | None, np.ndarray | None]:
        """Return the coordinates and the classes of rows."""
        can = self.can
        points = self.estimator.transform(X) if can.transform else None
        labels = self.estimator.predict(X) if can.predict else None
        return points if isinstance(points, np.ndarray) else None, labels

    def predictor(self, keep: Predictor | None = None, *, provisional: bool = False) -> Predictor | None:
        """Refuse."""
        self._refuse("be frozen: it has no predictor apart from its state")

    def has_aged(self, predictor: Predictor) -> bool:
        """Return True: nobody knows."""
        return True

    def frozen(self, predictor: Predictor | None = None, *, saved: bool = False) -> Frozen | None:
        """Return the estimator, which answers itself; None if it predicts nothing or knows fewer than two classes."""
        known = self.classes
        if not (self.can.predict and self.fitted) or (known is not None and len(known) < 2):
            return None
        return FrozenEstimator(self.estimator)

    def frozen_from(self, contents: Contents) -> Frozen:
        """Return a copy of the estimator that a file holds."""
        found = from_bytes(contents.array("estimator", np.uint8, (None,)).tobytes())
        contents.finish()
        width = getattr(found, "n_features_in_", None)
        fits = type(found) is type(self.estimator) and width == self.read("n_features_in_")
        contents.require(fits, f"it is a {type(found).__name__} of {width} columns, which the model is not")
        return FrozenEstimator(found)

    def settle(self, keep: Predictor | None = None, *, forget_nothing: bool = False) -> None:
        """Do nothing: there is nothing to solve."""

    def let_all_rows_answer(self, alone: bool) -> None:
        """Do nothing: it answers in one way."""

    def expect_width(self, n_features: int) -> None:
        """Do nothing: its columns are fixed."""

    def move_columns(self, places: Integer, n_features: int) -> None:
        """Refuse."""
        self._refuse("gain or move columns after its first batch")

    def merge(self, other: Self) -> Self:
        """Return the model of the rows of both."""
        if not self.can.merge:
            self._refuse("be merged: two of its models are not the model of all rows")
        return type(self)(self.estimator.merge(other.estimator))

    def unlearn(self, X: Rows, y: np.ndarray) -> Receipt:
        """Refuse."""
        self._refuse("take rows out again")

    def known_rows(self, predictor: Predictor, most: int) -> KnownRows | None:
        """Refuse."""
        self._refuse("tell rows that look like no class")

    def blank(self, seed: int | None = None) -> Self:
        """Return a model with the same parameters that has learnt nothing."""
        estimator = clone(self.estimator)
        if seed is not None:
            estimator.random_state = seed
        return type(self)(estimator)

    def copy(self) -> Self:
        """Refuse."""
        self._refuse("be solved beside a stream")

    def predictor_from(self, contents: Contents) -> Predictor:
        """Refuse."""
        self._refuse("be frozen: it has no predictor apart from its state")

    def _refuse(self, what: str) -> NoReturn:
        raise TypeError(
            f"{type(self.estimator).__name__} cannot {what}. Use FisherDiscriminant or another subspace of kampong."
        )


@singledispatch
def stream_model(estimator: Any) -> StreamModel:
    """Return an estimator as streams, adapters, reports and the command line use it.

    Parameters
    ----------
    estimator : estimator
        An estimator of kampong, or any other with `partial_fit`. An estimator with more abilities registers a class of
        its own: `stream_model.register(TheEstimator, TheModel)`.

    Returns
    -------
    StreamModel
        The contract. It holds the estimator and no state of its own, so that any number may be made.
    """
    return PartialFitModel(estimator)
