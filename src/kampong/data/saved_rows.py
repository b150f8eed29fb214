"""How rows are saved in a state, and read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong.data.validation import LARGEST_ENTRY, REALS, admit

if TYPE_CHECKING:
    from kampong._core.compute import Rows
    from kampong.files.contents import Contents

SPARSE = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}


def rows_state(X: Rows) -> dict[str, Any]:
    """Return dense or sparse rows as a state."""
    if isinstance(X, np.ndarray):
        return {"form": "dense", "data": X}
    form = next(name for name, kind in SPARSE.items() if isinstance(X, kind))
    return {"form": form, "n_columns": X.shape[1], "data": X.data, "indices": X.indices, "indptr": X.indptr}


def rows_from(contents: Contents, shape: tuple[int, int]) -> Rows:
    """Return the rows that `rows_state` has written."""
    form = contents.word("form", ("dense", *SPARSE))
    if form == "dense":
        rows: Rows = contents.array("data", REALS, shape, low=-LARGEST_ENTRY, high=LARGEST_ENTRY)
        contents.finish()
        return rows
    contents.whole("n_columns", low=shape[1], high=shape[1])
    data = contents.array("data", REALS, (None,), low=-LARGEST_ENTRY, high=LARGEST_ENTRY)
    indices = contents.array("indices", (np.int32, np.int64), (len(data),), low=0, high=shape[1] - 1)
    indptr = contents.array("indptr", indices.dtype, (shape[0] + 1,), low=0, high=len(data))
    contents.finish()
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        contents.refuse("indptr does not cut the entries into rows")
    found: Rows = SPARSE[form]((data, indices, indptr), shape=shape)
    contents.require(admit(found).nnz == len(data), "a row names a column twice")
    return found
