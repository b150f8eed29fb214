"""The examples run as they are printed, so they cannot rot."""

import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("Agg")
EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    if path.stem == "digits_stream":
        last = printed.strip().splitlines()[-2].split()
        assert last[0] == "1797"
        assert float(last[3]) > 0.9
        assert (tmp_path / "digits.png").stat().st_size > 10_000
    if path.stem == "classes_that_keep_coming":
        changes = [float(line.split()[-1]) for line in printed.splitlines() if "largest change" in line]
        assert len(changes) == 3
        assert max(changes) < 1e-9
        assert (tmp_path / "classes.png").stat().st_size > 10_000
    if path.stem == "image_stream":
        assert float(printed.splitlines()[3].split()[2]) > 0.7
        assert len(list((tmp_path / "frames").glob("*.npy"))) == 600
    if path.stem == "audio_stream":
        assert float(printed.split()[-1]) > 0.85
