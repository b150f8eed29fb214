"""One round of federated learning: a client makes bytes of its rows, a server merges the bytes of all to one model.

    rows of a client → contribution(model, X, y, number=i) → bytes ⇝ combine(bytes of all) → the model of all rows

There is no network code here: files, HTTP or a message queue carry the bytes. The model is the one that a fit on all
rows would give. What the bytes reveal is said in docs/guide/continual.md; this module refuses to put rows into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.locks import lock_of
from kampong.contract import stream_model
from kampong.data.labels import LabelIndex, check_indicator, check_labels, is_indicator, members_of, memberships_of
from kampong.data.validation import check_number, check_weights, check_whole
from kampong.files import CheckpointError
from kampong.files.container import decode, encode
from kampong.files.saved_models import pack
from kampong.files.signing import key_bytes
from kampong.heads import HEADS
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.landmarks import LandmarkBasis
from kampong.margin import CoreVectorClassifier
from kampong.merging import FAN_IN, check_mergeable, merge_all, part_seed, statistics_of
from kampong.registry import unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kampong.files.signing import Key

LEAST = 10
"""The fewest rows of a class in a contribution: the mean of a class of one row is that row."""

MOST_NUMBER = 2**62

__all__ = ["combine", "contribution"]


def contribution(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    number: int,
    round_number: int = 0,
    min_class_rows: float = LEAST,
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
    round_number : int
        The number of the round. Raise it when clients contribute again, so that letters of an earlier round are
        refused.
    min_class_rows : float
        Refuse if a class has fewer rows than this, since the mean of a few rows nearly shows them. Rows of unequal
        weights count as (Σw)² / Σw² rows: one heavy row among light ones is one row. 0 sends anyway.
    key : bytes, str or path, optional
        The key that signs the bytes, or the file that holds it, so that the server takes them from its clients alone.

    Returns
    -------
    bytes
        What `combine` takes: the format of `model.to_bytes()`, with the numbers of client and round.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters.federated import combine, contribution
    >>> X, y = load_iris(return_X_y=True)
    >>> agreed = FisherDiscriminant(ridge=0.01)
    >>> letters = [contribution(agreed, X[i::3], y[i::3], number=i) for i in range(3)]
    >>> combine(letters, agreed=agreed).score(X, y)
    0.98
    """
    step = "10 is the default; 0 sends classes of any number of rows."
    least = check_number("contribution", "min_class_rows", min_class_rows, low=0.0, high=np.inf, next_step=step)
    step = "Rounds are counted from 0."
    turn = check_whole("contribution", "round_number", round_number, low=0, high=MOST_NUMBER, next_step=step)
    _refuse_stored(model)
    learnt = statistics_of(model, [(X, y, sample_weight)], number=number)
    statistics = stream_model(learnt).statistics
    named = model.head in HEADS and not HEADS[model.head].needs_sample
    if named and statistics is not None:
        statistics.drop_sample()  # a head that is named can do without
    _refuse_rows(learnt, statistics)
    if not learnt.__sklearn_is_fitted__():
        raise ValueError("contribution: there is no row of positive weight, so there is nothing to send.")
    labels, rows = _rows_of_classes(y, sample_weight)
    few = np.flatnonzero((rows > 0) & (rows < least * (1 - 1e-9)))
    if len(few):
        shown = ", ".join(f"{labels[k]!r} ({rows[k]:.4g})" for k in few[:5])
        raise ValueError(
            f"contribution: {len(few)} of {len(rows)} classes have fewer rows than min_class_rows={least:g}: {shown}. "
            "The mean of a few rows nearly shows them. Leave these rows out, or send them anyway with "
            "min_class_rows=0."
        )
    with lock_of(learnt):
        arrays, facts = pack(learnt)
    return encode(arrays, {**facts, "letter": {"client": int(number), "round": turn}}, key=key)


