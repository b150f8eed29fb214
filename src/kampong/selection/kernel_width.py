"""Heads, scale and kernel width of the kernel estimators, chosen by leave-one-out losses that are smooth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._core.compute import floats, one_blas_thread, run
from kampong.criteria import landmark_ridge
from kampong.data.labels import Members
from kampong.heads.calibration import fit_weights, least_point, selection_loss
from kampong.heads.mixture import PRIOR, START
from kampong.kernels.landmarks import EQUAL, LandmarkBasis
from kampong.selection.choose import Choice
from kampong.selection.evidence import EMPTY
from kampong.selection.leave_one_out import LeaveOneOut, LeaveOneOutEvidence, at_ridges
from kampong.selection.settings import SETTINGS
from kampong.solvers import classes_seen
from kampong.statistics.all_rows import Sample
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.statistics.sampling import first_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows
    from kampong.heads import Inside
    from kampong.kernels.functions import Kernel

KEPT = 2048
"""Validation rows of heads, which also train those that are trained."""

FACTORS = np.array([-0.6, -0.3, 0.0, 0.3, 0.6])
"""Nodes of log10(γ / usual), usual = one over the mean squared distance of two rows."""

PULL = 1e-2
"""What a decade away from the usual width costs, times its square: few landmarks make wide kernels look too good."""

SCOUTS, VALIDATION, ROWS = 500, 1024, 4096
"""Landmarks, validation rows and rows in all on which scales and widths are compared, up to 2,000 landmarks.

Of more landmarks a quarter, with as many rows for each: the comparison costs the same part of the fit.
"""


class LandmarkLeaveOneOut(LeaveOneOut):
    """Rows of the sample kept with kernel sums, each scored as if it had never come; the landmarks stay.

    Everything is in coordinates in which S_w + ρI is the identity, for one ridge ρ.

    Parameters
    ----------
    statistics : KernelScatter
        Sums over kernel values, one label per row.
    sample : Sample
        Rows in the coordinates of the statistics.
    ridge : float
        The ridge ρ.
    """

    def __init__(self, statistics: KernelScatter, sample: Sample, ridge: float) -> None:
        self.provisional, self.counts, self.total = False, statistics.counts, statistics.total
        self.statistics, self.sample = statistics, sample
        self.mean = statistics.mean
        white = _whitener(statistics.within_scatter(), ridge)
        self.values, self.usual = np.zeros(statistics.n_features), 1.0
        self.means = np.asarray(white(np.where(self.counts[:, None] > 0, statistics.means - self.mean, 0.0)))
        self.plain = np.asarray(sample.rows) - self.mean
        self.rows = np.asarray(white(self.plain))
        self._take(sample)
        self.validation_rows = np.flatnonzero(self.left > SETTINGS.least_left * self.counts[self.codes])
        self.validation_points = self.rows[self.validation_rows]
        with np.errstate(divide="ignore"):
            self.log_priors = np.where(self.counts > 0, np.log(self.counts / self.total), EMPTY)

    def loss(self) -> float:
        """Return what the mixture of heads costs."""
        validation = self.validation(self.validation_rows)
        scores, _ = self.members(self.parts(1.0), self.validation_rows)
        weights, _ = fit_weights(scores, validation, START, signed=PRIOR)
        return selection_loss(np.tensordot(weights, scores, 1), validation)


class LandmarkTrial(LeaveOneOutEvidence):
    """Heads along kernel directions; they look at no others.

    Heads that are trained on rows must be asked for: kernel directions are curved already,
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
    """Return heads to try, if the sample has enough rows to validate them."""
    if inside.multilabel or statistics.kept is None:
        return None
    statistics = statistics.in_rows()
    rows = LandmarkLeaveOneOut(statistics, statistics.sample(KEPT), ridge)
    if rows.own[rows.validation_rows].sum() < SETTINGS.fewest_rows:
        return None
    return LandmarkTrial(at_ridges([rows], [1.0])[0], components, inside)


