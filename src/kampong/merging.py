"""Models of parts of the rows, learnt apart and merged to one: what every cluster engine needs, and no engine.

    part of the rows → statistics_of → to_bytes ⇝ from_bytes → merge_all → one model of all rows

Statistics are a commutative monoid, so any engine that can reduce a tree can fit a model. What must be the same for all
parts is fixed before (`fit_landmarks`), and what must differ, the seeds of their samples, follows from their numbers.
"""

from __future__ import annotations

import copy
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kampong._core.compute import alone, mix
from kampong.contract import stream_model
from kampong.data.validation import check_whole
from kampong.estimators.kernel_subspace import KernelSubspace
from kampong.estimators.stream_model import KernelModel
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.margin import CoreVectorClassifier
from kampong.selectors import InformationGain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Model = TypeVar("Model", bound="DiscriminantSubspace | InformationGain | CoreVectorClassifier")
    Kernel = TypeVar("Kernel", bound=KernelSubspace)

FAN_IN = 8
"""How many models one step of a tree merges: few enough to hold at once, many enough for few rounds."""

MERGEABLE = "FisherDiscriminant, MarginSubspace and the other linear subspaces, KernelFisherDiscriminant, "
MERGEABLE += "KernelMarginSubspace, CoreVectorClassifier and InformationGain"


def statistics_of(
    model: Model,
    parts: Iterable[tuple[Any, ...] | Callable[[], Any]],
    *,
    number: int = 0,
    n_jobs: int | None = None,
) -> Model:
    """Return a model that has learnt one part of the rows, batch by batch, for `merge_all`.

    Nothing is solved, except by `CoreVectorClassifier`, which keeps rows in place of sums.

    Parameters
    ----------
    model : estimator
        What to learn with: it is copied and does not change. What it has learnt before is forgotten, except that kernel
        estimators keep the landmarks that `fit_landmarks` gave them.
    parts : iterable of tuple or callable
        Batches (X, y) or (X, y, sample_weight); batches without rows are left out. Or functions without arguments that
        return such a batch, or several: with `n_jobs` the process that learns the rows also reads them.
    number : int
        The number of this part among all. Samples of rows of different parts are drawn from different seeds, so that
        what is merged is a sample of the whole. Part 0 has the seed of the model.
    n_jobs : int, optional
        Learn the items of `parts` apart, in this many processes of joblib (-1 for all cores), each on one core. Merge
        them by a binary tree over their places: any number of processes gives the same bits. None learns them one after
        another, on all cores. `joblib.parallel_config` chooses another backend.

    Returns
    -------
    estimator
        The copy. It is not fitted where no row of positive weight came; `merge_all` leaves it out then.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant, merge_all, statistics_of
    >>> X, y = load_iris(return_X_y=True)
    >>> apart = [statistics_of(FisherDiscriminant(), [(X[i::3], y[i::3])], number=i) for i in range(3)]
    >>> merge_all(apart).n_samples_seen_
    150
    >>> statistics_of(FisherDiscriminant(), [(X[i::3], y[i::3]) for i in range(3)], n_jobs=1).n_samples_seen_
    150
    """
    check_mergeable(model)
    if n_jobs is not None:
        return _learnt_apart(model, parts, number, n_jobs)
    learner = stream_model(model)
    seed = part_seed(learner.read("random_state"), number) if _draws(model) else None
    result: Model = learner.blank(seed).estimator
    for part in parts:
        for X, y, *rest in _batches(part):
            if X.shape[0]:
                result.partial_fit(X, y, sample_weight=rest[0] if rest else None)
    return result


def _batches(part: Any) -> Iterable[tuple[Any, ...]]:
    """Return the batches of an item of `parts`: itself, or what it returns when called."""
    if not callable(part):
        return (part,)
    found = part()
    batches: Iterable[tuple[Any, ...]] = (found,) if isinstance(found, tuple) else found
    return batches