def combine(
    contributions: Iterable[bytes],
    *,
    agreed: Any = None,
    round_number: int | None = None,
    max_mean_weight: float = 1.0,
    fan_in: int = FAN_IN,
    key: Key = None,
) -> Any:
    """Return the model of the rows of all clients: what `contribution` made, merged.

    Each client counts once: two letters of one client, or the same statistics from two clients, are refused. So is a
    client with other parameters, columns or landmarks, or one whose weights would outweigh the rows of others. The
    message names the client.

    Parameters
    ----------
    contributions : iterable of bytes
        One of each client, in any order; they are read one after another.
    agreed : estimator, optional
        The model that all clients agreed on. Without it the others are compared with the first contribution.
    round_number : int, optional
        The round that all contributions must be of; without it that of the first one.
    max_mean_weight : float
        The largest mean weight per row of a client. The default lets no client weigh more than its number of rows.
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
    >>> combine(letters, agreed=agreed).predict(X[:2])
    array([0, 0])
    """
    step = "1 is the default; give more if clients agreed on larger weights."
    most = check_number("combine", "max_mean_weight", max_mean_weight, low=0.0, high=np.inf, next_step=step)
    if agreed is not None:
        check_mergeable(agreed)
        _refuse_stored(agreed)
    return merge_all(_read(contributions, agreed, round_number, most, key_bytes(key)), fan_in=fan_in)


def _read(
    contributions: Iterable[bytes], agreed: Any, turn: int | None, most: float, key: bytes | None
) -> Iterator[Any]:
    """Yield the model of each client, once it is known to fit those before."""
    first: tuple[str, Any] | None = None
    clients: dict[int, int] = {}
    digests: dict[str, str] = {}
    for place, letter in enumerate(contributions):
        try:
            arrays, facts = decode(letter, key=key)
            model = unpack(arrays, facts)
            client, its_turn = _letter(facts)
            check_mergeable(model)
        except (CheckpointError, TypeError) as error:
            raise CheckpointError(f"combine: contribution {place}: {error}") from None
        who = f"client {client} (contribution {place})"
        if client in clients:
            raise ValueError(
                f"combine: contributions {clients[client]} and {place} are both of client {client}, whose rows would "
                "count twice. Give one of each client."
            )
        clients[client] = place
        turn = its_turn if turn is None else turn
        if its_turn != turn:
            raise ValueError(
                f"combine: {who} is of round {its_turn}, and the others of round {turn}. Leave it out, or ask "
                "the client for this round's."
            )
        digest = model.state_digest()
        if digest in digests:
            raise ValueError(
                f"combine: {who} holds the same statistics as {digests[digest]}, so the same rows would count twice. "
                "Give one of them."
            )
        digests[digest] = who
        if agreed is not None:
            _refuse_other(who, model, "the agreed model", agreed, part_seed(getattr(agreed, "random_state", 0), client))
        if first is None:
            first = who, model
        _refuse_other(who, model, *first)
        mean = _mean_weight(model)
        if mean > most * (1 + 1e-9):
            raise ValueError(
                f"combine: {who} has rows of mean weight {mean:.6g}, more than max_mean_weight={most:g}, and would "
                "outweigh the others. Have it scale its weights, or give a larger max_mean_weight if that was agreed."
            )
        yield model


def _letter(facts: Any) -> tuple[int, int]:
    """Return the numbers of client and round in a contribution."""
    found = facts.get("letter")
    if isinstance(found, dict) and set(found) == {"client", "round"}:
        numbers = found["client"], found["round"]
        if all(type(value) is int and 0 <= value <= MOST_NUMBER for value in numbers):
            return numbers
    raise CheckpointError("it names no client and round: it was not made by `contribution`.")


