"""How much a row looks like any known class, and "none of these" for rows that look like none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from kampong._core.locks import lock_of
from kampong.data.validation import check_number, check_squarable, refuse_overflow
from kampong.selection.known_rows import KnownRows
from kampong.selection.leave_one_out import most_rows
from kampong.statistics.answers import keeps_rows
from kampong.statistics.scatter import WIDEST, ClassScatter

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.estimators.subspace import DiscriminantSubspace
    from kampong.predictor import Predictor


def score_samples(self: DiscriminantSubspace, X: Any) -> Float:
    """Return how much each row looks like any known class, to find rows that belong to none.

    A method of the estimators with Fisher's directions. Along them classes have the covariance I, ridge included, and
    all rows together I + Λ, Λ the eigenvalues.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows.

    Returns
    -------
    array of shape (n_samples,)
        The logarithm of the Gaussian density of the nearest class over that of all rows together, up to a constant:
        −½ min_k |z − m_k|² + ½ zᵀ(I + Λ)⁻¹z for coordinates z, class means m_k and eigenvalues Λ. Low for rows
        that are as unusual for each class as for the data as a whole (the relative Mahalanobis distance).
    """
    rows = self._rows(X)
    with lock_of(self):
        known = self._read()
        seen = self.class_counts_ > 0
    points = known.points(rows).astype(np.float64, copy=False)
    centres = known.centres[seen]
    nearest = (np.square(centres).sum(axis=1) - 2.0 * points @ centres.T).min(axis=1)
    with np.errstate(over="ignore"):
        kept = np.square(points) @ (known.eigenvalues / (1.0 + known.eigenvalues))
    return refuse_overflow("score_samples", -0.5 * (nearest + kept))


def score_known(self: DiscriminantSubspace, X: Any) -> Float:
    """Return how much each row looks like any known class, by measures that are weighed on classes left out.

    Five measures of a row are added: its distances from the
    nearest row that was kept, as the rows come, in the metric (S_w + ρI)⁻¹ and along Fisher's directions; the
    likelihood ratio of `score_samples`; and how far it lies off the directions. Classes are left out in turns, with
    ridge and scale as they are, and the weights tell their rows from rows of known classes that were held out. With two
    classes, of which none can be left out, the distance in the metric counts alone. It is found at the first call, and
    kept until more is learnt.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows.

    Returns
    -------
    array of shape (n_samples,)
        The scores, low for rows that look like no class. Compare them with each other, or use `predict_known`.
    """
    rows = self._rows(X)
    check_squarable(rows, f"{type(self).__name__}.score_known")
    with lock_of(self):
        known = _known_rows(self, "score_known")
    return refuse_overflow("score_known", known.scores(_dense(rows)))


def predict_known(self: DiscriminantSubspace, X: Any, rate: float = 0.01, *, unknown: Any = None) -> np.ndarray:
    """Return the class of each row, or none of these for rows that look like no class that was learnt.

    A row is rejected if its `score_known` is below a threshold, which a share of at most `rate` of rows of known
    classes falls below: the ⌊rate · (n + 1)⌋-th smallest score of n rows, each held out. That holds on average for rows
    drawn as the learnt ones were, as with `predict_set`. How many rows of new classes are found depends on the data.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows.
    rate : float
        The share of rows of known classes that may be rejected, between 0 and 1.
    unknown : object
        The label of rows that are rejected. None: the labels come as objects, also numbers. Another label, such as −1
        or "other", must be of the kind of the labels and none of them.

    Returns
    -------
    array of shape (n_samples,)
        What `predict` gives, and `unknown` for rows that are rejected.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FisherDiscriminant().fit(X[y < 9], y[y < 9])
    >>> nines = model.predict_known(X[y == 9], unknown=-1)
    >>> bool((nines == -1).mean() > 0.5)
    True
    """
    name = type(self).__name__
    rate = check_number(name, "rate", rate, low=0.0, high=1.0, next_step="0.01 rejects one known row in a hundred.")
    rows = self._rows(X)
    check_squarable(rows, f"{name}.predict_known")
    with lock_of(self):
        known = _known_rows(self, "predict_known")
        labels = self.predict(X)
        kind = labels.dtype if unknown is None else np.asarray(unknown).dtype
        if unknown is not None and (unknown in self.classes_.tolist() or not _of_one_kind(kind, labels.dtype)):
            raise ValueError(
                f"{name}.predict_known: unknown={unknown!r:.100} is a class, or no label such as "
                f"{self.classes_[0].item()!r:.100}. Give another label of that kind, or None."
            )
        least = known.threshold(rate)
    n = len(known.losses.losses)
    if rate > 0 and np.isneginf(least):
        raise ValueError(
            f"{name}.predict_known: rate={rate:g} is less than the {1 / (n + 1):.2g} that {n} held-out rows can tell. "
            "Give a larger rate, or learn more rows."
        )
    found = labels.astype(object if unknown is None else np.promote_types(kind, labels.dtype))
    found[refuse_overflow("predict_known", known.scores(_dense(rows))) < least] = unknown
    return found


def _of_one_kind(first: np.dtype[Any], second: np.dtype[Any]) -> bool:
    """Tell whether both are numbers, both are text, or both are booleans or objects."""
    return any(first.kind in kinds and second.kind in kinds for kinds in ("iuf", "US", "b", "O"))


def _dense(rows: Rows) -> Float:
    dense: Float = (rows if isinstance(rows, np.ndarray) else rows.toarray()).astype(np.float64, copy=False)
    return dense


def _known_rows(self: DiscriminantSubspace, method: str) -> KnownRows:
    """Return what tells known rows from others; it is kept until the predictor changes."""
    predictor, statistics = self._read(), self._statistics
    made_for, found = cast("tuple[Any, KnownRows | None]", vars(self).get("_known_rows", (None, None)))
    if made_for is predictor and found is not None:
        return found
    found = known_rows(self, predictor, method, most_rows(statistics.n_features))
    if found is None:
        _refuse_known(self, method, f"ten rows that can be held out of classes; {statistics.rows_kept} rows were kept")
    vars(self)["_known_rows"] = predictor, found
    return found


def known_rows(self: DiscriminantSubspace, predictor: Predictor, method: str, most: int) -> KnownRows | None:
    """Return what tells known rows from others by at most this many kept rows, None if they are too few."""
    statistics = self._statistics
    if statistics.multilabel:
        _refuse_known(self, method, "one label per row, and these have several")
    if not statistics.holds_scatter:
        _refuse_known(self, method, f"the d × d scatter, which is kept up to {WIDEST} columns")
    if not keeps_rows(statistics):
        _refuse_known(self, method, "a sample of rows, which ridge='auto' keeps")
    units = self._units_of(predictor)
    view, sample = statistics.in_rows(), statistics.sample(most)
    rows, codes, ridge = _dense(sample.rows), sample.members.codes, predictor.criterion.value
    return KnownRows.of(cast("ClassScatter", view), rows, codes, sample.own, sample.weights, ridge, units)


def _refuse_known(self: DiscriminantSubspace, method: str, what: str) -> NoReturn:
    raise ValueError(
        f"{type(self).__name__}.{method}: what tells known rows from others is fitted on rows that are held out, and "
        f"needs {what}. Use score_samples with a threshold of your own."
    )