def _learnt_apart(model: Model, parts: Iterable[Any], number: int, n_jobs: int) -> Model:
    """Learn each item of `parts` by itself, in processes, and merge them by the tree of `pairwise`."""
    import joblib

    own = check_whole("statistics_of", "n_jobs", n_jobs, low=-(2**20), high=2**20, next_step="-1 uses all cores.")
    if own == 0:
        raise ValueError("statistics_of: n_jobs=0 would learn nothing. Give 1 or more, or -1 for all cores.")
    blank = statistics_of(model, [], number=number)
    tools: Any = joblib  # it has no types
    pool = tools.Parallel(n_jobs=own, return_as="generator")
    # numbers that no other part has: those of parts are far below 2**40
    learnt = pool(tools.delayed(_learn_item)(model, number + (place << 40), part) for place, part in enumerate(parts))
    found: Any = pairwise(learnt, merge_two)
    if found is None:
        return blank
    merged: Model = _with_seed_of(found, blank)
    return merged


def _learn_item(model: Model, number: int, part: Any) -> Model:
    with alone():  # one core per process, and no further thread of BLAS
        return statistics_of(model, [part], number=number)


def merge_two(first: Model, second: Model) -> Model:
    """Return the model of all rows of two; one that has learnt nothing adds nothing.

    Parameters
    ----------
    first, second : estimator
        Models that may be merged.

    Returns
    -------
    estimator
        A new one, or one of the two.
    """
    if not stream_model(second).fitted:
        return first
    return _merged((first, second)) if stream_model(first).fitted else second


