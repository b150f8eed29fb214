"""How a predictor is made from statistics, by one pure function.

    statistics ─┬→ choice of the parameter, by rows held out ─┐
                └→ solve(criterion) → directions → head ───────┴→ Predictor

An estimator states what it asks for as a `Recipe`, keeps statistics, and the last predictor made of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong._core.compute import one_blas_thread, project
from kampong.criteria import Criterion, Directions, FisherCriterion
from kampong.data.labels import codes_among
from kampong.heads import HEADS, Head, Hinge, Inside, Mixture, Moved, build_head
from kampong.heads.calibration import ValidationRows
from kampong.predictor import Predictor
from kampong.selection.choose import Choice, choose, choose_parameter
from kampong.selection.folds import columns_again
from kampong.selection.leave_one_out import Curve, LeaveOneOut, at_ridges, least_ridges
from kampong.selection.losses import HeldOutLosses
from kampong.selection.scales import OWN, SCALES, own_units
from kampong.selection.settings import SETTINGS
from kampong.solvers import Subspace, most_directions, resolvent, solve
from kampong.statistics.answers import keeps_rows, leaves_rows_out
from kampong.statistics.sampling import first_keys, row_keys, stands_for
from kampong.statistics.scatter import WIDEST, ClassScatter
from kampong.statistics.units import capped

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Rows
    from kampong.selection.evidence import Evidence, Source
    from kampong.solvers.solver import Krylov
    from kampong.statistics.held_out import Kept
    from kampong.statistics.means import ClassMeans

BEST = "best"
WEIGHED = (BEST, "mixture")
"""The head that errs least on rows held out, and all that such rows make where the parameter is given too."""

TRIED = ("gaussian", "nearest_mean", "cosine", "regression", "mixture")
TRAINED = ("quadratic", "logistic", "hinge")
"""The heads that are calibrated on held-out rows, and those that are also trained on a sample."""


class RowsInMemory(NamedTuple):
    """The rows of a fit, for what the statistics do not hold."""

    X: Rows
    y: Any
    weights: Float | None


@dataclass(frozen=True)
class Recipe:
    """What an estimator asks for: with statistics, all that a predictor follows from.

    Attributes
    ----------
    criterion : type of Criterion
        What is maximised.
    value : float or None
        Its parameter; None has it chosen by rows held out.
    n_components : int or None
        How many directions; None keeps those that raise the criterion.
    solver, head : str
        Names in their registries, or "auto".
    head_ridge : float or None
        The ridge of the head's covariance; None for the criterion's own.
    spell : callable
        Given a value of the parameter, returns how a user writes it.
    space : str
        What the columns of the statistics are called in messages.
    signs_by_means : bool
        Whether the sign of a direction follows from the class means, where its entries have no order of their own.
    priors : array of shape (K,) or None
        The shares of the classes where the predictor will be used; None for those observed.
    trial : callable or None
        Where the value is given: what makes heads to try, from what is known of the classes, the directions and the
        value; it may return None.
    choice : Choice or None
        How something else was chosen, for instance the width of a kernel.
    provisional : bool
        Whether the choice is provisional, in the middle of a stream: then few rows validate, and above the width
        of a scatter directions are found without them and no head is trained on all columns.
    scale : bool or None
        Whether columns are divided by their standard deviations first; None has it chosen with the value.
    """

    criterion: type[Criterion]
    value: float | None
    n_components: int | None
    solver: str
    head: str
    head_ridge: float | None
    spell: Callable[[float], str]
    space: str = "features"
    signs_by_means: bool = False
    priors: Float | None = None
    trial: Callable[[Inside, Float, float], Evidence | None] | None = None
    choice: Choice | None = None
    provisional: bool = False
    scale: bool | None = False


def make_predictor(
    recipe: Recipe, statistics: ClassMeans, rows: RowsInMemory | None = None, keep: Predictor | None = None
) -> Predictor:
    """Return the predictor of statistics that have seen two classes or more; a pure function.

    Parameters
    ----------
    recipe : Recipe
        What is asked for.
    statistics : ClassMeans
        What is known of the data.
    rows : RowsInMemory, optional
        All rows, in `fit`. Without them the statistics are those of a stream: where more directions are asked for than
        the classes seen so far have, the others are zero until more classes come.
    keep : Predictor, optional
        What was chosen for an earlier state of the statistics: nothing is chosen again.

    Returns
    -------
    Predictor
        It shares no array with the statistics that they would change.
    """
    statistics = statistics.in_rows()  # what is chosen counts rows, whatever the scale of their weights
    if statistics.holds_scatter and statistics.n_features > SETTINGS.leave_one_out_columns:
        return _in_its_units(recipe, statistics, rows, keep)
    # Threads of BLAS wait in busy loops for what comes next, while our own threads run, among which large products are
    # cut, and stand in their way. A wide matrix gains from them.
    with one_blas_thread():
        return _in_its_units(recipe, statistics, rows, keep)


def _in_its_units(
    recipe: Recipe, statistics: ClassMeans, rows: RowsInMemory | None, keep: Predictor | None
) -> Predictor:
    """Return the predictor in units of the columns' deviations where that is asked for, or errs less."""
    scale = recipe.scale
    if scale is None and keep is not None:
        scale = keep.choice is not None and keep.choice.scaled
    if recipe.scale and not statistics.holds_scatter:
        raise ValueError(
            f"scale=True needs the d × d scatter, which is kept for rows of up to {WIDEST} columns; these have "
            f"{statistics.n_features}, or solver is {recipe.solver!r}. Divide columns yourself, or give scale='auto'."
        )
    if keep is not None:
        units = _units_again(statistics, keep) if scale else None
        if units is None:
            return _make(recipe, statistics, rows, keep, _open(recipe, statistics, keep))
        view, kept = statistics.in_units(units), keep.in_units(units)
        made = _as_they_come(statistics, units, _make(recipe, view, rows, kept, _open(recipe, view, kept)))
        if made.choice is None or made.choice.units is None:
            return made
        return replace(made, choice=replace(made.choice, units=units))
    if scale is False or (scale is None and recipe.value is not None):
        return _make(recipe, statistics, rows, None, _choose(recipe, [statistics])[0])
    tried = {"scaled": statistics.units()} if scale else _units_to_try(statistics)
    views = {name: statistics.in_units(units) for name, units in tried.items()}
    if scale is None:
        views = {"unscaled": statistics, **views}
    found = dict(zip(views, _choose(recipe, list(views.values())), strict=True))
    losses = {} if len(found) == 1 else {name: found[name].least for name in (*SCALES, *OWN) if name in found}
    name = min(found, key=lambda one: found[one].least)
    plain = found.get("unscaled")
    divided: Predictor | None = None
    if plain is None or (math.isfinite(plain.least) and plain.least > found[name].least + SETTINGS.slack):
        divided = _make(recipe, views[name], rows, None, found[name])
    else:
        losses = losses if math.isfinite(plain.least) else {}
    unsure = recipe.head == "auto" and plain is not None and plain.least - found[name].least < plain.error
    if plain is not None and (divided is None or unsure):
        # A mixture stands for all heads so far. If it is not sure, the heads that would be used may overrule it.
        as_it_is = _make(recipe, statistics, rows, None, plain)
        if divided is None or _head_loss(as_it_is) + SETTINGS.slack < _head_loss(divided):
            return replace(
                as_it_is, choice=None if as_it_is.choice is None else replace(as_it_is.choice, scales=losses)
            )
    assert divided is not None
    made = _as_they_come(statistics, tried[name], divided, losses)
    if name == "scaled" or made.choice is None:
        return made
    return replace(made, choice=replace(made.choice, units=tried[name], own_scale=name if name in OWN else ""))


