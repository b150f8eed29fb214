"""Displays of model selection: the validation curve of a parameter, and eigenvalues against ε."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.interpolate import CubicSpline

from kampong.contract import stream_model
from kampong.criteria import FisherCriterion, MarginCriterion
from kampong.estimators.stream_model import SubspaceModel
from kampong.report.drawing import FAINT, INK, LINE, Picture, colour_of, unwrapped
from kampong.solvers import solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kampong._core.compute import Float
    from kampong.selection.choose import Choice


class ChoiceDisplay(Picture):
    """What a parameter that was left open cost on held-out rows, what was chosen, and how the heads compared.

    Parameters
    ----------
    choice : Choice or None
        What an estimator has as `choice_`.
    parameter : str, default="parameter"
        The name of the parameter.

    See Also
    --------
    EigenvalueDisplay : What each direction is worth against ε.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_digits
    >>> from kampong import FisherDiscriminant
    >>> from kampong.report import ChoiceDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> display = ChoiceDisplay.from_estimator(FisherDiscriminant().fit(X, y))
    >>> display.ax_.get_xlabel()
    'ridge'
    """

    def __init__(self, choice: Choice | None, *, parameter: str = "parameter") -> None:
        self.choice, self.parameter = choice, parameter

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the choice of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted linear or kernel subspace, or a pipeline that ends with one.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ChoiceDisplay
            The picture.
        """
        model, _, _ = unwrapped(estimator, None, None, cls.__name__)
        learnt = stream_model(model)
        if not isinstance(learnt, SubspaceModel):
            raise TypeError(
                f"{cls.__name__}: {type(model).__name__} chooses nothing on held-out rows. Give a subspace estimator, "
                "such as FisherDiscriminant."
            )
        return cls(model.choice_, parameter=learnt.chosen).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ChoiceDisplay
            This picture.
        """
        ax = self._open(ax, (6.5, 4.2))
        choice = self.choice
        if choice is None or (not len(choice.values) and not choice.heads):
            self._say(ax, f"nothing was chosen: {self.parameter} was given, or there were too few rows to validate on")
            return self
        if len(choice.values):
            self._curve(ax, choice)
        else:
            self._heads_alone(ax, choice)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return self

    def _curve(self, ax: Axes, choice: Choice) -> None:
        positive = bool((choice.values > 0).all())
        places = choice.values if positive else np.arange(float(len(choice.values)))
        ax.plot(places, choice.losses, "o", color=LINE, ms=5)
        if positive:  # the curve through the nodes, whose least point is taken
            nodes = np.log(places)
            fine = np.linspace(nodes[0], nodes[-1], 200)
            ax.plot(np.exp(fine), CubicSpline(nodes, choice.losses)(fine), color=LINE, lw=1.5)
            ax.set_xscale("log")
        else:
            ax.plot(places, choice.losses, color=LINE, lw=1.5)
            ax.set_xticks(places, [f"{value:g}" for value in choice.values])
        chosen = choice.value if positive else float(np.interp(choice.value, choice.values, places))
        ax.axvline(chosen, color="#CC6677", lw=1.4, ls="--")
        label, where = f"{self.parameter} = {choice.value:.3g}", ax.get_xaxis_transform()
        ax.annotate(label, (chosen, 1.01), xycoords=where, ha="center", va="bottom", color=INK, fontsize=10)
        ax.set_xlabel(self.parameter)
        ax.set_ylabel(f"cost on {choice.n_rows:,} held-out rows")
        if choice.heads:
            ranked = sorted(choice.heads.items(), key=lambda pair: pair[1])
            text = "\n".join(f"{name}  {cost:.4f}" for name, cost in ranked)
            box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": FAINT, "alpha": 0.9}
            look: dict[str, Any] = {"fontsize": 8, "bbox": box, "transform": ax.transAxes}
            ax.text(1.02, 1.0, f"heads, by cost\n{text}", ha="left", va="top", color=INK, **look)

    def _heads_alone(self, ax: Axes, choice: Choice) -> None:
        ranked = sorted(choice.heads.items(), key=lambda pair: -pair[1])
        ax.barh(range(len(ranked)), [cost for _, cost in ranked], color=LINE, height=0.65)
        ax.set_yticks(range(len(ranked)), [name for name, _ in ranked])
        ax.set_xlabel(f"cost on {choice.n_rows:,} rows left out; the head of least cost was chosen, or one as good")


class EigenvalueDisplay(Picture):
    """What each direction adds to S_b − ε·S_w, against ε: a direction counts as long as its line is above zero.

    A line crosses zero where ε is a Fisher ratio, the between-class over the within-class variance along it. So the
    number of lines above zero at some ε is the number of directions that separate the classes better than that.

    Parameters
    ----------
    epsilons : array of shape (n,)
        Values of ε.
    eigenvalues : array of shape (n, n_directions)
        The leading eigenvalues at each of them.
    ratios : array, optional
        The Fisher ratios, where the lines cross zero.

    See Also
    --------
    ChoiceDisplay : How ε was chosen.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from kampong import MarginSubspace
    >>> from kampong.report import EigenvalueDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> display = EigenvalueDisplay.from_estimator(MarginSubspace(epsilon=1.0).fit(X, y))
    >>> display.eigenvalues.shape[1]
    2
    """

    def __init__(self, epsilons: Any, eigenvalues: Any, *, ratios: Any = ()) -> None:
        self.epsilons, self.eigenvalues = np.asarray(epsilons), np.asarray(eigenvalues)
        self.ratios: Float = np.asarray(ratios, dtype=np.float64)

    @classmethod
    def from_estimator(cls, estimator: Any, *, epsilons: Any = None, ax: Axes | None = None) -> Self:
        """Solve for several ε with the statistics of a fitted estimator, and draw.

        Parameters
        ----------
        estimator : estimator
            A fitted linear subspace with its within-class scatter, or a pipeline that ends with one.
        epsilons : array-like, optional
            Values of ε; by default 40 on a logarithmic scale around the Fisher ratios.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        EigenvalueDisplay
            The picture.
        """
        model, _, _ = unwrapped(estimator, None, None, cls.__name__)
        statistics = stream_model(model).statistics
        if statistics is None or not statistics.holds_within:
            raise TypeError(
                f"{cls.__name__}: {type(model).__name__} keeps no within-class scatter, so there is nothing to solve "
                "for other values of ε. Fit MarginSubspace or FisherDiscriminant on up to 8192 columns, or learn wider "
                "rows with partial_fit."
            )
        ratios = solve(FisherCriterion(0.0 if statistics.n_features <= 8192 else 1e-6), statistics).eigenvalues
        ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
        count = max(len(ratios), 1)
        if epsilons is None:
            low, high = (ratios.min() / 10, ratios.max() * 3) if len(ratios) else (1e-2, 10.0)
            epsilons = np.geomspace(max(low, 1e-6), min(high, 1e6), 40)
        found = [solve(MarginCriterion(float(epsilon)), statistics, count).eigenvalues for epsilon in epsilons]
        return cls(epsilons, np.array(found), ratios=ratios).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        EigenvalueDisplay
            This picture.
        """
        ax = self._open(ax, (6.5, 4.2))
        if not self.eigenvalues.size:
            self._say(ax, "no directions to show")
            return self
        for number, line in enumerate(self.eigenvalues.T):
            ax.plot(self.epsilons, line, color=colour_of(number), lw=1.6, label=f"direction {number + 1}")
        ax.axhline(0.0, color=INK, lw=0.9)
        inside = self.ratios[(self.ratios >= self.epsilons.min()) & (self.ratios <= self.epsilons.max())]
        ax.plot(inside, np.zeros(len(inside)), "o", color=INK, ms=5, label="Fisher ratios", zorder=3)
        if (self.epsilons > 0).all():
            ax.set_xscale("log")
        largest = np.abs(self.eigenvalues).max(axis=0)
        near = max(0.1 * largest.min(), 1e-6 * largest.max(), np.finfo(float).tiny)
        ax.set_yscale("symlog", linthresh=near)
        ax.set_ylim(2.0 * min(self.eigenvalues.min(), -near), 2.0 * max(self.eigenvalues.max(), near))
        ax.set_xlabel("ε")
        ax.set_ylabel("eigenvalue of S_b − ε·S_w")
        if self.eigenvalues.shape[1] <= 12:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        return self
