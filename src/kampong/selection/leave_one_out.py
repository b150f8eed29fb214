"""The ridge and the head of Fisher's directions chosen by rows that are left out one by one, in closed form.

Taking one row out of the class means and of S_w is a change of rank one. So what a row would score without itself
follows from its products with the class means in the metric A = (S_w + ρI)⁻¹, and one eigendecomposition of S_w serves
every ρ: no folds, no second scatter, and nothing that depends on the order of the rows. With w the weight that leaves,
n that of its class k and W that of all rows, u = x − m_k and h = uᵀAu (all about the mean m):

    (A without the row) = c⁻¹ (A + α A u uᵀ A / (1 − αh)),    α = w n / ((n − w) W),    c = W / (W − w)  …  (1)

where the ridge counts as a sum over rows, so it grows by 1/c as S_w does; and the mean of its class moves by
−w/(n − w)·u. Weights are in units of a typical row (`ClassMeans.in_rows`): of a heavier one, the weight of one leaves.

The curve of errors over the ridge is taken at fixed nodes, and its minimum is that of a spline: a smooth function of
the data. Heads are compared by the same smooth errors.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg

from kampong._core.compute import one_blas_thread, tall_times
from kampong.criteria import DECADES, FisherCriterion
from kampong.heads.calibration import TINY, ValidationRows, fit_each, least_point, selection_loss_each
from kampong.heads.hinge import USUAL, Hinge, optimum
from kampong.heads.hinge import scores_of as margin_scores
from kampong.heads.linear import noise_of, regression_of
from kampong.heads.logistic import FEW, OFFSET_PENALTY, PENALTIES, Logistic, fit_logistic, left_out_path, start_of
from kampong.heads.logistic_training import by_batches
from kampong.heads.mixture import PRIOR, START
from kampong.heads.quadratic import ClassShapes, Quadratic
from kampong.selection.evidence import (
    EMPTY,
    Built,
    Candidate,
    ClassEvidence,
    Parts,
    Weighing,
    among_means,
    gaussian_scores,
    least_loss,
    member_scores,
    penalty_of,
)
from kampong.selection.held_out_scores import HeldOutFold
from kampong.selection.settings import SETTINGS
from kampong.statistics.held_out import TrainingStatistics

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.heads.head import Inside
    from kampong.statistics.all_rows import Sample
    from kampong.statistics.kernel_scatter import KernelScatter
    from kampong.statistics.reservoir import SampledScatter

NOTHING = 1e-12
"""A within-class variance that is no more than this part of the largest one is rounding."""


class LeaveOneOut:
    """Rows of a sample, each scored as if it had never come.

    Parameters
    ----------
    statistics : SampledScatter
        Class means and scatter of all rows, and a sample of them; one label per row.
    provisional : bool
        Whether the choice is provisional, in the middle of a stream: then fewer rows validate and train.
    """

    statistics: SampledScatter | KernelScatter

    def __init__(self, statistics: SampledScatter, *, provisional: bool = False) -> None:
        self.provisional, self.statistics = provisional, statistics
        self.sample = sample = statistics.sample(most_rows(statistics.n_features))
        self.counts, self.total = statistics.counts, statistics.total
        self.mean, means = statistics.mean, statistics.means
        means = np.where(self.counts[:, None] > 0, means - self.mean, 0.0)
        values, vectors = _diagonalised(statistics.within_scatter(), statistics.n_samples)
        self.values, self.vectors = _occupied(values, vectors, means)
        self.means = means @ self.vectors
        self._take(sample)
        known = np.flatnonzero(self.left > SETTINGS.least_left * self.counts[self.codes])
        K, d = means.shape
        most = min(
            len(known),
            min(2 * SETTINGS.narrow_rows, max(SETTINGS.narrow_rows, 2**16 // K))
            if d <= SETTINGS.exact_columns
            else SETTINGS.wide_rows,
        )
        most = min(most, max(SETTINGS.fewest_rows, SETTINGS.curve_scores // K))
        self.validation_rows = known[: min(most, SETTINGS.wide_rows) if provisional else most]
        self.validation_points = tall_times(self._centred(self.validation_rows), self.vectors)
        spread = float(self.values.sum()) + 1e-12 * float(np.square(self.means).sum())
        self.usual = spread / self.total if spread > 0 else 1.0
        with np.errstate(divide="ignore"):
            self.log_priors = np.where(self.counts > 0, np.log(self.counts / self.total), EMPTY)

    def _centred(self, some: Integer | slice) -> Float:
        """Return some rows of the sample less the mean."""
        rows = self.sample.rows[some]
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return np.asarray(dense.astype(np.float64, copy=False) - self.mean)

    @cached_property
    def plain(self) -> Float:
        """All rows less the mean: only the units that are chosen need them."""
        return self._centred(slice(None))

    @cached_property
    def rows(self) -> Float | None:
        """All rows along all eigenvectors, where columns are few."""
        return None if self.wide else tall_times(self.plain, self.vectors)

    @property
    def wide(self) -> bool:
        """Tell whether there are too many columns for all directions to be used."""
        return self.statistics.n_features > SETTINGS.exact_columns

    def _take(self, sample: Sample) -> None:
        """Take classes and weights of the sample, and what leaves its class with each row."""
        self.codes, self.weights, self.own = sample.members.codes, sample.weights, sample.own
        self.gone = np.minimum(self.own, 1.0)
        self.left = self.counts[self.codes] - self.gone

    def spread(self) -> Integer:
        """Return a fold for each row of the sample: each class is dealt out in turn, so that no fold lacks one."""
        fold = np.empty(len(self.codes), dtype=np.int64)
        fold[np.argsort(self.codes, kind="stable")] = np.arange(len(fold)) % SETTINGS.folds
        return fold

    def validation(self, rows: Integer) -> ValidationRows:
        """Return classes and weights of some rows."""
        return ValidationRows(self.codes[rows], self.weights[rows])

    def gaussian(self, ridges: Float, count: int) -> Float:
        """Return what the first validation rows score without themselves at some ridges, (ridges, 2, count, K).

        That is Gaussian scores, and the prior.
        """
        at = self._at(ridges, count)
        gaussian = gaussian_scores(at.without, at.squares, self.log_priors)
        scores = np.stack([gaussian, np.broadcast_to(self.log_priors, gaussian.shape)], axis=1)
        scores[..., self.counts <= 0] = EMPTY
        return scores

    def parts(self, ridge: float) -> Parts:
        """Return what the validation rows score without themselves at a ridge.

        That is products with the class means, squared lengths of the means, and the regression on the classes.
        """
        at, some = self._at(ridge), self.validation_rows
        rows, w, codes, i = self.validation_points, self.gone[some], self.codes[some], np.arange(len(some))
        priors = self.counts / self.total
        white = rows * at.root if at.centres.shape[1] < at.centres.shape[0] else rows
        added = regression_of(white, at.centres, at.products, at.gram, priors)
        fitted = priors + added
        lever = np.minimum(w / self.total * (1.0 + at.length - (added * at.products).sum(axis=1)), 1 - 1e-9)
        fitted[i, codes] -= lever
        fitted /= (1.0 - lever)[:, None]
        return Parts(at.without, at.squares, fitted, at.centres)

    def _at(self, ridge: float | Float, count: int | None = None) -> _AtMetric:
        """Return products of the first validation rows with the class means, at a ridge or at several."""
        metric = 1.0 / (self.values + np.asarray(ridge)[..., None])
        root = np.sqrt(metric)[..., None, :]
        rows, some, centres = self.validation_points[:count], self.validation_rows[:count], self.means * root
        gram = centres @ centres.swapaxes(-1, -2)
        codes, i = self.codes[some], np.arange(len(some))
        products, length = rows @ (centres * root).swapaxes(-1, -2), metric @ np.square(rows).T
        without, gone = self._without(products, length, gram, some)
        squares = gram.diagonal(axis1=-2, axis2=-1)[..., None, :]
        squares = gone.shrink[:, None] * (squares + gone.factor[..., None] * np.square(gone.other))
        mine = gone.other[..., i, codes]
        squares[..., i, codes] += gone.shrink / gone.gap * gone.move * (gone.move * gone.away - 2 * mine)
        return _AtMetric(root, centres, gram, products, length, without, np.maximum(squares, 0.0))

    def _without(self, products: Float, length: Float, gram: Float, some: Integer | slice) -> tuple[Float, _Gone]:
        """Return products of rows with the class means, each without the row, by (1)."""
        codes, w, total = self.codes[some], self.gone[some], self.total
        i, left = np.arange(len(codes)), self.left[some]
        left = np.where(left > SETTINGS.least_left * self.counts[codes], left, self.counts[codes])
        along = length - products[..., i, codes]
        away = along - products[..., i, codes] + gram[..., codes, codes]
        alpha = w * self.counts[codes] / (left * total)
        gap = np.maximum(1.0 - alpha * away, 1e-9)
        gone = _Gone(products - gram[..., codes, :], away, gap, alpha / gap, (total - w) / total, w / left)
        new = gone.shrink[:, None] * (products + (gone.factor * along)[..., None] * gone.other)
        new[..., i, codes] -= gone.move * gone.shrink * along / gap
        return new, gone

    def products(self, ridge: float, more: Float) -> tuple[Float, Float]:
        """Return products of all rows with the class means, each row left out, and coordinates along more directions.

        `more` holds directions as columns, about orthonormal in the metric. Where columns are many, the length of a row
        that is not a validation row is known along these and the class means. The rest is taken to be in proportion to
        its plain length, as it is for the validation rows: it only enters how little the row moves its class.
        """
        metric = 1.0 / (self.values + ridge)
        scaled = self.means * metric
        gram = scaled @ self.means.T
        if self.rows is not None:
            products, along = np.hsplit(self.rows @ np.hstack([scaled.T, more]), [len(scaled)])
            return self._without(products, np.square(self.rows) @ metric, gram, slice(None))[0], along
        both = tall_times(self.plain, self.vectors @ np.hstack([scaled.T, more]))
        products, along = np.hsplit(both, [len(scaled)])
        sizes = np.einsum("ij,ij->i", self.plain, self.plain)
        length = np.square(among_means(products, self.means * np.sqrt(metric))).sum(axis=1) + np.einsum(
            "ij,ij->i", along, along
        )
        exact = np.square(self.validation_points) @ metric
        length += (exact - length[self.validation_rows]).sum() / max(sizes[self.validation_rows].sum(), TINY) * sizes
        length[self.validation_rows] = exact
        return self._without(products, length, gram, slice(None))[0], along

    def members(self, parts: Parts, rows: Integer) -> tuple[Float, float]:
        """Return the scores of the members of a mixture, (4, n, K), and the noise of the regression."""
        noise = noise_of(parts.regression, self.codes[rows], self.weights[rows])
        return member_scores(parts, self.log_priors, noise, self.counts > 0), float(noise)

    @property
    def few(self) -> bool:
        """Tell whether too few rows are left to validate with."""
        return bool(self.own[self.validation_rows].sum() < SETTINGS.fewest_rows)

    @property
    def few_validation_rows(self) -> Integer:
        """The rows on which ridges are compared."""
        return self.validation_rows[: SETTINGS.wide_rows if len(self.counts) <= 32 else SETTINGS.wide_rows // 2]


def _diagonalised(within: Float, n_rows: int) -> tuple[Float, Float]:
    """Return the eigenvalues of S_w, ascending, and its eigenvectors as columns; those of 0 may be absent."""
    if 2 * n_rows >= len(within):
        values, vectors = linalg.eigh(within, overwrite_a=True, check_finite=False, driver="evd")
        return np.maximum(values, 0.0), vectors
    # The rank is less than the number of rows, so the pivots of Cholesky end early.
    factor, pivots, rank, _ = linalg.lapack.dpstrf(within, lower=1)
    if not rank:  # LAPACK takes no empty matrix
        return np.empty(0), np.empty((len(within), 0))
    root = np.empty((len(within), rank))
    root[pivots - 1] = np.tril(factor)[:, :rank]
    basis, small = linalg.qr(root, mode="economic", check_finite=False)
    turn, sizes, _ = linalg.svd(small, check_finite=False)
    return np.square(sizes[::-1]), basis @ turn[:, ::-1]


def _occupied(values: Float, vectors: Float, means: Float) -> tuple[Float, Float]:
    """Return eigenvalues and eigenvectors without directions in which no row differs from the mean.

    Where nothing varies within classes only their means, (K, d), differ: these span few of such directions.
    """
    kept = values > NOTHING * values[-1:]
    if means.shape[1] - np.count_nonzero(kept) <= len(means) and len(values) == means.shape[1]:
        return values, vectors
    within = np.ascontiguousarray(vectors[:, kept])
    rest = means - means @ within @ within.T
    rest -= rest @ within @ within.T  # again, for what rounding has left
    _, sizes, more = linalg.svd(rest, full_matrices=False, check_finite=False)
    more = more[sizes > NOTHING * np.linalg.norm(means)]
    if not len(more) and not within.shape[1]:
        return np.zeros(means.shape[1]), np.eye(means.shape[1])
    return np.append(np.zeros(len(more)), values[kept]), np.hstack([more.T, within])


class Curve(NamedTuple):
    """The ridge of least errors, nodes and what each is worth."""

    ridge: float
    nodes: Float
    losses: Float


def least_ridges(views: list[LeaveOneOut]) -> list[Curve]:
    """Return the ridge of least errors of rows in each of some units, if a Gaussian head predicts.

    The views have the same rows and differ in the units of their columns. All curves are fitted at once, because few
    rows take less time than the calls for them.
    """
    few, decades = views[0].few_validation_rows, DECADES
    validation = views[0].validation(few)
    nodes = [one.usual * 10.0**decades for one in views]
    with one_blas_thread():  # many small products: threads of BLAS would wait for each other
        scores = np.concatenate([one.gaussian(at, len(few)) for one, at in zip(views, nodes, strict=True)])
        weights, _ = fit_each(scores, validation, START[[0, PRIOR]], signed=1)
        mixed = np.matmul(weights[:, None], scores.reshape(*weights.shape, -1)).reshape(-1, *scores.shape[2:])
        curves = selection_loss_each(mixed, validation).reshape(len(views), -1)
    pull = decades**2 / validation.weights.sum()  # as much as one row
    return [
        Curve(one.usual * 10.0 ** least_point(decades, losses + pull), at, losses)
        for one, at, losses in zip(views, nodes, curves, strict=True)
    ]


class _AtMetric(NamedTuple):
    """Validation rows and class means at a ridge, or at several, which are then the first axis of each array.

    Attributes
    ----------
    root : array of shape (..., 1, d)
        The root of the metric along the eigenvectors of S_w.
    centres : array of shape (..., K, d)
        The class means where the metric is the identity.
    gram : array of shape (..., K, K)
        Their products.
    products : array of shape (..., n, K)
        Products of the rows with them.
    length : array of shape (..., n)
        Squared lengths of the rows.
    without : array of shape (..., n, K)
        The products, each without its row.
    squares : array of shape (..., n, K)
        Squared lengths of the class means without the row.
    """

    root: Float
    centres: Float
    gram: Float
    products: Float
    length: Float
    without: Float
    squares: Float


class _Gone(NamedTuple):
    """What a row that leaves changes: see the formulas of this file."""

    other: Float
    away: Float
    gap: Float
    factor: Float
    shrink: Float
    move: Float


def most_rows(n_features: int) -> int:
    """Return how many rows are kept to validate and train with."""
    return 2**14 if n_features <= SETTINGS.exact_columns else 2**13


class AtRidge(NamedTuple):
    """Rows that are left out one by one, and a mixture of heads at the ridge of the directions.

    Attributes
    ----------
    rows : LeaveOneOut
        The rows.
    ridge : float
        The ridge.
    scores : array of shape (4, n, K)
        What the members of the mixture score.
    noise : float
        The noise of the regression.
    near : Weighing
        The weights of the mixture, and its log-loss.
    loss : float
        Its selection loss.
    """

    rows: LeaveOneOut
    ridge: float
    scores: Float
    noise: float
    near: Weighing
    loss: float

    def evidence(self, inside: Inside, components: Float) -> LeaveOneOutEvidence:
        """Return the evidence on heads along Fisher's directions at this ridge."""
        return LeaveOneOutEvidence(self, components, inside)


