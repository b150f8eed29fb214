"""Everything that an object remembers, as one digest: what a refused call must leave as it was."""

import hashlib

import numpy as np
from scipy import sparse

PLAIN = (bool, int, float, complex, str, bytes, type(None), type, np.dtype, np.generic, slice, np.random.RandomState)


def trace_of(thing):
    """Return path → value for all that an object holds, arrays by their bytes, however deep."""
    found = {}
    _walk(thing, "", found, set())
    return found


def differences(before, after):
    """Return the paths at which two traces differ."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _walk(value, path, found, above):
    if id(value) in above:
        return
    above = above | {id(value)}
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            _walk(value.tolist(), path, found, above)
            return
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        found[path] = (value.dtype.str, value.shape, content)
    elif sparse.issparse(value):
        for name in ("data", "indices", "indptr"):
            _walk(getattr(value, name), f"{path}.{name}", found, above)
    elif isinstance(value, PLAIN) or callable(value):
        found[path] = repr(value)
    elif isinstance(value, dict):
        found[path] = list(map(repr, value))
        for key, item in value.items():
            _walk(item, f"{path}[{key!r}]", found, above)
    elif isinstance(value, list | tuple | set | frozenset):
        found[path] = (type(value).__name__, len(value))
        for place, item in enumerate(value):
            _walk(item, f"{path}[{place}]", found, above)
    else:
        names = sorted(vars(value))
        found[path] = (type(value).__name__, names)
        for name in names:
            _walk(getattr(value, name), f"{path}.{name}", found, above)
