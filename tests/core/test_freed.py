"""Freed memory goes back to the system where the C library can give it."""

import platform
from pathlib import Path

import pytest

from kampong._core import freed


def resident():
    """Return the MiB that the process holds."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can give memory back")
def test_freed_memory_is_given_back():
    blocks = [bytes(100_000) for _ in range(1000)]
    pins = blocks[9::10]  # the heap cannot shrink from its end
    del blocks[:]
    before = resident()
    freed.give_back()
    assert before - resident() > 40
    assert len(pins) == 100


def test_nothing_happens_where_there_is_no_such_function(monkeypatch):
    monkeypatch.setattr(freed.ctypes, "CDLL", lambda name: object())
    freed._trim.cache_clear()
    freed.give_back()
    assert freed._trim() is None
    freed._trim.cache_clear()