def at_ridges(views: list[LeaveOneOut], ridges: list[float]) -> list[AtRidge]:
    """Return each of some units at its ridge: what the mixtures cost there tells the units apart."""
    validation = views[0].validation(views[0].validation_rows)
    with one_blas_thread():
        found = [one.members(one.parts(ridge), one.validation_rows) for one, ridge in zip(views, ridges, strict=True)]
        scores = np.stack([one for one, _ in found])
        weights, logs = fit_each(scores, validation, START, signed=PRIOR)
        mixed = np.matmul(weights[:, None], scores.reshape(*weights.shape, -1)).reshape(-1, *scores.shape[2:])
        losses = selection_loss_each(mixed, validation).tolist()
    return [
        AtRidge(rows, ridge, mine, float(noise), Weighing(weight, log), loss)
        for rows, ridge, (mine, noise), weight, log, loss in zip(
            views, ridges, found, weights, logs.tolist(), losses, strict=True
        )
    ]


class LeaveOneOutEvidence(ClassEvidence):
    """Heads along Fisher's directions at a ridge, compared on rows of the sample that none of them has learnt."""

    def __init__(self, at: AtRidge, components: Float, inside: Inside) -> None:
        self.rows, self.ridge, self.components = at.rows, at.ridge, components
        validation = self.rows.validation(self.rows.validation_rows)
        super().__init__(at.scores, validation, at.noise, inside, components.shape[1])
        self.near = at.near
        with one_blas_thread():
            self.more = self._more()
        self.hidden = np.ascontiguousarray((self.rows.vectors @ self.more).T) if self.more.shape[1] else self.nothing

    @cached_property
    def wide(self) -> Float:
        """Return coordinates of all rows in which no row knows itself, and those along further directions.

        Products of a row with the class means say where it lies among them.
        """
        products, along = self.rows.products(self.ridge, self.more)
        return np.hstack([products @ np.linalg.pinv(self.inside.means).T, along])

    @cached_property
    def seen(self) -> Float:
        """Return coordinates of all rows for heads that learn weights.

        Those in which no row knows itself tell the classes of rows of small classes, whose means they move far: where
        all directions are there, coordinates that know of no class serve as well.
        """
        if self.rows.wide:
            return self.wide
        return tall_times(self.rows.plain, np.concatenate([self.components, self.hidden]).T)

    def _offers_shapes(self) -> bool:
        """Tell whether classes have rows enough for a covariance of their own."""
        p, seen = len(self.components), max(int(np.count_nonzero(self.rows.counts)), 1)
        return bool(p <= SETTINGS.exact_columns // 2 and self.rows.own.sum() / seen >= max(2 * p, SETTINGS.fewest_rows))

    def _more(self) -> Float:
        """Return the directions of largest within-class variance that are conjugate to Fisher's, as columns."""
        rows, d, p = self.rows, len(self.rows.values), len(self.components)
        count = max(0, min(d, SETTINGS.exact_columns) - p) if self._offers_shapes() or not rows.wide else 0
        # All directions where there are few, else the first; where nothing varies, a direction would be rounding.
        lead = np.arange(count if rows.wide else d)
        lead = d - 1 - lead[rows.values[d - 1 - lead] > NOTHING * rows.values[-1]]
        if not count or not len(lead):
            return np.empty((d, 0))
        root = np.sqrt(rows.values + self.ridge)
        fisher = root[:, None] * (rows.vectors.T @ self.components.T)  # orthonormal columns
        more: Float = -fisher @ fisher[lead].T
        more[lead, np.arange(len(lead))] += 1.0
        # Fisher's directions may lie among them: what is left of those comes last, and is rounding.
        more, upper, _ = linalg.qr(more, mode="economic", pivoting=True, check_finite=False)
        return np.asarray(more[:, np.abs(np.diag(upper)) > 1e-6] / root[:, None])

    def _lift(self) -> Float:
        """Return what the ridge adds to the covariance along all directions."""
        stacked = np.concatenate([self.components, self.hidden])
        lift: Float = self.ridge * stacked @ stacked.T
        return lift

    def _quadratic(self) -> Candidate:
        """Return one covariance per class, from all rows; each validation row is taken out again."""
        rows, validation_rows = self.rows, self.rows.validation_rows
        shapes = ClassShapes(self.wide, rows.codes, rows.own, len(rows.counts), self._lift())
        few, gone = validation_rows[: SETTINGS.wide_rows], rows.gone
        shrinkage = shapes.shrinkage(self.wide[few], rows.validation(few), gone[few], rows.log_priors)
        nodes = np.array([shrinkage])
        left = shapes.left_out(
            self.wide[validation_rows], self.validation, gone[validation_rows], nodes, rows.log_priors
        )[:, :, 0]
        left[:, rows.counts <= 0] = EMPTY

        def build() -> Built:
            head = Quadratic.of(shapes, shrinkage, self.inside.log_priors(), np.eye(self.wide.shape[1]))
            return Built(head, self.hidden)

        return Candidate(Quadratic.name, np.ascontiguousarray(left), build)

    def _hinge(self) -> Candidate:
        """Train support vector machines on rows that are not validation rows, and in the end on all."""
        rows, K = self.rows, len(self.rows.counts)
        validation_rows = rows.validation_rows[: max(1, len(rows.codes) // SETTINGS.folds)]
        others = np.ones(len(rows.codes), dtype=bool)
        others[validation_rows] = False
        weights, offsets = optimum(self.seen[others], rows.codes[others], rows.own[others], K, USUAL)
        scores = margin_scores(self.seen[validation_rows] @ weights.T + offsets)
        scores[:, rows.counts <= 0] = EMPTY

        def build() -> Built:
            found = optimum(self.seen, rows.codes, rows.own, K, USUAL)
            return Built(Hinge.of(*found, rows.counts, np.eye(self.seen.shape[1]), USUAL), self.hidden)

        return Candidate(Hinge.name, scores, build)

    def _own_scores(self, name: str) -> Float:
        rows = self.rows
        fold = rows.spread()[rows.validation_rows]
        scores: Float = np.full((len(fold), len(rows.counts)), EMPTY)
        for one in range(SETTINGS.folds):
            held = np.flatnonzero(fold == one)
            held_out_fold = HeldOutFold(
                TrainingStatistics(rows.statistics, rows.sample, rows.validation_rows[held]), len(self.components), name
            )
            scores[held[held_out_fold.known]] = held_out_fold.scores(FisherCriterion(self.ridge))
        return np.maximum(scores, EMPTY)

    def _linear_name(self) -> str:
        """Return the linear head that is trained, "" where one step of it would take far longer than the scatter."""
        rows, K, p = len(self.rows.codes), len(self.rows.counts), self.components.shape[1]
        expensive = rows * K * p > SETTINGS.logistic_cost and SETTINGS.logistic_scatters * p < K
        return "" if expensive else super()._linear_name()

    def _taught(self) -> Inside:
        points = tall_times(self.rows.plain, self.components.T)
        return replace(self.inside, points=points, codes=self.rows.codes, own=self.rows.own)

    def _sees_columns(self) -> bool:
        """Tell whether a logistic head looks at all columns: Fisher's directions may leave out what it could use."""
        rows = self.rows
        price = len(rows.codes) * len(rows.counts) * rows.statistics.n_features
        return rows.wide and price <= SETTINGS.logistic_columns_cost

    def _logistic(self) -> Candidate:
        """Choose the penalty on rows that did not train the weights, and in the end train on all rows."""
        rows, counts = self.rows, self.rows.counts
        shape: Float | None = None
        root: Float | None = None
        seen: Float
        scores: Float
        if self._sees_columns():
            # whitened, and a direction of small variance costs more: between the units of the columns and none
            lift = max(self.ridge, rows.usual)
            spread, mean = rows.values + lift, rows.values.sum() / rows.statistics.n_features + lift
            root, shape = np.sqrt(spread), np.sqrt(mean / spread)
            seen = tall_times(rows.plain, rows.vectors / root)
        else:
            seen = self.seen
        price = len(rows.codes) * len(counts) * seen.shape[1]
        if price > SETTINGS.logistic_cost and rows.wide:
            validation_rows = rows.validation_rows[: max(1, len(rows.codes) // SETTINGS.folds)]
            others = np.ones(len(rows.codes), dtype=bool)
            others[validation_rows] = False
            trained = np.flatnonzero(others)
            penalty = SETTINGS.logistic_columns_penalty
            pull = np.append(np.full(seen.shape[1], penalty) * (1.0 if shape is None else shape), OFFSET_PENALTY)
            passes = int(np.clip(round(SETTINGS.logistic_passes_cost / price), 2, 12))
            start, apart = start_of(counts, len(pull)), len(trained) and trained[0] == len(validation_rows)
            some = (
                slice(len(validation_rows), None) if apart else trained
            )  # no copy where the validation rows stand first
            theta = by_batches(seen[some], rows.codes[some], rows.own[some], pull, start, passes)
            scores = seen[validation_rows] @ theta[:, :-1].T + theta[:, -1]
            scores[:, counts <= 0] = EMPTY

            def train() -> Float:
                return by_batches(seen, rows.codes, rows.own, pull, theta, max(1, passes // 3), 0.5)

        else:
            penalty, theta, scores, whole = self._penalty(seen, shape)
            part = slice(4 * SETTINGS.wide_rows if rows.provisional else None)

            def train() -> Float:
                if whole:
                    return theta
                return fit_logistic(seen[part], rows.codes[part], rows.own[part], counts, penalty, theta, 40, shape)

        def build() -> Built:
            final, hidden = train(), self.hidden
            if root is not None:
                final, hidden = self._along(final, root)
            head = Logistic.of(final, counts, np.eye(final.shape[1] - 1), penalty)
            return Built(replace(head, settled=root is not None), hidden)

        return Candidate(Logistic.name, scores, build)

    def _penalty(self, seen: Float, shape: Float | None) -> tuple[float, Float, Float, bool]:
        """Return the best penalty, its weights, its scores of validation rows, and whether all rows trained it.

        Up to `FEW` weights each row is left out of all, by one Newton step; more are trained without a quarter of the
        rows.
        """
        rows, counts = self.rows, self.rows.counts
        most = 3 * SETTINGS.wide_rows if rows.provisional else SETTINGS.logistic_rows
        if len(counts) * (seen.shape[1] + 1) <= FEW:
            validation_rows, given = (
                rows.validation_rows[rows.validation_rows < most],
                (seen[:most], rows.codes[:most], rows.own[:most], counts),
            )
            share = rows.gone[validation_rows] / rows.own[validation_rows]
            thetas, scores = left_out_path(*given, PENALTIES, validation_rows, share, shape)
            best = least_loss(scores, counts, rows.validation(validation_rows))
            return float(PENALTIES[best]), thetas[best], scores[best], len(rows.codes) <= most
        validation_rows = rows.validation_rows[: max(1, len(rows.codes) // SETTINGS.folds)]
        trained = np.setdiff1d(np.arange(len(rows.codes)), validation_rows)[:most]
        fold = (seen[trained], rows.codes[trained], rows.own[trained]), seen[validation_rows]
        return *penalty_of([fold], counts, rows.validation(validation_rows), PENALTIES, 40, shape), False

    def _along(self, theta: Float, root: Float) -> tuple[Float, Float]:
        """Return weights of all columns as weights of Fisher's directions and of few further ones, and these.

        What Fisher's directions do not tell of the weights has at most the rank of the classes.
        """
        weights, vectors = theta[:, :-1], self.rows.vectors
        fisher = root[:, None] * (vectors.T @ self.components.T)
        known = weights @ np.linalg.pinv(fisher).T
        left, sizes, right = linalg.svd(weights - known @ fisher.T, full_matrices=False, check_finite=False)
        kept = sizes > 1e-9 * np.linalg.norm(weights)
        further = np.ascontiguousarray((vectors @ (right[kept] / root).T).T)
        return np.hstack([known, left[:, kept] * sizes[kept], theta[:, -1:]]), further