def _head_loss(made: Predictor) -> float:
    """Return the least selection loss of the heads that were compared; infinite if none was."""
    return math.inf if made.choice is None else min(made.choice.heads.values(), default=math.inf)


def _units_to_try(statistics: ClassMeans) -> dict[str, Float]:
    """Return the units of columns that are compared with columns as they are.

    Dividing all columns needs the scatter, and above 1,024 columns rows that are not mostly zeros: those are of text,
    whose rare words must stay small. If most of the variance is that of a few large columns, dividing these alone is
    tried.
    """
    wide = statistics.n_features > SETTINGS.leave_one_out_columns
    if not statistics.holds_scatter and not (wide and keeps_rows(statistics)):
        return {}
    units = statistics.units()
    tried = {"scaled": units} if statistics.holds_scatter and not (wide and _mostly_zeros(statistics)) else {}
    if wide:
        large = capped(units)
        if 2.0 * np.square(units / large).sum() < np.square(units).sum():
            tried["capped"] = large
    own = {name: own_units(name, statistics) for name in OWN}
    return tried | {name: units for name, units in own.items() if units is not None}


def _mostly_zeros(statistics: ClassMeans) -> bool:
    """Tell whether rows are sparse, by more than how they are stored."""
    if not keeps_rows(statistics):
        return False
    rows = statistics.sample(SETTINGS.fewest_rows).rows
    return not isinstance(rows, np.ndarray) and 2 * rows.nnz < rows.shape[0] * rows.shape[1]


