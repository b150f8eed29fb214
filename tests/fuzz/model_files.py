"""Model files that lie under a right digest: refused by name, or answers that are numbers; no crash, no hang, no NaN.

Arrays and facts of fitted models are changed where it hurts, written as a file with its digest, loaded and used.
"""

import copy
import functools
import hashlib
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.base import clone

import kampong
from fuzz.children import Finding
from fuzz.subjects import ESTIMATORS, learns, methods_of, plain, rows, takes_labels
from kampong.files import CheckpointError, load, pack, write
from kampong.files.container import FORMAT, FRAME, MAGIC, START, encode

SOURCE = str(Path(kampong.__file__).parent)
REFUSALS = (SOURCE, "sklearn/utils/validation", "sklearn/utils/_param", "sklearn/utils/multiclass", "sklearn/base")
NAMES = sorted(ESTIMATORS)
TOKENS = (*(bytes([byte]) for byte in b'{}[],:"\xff'), b"null", b"true", b"-1", b"1e999", b"NaN", b"9" * 30, b"\\u0000")
VARIANTS = ("dense", "sparse", "words", "stream", "labels")
HEADS = ("gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture")
NUMBERS = (0.0, -0.0, -1.0, 1.0, 0.5, 1e-300, 5e-324, 1e-30, 1e30, 1e154, 1e300, -1e300, np.inf, -np.inf, np.nan)
WHOLES = (0, -1, 1, 2, 3, 7, 2**15, 2**31 - 1, 2**31, 2**40, 2**62, -(2**62))
FACTS = (
    *WHOLES,
    *(float(x) for x in NUMBERS if np.isfinite(x)),
    True,
    False,
    None,
    "",
    "auto",
    "rbf",
    "x" * 99,
    [],
    {},
)


@functools.cache
def packed(name, variant):
    """Return the arrays and facts of a fitted model; None where the variant means nothing for it."""
    X, y = rows()
    model = clone(ESTIMATORS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if variant == "stream" or "sample" in name:
                if variant == "stream":
                    model.partial_fit(X, y, classes=[0, 1, 2, 5])
                else:
                    model.partial_fit(sparse.csr_array(X), y)
            elif variant == "labels":
                model.fit(X, np.eye(3, dtype=int)[y] | np.eye(3, dtype=int)[::-1][y])
            elif variant in HEADS:
                model.set_params(head=variant).fit(X, y)
            else:
                labels = np.array(["a", "bb", "c"])[y] if variant == "words" else y
                model.fit(sparse.csr_array(X) if variant == "sparse" else X, labels)
            if hasattr(model, "_before_save"):
                model._before_save()
            return pack(model)
        except (ValueError, TypeError, AttributeError):
            return None


def cases(one_in=1):
    """Return every model that can be made, or one in a few of them."""
    made = [(name, variant) for name in NAMES for variant in VARIANTS]
    made += [("FisherDiscriminant", head) for head in HEADS]
    return [case for case in made[::one_in] if packed(*case) is not None]


CASES: list = []


def prepare(one_in=1):
    """Fit the models, and use each once so that everything is compiled."""
    CASES[:] = cases(one_in)
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            write(path, *packed(*case))
            use(load(path), case, path)


def made(seed):
    """Return the case of a seed, what it changes, and the bytes of the file; None for bytes that cannot be written."""
    rng = np.random.default_rng(seed)
    case = CASES[seed % len(CASES)]
    arrays, facts = copy.deepcopy(packed(*case))
    if seed % 5 == 4:
        return case, "bytes", _damaged(rng, encode(arrays, facts))
    done = [_change(rng, arrays, facts) for _ in range(int(rng.choice([1, 1, 1, 2, 3])))]
    try:
        return case, done, encode(arrays, facts)
    except CheckpointError:
        return case, done, None


def _damaged(rng, content):
    """Return a file whose document has other bytes, mostly in its header, under a right length and digest."""
    document = bytearray(content[FRAME.size :])
    header = 8 + int.from_bytes(document[:8], "little")
    for _ in range(int(rng.choice([1, 1, 2, 4]))):
        place = int(rng.integers(header if rng.random() < 0.8 else len(document)))
        how = rng.choice(["flip", "digit", "token", "cut"])
        if how == "flip":
            document[place] ^= 1 << int(rng.integers(8))
        elif how == "digit":
            document[place : place + 1] = b"0123456789-.e"[int(rng.integers(13)) :][:1]
        elif how == "token":
            document[place:place] = TOKENS[rng.integers(len(TOKENS))]
        else:
            del document[place : place + int(rng.integers(1, 9))]
    if rng.random() < 0.7 and len(document) > 8:  # a header of the right length, so that more is read of it
        found = bytes(document[8:]).find(b"}}")
        end = bytes(document).rfind(b"}", 8, header + 64)
        document[:8] = (max(found, end + 1 - 8)).to_bytes(8, "little")
    start = FRAME.pack(MAGIC, FORMAT, 0, len(document), 0, b"")[:START]
    return start + hashlib.sha256(start + document).digest() + bytes(document)


def attempt(seed):
    """Change one file in a few places, load it and use it."""
    case, done, content = made(seed)
    if content is None:
        return "not written"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = load(path)
        except CheckpointError:
            return "refused"
        except Exception as error:
            raise Finding(f"{case}, load, {done}: {_told(error)}") from None
        try:
            return use(model, case, path)
        except Finding as error:
            raise Finding(f"{case}, {error}, {done}") from None


def use(model, case, path):
    """Call every method; an error of the library is an answer, NaN is none."""
    X, y = rows(2, 12)
    form = sparse.csr_array(X) if case[1] == "sparse" else X
    labels = {"words": np.array(["a", "bb", "c"])[y], "labels": np.eye(3, dtype=int)[y]}.get(case[1], y)
    said = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in sorted(methods_of(model), key=learns):
            if method.startswith("fit") or method in ("score", "inverse_transform"):
                continue
            said += _ask(method, lambda method=method: _call(model, method, form, labels))
        for method in ("transform", "predict"):
            if hasattr(model, method):
                said += _ask(f"{method} after partial_fit", lambda method=method: getattr(model, method)(form))
        said += _ask("save", lambda: model.save(path))
        if hasattr(model, "merge"):
            said += _ask("merge", lambda: model.merge(load(path)))
    return "answers" if not said else "refused later"


def _call(model, method, X, labels):
    found = getattr(model, method)(X, *((labels,) if takes_labels(model, method) else ()))
    return None if method in ("partial_fit", "unlearn") else found


def _ask(what, call):
    """Return 1 where the library refuses in its own words."""
    try:
        found = call()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        ours = isinstance(error, (ValueError, TypeError)) and not isinstance(error, np.linalg.LinAlgError)
        if ours and any(place in last for place in REFUSALS) and str(error):
            return 1
        raise Finding(f"{what}: {_told(error)}") from None
    if found is not None and not hasattr(found, "save"):
        values = plain(found)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise Finding(f"{what}: NaN")
    return 0


def _told(error):
    where = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in where if SOURCE in frame.filename][-1:]
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in [where[-1], *ours])
    return f"{type(error).__name__} {error!s:.80} ({places})"


