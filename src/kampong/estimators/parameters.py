"""The parameters that subspace estimators share: what they may be, and the messages if they are something else."""

from __future__ import annotations

import functools
import numbers
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn.utils import check_random_state

from kampong.data.validation import check_choice
from kampong.selection.scales import SCALES
from kampong.selection.settings import SETTINGS
from kampong.solvers import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kampong._core.compute import Float

Init = TypeVar("Init", bound="Callable[..., None]")

LEARNT_WITH = {
    "coef0",
    "decay",
    "degree",
    "effort",
    "gamma",
    "half_life",
    "kernel",
    "landmarks",
    "memory_bytes",
    "placement",
    "random_state",
    "reservoir_bytes",
    "verbose",
    "warm_start",
}
"""Parameters that say how rows are learnt; all others say what is read of them, and count from the next read on."""

LDA_SOLVERS = {
    "svd": "FisherDiscriminant(ridge=0) with solver='auto', which has the same directions and predictions",
    "lsqr": "FisherDiscriminant with solver='auto', and ridge=0 for no shrinkage or ridge='auto' to have it chosen",
    "eigen": "FisherDiscriminant with solver='auto', and ridge=0 for no shrinkage or ridge='auto' to have it chosen",
}
"""The solvers of scikit-learn's LinearDiscriminantAnalysis, and what to write for them."""

LDA_ARGUMENTS = {
    "shrinkage": "Write ridge='auto' for shrinkage='auto', and ridge=0 for shrinkage=None: the ridge ρ is added to the "
    "within-class scatter, S_w + ρI",
    "store_covariance": "Leave it out: kampong keeps the scatter where it fits into memory, up to 8,192 columns",
    "tol": "Leave it out: directions without variance are found by themselves; a ridge above 0 makes them harmless",
    "covariance_estimator": "Write ridge='auto', which chooses how far the within-class scatter is moved to ρI",
}
"""Other arguments of LinearDiscriminantAnalysis, and what to write for them."""


def explain_lda_arguments(init: Init) -> Init:
    """Let a constructor say what to write for arguments of scikit-learn's LinearDiscriminantAnalysis; a decorator.

    Returns
    -------
    callable
        The same constructor; arguments that nobody knows are Python's own TypeError.
    """

    @functools.wraps(init)
    def explained(self: Any, *arguments: Any, **named: Any) -> None:
        for name in LDA_ARGUMENTS.keys() & named.keys():
            raise TypeError(
                f"{type(self).__name__} has no parameter {name!r}, which belongs to scikit-learn's "
                f"LinearDiscriminantAnalysis. {LDA_ARGUMENTS[name]}."
            )
        init(self, *arguments, **named)

    return cast("Init", explained)


def check_solver(name: str, solver: Any) -> None:
    """Refuse a solver that is not one of ours; for one of scikit-learn's LDA say what to write."""
    if isinstance(solver, str) and solver in LDA_SOLVERS:
        raise ValueError(
            f"{name}: solver={solver!r} is one of scikit-learn's LinearDiscriminantAnalysis. Instead use "
            f"{LDA_SOLVERS[solver]}."
        )
    if not isinstance(solver, str) or solver not in ("auto", *SOLVERS):
        raise ValueError(f"{name}: solver must be 'auto' or one of {sorted(SOLVERS)}, got {solver!r:.100}.")


def draw_seed(random_state: Any) -> int:
    """Return the seed that a random_state stands for: itself if it is a number, otherwise one that is drawn."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def check_directions(name: str, n_components: Any) -> int | None:
    """Return the number of directions asked for, None for as many as raise the criterion."""
    if n_components is None or (isinstance(n_components, str) and n_components == "auto"):
        return None
    if isinstance(n_components, bool) or not isinstance(n_components, numbers.Integral) or n_components < 1:
        raise ValueError(f"{name}: n_components must be a whole number ≥ 1, 'auto' or None, got {n_components!r}.")
    return int(n_components)


def check_priors(name: str, priors: Any) -> Float | str:
    """Return "observed", "uniform", or shares that sum to one, as an array."""
    if isinstance(priors, str):
        return check_choice(name, "priors", priors, ("observed", "uniform"))
    if priors is None:
        return "observed"
    try:
        shares: Float = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):
        shares = np.full(1, np.nan)
    if shares.ndim != 1 or not len(shares) or not np.isfinite(shares).all() or shares.min() < 0:
        raise ValueError(
            f"{name}: priors must be 'observed', 'uniform' or a list of numbers ≥ 0, one for each class, got "
            f"{priors!r:.100}."
        )
    if abs(shares.sum() - 1.0) > 1e-6:
        raise ValueError(
            f"{name}: priors sum to {shares.sum():g}. Give shares that sum to 1: divide them by their sum."
        )
    return np.asarray(shares / shares.sum())


def check_scale(name: str, scale: Any) -> None:
    """Refuse a scale that is not True, False or "auto"."""
    if not (isinstance(scale, bool | np.bool_) or (isinstance(scale, str) and scale == "auto")):
        raise ValueError(
            f"{name}: scale must be True, False or 'auto', and is {scale!r:.100}. True divides each column by its "
            "standard deviation first, False takes the rows as they are."
        )


def scale_reason(
    scale: Any, divided: bool, losses: Mapping[str, float], otherwise: str, *, large: bool = False, own: str = ""
) -> str:
    """Say in one sentence why columns, or the large ones alone, are divided by their standard deviations or not.

    `losses` may be empty.
    """
    done = f"divided by {own!r}" if own else "divided by their standard deviations" if divided else "taken as they are"
    if not isinstance(scale, str):
        why = f"scale={bool(scale)} was given"
    elif losses:
        forms = {**{name: f"by {name!r}" for name in losses}, **SCALES}
        found = [f"{losses[name]:.4f} {form}" for name, form in forms.items() if name in losses]
        why = f"the selection loss on validation rows is {' and '.join(found)}"
        if not divided and min(losses.values()) + SETTINGS.slack < losses["unscaled"]:
            why += ", which is about the same, and the head errs less on them as they are"
    else:
        why = otherwise
    return f"{'Large columns' if large else 'The columns'} are {done}: {why}."


@functools.cache
def parameter_names(kind: Any) -> tuple[str, ...]:
    """Return the names of the parameters of a class; scikit-learn looks them up again each time."""
    return tuple(kind._get_param_names())


def read_with(model: Any) -> dict[str, str]:
    """Return the parameters that a predictor follows from, as text; others count when rows are learnt."""
    kind: Any = type(model)
    values = {name: getattr(model, name) for name in parameter_names(kind) if name not in LEARNT_WITH}
    return {key: repr(value.tolist() if isinstance(value, np.ndarray) else value) for key, value in values.items()}
