"""What a fitted subspace estimator says: its directions, classes and choices, the classes of rows, and prototypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import lock_of, one_at_a_time
from kampong.data.validation import check_number, check_whole, in_dtype_of, logs_in_dtype_of
from kampong.predictor import reason_of
from kampong.solvers import solve, worth_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Rows
    from kampong.estimators.subspace import DiscriminantSubspace
    from kampong.predictor import Predictor
    from kampong.selection.choose import Choice
    from kampong.statistics.means import ClassMeans
    from kampong.statistics.reservoir import ClassReservoir


class Answering(Protocol):
    """Predicts rows: a predictor, or an object in its place."""

    def labels(self, X: Rows) -> np.ndarray:
        """Return the classes of rows, or the indicator matrix of their probable labels."""

    def decisions(self, X: Rows) -> Float:
        """Return one score per class, for two classes that of the second less that of the first."""

    def probabilities(self, X: Rows) -> Float:
        """Return the probability of each class, or of each label on its own."""

    def log_probabilities(self, X: Rows) -> Float:
        """Return the logarithms of `probabilities`."""


class Reading:
    """Gives an estimator what is read from its statistics and its predictor."""

    priors: Any
    n_features_in_: int
    _statistics: ClassMeans
    _halves_error: float | None
    _space: ClassVar[str]

    def _read(self) -> Predictor:
        """Return the predictor of the present state."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Rows:
        """Return rows that have passed the checks."""
        raise NotImplementedError

    def _answer(self, X: Any, answer: Callable[[Answering, Rows], np.ndarray]) -> np.ndarray:
        """Return what `answer` reads of the predictor for some rows."""
        rows = self._rows(X)
        return answer(self._read(), rows)

    def _solver(self) -> str:
        """Return the solver that is asked for."""
        raise NotImplementedError

    def _priors(self) -> Float | None:
        """Return the shares that are given for the classes, None for those observed."""
        raise NotImplementedError

    @property
    def components_(self) -> Float:
        """The directions, one a row, best first."""
        return self._read().components

    @property
    def eigenvalues_(self) -> Float:
        """What each direction adds to the criterion."""
        return self._read().eigenvalues

    @property
    def criterion_ratio_(self) -> Float:
        """Each eigenvalue over the sum of all positive ones; zeros where none is positive."""
        known = self._read()
        return known.eigenvalues / known.total if known.total > 0 else np.zeros(len(known.eigenvalues))

    @property
    def solver_(self) -> str:
        """The solver that found the directions."""
        return self._read().solver

    @property
    def solver_reason_(self) -> str:
        """Why the directions were found by that solver."""
        return reason_of(self._read(), self._solver(), self.n_features_in_)

    @property
    def n_steps_(self) -> int:
        """The number of products with S_w that an iterative solver took; 0 for the exact ones."""
        return self._read().n_steps

    @property
    def sampling_error_(self) -> float:
        """What the sample of rows costs: the part of the criterion lost if one half gives the directions of the other.

        0 where no row was left out of the sample, and where none is needed. It compares samples of half the size, so
        it overstates what the whole sample costs.
        """
        check_is_fitted(self)
        sample = self._statistics.within_sample
        if sample is None:
            return 0.0
        self._read()  # which forgets the error where parameters have changed
        if self._halves_error is None:
            self._halves_error = self._halves_differ(sample)
        return self._halves_error

    @property
    def choice_(self) -> Choice | None:
        """How a parameter given as "auto" was chosen: the candidates and their curves; None where none was."""
        return self._read().choice

    @property
    def head_(self) -> str:
        """The name of the head in use."""
        return self._read().head.name

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        check_is_fitted(self)
        return self._statistics.classes

    @property
    @one_at_a_time
    def class_counts_(self) -> Float:
        """The weight of each class, decayed where rows age."""
        check_is_fitted(self)
        return self._statistics.counts

    @property
    def priors_(self) -> Float:
        """The shares of the classes in use: those given, or those observed."""
        given = self._priors()
        counts = self.class_counts_
        return counts / counts.sum() if given is None else given

    @property
    @one_at_a_time
    def class_means_(self) -> Float:
        """The mean of each class, (n_classes, n_features); `mean_` for a class declared but not seen."""
        check_is_fitted(self)
        means = self._statistics.means
        means[self._statistics.counts == 0] = self._statistics.mean
        return means

    @property
    @one_at_a_time
    def mean_(self) -> Float:
        """The mean of all rows, each counted for each of its labels."""
        check_is_fitted(self)
        return self._statistics.mean

    @property
    @one_at_a_time
    def n_samples_seen_(self) -> int:
        """The number of rows of positive weight learnt."""
        check_is_fitted(self)
        return self._statistics.n_samples

    def decision_function(self, X: Any) -> Float:
        """Return the score of each class: the log-posterior up to a constant of the row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of the second less that of the first; for multi-label targets the log-odds of
            each label. float32 for float32 rows.
        """
        return self._answer(X, lambda known, rows: in_dtype_of(rows, known.decisions(rows)))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, or the indicator matrix of its probable labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_labels)
            Labels as they were given to `fit`.
        """
        return self._answer(X, lambda known, rows: known.labels(rows))

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class, or of each label on its own.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one, but for multi-label targets. float32 for float32 rows.
        """
        return self._answer(X, lambda known, rows: in_dtype_of(rows, known.probabilities(rows)))

    def predict_log_proba(self, X: Any) -> Float:
        """Return the logarithm of the probability of each class, or of each label on its own.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The logarithms of `predict_proba`, finite where those probabilities underflow; −∞ for a class that has no
            weight. float32 for float32 rows.
        """
        return self._answer(X, lambda known, rows: logs_in_dtype_of(rows, known.log_probabilities(rows)))

    @property
    def coef_(self) -> Float:
        """The weights of the features in the score of each class, (n_classes, n_features); one row for two classes.

        `predict` takes the class of the largest X @ coef_.T + intercept_ (for two classes: the second where it is
        positive). For head "gaussian", "nearest_mean", "logistic", and a "mixture" of these, that is
        `decision_function`. For "regression" and "hinge" it is the regression or the margin, of which the score of a
        class is an increasing function. Other heads and kernels raise AttributeError.
        """
        weights = self._planes()[0]
        return weights[1:] - weights[:1] if self._two_classes(weights) else weights

    @property
    def intercept_(self) -> Float:
        """The constant in the score of each class, (n_classes,); one for two classes. See `coef_`."""
        offsets = self._planes()[1]
        return offsets[1:] - offsets[:1] if self._two_classes(offsets) else offsets

    def _two_classes(self, planes: Float) -> bool:
        return len(planes) == 2 and not self._read().head.multilabel

    def _planes(self) -> tuple[Float, Float]:
        """Return weights and offsets of the features, or say why there are none."""
        known, name = self._read(), type(self).__name__
        if self._space != "features":
            raise AttributeError(
                f"{name} has no coef_ and intercept_: its scores are not linear in the features, but in {self._space}. "
                "Use FisherDiscriminant or MarginSubspace for weights of the features."
            )
        if known.head.hyperplanes() is None:
            raise AttributeError(
                f"{name}: head={known.head.name!r} is not linear, so it has no coef_ and intercept_. Set "
                "head='gaussian', 'nearest_mean', 'regression', 'logistic' or 'hinge'."
            )
        found = known.linear()
        if found is None:
            raise AttributeError(
                f"{name}: priors={self.priors!r:.100} moves probabilities that are not linear in the features with "
                f"head={known.head.name!r}, so there is no coef_ and intercept_. Set priors='observed', or give the "
                "parameter of the criterion as a number and head='gaussian', 'nearest_mean' or 'logistic'."
            )
        return found

    def _halves_differ(self, sample: ClassReservoir) -> float:
        halves, known = sample.halves(), self._read()
        found = [solve(known.criterion, half, len(known.components)).components for half in halves]
        lost = []
        for mine, other in ((0, 1), (1, 0)):
            best = worth_of(known.criterion, found[mine], halves[mine])
            lost.append((best - worth_of(known.criterion, found[other], halves[mine])) / abs(best))
        return float(np.mean(lost))