def _change(rng, arrays, facts):
    """Change one place of a state; return what was done."""
    what = rng.choice(["entry", "entry", "entry", "whole", "shape", "swap", "fact", "fact", "parameter", "drop"])
    names = sorted(arrays)
    name = str(rng.choice(names))
    array = arrays[name]
    if what == "entry" and array.size:
        arrays[name] = array = array.copy()
        for _ in range(int(rng.choice([1, 1, 3]))):
            _put(rng, array)
    elif what == "whole" and array.size:
        arrays[name] = _all(rng, array)
    elif what == "shape":
        arrays[name] = _shaped(rng, array)
    elif what == "swap":
        other = str(rng.choice(names))
        arrays[name], arrays[other] = arrays[other], arrays[name]
        name = f"{name}, {other}"
    elif what == "drop":
        del arrays[name]
    else:
        part = facts["model"]["parameters"] if what == "parameter" else facts["model"]["state"]
        name = str(rng.choice(sorted(part)))
        value = FACTS[rng.integers(len(FACTS))]
        if type(part[name]) in (int, float) and rng.random() < 0.5:
            value = type(part[name])(part[name] + rng.choice([-1, 1]))
        part[name] = value
        name = f"{name} = {value!r:.20}"
    return f"{what} {name}"


def _put(rng, array):
    place = int(rng.integers(array.size))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if array.dtype.kind == "f":
            value = NUMBERS[rng.integers(len(NUMBERS))]
            value = array.flat[place] * rng.choice([-1.0, 2.0, 1e9, 1 + 1e-9]) if rng.random() < 0.4 else value
            array.flat[place] = value
        elif array.dtype.kind == "b":
            array.flat[place] = not array.flat[place]
        else:
            value = int(WHOLES[rng.integers(len(WHOLES))])
            value = int(array.flat[place]) + int(rng.choice([-1, 1])) if rng.random() < 0.4 else value
            bounds = np.iinfo(array.dtype)
            array.flat[place] = min(max(value, bounds.min), bounds.max)


def _all(rng, array):
    kind = rng.choice(["zero", "scale", "reverse", "copy", "constant"])
    with np.errstate(all="ignore"):
        if kind == "zero":
            return np.zeros_like(array)
        if kind == "scale" and array.dtype.kind == "f":
            return array * rng.choice([-1.0, 1e-200, 1e200, 1e-20, 1e20])
        if kind == "reverse":
            return array[::-1].copy() if array.ndim else array
        if kind == "copy":
            return np.full_like(array, array.flat[0])
        return np.full_like(array, array.flat[int(rng.integers(array.size))])


def _shaped(rng, array):
    kind = rng.choice(["longer", "shorter", "flat", "turned", "dtype", "empty"])
    if kind == "longer" and array.ndim:
        return np.concatenate([array, array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)])
    if kind == "shorter" and array.ndim:
        return array[:-1]
    if kind == "turned" and array.ndim == 2:
        return array.T.copy()
    if kind == "dtype":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(rng.choice([np.float32, np.int64, np.uint8, np.bool_, np.float64]))
    return array[:0] if kind == "empty" and array.ndim else array.reshape(-1)