def _units_again(statistics: ClassMeans, keep: Predictor) -> Float | None:
    """Return units of the kind that an earlier predictor has, from the present statistics."""
    if keep.choice is not None and keep.choice.own_scale:
        units = own_units(keep.choice.own_scale, statistics)
        return keep.choice.units if units is None else units
    if keep.choice is not None and keep.choice.units is not None:
        return capped(statistics.units()) if statistics.holds_within else None
    return statistics.units() if statistics.holds_scatter else None


def _as_they_come(
    statistics: ClassMeans, units: Float, made: Predictor, losses: dict[str, float] | None = None
) -> Predictor:
    """Return the predictor of rows divided by `units` as one of the rows as they come."""
    choice = made.choice
    if choice is not None:
        choice = replace(choice, scaled=True, scales=choice.scales if losses is None else losses)
    return replace(made.in_units(1.0 / units), mean=statistics.mean, choice=choice)


def _make(
    recipe: Recipe,
    statistics: ClassMeans,
    rows: RowsInMemory | None,
    keep: Predictor | None,
    chosen: Selected,
) -> Predictor:
    """Return the predictor of statistics in the units they are in."""
    choice, space, source, _ = chosen
    kind = recipe.criterion
    value = recipe.value if recipe.value is not None else kind.usual(statistics) if choice is None else choice.value
    if keep is not None and choice is not None and space is not None:
        value = kind.again(value, choice.values, statistics)
    criterion = kind.of(value)
    shift, weighed = None, statistics
    if recipe.priors is not None:
        shift, weighed = _shift(recipe.priors, statistics), statistics.weighed(recipe.priors)
        space = None if space is None else replace(space, factor=weighed.between_factor() @ space.basis.T)
    found, missing = _find(recipe, criterion, weighed, space, streamed=rows is None)
    if recipe.signs_by_means:
        found = _signed(found, statistics)
    mean = statistics.mean
    # A space in which something was chosen may lack the validation rows, which are few then.
    known = found.within if weighed is statistics and not missing else None
    inside = _inside(recipe, criterion, statistics, found.components, rows, known)
    head: Head | None = None
    hidden: Float = np.empty((0, statistics.n_features))
    evidence, held_out = None, None
    if source is not None and choice is not None and not missing:
        evidence = source.evidence(inside, found.components)
    elif recipe.trial is not None and keep is None and not missing:
        evidence = recipe.trial(inside, found.components, criterion.value)
        nothing = np.empty(0)
        n_rows = 0 if evidence is None else evidence.n_rows
        choice = recipe.choice or (None if evidence is None else Choice(criterion.value, nothing, nothing, n_rows))
    elif recipe.trial is not None and keep is not None:
        choice = keep.choice
    if evidence is not None and choice is not None:
        with one_blas_thread():
            head, hidden, losses, scores = choose(evidence, recipe.head)
        choice = replace(choice, heads=losses)
        if evidence.validation is not None:
            held_out = HeldOutLosses.of(scores, head, evidence.validation, shift)
            held_out = held_out.joined(_learnt(statistics, head, np.concatenate([found.components, hidden]), shift))
    elif keep is not None:
        head, hidden = _kept_head(recipe, criterion, statistics, keep, inside, found.components)
        if head is not None and keep.held_out is not None:
            held_out = keep.held_out.among(codes_among(statistics.classes, keep.classes))
    if head is None:
        head = build_head(recipe.head, _with_sample(recipe, inside, statistics, found.components, mean))
    return Predictor(
        classes=statistics.classes,
        mean=mean,
        components=found.components,
        eigenvalues=found.eigenvalues,
        centres=inside.means,
        head=head,
        criterion=criterion,
        choice=choice,
        n_rows=statistics.n_samples,
        solver=found.solver,
        n_steps=found.n_steps,
        total=found.total,
        hidden=hidden,
        remark=_remark(recipe, criterion, statistics, found, missing),
        shift=shift,
        held_out=held_out,
    )


