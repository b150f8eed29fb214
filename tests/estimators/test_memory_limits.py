"""Under a limit of memory a wide model says what it needs before it reads the rows."""

import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="memory is limited on POSIX alone")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is in use is read from /proc")

CODE = """
import resource
import numpy as np
from kampong import FisherDiscriminant, MarginSubspace
from kampong._core.memory import memory_left
used = resource.RLIM_INFINITY
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
assert memory_left() == float("inf")
resource.setrlimit(resource.RLIMIT_AS, (used + {extra}, used + {extra}))
X, y = np.random.default_rng(0).normal(size=(6, {d})), [0, 1, 0, 1, 0, 1]
try:
    {call}
    print("done")
except MemoryError as error:
    print(error)
"""


def run(d, extra, call):
    code = CODE.format(d=d, extra=extra, call=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("call", "copies"),
    [
        ("FisherDiscriminant(solver='scatter').fit(X, y)", 4),
        ("FisherDiscriminant().partial_fit(X, y)", 2),
        ("MarginSubspace(1, epsilon=0.3).partial_fit(X, y)", 2),
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