class Prototype(NamedTuple):
    """What a class looks like.

    Attributes
    ----------
    label : bool, int or str
        The class.
    weight : float
        The weight of its rows.
    mean : array
        Its mean, as in `class_means_`.
    rows : array or sparse matrix of shape (n, n_features)
        Rows of the sample that lie nearest to the mean, nearest first; none where the model keeps no sample.
    distances : array of shape (n,)
        How far they lie from the mean in the subspace.
    """

    label: Any
    weight: float
    mean: Float
    rows: Rows
    distances: Float


def prototypes(self: DiscriminantSubspace, n_rows: int = 3) -> list[Prototype]:
    """Return what each class looks like: its weight, its mean, and kept rows that lie nearest to it.

    Rows are kept where a parameter or a head is chosen ("auto"), and above the width of a scatter; they are a sample
    of all rows. Models that keep none return the means alone.

    Parameters
    ----------
    n_rows : int
        The most rows for each class.

    Returns
    -------
    list of Prototype
        One for each class, in the order of `classes_`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_iris(return_X_y=True)
    >>> found = FisherDiscriminant().fit(X, y).prototypes(2)
    >>> [(one.label, one.weight, one.rows.shape) for one in found]
    [(0, 50.0, (2, 4)), (1, 50.0, (2, 4)), (2, 50.0, (2, 4))]
    """
    n_rows = check_whole(type(self).__name__, "n_rows", n_rows, low=0, high=2**40, next_step="3 is the default.")
    known, statistics = self._read(), self._statistics
    kept = statistics.kept_sample
    classes, counts, means = statistics.classes, statistics.counts, statistics.means
    nearest: dict[Any, tuple[Rows, Float]] = {}
    if kept is not None and kept.n_kept:
        sample = kept.sample()
        points = np.asarray(known.points(sample.rows), dtype=np.float64)
        places = {label: place for place, label in enumerate(known.classes.tolist())}
        for code, label in enumerate(kept.classes.tolist()):
            mine = sample.members.rows[sample.members.codes == code]
            apart = np.linalg.norm(points[mine] - known.centres[places[label]], axis=1)
            order = np.argsort(apart, kind="stable")[:n_rows]
            nearest[label] = sample.rows[mine[order]], apart[order]
    nothing = np.empty((0, self.n_features_in_)), np.empty(0)
    return [
        Prototype(label, float(counts[k]), means[k], *nearest.get(label, nothing))
        for k, label in enumerate(classes.tolist())
    ]


