"""Following drift, half_life="auto": an estimator of all rows whose answers come from a contest."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from scipy import special
from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import lock_of, one_at_a_time, whole
from kampong.data.labels import codes_among, labels_from, labels_state
from kampong.data.validation import (
    check_number,
    check_weights,
    validate_batch,
)
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.online.contest import check_entries
from kampong.online.follower import Follower
from kampong.online.settings import Settings
from kampong.selection.losses import HeldOutLosses

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows
    from kampong.contract import Pauses
    from kampong.estimators.results import Answering
    from kampong.files import Contents
    from kampong.predictor import Predictor


@dataclass(frozen=True)
class AnsweringContest:
    """What a contest and a predictor of all rows say of rows; a copy of the contest makes it what they said once.

    Attributes
    ----------
    follower : Follower
        The contest.
    predictor : Predictor or None
        What knows all rows, None where it takes no part.
    classes : array of shape (n_classes,)
        The labels, sorted.
    appeared : array of int of shape (n_classes,)
        The number of each label, in the order in which they appeared.
    """

    follower: Follower
    predictor: Predictor | None
    classes: np.ndarray
    appeared: Integer

    def log_probabilities(self, rows: Rows) -> Float:
        """Return log-probabilities in the order of the labels, moved to the shares of classes that were given."""
        return self._logs(rows, self._seen(rows))

    def given(self, rows: Rows) -> Float | None:
        """Return what the predictor of all rows says of rows, for the contest: labels by their numbers."""
        return self._given(self._seen(rows))

    def _seen(self, rows: Rows) -> Float | None:
        """Return what the head of the predictor of all rows looks at."""
        return None if self.predictor is None else self.predictor.seen_points(rows)

    def _logs(self, rows: Rows, seen: Float | None) -> Float:
        return in_order(self.follower.predict(rows, self._given(seen)), self.appeared, self.predictor)

    def _given(self, seen: Float | None) -> Float | None:
        if self.predictor is None or seen is None or not len(seen):
            return None
        known = self.predictor.classes  # a part of the classes, sorted too
        order = self.appeared if len(known) == len(self.classes) else self.appeared[codes_among(self.classes, known)]
        logs = np.full((len(seen), len(self.classes)), -np.inf)
        logs[:, order] = self.predictor.head.log_probabilities(seen)
        return logs

    def answers(self, X: Rows) -> tuple[Float | None, np.ndarray]:
        """Return the coordinates of rows, None without a predictor of all rows, and their classes."""
        seen = self._seen(X)
        points = None if self.predictor is None or seen is None else seen[:, : len(self.predictor.components)]
        return points, self.classes[np.argmax(self._logs(X, seen), axis=1)]

    def ways(self, X: Rows) -> tuple[np.ndarray, ...]:
        """Return the classes of rows by the contest, and by the model of all rows alone."""
        seen = self._seen(X)
        mine = self.classes[np.argmax(self._logs(X, seen), axis=1)]
        return (mine,) if self.predictor is None or seen is None else (mine, self.predictor.labels_at(seen))

    def labels(self, X: Rows) -> np.ndarray:
        """Return the classes of rows."""
        labels: np.ndarray = self.classes[np.argmax(self.log_probabilities(X), axis=1)]
        return labels

    def decisions(self, X: Rows) -> Float:
        """Return log-probabilities; of two classes that of the second less that of the first."""
        logs = self.log_probabilities(X)
        return np.asarray(logs[:, 1] - logs[:, 0]) if logs.shape[1] == 2 else logs

    def probabilities(self, X: Rows) -> Float:
        """Return the probability of each class."""
        return np.exp(self.log_probabilities(X))

    def widened(self, n_features: int) -> Self:
        """Return the same for wider rows; the further columns were 0 so far."""
        predictor = None if self.predictor is None else self.predictor.widened(n_features)
        return replace(self, follower=self.follower.widened(n_features), predictor=predictor)

    def apart(self) -> Self:
        """Return the same with a contest of its own."""
        return replace(self, follower=copy.deepcopy(self.follower), appeared=self.appeared.copy())

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return self.follower.nbytes + (0 if self.predictor is None else self.predictor.nbytes)

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        state = {
            "contest": self.follower.to_state(),
            "classes": labels_state(self.classes),
            "appeared": np.array(self.appeared, dtype=np.int64),
        }
        return state if self.predictor is None else {**state, "predictor": self.predictor.to_state()}

    @classmethod
    def from_state(cls, contents: Contents, predictor: Predictor | None, n_features: int) -> Self:
        """Return what `to_state` wrote, each value checked.

        Parameters
        ----------
        contents : Contents
            The state without its predictor.
        predictor : Predictor or None
            The predictor.
        n_features : int
            The width of the rows.

        Returns
        -------
        AnsweringContest
            It answers the same.
        """
        classes = labels_from(contents.part("classes"))
        appeared = contents.array("appeared", np.int64, (len(classes),))
        ordered = len(np.unique(classes)) == len(classes) and bool((np.unique(classes) == classes).all())
        contents.require(ordered, "classes are not sorted, or hold a label twice")
        contents.require(
            np.array_equal(np.sort(appeared), np.arange(len(classes))), "appeared does not number the classes"
        )
        known = predictor is None or set(predictor.classes.tolist()) <= set(classes.tolist())
        contents.require(known, "the predictor knows classes that the contest does not")
        follower = Follower.from_state(contents.part("contest"), n_features, len(classes))
        contents.finish()
        return cls(follower, predictor, classes, appeared)


def in_order(logs: Float, appeared: Integer, predictor: Predictor | None) -> Float:
    """Return log-probabilities in the order of the labels, moved to the shares of classes that were given."""
    logs = logs[:, appeared]
    if predictor is None or predictor.shift is None or len(predictor.shift) != logs.shape[1]:
        return logs
    moved: Float = special.log_softmax(logs + predictor.shift, axis=1)
    return moved


class FollowsDrift(DiscriminantSubspace):
    """Gives an estimator half_life="auto": every row is learnt by its statistics and by a contest.

    The statistics forget nothing. The contest has members that follow drift, and one that says what the predictor of
    all rows says. The answers about classes are those of the contest; directions are those of all rows.
    """

    effort: Any
    _follows_drift = True
    _follower: Follower | None = None
    _all_rows_answer = False  # a stream found that long after its end the model of all rows is right more often

    @property
    def member_weights_(self) -> dict[str, float]:
        """How much each answer counts in the contest of half_life="auto"; empty where there is none."""
        check_is_fitted(self)
        follower = self._follows()
        return {} if follower is None else follower.member_weights

    # Answers.

    def _answer(self, X: Any, answer: Callable[[Answering, Rows], np.ndarray]) -> np.ndarray:
        """Return what `answer` reads of the contest for some rows; of the predictor, where that answers itself."""
        if self._answering() is None:
            return super()._answer(X, answer)
        rows = self._rows(X)
        check_entries(rows, type(self).__name__)
        with lock_of(self):
            known = self._solved()
            contest = self._contest(known)
            assert contest is not None
            found = answer(contest, rows)
        self._say(known)
        return found

    def _check_exported(self) -> None:
        if self._answering() is not None:
            self._refuse_contest("to_sklearn", TypeError)

    def _refuse_contest(self, what: str, kind: type[Exception]) -> NoReturn:
        raise kind(
            f"{type(self).__name__}.{what}: with half_life='auto' a contest of learners answers, which is not linear "
            "and cannot be exported. set_params(half_life=None) answers by the model of all rows, which can."
        )

    def _planes(self) -> tuple[Float, Float]:
        if self._answering() is not None:
            self._refuse_contest("coef_", AttributeError)
        return super()._planes()

    def _held_out_losses(self) -> HeldOutLosses | None:
        """Return what the last rows of the stream cost before they were learnt, where a contest answers."""
        follower = self._answering()
        if follower is None:
            return super()._held_out_losses()
        if self._priors() is not None:
            raise ValueError(
                f"{type(self).__name__}.predict_set: priors={self.priors!r:.100} and half_life='auto' cannot be used "
                "together for sets, because the stream was predicted with the shares observed. Set priors='observed'."
            )
        losses, numbers = follower.recent_losses, follower.recent_codes
        places = np.argsort(self._statistics.appeared)
        return HeldOutLosses(losses, places[numbers], np.ones(len(losses)), np.zeros(len(losses), dtype=np.int64))

    def _following(self) -> Follower | None:
        """Return what follows drift, None where nothing does."""
        return self._follower if isinstance(self.half_life, str) else None

    def _follows(self) -> Follower | None:
        """Return the contest that answers the stream instead of the predictor, None if the predictor answers."""
        follower = self._following()
        return None if follower is None or follower.classes < 2 else follower

    def _answering(self) -> Follower | None:
        """Return the contest that answers rows to predict, None if the predictor does."""
        return None if self._all_rows_answer else self._follows()

    def _contest(self, predictor: Predictor | None) -> AnsweringContest | None:
        """Return the contest with a predictor of all rows; None if no contest answers."""
        follower = self._follows()
        if follower is None:
            return None
        return AnsweringContest(follower, predictor, self._statistics.classes, self._statistics.appeared)

    # Learning.

    def _start(self, n_features: int, y: Any) -> None:
        super()._start(n_features, y)
        widest = max(n_features, getattr(self, "_widest", 0))
        auto = isinstance(self.half_life, str)
        self._follower = Follower(float(self.effort), self._seed(), widest) if auto else None

    @one_at_a_time
    def _learn(self, X: Rows, y: Any, sample_weight: Any, classes: Any = None) -> None:
        super()._learn(X, y, sample_weight, classes)
        self._all_rows_answer = False
        self._follow(X, y, sample_weight, None)

    def _follow(
        self, X: Rows, y: Any, sample_weight: Any, given: Float | None, pauses: Pauses | None = None
    ) -> Float | None:
        """Let the contest predict and learn rows that the statistics have learnt; return its log-probabilities."""
        if self._statistics.multilabel:
            self._follower = None
        if self._follower is None:
            return None
        weights = check_weights(sample_weight, X.shape[0])
        taught = np.flatnonzero(weights)
        if len(taught) < len(weights):
            X, y, weights = X[taught], np.asarray(y)[taught], weights[taught]
        codes, labels = self._statistics.numbers_of(y), len(self._statistics.classes)
        if given is not None and given.shape[1] < labels:
            given = np.pad(given, ((0, 0), (0, labels - given.shape[1])), constant_values=-np.inf)
        return self._follower.learn(X, codes, weights, labels, given, pauses)

    @whole
    def _predict_then_learn(
        self, X: Rows, y: Any, predictor: Predictor | None, pauses: Pauses | None = None
    ) -> tuple[np.ndarray, Float] | None:
        """Predict each row and then learn it, with half_life="auto".

        `predictor` is one of all rows, which takes part in the contest; at `pauses` the contest knows the rows up to
        there. Return the classes and how probable they were; None while fewer than two are known.
        """
        X, y = validate_batch(self, X, y, reset=False)
        assert self._follower is not None
        known, contest = self._follower.classes, self._contest(predictor)
        given = None if contest is None else contest.given(X)
        super()._learn(X, y, None)
        self._all_rows_answer = False
        logs = self._follow(X, y, None, given, pauses)
        if logs is None or known < 2:
            return None
        logs = in_order(logs, self._statistics.appeared, predictor)
        best = np.argmax(logs, axis=1)
        return self.classes_[best], np.exp(logs[np.arange(len(best)), best])

    def _keep_all(self) -> None:
        self._follower, self._all_rows_answer = None, False
        self._forget_results()

    @one_at_a_time
    def _move_columns(self, places: Integer, n_features: int) -> None:
        super()._move_columns(places, n_features)
        if self._follower is not None:
            stay = np.array_equal(places, np.arange(len(places)))
            self._follower = self._follower.widened(n_features) if stay else None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        step = f"{Settings.effort:g} is the default."
        check_number(type(self).__name__, "effort", self.effort, low=0.0, high=1e9, next_step=step)

    def _beside(self) -> dict[str, Any]:
        follower = self._following()
        return {} if follower is None else {"contest": follower.to_state(), "all_rows_answer": self._all_rows_answer}

    def _from_state(self, contents: Contents) -> None:
        super()._from_state(contents)
        self._follower, self._all_rows_answer = None, False
        if "contest" in contents:
            contents.require(
                isinstance(self.half_life, str), f"half_life is {self.half_life!r}, and there is a contest"
            )
            labels = len(self._statistics.classes)
            self._follower = Follower.from_state(contents.part("contest"), self.n_features_in_, labels)
            self._all_rows_answer = contents.flag("all_rows_answer")
