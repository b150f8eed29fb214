"""What a class looks like: its mean, and the rows of the kept sample that lie nearest to it in the subspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.data.validation import check_whole

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.estimators.subspace import DiscriminantSubspace


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

    Rows are kept where a parameter or a head is chosen ("auto"), and past the width of a scatter; they are a sample
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
