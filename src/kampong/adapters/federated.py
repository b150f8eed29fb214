"""One round of federated learning: a client makes bytes of its rows, a server merges the bytes of all to one model.

    rows of a client → contribution(model, X, y, number=i) → bytes ⇝ combine(bytes of all) → the model of all rows

There is no network code here: files, HTTP or a message queue carry the bytes. The model is the one that a fit on all
rows would give. What the bytes reveal is said in docs/guide/continual.md; this module refuses to put rows into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.checkpoint import CheckpointError
from kampong.checkpoint.signing import key_bytes
from kampong.data.rows import check_number
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.landmarks import LandmarkBasis
from kampong.models import from_bytes
from kampong.parts import FAN_IN, merge_all, statistics_of
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.statistics.reservoir import ClassReservoir
from kampong.subspace.heads import HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kampong.checkpoint.signing import Key

LEAST = 10.0
"""The least weight of a class in a contribution: the mean of a class of one row is that row."""

__all__ = ["combine", "contribution"]


def contribution(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    number: int,
    min_class_weight: float = LEAST,
    key: Key = None,
) -> bytes:
    """Return what a client sends: the statistics of its rows, and none of the rows themselves.

    Parameters
    ----------
    model : estimator
        What all clients agreed on, with everything that data would decide given as numbers: a ridge or ε, and for
        kernel estimators `gamma` and `landmarks="fourier"` (or an array of landmarks that the server sends). It does
        not change.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows of this client.
    y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_labels)
        Their labels.
    sample_weight : array-like of shape (n_samples,), optional
        Their weights.
    number : int
        The number of the client, from 0, different for every client.
    min_class_weight : float
        Refuse where a class weighs less than this, since the mean of a few rows nearly shows them. 0 sends anyway.
    key : bytes, str or path, optional
        The key that signs the bytes, or the file that holds it, so that the server takes them from its clients alone.

    Returns
    -------
    bytes
        What `combine` takes, in the checked format of `model.to_bytes()`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters.federated import combine, contribution
    >>> X, y = load_iris(return_X_y=True)
    >>> agreed = FisherDiscriminant(ridge=0.01)
    >>> letters = [contribution(agreed, X[i::3], y[i::3], number=i) for i in range(3)]
    >>> combine(letters).score(X, y)
    0.98
    """
    step = "10 is the default; 0 sends classes of any weight."
    least = check_number("contribution", "min_class_weight", min_class_weight, low=0.0, high=np.inf, next_step=step)
    learnt = statistics_of(model, [(X, y, sample_weight)], number=number)
    statistics = getattr(learnt, "_statistics", None)
    if isinstance(statistics, KernelScatter) and model.head in HEADS and not HEADS[model.head].needs_sample:
        statistics.kept = None  # a head that is named can do without
    _refuse_rows(learnt, statistics)
    if not learnt.__sklearn_is_fitted__():
        raise ValueError("contribution: there is no row of positive weight, so there is nothing to send.")
    counts = learnt.class_counts_
    few = np.flatnonzero((counts > 0) & (counts < least))
    if len(few):
        shown = ", ".join(f"{learnt.classes_[k].item()!r} ({counts[k]:g})" for k in few[:5])
        raise ValueError(
            f"contribution: {len(few)} of {len(counts)} classes weigh less than min_class_weight={least:g}: {shown}. "
            "The mean of a few rows nearly shows them. Leave these rows out, or send them anyway with "
            "min_class_weight=0."
        )
    return bytes(learnt.to_bytes(solve=False, key=key))


def combine(contributions: Iterable[bytes], *, fan_in: int = FAN_IN, key: Key = None) -> Any:
    """Return the model of the rows of all clients: what `contribution` made, merged.

    Parameters
    ----------
    contributions : iterable of bytes
        One of each client, in any order; they are read one after another.
    fan_in : int
        How many are merged at each node of the tree.
    key : bytes, str or path, optional
        The key that all contributions are signed with, or the file that holds it. Others are refused.

    Returns
    -------
    estimator
        An ordinary fitted model: `predict`, `save`, `freeze()`, or `unlearn` the rows of a client.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters.federated import combine, contribution
    >>> X, y = load_iris(return_X_y=True)
    >>> agreed = FisherDiscriminant(ridge=0.01)
    >>> letters = [contribution(agreed, X[y == k], y[y == k], number=k) for k in range(3)]  # a class each
    >>> combine(letters).predict(X[:2])
    array([0, 0])
    """
    return merge_all(_read(contributions, key_bytes(key)), fan_in=fan_in)


def _read(contributions: Iterable[bytes], key: bytes | None) -> Iterator[Any]:
    for number, letter in enumerate(contributions):
        try:
            yield from_bytes(letter, key=key)
        except CheckpointError as error:
            raise CheckpointError(f"combine: contribution {number}: {error}") from None


def _refuse_rows(model: Any, statistics: Any) -> None:
    """Refuse a model whose bytes would hold rows."""
    name = type(model).__name__
    sample = statistics.kept if isinstance(statistics, KernelScatter) else statistics
    if isinstance(sample, ClassReservoir):
        raise ValueError(
            f"contribution: {name} keeps a sample of the rows to choose its parameters and head, and its bytes would "
            "hold them. Give ridge or ε as a number or rule, gamma as a number, and name a head that needs no rows, "
            "such as 'cosine', so that nothing is chosen by rows."
        )
    if isinstance(statistics, KernelScatter):
        basis = statistics.basis
        given = not isinstance(model.landmarks, str | int)
        if isinstance(basis, LandmarkBasis) and not given:
            raise ValueError(
                f"contribution: the landmarks of {name} are placed with rows, and its bytes would hold them. Use "
                "landmarks='fourier', or an array that the server sends to all."
            )
        if isinstance(basis, FourierBasis) and isinstance(model.gamma, str):
            raise ValueError(
                f"contribution: gamma={model.gamma!r} would be another number for every client. Agree on a number."
            )