def pairwise(values: Iterable[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Return one value of many: those of a binary tree over their places.

    Parameters
    ----------
    values : iterable
        Values in their order; no more of them are held than the tree has levels.
    join : callable
        Makes one value of two neighbours.

    Returns
    -------
    object
        The value of all, None where there is none.
    """
    held: list[tuple[int, Any]] = []
    for value in values:
        height = 0
        while held and held[-1][0] == height:
            value, height = join(held.pop()[1], value), height + 1
        held.append((height, value))
        del value
    found = held.pop()[1] if held else None
    while held:
        found = join(held.pop()[1], found)
    return found


def merge_all(models: Iterable[Model], *, fan_in: int = FAN_IN) -> Model:
    """Return the model of all rows that the given models have learnt: a balanced tree of merges.

    The tree follows from the order and number of the models alone, so the same models in the same order give the same
    bits. Models may come one after another: no more than `fan_in` are held for each level of the tree.

    Parameters
    ----------
    models : iterable of estimator
        Models of the same class, parameters and width. Those that have learnt nothing are left out.
    fan_in : int
        How many are merged at each node, at least 2.

    Returns
    -------
    estimator
        A new model; the given ones do not change. It has the seed of the first model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant, merge_all
    >>> X, y = load_iris(return_X_y=True)
    >>> parts = (FisherDiscriminant(ridge=0.1).partial_fit(X[i::3], y[i::3]) for i in range(3))
    >>> merge_all(parts).score(X, y) > 0.95
    True
    """
    fan_in = check_whole("merge_all", "fan_in", fan_in, low=2, high=2**20, next_step="8 is the default.")
    levels: list[list[Model]] = [[]]
    count = 0
    for model in models:
        check_mergeable(model)
        if stream_model(model).fitted:
            count += 1
            _push(levels, 0, model, fan_in)
    result: Model | None = None
    for level in levels:
        rest = level if result is None else [*level, result]
        result = _merged(rest) if rest else result
    if result is None:
        raise ValueError(
            "merge_all: none of the models has learnt a row of positive weight. Give models that have, or check that "
            "the parts have rows."
        )
    return result if count > 1 else copy.deepcopy(result)


def fit_landmarks(model: Kernel, X: Any, y: Any, sample_weight: Any = None) -> Kernel:
    """Return a kernel model with landmarks placed on a sample of rows, and nothing learnt: for `statistics_of`.

    Kernel values to different landmarks cannot be merged, so the landmarks and the kernel's width are fixed before the
    parts are learnt. The model can be written with `to_bytes` and read where the rows are.

    Parameters
    ----------
    model : KernelFisherDiscriminant or KernelMarginSubspace
        What to learn with. It does not change.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        A sample of the rows, at least as many as landmarks.
    y : array-like of shape (n_samples,)
        Their labels.
    sample_weight : array-like of shape (n_samples,), optional
        Their weights.

    Returns
    -------
    estimator
        A copy that learns with `partial_fit` on these landmarks; `fit` would place its own.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import KernelFisherDiscriminant, fit_landmarks, merge_all, statistics_of
    >>> X, y = load_iris(return_X_y=True)
    >>> prepared = fit_landmarks(KernelFisherDiscriminant(landmarks=20), X[::3], y[::3])
    >>> merge_all(statistics_of(prepared, [(X[i::2], y[i::2])], number=i) for i in range(2)).score(X, y) > 0.95
    True
    """
    if not isinstance(model, KernelSubspace):
        raise TypeError(
            f"fit_landmarks: {type(model).__name__} has no landmarks. It is for KernelFisherDiscriminant and "
            "KernelMarginSubspace; other models need no preparation."
        )
    result: Kernel = KernelModel(model).placed(X, y, sample_weight).estimator
    return result


def part_seed(seed: int, number: int) -> int:
    """Return the seed of the samples of a part: different for every part, that of the model for part 0."""
    number = check_whole("part_seed", "number", number, low=0, high=2**62, next_step="Parts are counted from 0.")
    seed = check_whole("part_seed", "seed", seed, low=0, high=2**64 - 1, next_step="It is the model's random_state.")
    if number == 0:
        return seed
    # an odd factor and a bijection: the seeds of two parts of one model are never equal
    with np.errstate(over="ignore"):
        return int(mix(np.uint64(seed) + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)))


def check_mergeable(model: Any) -> None:
    """Refuse by name what cannot be learnt in parts, and say what can."""
    name = type(model).__name__
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class, and a model is needed: {model.__name__}().")
    if not isinstance(model, DiscriminantSubspace | InformationGain | CoreVectorClassifier):
        raise TypeError(
            f"{name} cannot be learnt in parts: two of its models cannot be merged to the model of all rows. Use one "
            f"of {MERGEABLE}."
        )
    decay, half_life = getattr(model, "decay", 1.0), getattr(model, "half_life", None)
    if decay != 1.0 or half_life is not None:
        text = f"decay={decay!r}" if half_life is None else f"half_life={half_life!r}"
        raise ValueError(
            f"{name}: {text} ages rows by the rows that come after them, and rows of different parts have no common "
            "order. Set decay=1 and half_life=None, or learn one stream."
        )


def grouped(items: Sequence[Any], fan_in: int) -> Iterator[Sequence[Any]]:
    """Cut a sequence into the groups that one level of the tree merges."""
    for start in range(0, len(items), fan_in):
        yield items[start : start + fan_in]


def _push(levels: list[list[Model]], number: int, model: Model, fan_in: int) -> None:
    """Add a model to a level of the tree; a full level becomes one model of the next."""
    if number == len(levels):
        levels.append([])
    levels[number].append(model)
    if len(levels[number]) == fan_in:
        merged, levels[number] = _merged(levels[number]), []
        _push(levels, number + 1, merged, fan_in)


def _merged(models: Sequence[Model]) -> Model:
    merged: Model = reduce(lambda one, other: one.merge(other), map(stream_model, models)).estimator
    return merged


def solved_as(result: Any, model: Any) -> Any:
    """Return a merged model with the seed of the model that was given, solved where it can be."""
    result, learnt = _with_seed_of(result, model), stream_model(result)
    if learnt.can.freeze:
        learnt.predictor()
    return result


def _draws(model: Any) -> bool:
    """Tell whether a model draws samples from the rows by a seed, which must differ between parts."""
    return "random_state" in model.get_params(deep=False) and not isinstance(model, CoreVectorClassifier)


def _with_seed_of(result: Any, model: Any) -> Any:
    if _draws(model):
        result.random_state = model.random_state
    return result