class Selected(NamedTuple):
    """What was chosen on validation rows.

    Attributes
    ----------
    choice : Choice or None
        The parameter; None if there are no validation rows.
    space : Krylov or None
        The space it was chosen in, where that is used again.
    source : Source or None
        What makes the evidence on heads.
    least : float
        The selection loss at the parameter, by which units of the columns are compared.
    """

    choice: Choice | None
    space: Krylov | None
    source: Source | None
    least: float = math.inf

    @property
    def error(self) -> float:
        """About one standard error of that loss, which is near a share of errors."""
        return 0.0 if self.choice is None else math.sqrt(self.least * max(1.0 - self.least, 0.0) / self.choice.n_rows)


def _open(recipe: Recipe, statistics: ClassMeans, keep: Predictor | None) -> Selected:
    """Choose what is open, or return what was chosen before."""
    return _choose(recipe, [statistics])[0] if keep is None else _chosen(recipe, statistics, keep)


def _choose(recipe: Recipe, views: list[ClassMeans]) -> list[Selected]:
    """Choose a parameter that is left open, for the same rows in each of some units."""
    given = recipe.value
    if given is not None and recipe.head not in WEIGHED:
        return [Selected(None, None, None)] * len(views)
    if not _leaves_out(recipe, views[0]):
        return [_choose_held_out(recipe, view) for view in views]
    left_out = [LeaveOneOut(view, provisional=recipe.provisional) for view in views if leaves_rows_out(view)]
    if left_out[0].few:
        return [Selected(None, None, None)] * len(views)
    nothing = np.empty(0)
    curves = least_ridges(left_out) if given is None else [Curve(given, nothing, nothing)] * len(views)
    ridges = [max(curve.ridge, 1e-9 * rows.usual) for rows, curve in zip(left_out, curves, strict=True)]
    return [
        Selected(Choice(curve.ridge, curve.nodes, curve.losses, len(at.rows.validation_rows)), None, at, at.loss)
        for curve, at in zip(curves, at_ridges(left_out, ridges), strict=True)
    ]


def _choose_held_out(recipe: Recipe, statistics: ClassMeans) -> Selected:
    """Choose a parameter on rows that are held out in parts."""
    given = recipe.value
    asked = (recipe.criterion, statistics, recipe.n_components, recipe.head, given)
    found, space, source = choose_parameter(*asked, provisional=recipe.provisional)
    least = math.inf if found is None or not len(found.losses) else float(found.losses.min())
    return Selected(found, space, source if recipe.head in ("auto", BEST, *TRIED, *TRAINED) else None, least)


def _shift(priors: Float, statistics: ClassMeans) -> Float:
    """Return log(given / observed) of each class, 0 for one that was not seen."""
    if statistics.multilabel:
        raise ValueError("priors must be 'observed' where a row has several labels: their shares need not sum to one.")
    counts = statistics.counts
    seen = counts > 0
    if not priors[seen].any():
        raise ValueError("priors is 0 for each class that has been seen, so none could be predicted.")
    with np.errstate(divide="ignore"):
        shift: Float = np.where(seen, np.log(priors) - np.log(np.where(seen, counts / counts.sum(), 1.0)), 0.0)
    return shift


def _chosen(recipe: Recipe, statistics: ClassMeans, keep: Predictor) -> Selected:
    """Return what was chosen before, and the space in which a parameter that was chosen finds its directions."""
    if recipe.value is not None:
        return Selected(keep.choice if recipe.head in WEIGHED else None, None, None)
    wide = keep.choice is not None and not statistics.holds_scatter and statistics.holds_within
    return Selected(keep.choice, resolvent.build(statistics) if wide else None, None)