def _refuse_other(who: str, model: Any, whom: str, other: Any, seed: int | None = None) -> None:
    """Refuse a client whose model cannot be merged with another, or is not the one that was agreed."""
    mine, theirs = _terms(model), _terms(other)
    if seed is not None:
        mine["random_state"], theirs["random_state"] = getattr(model, "random_state", seed), seed
    differing = [
        f"{name} {_shown(mine[name])} instead of {_shown(theirs[name])}"
        for name in mine
        if name in theirs and not _same(mine[name], theirs[name])
    ]
    if differing:
        raise ValueError(
            f"combine: {who} differs from {whom}: {'; '.join(differing[:5])}. All clients must use the agreed model; "
            "leave this one out, or ask it again."
        )


def _terms(model: Any) -> dict[str, Any]:
    """Return what all clients must share, by name; a model without rows has no columns and labels."""
    seeds = ("random_state", "warm_start", "verbose")  # samples of clients have seeds of their own
    terms: dict[str, Any] = {"class": type(model).__name__}
    terms |= {name: value for name, value in model.get_params(deep=False).items() if name not in seeds}
    if model.__sklearn_is_fitted__():
        terms["number of columns"] = model.n_features_in_
        terms["names of columns"] = getattr(model, "feature_names_in_", None)
        statistics = stream_model(model).statistics
        if statistics is not None and statistics.basis is not None:
            terms["kernel features"] = statistics.basis
        terms["several labels per row"] = bool(getattr(statistics, "multilabel", False))
        terms["kind of labels"] = type(model.classes_[0].item()).__name__.replace("float", "int")
    return terms


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, LandmarkBasis | FourierBasis):
        return bool(mine.same_as(theirs))
    if isinstance(mine, str) or isinstance(theirs, str) or mine is None or theirs is None:
        return type(mine) is type(theirs) and bool(mine == theirs)
    return bool(np.array_equal(mine, theirs))


def _shown(value: Any) -> str:
    if isinstance(value, LandmarkBasis | FourierBasis):
        return f"{value.rank} of {type(value).__name__}, gamma {value.kernel.gamma:.6g}"
    return "an array" if isinstance(value, np.ndarray) else f"{value!r:.60}"


def _mean_weight(model: Any) -> float:
    """Return the mean weight of the rows of a client."""
    statistics = stream_model(model).statistics
    weight = model.class_counts_.sum() if statistics is None else statistics.row_weight
    return float(weight) / max(int(model.n_samples_seen_), 1)


def _rows_of_classes(y: Any, sample_weight: Any) -> tuple[list[Any], np.ndarray]:
    """Return the labels, and how many rows of equal weight would be as many as the rows of each class."""
    index = LabelIndex()
    if is_indicator(y):
        matrix = check_indicator(y, y.shape[0])
        labels: list[Any] = list(range(matrix.shape[1]))
        members = memberships_of(matrix, check_weights(sample_weight, matrix.shape[0]))
    else:
        flat = np.asarray(y).ravel()
        _, codes, labels = check_labels(index, flat, len(flat))
        members = members_of(codes, check_weights(sample_weight, len(flat)))
    rows = np.zeros(len(labels))
    for code in np.unique(members.codes):
        weights = members.weights[members.codes == code]
        weights = weights / weights.max()  # squares of large weights overflow
        rows[code] = weights.sum() ** 2 / (weights**2).sum()
    return labels, rows


def _refuse_stored(model: Any) -> None:
    """Refuse a model that is made of rows: its bytes would show them."""
    if isinstance(model, CoreVectorClassifier):
        raise ValueError(
            f"{type(model).__name__}: its support vectors are rows, and a contribution would send them. Use "
            "FisherDiscriminant or KernelFisherDiscriminant, which send sums."
        )


def _refuse_rows(model: Any, statistics: Any) -> None:
    """Refuse a model whose bytes would hold rows."""
    name = type(model).__name__
    if statistics is not None and statistics.kept_sample is not None:
        raise ValueError(
            f"contribution: {name} keeps a sample of the rows to choose its parameters and head, and its bytes would "
            "hold them. Give ridge or ε as a number or rule, gamma as a number, and name a head that needs no rows, "
            "such as 'cosine', so that nothing is chosen by rows."
        )
    if statistics is not None and statistics.basis is not None:
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