def predict_set(self: DiscriminantSubspace, X: Any, alpha: float = 0.1, *, per_class: bool = False) -> np.ndarray:
    """Return the classes that each row may have: a set that lacks the true class for a share α of the rows.

    These are conformal sets. A class is in the set if −log p of it is at most a threshold, which is the
    ⌈(1 − α)(n + 1)⌉-th smallest −log p of the true class among n validation rows, each predicted by a model that had
    not learnt it: leave-one-out in closed form, or held out in parts. With half_life="auto" they are the last 1,000
    rows of the stream, each predicted before it was learnt, so that the threshold follows drift. It is then right for
    the next row; rows further ahead are missed more often where recent labels help to predict.

    Guarantee: if new rows are drawn as the validation rows were, and if one row more does not change the model, the
    true class is in the set with a probability of at least 1 − α, on average over rows. It is at most 1 − α + 1/(n + 1)
    where no two losses are equal. The guarantee does not hold after drift, unless half_life="auto" follows it, nor for
    rows of a class that was never learnt. Choosing ridge and head on the same rows costs a little on small tables.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows.
    alpha : float
        The share of rows whose true class may be missing, between 0 and 1.
    per_class : bool
        Whether the guarantee is to hold for the rows of each class, with one threshold per class. A class with fewer
        than 1/α − 1 validation rows is in every set.

    Returns
    -------
    array of bool of shape (n_samples, n_classes)
        Whether the class is in the set, in the order of `classes_`. A set may be empty: then no class is as likely as
        true classes usually are.

    References
    ----------
    Vovk, Gammerman and Shafer, Algorithmic learning in a random world, 2005. Sadinle, Lei and Wasserman, Least
    ambiguous set-valued classifiers with bounded error levels, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> model = FisherDiscriminant().fit(X[::2], y[::2])
    >>> sets = model.predict_set(X[1::2], alpha=0.05)
    >>> bool(sets[range(len(sets)), y[1::2]].mean() >= 0.9)
    True
    """
    name = type(self).__name__
    alpha = check_number(name, "alpha", alpha, low=0.0, high=1.0, next_step="0.1 misses the class of one row in ten.")
    with lock_of(self):
        if self._statistics.multilabel:
            raise ValueError(
                f"{name}.predict_set: rows have several labels, and sets are for one label per row. Compare "
                "predict_proba with a threshold of your own for each label."
            )
        losses = self._held_out_losses()
        if losses is None:
            raise ValueError(
                f"{name}.predict_set: a set needs validation rows, which this model has none of. Set "
                f"{self._kind().parameter}='auto' or head='best', which choose on such rows, and give at least ten of "
                "them."
            )
        logs = self.predict_log_proba(X)
        bounds = losses.thresholds(alpha, logs.shape[1]) if per_class else losses.threshold(alpha)
    return np.asarray(-logs <= bounds)
