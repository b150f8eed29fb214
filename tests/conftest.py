"""Shared by all tests: seeds, the real data where it is at hand, and small problems for hypothesis."""

import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "kampong",
    max_examples=int(os.environ.get("KAMPONG_EXAMPLES", "100")),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kampong")


def pytest_addoption(parser):
    parser.addoption("--share", type=int, default=1, metavar="N", help="run one test of N, always the same ones")


def pytest_collection_modifyitems(config, items):
    """Keep one test of N, by a checksum of its name: the same tests on every machine, in every worker."""
    share = config.getoption("--share")
    left_out = [item for item in items if zlib.crc32(item.nodeid.encode()) % share]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % share == 0]


collect_ignore_glob = ["fuzz/*"]  # attackers, not tests; they need the extras


def data_folder():
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("KAMPONG_DATA", default))


@pytest.fixture
def real_data():
    """Return a loader of the real data sets; the test is skipped where they are not at hand."""
    folder = data_folder()

    def load(name):
        path = folder / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"the data set {name} is not here; set KAMPONG_DATA to the folder that holds it")
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["X"].astype(np.float64), arrays["y"]

    return load
