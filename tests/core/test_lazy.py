"""Libraries that are loaded when a name of theirs is used."""

import subprocess
import sys

CODE = """
import sys, threading
from kampong._core.lazy import load_when_used
load_when_used("scipy.stats", "no_such_library")
assert "no_such_library" not in sys.modules
import sklearn.base
import scipy.stats
assert "scipy.stats._stats_py" not in sys.modules, "loaded before it was used"
found = []
threads = [threading.Thread(target=lambda: found.append(scipy.stats.norm.cdf(0.0))) for _ in range(4)]
for one in threads: one.start()
for one in threads: one.join()
assert found == [0.5] * 4
from scipy.stats import rankdata
assert rankdata([3, 1, 2]).tolist() == [3, 1, 2]
try:
    scipy.stats.no_such_name
except AttributeError as error:
    print(error)
"""


def test_a_library_is_loaded_when_a_name_is_used():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no_such_name" in done.stdout


FORGOTTEN = """
import sys
from kampong._core.lazy import forget_unused, load_when_used
load_when_used("numpy.f2py", "wave", "scipy.stats")
import numpy, wave
before = wave
forget_unused("wave", "sys", "no_such_library")
assert "wave" not in sys.modules and "sys" in sys.modules
import wave
assert wave is not before and before.open is wave.open
assert before.Wave_read is wave.Wave_read
assert "numpy.f2py.f2py2e" not in sys.modules
assert callable(numpy.f2py.get_include)
assert "numpy.f2py.f2py2e" in sys.modules
"""


def test_a_forgotten_library_is_the_one_that_is_imported_later():
    done = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FAILS = """
import sys
from kampong._core.lazy import load_when_used
load_when_used("half_written")
import half_written
for _ in range(2):
    try:
        half_written.name
    except ZeroDivisionError:
        print("raised")
"""


def test_a_library_that_cannot_be_loaded_says_so_each_time(tmp_path):
    (tmp_path / "half_written.py").write_text("1 / 0\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{FAILS}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["raised", "raised"], done.stderr


def test_a_stream_is_learnt_without_it(tmp_path):
    rows = "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "a.csv").write_text("x,z,kind\n" + rows)
    code = "import sys\nfrom kampong.__main__ import main\ntry:\n    main()\n"
    unused = ("scipy.stats._stats_py", "pandas.core", "numpy.f2py.f2py2e")
    code += f"finally:\n    assert not set(sys.modules) & set({unused!r}), set(sys.modules) & set({unused!r})\n"
    command = [sys.executable, "-c", code, "learn", str(tmp_path / "a.csv"), "-l", "kind", "-m", str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
