"""How much rows look like those that were learnt: measures, weighed on rows of classes that were left out.

In the metric (S_w + ρI)⁻¹ the rows of a class have the covariance I, about. There a row has a distance from the nearest
row that was kept, a distance from the nearest class, compared with that from the mean of all rows, and a part that no
direction explains. No measure is best for all data: with many classes in few columns new classes lie between known
ones, with two classes they lie off the one direction that there is. So classes are left out in turns, with all that
is known of them, and weights are fitted which tell their rows from rows of known classes that were held out too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg, special

from kampong._core.compute import blocks
from kampong.files.fields import array, plain, read, written
from kampong.selection.losses import HeldOutLosses
from kampong.selection.settings import SETTINGS
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents

MEASURES = ("nearest row in the metric", "nearest class", "nearest row", "nearest row along the directions", "rest")
"""What is measured of a row; the first one alone counts where classes are too few to leave one out."""

NOTHING = 1e-9
"""A part of a variance, or of a squared length, that is no more than rounding."""

SPACE = (
    array("mean", "columns"),
    array("root", "columns", "columns"),
    array("turn", "columns", "directions"),
    array("ratios", "directions", low=0.0),
    array("centres", "classes", "directions"),
    array("rows", "rows", "columns"),
    array("white", "rows", "columns"),
    plain("reach", float, low=0.0),
)
FIELDS = (
    array("usual", str(len(MEASURES))),
    array("spread", str(len(MEASURES)), low=0.0, finite=False),
    array("weights", str(len(MEASURES))),
    array("units", "columns", low=0.0),
)
LOSSES = (
    array("losses", "held"),
    array("codes", "held", dtype=np.int64, low=0, high=lambda sizes: sizes["classes"] - 1),
    array("weights", "held", low=0.0),
    array("learnt", "held", dtype=np.int64, low=0, high=0),
)
"""What a file holds of them."""


@dataclass(frozen=True)
class Space:
    """Where rows are measured: the rows that were kept, and the metric and the directions of their classes.

    Attributes
    ----------
    mean : array of shape (d,)
        The mean of all rows.
    root : array of shape (d, d)
        (x − mean) @ root has the covariance I within classes, ridge included.
    turn : array of shape (d, q)
        Fisher's directions there, orthonormal.
    ratios : array of shape (q,)
        Their eigenvalues.
    centres : array of shape (K, q)
        The class means along them.
    rows, white : array of shape (n, d)
        The rows kept, less the mean, as they are and in the metric.
    reach : float
        How far two rows of a class are apart in the metric: the root of the mean square.
    """

    mean: Float
    root: Float
    turn: Float
    ratios: Float
    centres: Float
    rows: Float
    white: Float
    reach: float

    @classmethod
    def of(cls, statistics: ClassScatter, rows: Float, ridge: float) -> Self:
        """Return the space of class means and scatter, with rows that were kept."""
        within, seen = statistics.within_scatter(), statistics.counts > 0
        mean, d = statistics.mean, statistics.n_features
        centres = statistics.means[seen] - mean
        shares = statistics.counts[seen] / statistics.counts.sum()
        least = NOTHING * (np.trace(within) + shares @ np.square(centres).sum(axis=1)) / d
        ridge = max(ridge, least)
        within[np.diag_indices(d)] += ridge
        factor = linalg.cholesky(within, lower=True, check_finite=False)
        root = np.ascontiguousarray(linalg.solve_triangular(factor, np.eye(d), lower=True, check_finite=False).T)
        centres = centres @ root
        _, sizes, axes = np.linalg.svd(np.sqrt(shares)[:, None] * centres, full_matrices=False)
        kept = sizes[: len(centres) - 1] > NOTHING * sizes[0]
        turn, rows = axes[: len(kept)][kept].T, rows - mean
        ratios = np.square(sizes[: len(kept)][kept])
        # Within the metric is I, less what the ridge adds.
        reach = float(np.sqrt(2.0 * max(d - ridge * np.square(root).sum(), 0.0)))
        return cls(mean, root, turn, ratios, centres @ turn, rows, rows @ root, reach)

    def measures(self, X: Float) -> Float:
        """Return what is measured of rows, (n, 5), in the order of `MEASURES`; large for rows like the known ones."""
        known, found = self.white @ self.turn, np.empty((len(X), len(MEASURES)))
        for part in blocks(len(X), 24 * (len(self.rows) + X.shape[1])):
            rows = X[part] - self.mean
            white = rows @ self.root
            points = white @ self.turn
            nearest = _least_squares(points, self.centres) - np.square(points) @ (1.0 / (1.0 + self.ratios))
            lengths = np.square(white).sum(axis=1)
            rest = lengths - np.square(points).sum(axis=1)
            found[part, 0] = -np.sqrt(_least_squares(white, self.white))
            found[part, 1] = -0.5 * nearest
            found[part, 2] = -np.sqrt(_least_squares(rows, self.rows))
            found[part, 3] = -np.sqrt(_least_squares(points, known))
            found[part, 4] = -np.sqrt(np.where(rest > NOTHING * lengths, rest, 0.0))
        return found


@dataclass(frozen=True)
class KnownRows:
    """How much rows look like any class that was learnt.

    Attributes
    ----------
    space : Space
        Where they are measured.
    usual, spread : array of shape (5,)
        Mean and deviation of each measure, of known rows that were held out.
    weights : array of shape (5,)
        How much each measure counts.
    losses : HeldOutLosses
        What known rows score that were held out, with the sign turned.
    units : array of shape (d,)
        What columns are divided by.
    """

    space: Space
    usual: Float
    spread: Float
    weights: Float
    losses: HeldOutLosses
    units: Float

    @classmethod
    def of(
        cls,
        statistics: ClassScatter,
        rows: Float,
        codes: Integer,
        own: Float,
        weights: Float,
        ridge: float,
        units: Float | None = None,
    ) -> Self | None:
        """Return what tells known rows from others, fitted on classes that are left out.

        Parameters
        ----------
        statistics : ClassScatter
            Class means and scatter of all rows.
        rows : array of shape (n, d)
            Rows that were kept, in random order.
        codes : array of int of shape (n,)
            Their classes.
        own, weights : array of shape (n,)
            What each weighs, and how much weight it stands for.
        ridge : float
            The ridge of the metric.
        units : array of shape (d,), optional
            What columns are divided by; the ridge is for such columns.

        Returns
        -------
        KnownRows or None
            None where a class is too small to hold out a row, or the rows are too few.
        """
        if units is None:
            units = np.ones(rows.shape[1])
        else:
            statistics, rows = statistics.in_units(units), rows / units
        classes, codes = np.unique(codes, return_inverse=True)
        K = len(classes)
        folds = K if 2 < K < 2 * SETTINGS.folds else SETTINGS.folds
        dealt = np.empty(len(codes), dtype=np.int64)
        dealt[np.argsort(codes, kind="stable")] = np.arange(len(codes)) % folds
        most = max(1, SETTINGS.narrow_rows // folds)
        found, places, same, new = [], [], [], []
        for fold in range(folds):
            others, mine = dealt != fold, codes % folds == fold
            held = np.flatnonzero(~others & np.isin(codes, codes[others]))
            if len(np.unique(codes[others])) < 2 or not len(held):
                continue
            places.append(held[:most])
            found.append(_space(rows, codes, own, others, ridge).measures(rows[held[:most]]))
            left = held[~mine[held]][:most]
            if K > 2 and mine.any() and len(left):
                space = _space(rows, codes, own, others & ~mine, ridge)
                same.append(space.measures(rows[left]))
                new.append(space.measures(rows[np.flatnonzero(mine)[:most]]))
        if sum(map(len, places)) < SETTINGS.fewest_rows:
            return None
        known, held = np.concatenate(found), np.concatenate(places)
        usual, spread = _usual(known)
        counted = np.eye(len(MEASURES))[0]
        if new:
            counted = _weighed(np.concatenate(same), np.concatenate(new), counted, K)
        scores = ((known - usual) / spread) @ counted
        losses = HeldOutLosses(-scores, codes[held], weights[held], np.zeros(len(held), dtype=np.int64))
        return cls(Space.of(statistics, rows, ridge), usual, spread, counted, losses, units)

    def scores(self, X: Float) -> Float:
        """Return the score of each row: larger for rows that look more like a known class."""
        return np.asarray(((self.space.measures(X / self.units) - self.usual) / self.spread) @ self.weights)

    def threshold(self, rate: float) -> float:
        """Return the score that a share of at most `rate` of known rows falls below; −∞ where rows are too few."""
        return -self.losses.threshold(rate)

    def rejected(self, X: Float, least: float) -> np.ndarray:
        """Return which rows score less than a threshold by more than rounding."""
        return np.asarray(self.scores(X) < least - NOTHING * abs(least))

    def to_state(self) -> dict[str, Any]:
        """Return what a file holds."""
        return {**written(FIELDS, self), **written(SPACE, self.space), **written(LOSSES, self.losses, prefix="held_")}

    @classmethod
    def from_state(cls, contents: Contents) -> Self:
        """Return what `to_state` wrote, each value checked."""
        sizes: dict[str, int] = {}
        space = Space(**read(SPACE, contents, sizes))
        own = read(FIELDS, contents, sizes)
        losses = HeldOutLosses(**read(LOSSES, contents, sizes, prefix="held_"))
        contents.finish()
        return cls(space=space, losses=losses, **own)


def _space(rows: Float, codes: Integer, own: Float, some: np.ndarray, ridge: float) -> Space:
    """Return the space of some of the rows alone."""
    return Space.of(ClassScatter(rows.shape[1]).update(rows[some], codes[some], own[some]), rows[some], ridge)


def _usual(known: Float) -> tuple[Float, Float]:
    """Return mean and deviation of each measure of known rows; infinite for a measure that does not vary."""
    usual, spread = known.mean(axis=0), known.std(axis=0)
    return usual, np.where(spread > NOTHING * np.abs(usual), spread, np.inf)


def _weighed(known: Float, new: Float, start: Float, n_classes: int) -> Float:
    """Return weights of the measures that tell known rows from rows of new classes, both kinds counting the same.

    Both are measured where classes are left out, since distances are shorter along fewer directions. Classes were left
    out, not rows: so weights are pulled to those without evidence by one over the classes, squared.
    """
    usual, spread = _usual(known)
    known, new = (known - usual) / spread, (new - usual) / spread
    signs = np.repeat([1.0, -1.0], [len(known), len(new)])
    shares = np.repeat([0.5 / len(known), 0.5 / len(new)], [len(known), len(new)])
    columns = np.vstack([np.concatenate([known, new]).T, np.ones(len(signs))])
    pull = np.append(np.full(len(start), 1.0 / n_classes**2), 1.0 / len(signs))
    return logistic_near(np.append(start, 0.0), columns, signs, shares, pull)[0][:-1]


def logistic_near(
    start: Float, columns: Float, signs: Float, weights: Float, pull: Float | float
) -> tuple[Float, float]:
    """Return the parameters b of least −Σ w log σ(s bᵀx) + ½ Σ pull (b − start)², and that loss.

    Parameters
    ----------
    start : array of shape (p,)
        The parameters that they are pulled to.
    columns : array of shape (p, n)
        What is known of each row.
    signs, weights : array of shape (n,)
        1 or −1 for its kind, and its weight.
    pull : array of shape (p,) or float
        How strongly.

    Returns
    -------
    tuple of array and float
        By Newton's method; a step that would raise the loss is halved.
    """
    curve = np.diag(np.broadcast_to(pull, start.shape))

    def loss(at: Float) -> float:
        return float(-weights @ special.log_expit(signs * (at @ columns)) + 0.5 * (pull * np.square(at - start)).sum())

    at, value = start, loss(start)
    for _ in range(100):
        chance = special.expit(-signs * (at @ columns))
        slope = -columns @ (weights * signs * chance) + pull * (at - start)
        curvature = (columns * (weights * chance * (1.0 - chance))) @ columns.T + curve
        step, length = np.linalg.solve(curvature, slope), 1.0
        while loss(at - length * step) > value and length > 1e-9:
            length /= 2
        at = at - length * step
        gained, value = value - loss(at), loss(at)
        if gained < 1e-12:
            break
    return at, value


def _least_squares(rows: Float, others: Float) -> Float:
    """Return the least squared distance of each row from the others."""
    halves = 0.5 * np.square(others).sum(axis=1) - rows @ others.T
    return np.asarray(np.maximum(np.square(rows).sum(axis=1) + 2.0 * halves.min(axis=1), 0.0))
