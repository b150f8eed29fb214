"""Heads and kernel width of the kernel estimators, chosen as the linear ones choose: rows left out, smooth losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong.criteria import landmark_ridge
from kampong.data.labels import Members
from kampong.heads.calibration import badness, fit_weights, least_point
from kampong.heads.mixture import PRIOR, START
from kampong.kernels.landmarks import LandmarkBasis, draw_rows
from kampong.selection.choose import Choice
from kampong.selection.evidence import EMPTY
from kampong.selection.leave_one_out import LeaveOneOut, LeaveOneOutEvidence
from kampong.selection.settings import SETTINGS
from kampong.solvers import classes_seen
from kampong.statistics.all_rows import Sample
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.statistics.sampling import first_keys, row_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows
    from kampong.heads import Inside
    from kampong.kernels.functions import Kernel

KEPT = 2048
"""Rows that judge heads, and train those that are trained."""

FACTORS = np.array([-0.6, -0.3, 0.0, 0.3, 0.6])
"""Nodes of log10(γ / usual), usual = one over the mean squared distance of two rows."""

PULL = 1e-2
"""What a decade away from the usual width costs, times its square: few landmarks make wide kernels look too good."""

SCOUTS, JUDGES, ROWS = 500, 1024, 4096
"""Landmarks, rows that judge and rows in all on which the widths are compared."""


ENOUGH = 500
"""With fewer rows the width is the usual one."""


class LandmarkLeaveOneOut(LeaveOneOut):
    """Rows of the sample beside kernel sums, each scored as if it had never come; the landmarks stay.

    Everything is in coordinates in which S_w + ρI is the identity, for one ridge ρ.

    Parameters
    ----------
    statistics : KernelScatter
        Sums over kernel values, one label a row.
    sample : Sample
        Rows in the coordinates of the statistics.
    ridge : float
        The ridge ρ.
    """

    def __init__(self, statistics: KernelScatter, sample: Sample, ridge: float) -> None:
        self.brief, self.counts, self.total = False, statistics.counts, statistics.total
        self.statistics, self.sample = statistics, sample
        self.mean = statistics.mean
        white = _whitener(statistics.within_scatter(), ridge)
        self.values, self.usual = np.zeros(statistics.n_features), 1.0
        self.means = np.asarray(white(np.where(self.counts[:, None] > 0, statistics.means - self.mean, 0.0)))
        self.plain = np.asarray(sample.rows) - self.mean
        self.rows = np.asarray(white(self.plain))
        self._take(sample)
        self.judges = np.flatnonzero(self.left > SETTINGS.least_left * self.counts[self.codes])
        self.judging = self.rows[self.judges]
        with np.errstate(divide="ignore"):
            self.log_priors = np.where(self.counts > 0, np.log(self.counts / self.total), EMPTY)

    def loss(self) -> float:
        """Return what the mixture of heads costs."""
        judged = self.judged(self.judges)
        scores, _ = self.members(self.parts(1.0), self.judges)
        weights, _ = fit_weights(scores, judged, START, signed=PRIOR)
        return badness(np.tensordot(weights, scores, 1), judged)


class LandmarkTrial(LeaveOneOutEvidence):
    """Heads along kernel directions; they look at no others.

    Heads that are trained on rows must be asked for: kernel directions have bent already what such a head could bend,
    and 2,048 rows are few to train on.
    """

    def _offers_shapes(self) -> bool:
        return False

    def _linear_name(self) -> str:
        return ""

    def _more(self) -> Float:
        """Return no directions: those of a kernel's feature space are many."""
        return np.empty((len(self.rows.values), 0))

    def _sees_columns(self) -> bool:
        return False

    def _lift(self) -> Float:
        assert self.inside.lift is not None
        return self.inside.lift


def _whitener(within: Float, ridge: float) -> Callable[[Float], Float]:
    """Return what takes rows to coordinates in which S_w + ρI is the identity.

    Turned into orthonormal coordinates S_w carries rounding that may be larger than a small ridge: eigenvalues that it
    has made negative count as zero.
    """
    matrix = within.copy()
    matrix.flat[:: len(matrix) + 1] += ridge
    try:
        root = linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        values, vectors = linalg.eigh(within, check_finite=False)
        scaled = vectors / np.sqrt(np.maximum(values, 1e-14 * values[-1]) + ridge)
        return lambda rows: rows @ scaled

    def white(rows: Float) -> Float:
        turned: Float = linalg.solve_triangular(root, rows.T, lower=True, check_finite=False)
        return np.ascontiguousarray(turned.T)

    return white


def landmark_trial(statistics: KernelScatter, inside: Inside, components: Float, ridge: float) -> LandmarkTrial | None:
    """Return heads to try, where enough rows of the sample can judge."""
    if inside.multilabel or statistics.kept is None:
        return None
    statistics = statistics.in_rows()
    rows = LandmarkLeaveOneOut(statistics, statistics.sample(KEPT), ridge)
    if rows.own[rows.judges].sum() < SETTINGS.fewest_rows:
        return None
    return LandmarkTrial(rows, 1.0, components, inside)


def choose_width(
    kernel: Callable[[float], Kernel], usual: float, X: Rows, codes: Integer, weights: Float, seed: int
) -> Choice | None:
    """Return the factor γ of a kernel that errs least, on some of the rows and on few landmarks.

    Parameters
    ----------
    kernel : callable
        Given γ, returns the kernel.
    usual : float
        The γ to stay near to.
    X : array or sparse matrix of shape (n, d)
        Rows of positive weight.
    codes : array of int of shape (n,)
        Their classes.
    weights : array of shape (n,)
        Their weights.
    seed : int
        The seed of the landmarks.

    Returns
    -------
    Choice or None
        None where too few rows judge.
    """
    weights = weights * (weights.sum() / np.square(weights).sum())  # a number of rows, whatever their scale
    if weights.sum() < ENOUGH:
        return None
    chosen, _ = first_keys(row_keys(np.arange(1, len(codes) + 1), weights, seed), ROWS)
    chosen = np.sort(chosen)
    X, codes, weights = X[chosen], codes[chosen], weights[chosen]
    if len(codes) // 2 < SETTINGS.fewest_rows:
        return None
    scouts = draw_rows(codes, weights, min(SCOUTS, len(codes) // 2), seed)
    others = np.ones(len(codes), dtype=bool)
    others[scouts] = False  # what is a landmark knows itself
    judges = np.flatnonzero(others)[:JUDGES]
    losses, nodes = [], usual * 10.0**FACTORS
    own = weights[judges]
    for gamma in nodes:
        basis = LandmarkBasis(kernel(float(gamma)), X[scouts])
        statistics = KernelScatter(basis).update(X, codes, weights)
        if classes_seen(statistics) < 2 or statistics.within_trace <= 0:
            return None
        rows = basis.coordinates(basis.values(X[judges]).astype(np.float64, copy=False))
        numbers = np.arange(len(judges))
        members = Members(numbers, np.searchsorted(statistics.classes, codes[judges]), own, len(judges))
        ridge = landmark_ridge(statistics) * statistics.within_trace
        left_out = LandmarkLeaveOneOut(statistics, Sample(rows, members, own, own, numbers), ridge)
        if not len(left_out.judges):
            return None
        losses.append(left_out.loss())
    curve = np.array(losses)
    best = least_point(FACTORS, curve + PULL * FACTORS**2)
    return Choice(usual * 10.0**best, nodes, curve, len(judges))
