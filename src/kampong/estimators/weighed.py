"""Linear and kernel discriminants together, each weighed by what it said of rows that it had not learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import one_at_a_time, whole
from kampong.data.validation import (
    check_finite,
    check_number,
    check_seed,
    check_weights,
    in_dtype_of,
    is_indicator,
    logs_in_dtype_of,
    validate_batch,
    validate_rows,
)
from kampong.estimators.fisher import FisherDiscriminant
from kampong.estimators.kernel_fisher import KernelFisherDiscriminant
from kampong.estimators.parameters import check_priors, draw_seed
from kampong.files import Savable, savable
from kampong.kernels.landmarks import bytes_needed
from kampong.selection.losses import evidence_weights

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.files import Contents
    from kampong.predictor import Predictor

__all__ = ["WeighedDiscriminant"]

MEMBERS = ("linear", "rbf", "laplacian")


@savable
class WeighedDiscriminant(ClassifierMixin, Savable):
    """A linear and two kernel discriminants, weighed by their log-loss on rows that they had not learnt.

    The members are `FisherDiscriminant()`, `KernelFisherDiscriminant(kernel="rbf")`, each with its own choices, and
    `KernelFisherDiscriminant(kernel="laplacian", scale=True)`, where nothing but the head is chosen. Each predicts
    validation rows as if it had not learnt them, by leave-one-out or held-out rows. With L_k the sum of −log p of
    their classes, the weights are exp(−L_k) over their sum, and the probability of a class is the weighted mean of
    what the members say. Where members are validated on different numbers of rows, L_k is the mean loss times the
    least of these. It is Bayes' rule for the members, and the rule by which `OnlineClassifier` weighs its own. Where
    one member is clearly ahead, it answers alone, at its cost.

    Each row has one label. For directions, prediction sets and merging see the members, in `models_`.

    Parameters
    ----------
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed".
    memory_bytes : int
        Memory limit in bytes for statistics and solution of each kernel member, which has as many landmarks as fit.
    random_state : int, RandomState or None
        The seed of samples and landmarks. A RandomState, or numpy's own for None, draws one for each fit or stream.

    Attributes
    ----------
    models_ : dict of str to estimator
        The fitted members "linear", "rbf" and "laplacian".
    weights_ : dict of str to float
        How much each of them counts; 0 for those that are not asked.
    losses_ : dict of str to float
        The mean −log p of each on validation rows; NaN where there were none, as with fewer than ten rows. Then the
        linear one answers alone.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.

    See Also
    --------
    KernelFisherDiscriminant : One member, which also gives directions.
    kampong.online.OnlineClassifier : The same rule for a stream, row by row.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import WeighedDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> model = WeighedDiscriminant().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.95
    True
    >>> abs(sum(model.weights_.values()) - 1.0) < 1e-12
    True
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    models_: dict[str, Any]

    def __init__(
        self, *, priors: str | list[float] | None = "observed", memory_bytes: int = 2**31, random_state: Any = 0
    ) -> None:
        self.priors = priors
        self.memory_bytes = memory_bytes
        self.random_state = random_state

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows at once, forgetting what was learnt before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels: integers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row compared with the others. Their scale does not matter, and 0 leaves a row out.

        Returns
        -------
        object
            This estimator.
        """
        X, y = self._checked(X, y, reset=True)
        seen = y if sample_weight is None else y[check_weights(sample_weight, len(y)) > 0]
        if not len(seen):
            raise ValueError("WeighedDiscriminant.fit: all sample weights are zero. Give at least one row a weight.")
        if len(np.unique(seen)) < 2:
            only = seen[:1].tolist()[0]
            raise ValueError(
                f"WeighedDiscriminant.fit: y holds only one class, {only!r}, and there must be two to tell apart. Give "
                "rows of at least two classes, with weights above 0."
            )
        models = self._members()
        for model in models.values():
            model.fit(X, y, sample_weight=sample_weight)
        self.models_ = models
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch; the members are solved and weighed again when a result is read.

        The kernel members place their landmarks with the first batch, which decides on scale and width too: begin with
        some hundred rows of all classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels. Classes may appear at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that may come, so that `classes_` is complete from the start.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row compared with the others.

        Returns
        -------
        object
            This estimator.
        """
        first = not hasattr(self, "models_")
        X, y = self._checked(X, y, reset=first)
        models = self._members() if first else self.models_
        for model in models.values():
            model.partial_fit(X, y, classes=classes, sample_weight=sample_weight)
        self.models_ = models
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        _, logs = self._answer(X)
        labels: np.ndarray = self.classes_[np.argmax(logs, axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one. float32 for float32 rows.
        """
        rows, logs = self._answer(X)
        return in_dtype_of(rows, np.exp(logs))

    def predict_log_proba(self, X: Any) -> Float:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The logarithms of `predict_proba`; −∞ for a class that has no weight. float32 for float32 rows.
        """
        rows, logs = self._answer(X)
        return logs_in_dtype_of(rows, logs)

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        check_is_fitted(self)
        classes: np.ndarray = self.models_[MEMBERS[0]].classes_
        return classes

    @property
    def weights_(self) -> dict[str, float]:
        """How much each member counts."""
        return dict(zip(MEMBERS, self._weighed()[1].tolist(), strict=True))

    @property
    def losses_(self) -> dict[str, float]:
        """The mean −log p of each member on validation rows."""
        known, _ = self._weighed()
        found = [np.nan if one.held_out is None else one.held_out.mean(np.inf)[0] for one in known]
        return dict(zip(MEMBERS, map(float, found), strict=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "models_")

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        name, step = type(self).__name__, "Give bytes, for instance 2 * 2**30."
        check_priors(name, self.priors)
        least = bytes_needed(1, getattr(self, "n_features_in_", 1))
        check_number(name, "memory_bytes", self.memory_bytes, low=least, high=np.inf, next_step=step)
        check_seed(name, self.random_state)

    def _members(self) -> dict[str, Any]:
        """Return the members, which have learnt nothing."""
        seed = draw_seed(self.random_state)
        more: dict[str, Any] = {"memory_bytes": self.memory_bytes, "priors": self.priors, "random_state": seed}
        return {
            "linear": FisherDiscriminant(priors=more["priors"], random_state=seed),
            "rbf": KernelFisherDiscriminant(kernel="rbf", **more),
            "laplacian": KernelFisherDiscriminant(kernel="laplacian", scale=True, **more),
        }

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Rows, np.ndarray]:
        X, y = validate_batch(self, X, y, reset=reset, compact=True)
        self._check_parameters()
        if is_indicator(y):
            raise ValueError(
                f"WeighedDiscriminant: y has shape {y.shape}, but a row has one label here. Use FisherDiscriminant for "
                "several labels per row."
            )
        check_finite(X, type(self).__name__)
        return X, y

    @one_at_a_time
    def _weighed(self) -> tuple[list[Predictor], Float]:
        """Return what each member predicts with, and the weights."""
        check_is_fitted(self)
        self._check_parameters()
        for model in self.models_.values():
            model.priors = self.priors  # which may have been set since
        known = [self.models_[name]._read() for name in MEMBERS]
        return known, evidence_weights([one.held_out for one in known])

    def _answer(self, X: Any) -> tuple[Rows, Float]:
        """Return the rows, and the log-probability of each class."""
        known, weights = self._weighed()
        rows = validate_rows(self, X, compact=True)
        logs = [
            one.log_probabilities(rows) + np.log(weight)
            for one, weight in zip(known, weights.tolist(), strict=True)
            if weight
        ]
        return rows, logs[0] if len(logs) == 1 else special.logsumexp(np.stack(logs), axis=0)

    def _before_save(self) -> None:
        if hasattr(self, "models_"):
            for model in self.models_.values():
                model._before_save()

    @one_at_a_time
    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the state of each member."""
        states = {name: model._to_state() for name, model in getattr(self, "models_", {}).items()}
        return states if states and all(state is not None for state in states.values()) else None

    def _from_state(self, contents: Contents) -> None:
        models = self._members()
        for name, model in models.items():
            model.n_features_in_ = self.n_features_in_
            model._from_state(contents.part(name))
        self.models_ = models
