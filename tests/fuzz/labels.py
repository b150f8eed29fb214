"""Labels and weights of odd kinds for every method that learns: the answer of plain ones, or a clear refusal."""

import decimal
import inspect
import warnings

import numpy as np
import pandas as pd
import polars as pl

from fuzz.arrays import EITHER, REFUSE, _memory_mapped, _read_only
from fuzz.children import Finding
from fuzz.subjects import ESTIMATORS, STATISTICS, call, rows, subjects

NAMES = np.array(["ant", "bee", "cow"])


def _masked(values, hidden):
    mask = np.zeros(len(values), dtype=bool)
    mask[0] = hidden
    return np.ma.MaskedArray(values, mask=mask)


def _with(values, value, dtype=object):
    values = values.astype(dtype)
    values[0] = value
    return values


same = "same"
# kind: (how to make it from classes 0, 1, 2; whether it means those, in this order, or must be refused)
LABELS = {
    "list": (lambda y: y.tolist(), same),
    "tuple": (lambda y: tuple(y.tolist()), same),
    "int8": (lambda y: y.astype(np.int8), same),
    "uint64": (lambda y: y.astype(np.uint64), same),
    "byte-swapped": (lambda y: y.astype(">i4"), same),
    "read-only": (_read_only, same),
    "memory-mapped": (_memory_mapped, same),
    "strided": (lambda y: np.repeat(y, 2)[::2], same),
    "whole floats": (lambda y: y.astype(np.float64), EITHER),
    "objects": (lambda y: y.astype(object), EITHER),  # scikit-learn knows no such target
    "words": (lambda y: NAMES[y], same),
    "words as objects": (lambda y: NAMES[y].astype(object), same),
    "bytes": (lambda y: NAMES[y].astype("S3"), EITHER),
    "series": (lambda y: pd.Series(y, index=y + 7), same),
    "categories": (lambda y: pd.Series(NAMES[y]).astype("category"), same),
    "nullable": (lambda y: pd.Series(y).astype("Int64"), same),
    "series of polars": (lambda y: pl.Series(y), same),
    "masked, nothing hidden": (lambda y: _masked(y, False), same),
    "masked": (lambda y: _masked(y, True), REFUSE),
    "a column": (lambda y: y[:, None], EITHER),
    "NaN": (lambda y: _with(y, np.nan, float), REFUSE),
    "infinity": (lambda y: _with(y, np.inf, float), REFUSE),
    "None": (lambda y: _with(y, None), REFUSE),
    "NA": (lambda y: _with(y, pd.NA), REFUSE),
    "words and numbers": (lambda y: _with(y, "many"), REFUSE),
    "measured": (lambda y: y + np.linspace(0.1, 0.9, len(y)), REFUSE),
    "complex": (lambda y: y.astype(complex), REFUSE),
    "dates": (lambda y: y.astype("datetime64[s]"), REFUSE),
    "too short": (lambda y: y[:-1], REFUSE),
    "too long": (lambda y: np.append(y, 0), REFUSE),
    "empty": (lambda y: y[:0], REFUSE),
    "0-d": (lambda y: np.array(1), REFUSE),
    "3-d": (lambda y: y[None, :, None], REFUSE),
    "lists as objects": (lambda y: np.array([[1], [2, 3]] * (len(y) // 2), dtype=object), REFUSE),
}
WEIGHTS = {
    "list": (lambda w: w.tolist(), same),
    "float32": (lambda w: w.astype(np.float32), same),
    "integers": (lambda w: w.astype(np.int64), same),
    "byte-swapped": (lambda w: w.astype(">f8"), same),
    "read-only": (_read_only, same),
    "objects": (lambda w: w.astype(object), EITHER),
    "decimals": (lambda w: np.vectorize(decimal.Decimal, otypes=[object])(w), EITHER),
    "series": (lambda w: pd.Series(w, index=np.arange(len(w)) + 7), same),
    "series of polars": (lambda w: pl.Series(w), same),
    "masked, nothing hidden": (lambda w: _masked(w, False), same),
    "a number": (lambda w: 1.0, EITHER),
    "masked": (lambda w: _masked(w, True), REFUSE),
    "negative": (lambda w: _with(w, -1.0, float), REFUSE),
    "NaN": (lambda w: _with(w, np.nan, float), REFUSE),
    "infinity": (lambda w: _with(w, np.inf, float), REFUSE),
    "vanishing": (lambda w: _with(w, 5e-324, float), REFUSE),
    "too large": (lambda w: _with(w, 1e300, float), REFUSE),
    "complex": (lambda w: w.astype(complex), REFUSE),
    "words": (lambda w: _with(w, "many"), REFUSE),
    "None": (lambda w: _with(w, None), REFUSE),
    "dates": (lambda w: w.astype("datetime64[s]"), REFUSE),
    "too short": (lambda w: w[:-1], REFUSE),
    "too long": (lambda w: np.append(w, 1.0), REFUSE),
    "empty": (lambda w: w[:0], REFUSE),
    "2-d": (lambda w: np.stack([w, w]), REFUSE),
}


def _takes(name, method, what):
    kind = kampong_class(name)
    return what in inspect.signature(getattr(kind, method)).parameters


def kampong_class(name):
    return type(STATISTICS[name]() if name in STATISTICS else ESTIMATORS[name])


def _learns(name, method):
    return name in STATISTICS or method in ("fit", "partial_fit")


LEFT_OUT = {
    ("CandidCovarianceFreePCA", "fit"),  # takes y and ignores it, as scikit-learn's do
    ("CandidCovarianceFreePCA", "partial_fit"),
    ("FisherDiscriminant wide", "partial_fit"),  # this solver needs all rows at hand
}
CASES = [
    (name, method, what, kind)
    for name, method in subjects()
    for what, kinds in (("y", LABELS), ("sample_weight", WEIGHTS))
    if _learns(name, method) and _takes(name, method, what) and (name, method) not in LEFT_OUT
    for kind in kinds
    if name not in STATISTICS or kind != "measured"  # statistics take any number as a label
]


def attempt(seed):
    """Give labels or weights of one kind to one method, and compare with the plain ones that they mean."""
    name, method, what, kind = CASES[seed % len(CASES)]
    make, meant = (LABELS if what == "y" else WEIGHTS)[kind]
    X, y = rows()
    weights = 1.0 + np.arange(len(y)) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = make(y if what == "y" else weights)
    title = f"{name}.{method}, {what}, {kind}"
    before = odd.copy() if isinstance(odd, np.ndarray) else None
    more = {} if what == "y" else {"sample_weight": odd}
    try:
        found = call(name, method, X, odd if what == "y" else y, form="dense", **more)
    except (ValueError, TypeError) as error:
        if not str(error):
            raise Finding(f"{title}: refused without a message") from None
        if meant == same:
            raise Finding(f"{title}: refused, {error!s:.150}") from None
        return "refused"
    if meant is REFUSE:
        raise Finding(f"{title}: accepted")
    if before is not None and before.tobytes() != odd.tobytes():
        raise Finding(f"{title}: the caller's array was changed")
    if kind == "a number":
        weights = np.ones(len(y))
    expected = call(name, method, X, y, form="dense", **({} if what == "y" else {"sample_weight": weights}))
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-7, atol=1e-7):
        raise Finding(f"{title}: {found.ravel()[:3]}, expected {expected.ravel()[:3]}")
    return "right"
