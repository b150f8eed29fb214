"""Fields declared once: what is written is read back, and what breaks the declaration is refused."""

import numpy as np
import pytest

from kampong.files import CheckpointError, Contents
from kampong.files.contents import flatten
from kampong.files.fields import array, plain, read, written

FIELDS = (
    plain("rule", int, high=2),
    plain("_slope", float, low=0.0),
    plain("holds", bool),
    array("_counts", "classes", low=0.0),
    array("means", "classes", "features", finite=False),
    array("codes", "rows", dtype=(np.int32, np.int64), low=0, high=lambda sizes: sizes["classes"] - 1),
    array("gram", "1+classes", "1+classes"),
    array("clock", "2"),
)


class Thing:
    """An object with room for five classes, of which three are known."""

    def __init__(self):
        self.rule, self._slope, self.holds = 1, 0.5, True
        self._counts, self.means = np.arange(5.0), np.asfortranarray(np.arange(10.0).reshape(5, 2))
        self.codes, self.gram, self.clock = np.array([0, 2, 1]), np.arange(36.0).reshape(6, 6), np.ones(2)


def contents(**changed):
    arrays, facts = flatten(written(FIELDS, Thing(), {"classes": 3}) | changed)
    return Contents(arrays, facts, "Thing")


def test_what_is_written_is_read_back_and_shares_nothing():
    thing = Thing()
    state = written(FIELDS, thing, {"classes": 3}, prefix="my_")
    assert set(state) == {
        f"my_{name}" for name in ("rule", "slope", "holds", "counts", "means", "codes", "gram", "clock")
    }
    thing._counts[:] = thing.gram[:] = -1.0
    other = Thing()
    found = Contents(*flatten(state), "Thing")
    sizes = {"features": 2}
    vars(other).update(read(FIELDS, found, sizes, prefix="my_"))
    found.finish()
    assert sizes == {"features": 2, "classes": 3, "rows": 3}
    assert (other.rule, other._slope, other.holds) == (1, 0.5, True)
    np.testing.assert_array_equal(other._counts, [0, 1, 2])
    np.testing.assert_array_equal(other.gram, np.arange(36.0).reshape(6, 6)[:4, :4])
    np.testing.assert_array_equal(other.means, np.arange(6.0).reshape(3, 2))
    assert other.means.flags.f_contiguous


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rule": 3}, "rule is 3"),
        ({"rule": True}, "rule is True"),
        ({"slope": -1.0}, "slope is -1.0"),
        ({"holds": 1}, "holds is 1"),
        ({"counts": np.array([1.0, -1.0, 0.0])}, "counts lies in"),
        ({"counts": np.ones(3, dtype=np.float32)}, "counts has dtype float32"),
        ({"counts": np.ones(4)}, r"means has shape \(3, 2\), expected \(4, 2\)"),
        ({"means": np.ones((3, 3))}, r"means has shape \(3, 3\), expected \(3, 2\)"),
        ({"means": np.full((3, 2), np.nan)}, "means holds NaN"),
        ({"gram": np.full((4, 4), np.inf)}, "gram holds NaN or infinity"),
        ({"gram": np.ones((3, 3))}, r"gram has shape \(3, 3\), expected \(4, 4\)"),
        ({"codes": np.array([3])}, r"codes lies in \[3, 3\], expected \[0, 2\]"),
        ({"clock": np.ones(3)}, r"clock has shape \(3,\), expected \(2\)"),
    ],
)
def test_what_breaks_the_declaration_is_refused(changed, reason):
    with pytest.raises(CheckpointError, match=reason):
        read(FIELDS, contents(**changed), {"features": 2})


def test_infinity_is_read_where_it_is_declared():
    assert np.isinf(read(FIELDS, contents(means=np.full((3, 2), np.inf)), {"features": 2})["means"]).all()


def test_an_array_grows_with_its_sizes():
    field = FIELDS[4]
    grown = field.grown(np.ones((2, 2)), {"classes": 3, "features": 2})
    np.testing.assert_array_equal(grown, [[1, 1], [1, 1], [0, 0]])