def _kept_head(
    recipe: Recipe, criterion: Criterion, statistics: ClassMeans, keep: Predictor, inside: Inside, components: Float
) -> tuple[Head | None, Float]:
    """Return the head of an earlier predictor for the present statistics, and the hidden directions it looks at.

    None where the statistics can no longer serve it.
    """
    head, nothing = keep.head, keep.hidden[:0]
    if inside.multilabel != head.multilabel or (head.needs_covariance and inside.covariance is None):
        return None, nothing
    places = {label: place for place, label in enumerate(keep.classes.tolist())}
    codes = np.array([places.get(label, -1) for label in statistics.classes.tolist()])
    machines = head.trained if isinstance(head, Mixture) else head
    if isinstance(machines, Hinge) and machines.n_rows:
        found = columns_again(machines, statistics, keep.mean, keep.hidden, len(components), new=bool(codes.min() < 0))
        if found is None:
            return None, nothing
        if isinstance(head, Mixture):
            return head.with_machines(inside, found[0]), found[1]
        return replace(found[0], sharpness=head.sharpness, tail=head.tail), found[1]
    directions = np.concatenate([components, keep.hidden])
    wide = _inside(recipe, criterion, statistics, directions, None) if len(keep.hidden) else inside
    if head.reads_sample:
        if not keeps_rows(statistics):
            return None, nothing
        wide = _sampled(wide, statistics, directions, statistics.mean)
    then = np.concatenate([keep.components, keep.hidden])

    def moved() -> Moved:
        return Moved(
            back=_back(then, directions, wide, statistics, criterion.head_ridge),
            shift=then @ (statistics.mean - keep.mean),
            places=codes,
        )

    return head.again(inside, wide, moved), keep.hidden


def _back(then: Float, now: Float, inside: Inside, statistics: ClassMeans, ridge: float) -> Float:
    """Return the map from coordinates of now to those of then that fits the rows of a class best."""
    columns = np.ascontiguousarray(now.T)
    if inside.covariance is None or not statistics.holds_within:
        return then @ np.linalg.pinv(now)
    root = inside.whitener()
    cross = then @ statistics.within_times(columns) + ridge * then @ columns
    return np.asarray(cross @ root @ root.T)


def _leaves_out(recipe: Recipe, statistics: ClassMeans) -> bool:
    """Tell whether rows are left out one by one: something is chosen by them, and the statistics allow it."""
    if recipe.head not in ("auto", BEST, *TRIED, *TRAINED):
        return False
    if not recipe.criterion.is_ridge or statistics.multilabel or not leaves_rows_out(statistics):
        return False
    return statistics.n_features <= SETTINGS.leave_one_out_columns


def _find(
    recipe: Recipe, criterion: Criterion, statistics: ClassMeans, space: Krylov | None, *, streamed: bool
) -> tuple[Subspace, int]:
    """Return the directions, and how many of them are zero for want of classes."""
    wanted = recipe.n_components
    exist = most_directions(criterion, statistics, recipe.solver) if wanted is not None else 0
    if wanted is None or not exist or wanted <= exist:
        return solve(criterion, statistics, wanted, solver=recipe.solver, space=space), 0
    if not streamed:
        seen = int(np.count_nonzero(statistics.counts))
        if criterion.most_directions(seen, statistics.n_features) < wanted:
            raise ValueError(
                f"n_components={wanted}, but {seen} classes have at most K − 1 = {seen - 1} directions. Ask for at "
                f"most {exist}, or give None for all of them."
            )
        return solve(criterion, statistics, wanted, solver=recipe.solver, space=space), 0  # which says why not
    found = solve(criterion, statistics, exist, solver=recipe.solver, space=space)
    missing = wanted - len(found.components)
    components = np.concatenate([found.components, np.zeros((missing, statistics.n_features))])
    eigenvalues = np.append(found.eigenvalues, np.zeros(missing))
    return replace(found, components=components, eigenvalues=eigenvalues), missing


def _signed(found: Subspace, statistics: ClassMeans) -> Subspace:
    """Flip each direction so that the first class that is far from the mean has a positive coordinate."""
    means = statistics.between_factor() @ found.components.T
    # the first one that is far: the farthest of two equal classes is a matter of rounding
    first = np.argmax(np.abs(means) > 0.5 * np.abs(means).max(axis=0), axis=0)
    signs = np.where(means[first, np.arange(len(first))] < 0, -1.0, 1.0)
    return found.turned(signs)