def choose_kernel(
    kernel: Callable[[float, bool], Kernel],
    scales: tuple[bool, ...],
    factors: Float,
    rows: tuple[Rows, Integer, Float],
    keys: Float,
    wanted: int = 0,
) -> Choice | None:
    """Return the scale of the columns and the width of a kernel that err least, on some of the rows and landmarks.

    The scales are compared at the usual width, and the widths at the better scale. Up to 500 rows all are landmarks
    and all are validated on: what is learnt lies in the span of the images of the other rows, so a row left out takes
    its landmark with it. Of more rows 500 are landmarks, and the others are validated on; up to 1,000 rows the scales
    are compared with half of them as landmarks. More landmarks make narrower kernels better, so where more than 2,000
    are wanted the comparison has a quarter of them.

    Parameters
    ----------
    kernel : callable
        Given log10(γ / usual) and whether columns are divided by their standard deviations, returns the kernel.
    scales : tuple of bool
        What to compare: columns as they are, divided, or both.
    factors : array of shape (q,)
        The nodes of log10(γ / usual), 0 among them.
    rows : tuple of array
        Rows of positive weight, their classes, and their weights.
    keys : array of shape (n,)
        Random keys of the rows; those of the smallest keys are used.
    wanted : int
        How many landmarks the kernel is for.

    Returns
    -------
    Choice or None
        None if there are too few rows.
    """
    scouts = max(SCOUTS, wanted // 4)
    chosen, _ = first_keys(keys, ROWS * scouts // SCOUTS)
    X, codes, weights = floats(rows[0][chosen]), rows[1][chosen], rows[2][chosen]
    weights = weights * (weights.sum() / np.square(weights).sum())  # a number of rows, whatever their scale
    every = np.arange(len(codes))
    landmarks, validated = (every, every) if len(every) <= scouts else (every[:scouts], every[scouts:][:VALIDATION])
    # half of the rows tell the scales apart where few are left; widths need all the landmarks
    enough = len(every) <= scouts or len(every) >= 2 * scouts or len(scales) == 1
    split = (landmarks, validated) if enough else (every[: len(every) // 2], every[len(every) // 2 :])

    with one_blas_thread():  # a thread for each width, rather than threads of BLAS that wait for each other
        at_usual = {scaled: _loss(kernel(0.0, scaled), X, codes, weights, *split) for scaled in scales}
        best = scales[0] if len(scales) == 1 else at_usual[True][0] < at_usual[False][0] - EQUAL
        # one ridge for all widths: the number of independent landmarks of a wide kernel is a matter of rounding
        least, ridge = at_usual[best] if enough else _loss(kernel(0.0, best), X, codes, weights, landmarks, validated)
        curve = np.full(len(factors), least)

        def node(place: int) -> None:
            width = kernel(float(factors[place]), best)
            curve[place] = _loss(width, X, codes, weights, landmarks, validated, ridge)[0]

        run(node, [(place,) for place in np.flatnonzero(factors)])
    if not np.isfinite([*curve, *(value for value, _ in at_usual.values())]).all():
        return None
    at = least_point(factors, curve + PULL * factors**2) if len(factors) > 1 else 0.0
    nodes = np.array([kernel(float(factor), best).gamma for factor in factors])
    compared = (
        {"scaled" if scaled else "unscaled": value for scaled, (value, _) in at_usual.items()}
        if len(scales) > 1
        else {}
    )
    return Choice(kernel(at, best).gamma, nodes, curve, len(validated), scaled=best, scales=compared)


def _loss(
    kernel: Kernel,
    X: Rows,
    codes: Integer,
    weights: Float,
    landmarks: Integer,
    validated: Integer,
    ridge: float | None = None,
) -> tuple[float, float]:
    """Return the leave-one-out loss of some rows, infinite if it cannot be told, and the ridge as a part of tr S_w."""
    basis = LandmarkBasis(kernel, X[landmarks])
    statistics = KernelScatter(basis).update(X, codes, weights)
    ridge = landmark_ridge(statistics) if ridge is None else ridge
    trace = statistics.within_trace
    if classes_seen(statistics) < 2 or trace <= 0:
        return np.inf, ridge
    rows = basis.embed(X[validated])
    own, numbers = weights[validated], np.arange(len(validated))
    members = Members(numbers, np.searchsorted(statistics.classes, codes[validated]), own, len(validated))
    left_out = LandmarkLeaveOneOut(statistics, Sample(rows, members, own, own, numbers), ridge * trace)
    return np.inf if left_out.few else left_out.loss(), ridge
