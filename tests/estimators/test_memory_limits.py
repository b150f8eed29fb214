"""Under a limit of memory a wide model says what it needs before it reads the rows."""

import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="memory is limited on POSIX alone")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is in use is read from /proc")

CODE = """
import resource
import numba  # the compiler takes memory of its own
import numpy as np
from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace
from kampong._core.compute import memory_left
used = resource.RLIM_INFINITY
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
assert memory_left() == float("inf")
resource.setrlimit(resource.RLIMIT_AS, (used + {extra}, used + {extra}))
X, y = np.random.default_rng(0).normal(size=({n}, {d})), np.arange({n}) % 2
try:
    {call}
    print("done")
except MemoryError as error:
    print(error)
"""


def run(d, extra, call, n=6):
    code = CODE.format(d=d, extra=extra, call=call, n=n)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("call", "copies"),
    [
        ("FisherDiscriminant(solver='scatter').fit(X, y)", 5),
        ("FisherDiscriminant().partial_fit(X, y)", 3),
        ("MarginSubspace(1, epsilon=0.3).partial_fit(X, y)", 3),
    ],
)
def test_too_wide_a_scatter_is_refused_with_the_bytes_it_needs(call, copies):
    d = 8192
    needed = copies * 8 * d * d
    said = run(d, 900 * 2**20, call)
    assert f": 8,192 features need at least {needed:,} bytes ({needed / 2**30:.1f} GiB)" in said
    assert "solver='reservoir', which keeps a sample" in said


@pytest.mark.parametrize(
    ("d", "call"),
    [(8192, "FisherDiscriminant(solver='reservoir').partial_fit(X, y)"), (500, "FisherDiscriminant().fit(X, y)")],
)
def test_what_fits_is_learnt(d, call):
    assert run(d, 900 * 2**20, call) == "done"


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("FisherDiscriminant(ridge=0.1, solver='scatter').fit(X, y)", "use solver='reservoir'"),
        ("FisherDiscriminant(ridge=0.1).partial_fit(X, y)", "use solver='reservoir'"),
        ("FisherDiscriminant(ridge=0.1).partial_fit(X[:3], y[:3]).predict(X)", "use solver='reservoir'"),
        ("KernelFisherDiscriminant(landmarks=X).fit(X, y)", "use fewer landmarks or columns."),
    ],
)
def test_memory_that_ends_on_the_way_is_said_too(call, advice):
    """The estimate is turned off: what numpy raises then becomes a message for users."""
    off = "import kampong._core.compute as m; m.memory_left = lambda: float('inf'); "
    said = run(3000, 100 * 2**20, off + call, n=1200)
    assert ": rows of 3,000 features need more memory than there is left (" in said
    assert "Raise the limit (ulimit -v)" in said
    assert advice in said