def _inside(
    recipe: Recipe,
    criterion: Criterion,
    statistics: ClassMeans,
    directions: Float,
    rows: RowsInMemory | None,
    within: Float | None = None,
) -> Inside:
    """Return what is known of the classes along some directions; `within` is W S_w Wᵀ where it is known."""
    counts, mean = statistics.counts, statistics.mean
    covariance, lift = _covariance(recipe, criterion, statistics, directions, rows, within)
    return Inside(
        means=np.where(counts[:, None] > 0, statistics.means - mean, 0.0) @ directions.T,
        counts=counts,
        covariance=covariance,
        variance=statistics.within_trace / statistics.n_features,
        multilabel=bool(statistics.multilabel),
        row_mean=(statistics.row_mean - mean) @ directions.T,
        row_weight=statistics.row_weight,
        lift=lift,
    )


def _covariance(
    recipe: Recipe,
    criterion: Criterion,
    statistics: ClassMeans,
    components: Float,
    rows: RowsInMemory | None,
    within: Float | None,
) -> tuple[Float | None, Float | None]:
    """Return W S_w Wᵀ, ridge included, and what the ridge adds, where it is known."""
    if within is not None:
        covariance = within
    elif statistics.holds_within:
        covariance = components @ statistics.within_times(np.ascontiguousarray(components.T))
    elif rows is not None:
        covariance = _measured(rows, components, statistics.mean)
    else:
        return None, None
    ridge = criterion.head_ridge if recipe.head_ridge is None else recipe.head_ridge
    scaled = math.sqrt(ridge) * components  # a faded column has a huge entry: no squares of it
    lift = scaled @ scaled.T
    covariance = covariance + lift
    return (covariance + covariance.T) / 2, lift


def _with_sample(recipe: Recipe, inside: Inside, statistics: ClassMeans, components: Float, mean: Float) -> Inside:
    """Return what is known of the classes with a sample of rows, where the head asked for is trained on one."""
    asked = recipe.head in HEADS and HEADS[recipe.head].needs_sample
    if not asked or statistics.multilabel or not keeps_rows(statistics):
        return inside
    return _sampled(inside, statistics, components, mean)


def _sampled(inside: Inside, statistics: Kept, components: Float, mean: Float) -> Inside:
    """Return what is known of the classes with a sample of rows."""
    sample = statistics.sample(SETTINGS.validation_rows)
    points = project(sample.rows, components, mean).astype(np.float64)
    return replace(inside, points=points, codes=sample.members.codes, own=sample.own)


def _learnt(statistics: ClassMeans, head: Head, directions: Float, shift: Float | None) -> HeldOutLosses:
    """Return what a sample of rows costs now that they are learnt."""
    assert keeps_rows(statistics)  # or there were no validation rows
    most = max(SETTINGS.fewest_rows, SETTINGS.curve_scores // len(statistics.classes))
    sample = statistics.sample(min(SETTINGS.narrow_rows, most))
    points = project(sample.rows, directions, statistics.mean).astype(np.float64)
    validation = ValidationRows(sample.members.codes, sample.weights)
    return HeldOutLosses.of(head.scores(points), head, validation, shift, learnt=True)


def _measured(rows: RowsInMemory, components: Float, mean: Float) -> Float:
    """Return W S_w Wᵀ from rows in memory: all of them, or a large sample."""
    X, y, weights = rows
    n, enough = X.shape[0], max(SETTINGS.head_rows, SETTINGS.head_rows_per_direction * len(components))
    chosen = None
    if n > enough:
        own = np.ones(n) if weights is None else weights
        chosen, threshold = first_keys(row_keys(np.arange(1, n + 1), own, seed=0), enough)
        chosen = np.sort(chosen)
        y, weights = y[chosen], stands_for(own[chosen], np.log(own[chosen]), threshold)
    points = project(X, components, mean, chosen)
    return ClassScatter(points.shape[1]).update(points, y, weights).within_scatter()


def _remark(recipe: Recipe, criterion: Criterion, statistics: ClassMeans, found: Subspace, missing: int) -> str:
    kept = len(found.components) - missing
    figures = Directions(found.eigenvalues, np.empty((0, 0)), found.total, found.n_positive, found.n_dropped)
    width = f"{statistics.n_features} {recipe.space}"

    def best_ratio() -> float:
        return float(solve(FisherCriterion(0.0), statistics, 1).eigenvalues[0])

    texts = [criterion.remark(kept, figures, width, best_ratio, recipe.spell)]
    if missing:
        seen = int(np.count_nonzero(statistics.counts))
        texts.append(
            f"{seen} classes have been seen so far, which have {kept} of the {kept + missing} directions asked for; "
            "the others are zero until more classes come."
        )
    return " ".join(text for text in texts if text)
