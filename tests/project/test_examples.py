"""Every example of the gallery runs, draws at least one picture, and finds what its page says, so it cannot rot."""

import importlib.util
import re
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest
import sklearn
from sklearn.utils.fixes import parse_version

mpl.use("Agg")
FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*/*.py"))
LDA_AGREES = 1e-9 if parse_version(sklearn.__version__) >= parse_version("1.9") else 1e-2
"""The default solver of older versions divides by n − K."""


@pytest.fixture
def shown(monkeypatch):
    """Return the list of figures that an example shows; they are closed in the end."""
    import matplotlib.pyplot as plt

    plt.close("all")  # of tests before
    figures = []
    monkeypatch.setattr(plt, "show", lambda: figures.extend(plt.figure(number) for number in plt.get_fignums()))
    yield figures
    plt.close("all")


def run(path, monkeypatch, tmp_path):
    missing = [
        name
        for name in re.findall(r"^(?:import|from) (\w+)", path.read_text(), re.MULTILINE)
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        return runpy.run_path(str(path), run_name="__main__")


LAWS = {
    "audio_stream": lambda found: found["curve"][-1] > 0.7 > found["curve"][0],
    "class_incremental_embeddings": lambda found: found["change"] < 1e-9 and found["curve"][-1][0] > 0.95,
    "dask_fit": lambda found: found["change"] < 1e-9,
    "digits_stream": lambda found: found["accuracy"][-1] > 0.93 and found["model"].n_samples_seen_ == 1797,
    "drift_half_lives": lambda found: (
        found["hits"]["half-life 100"].mean() > found["hits"]["keep all rows"].mean() + 0.15
        and found["hits"]['half_life="auto"'].mean() > found["hits"]["half-life 100"].mean() - 0.02
    ),
    "federated_merge": lambda found: found["change"] < 1e-9,
    "heads_and_choice": lambda found: found["scores"][found["model"].head_] > max(found["scores"].values()) - 0.01,
    "image_stream": lambda found: found["curve"][-1] > 0.7,
    "kernel_features": lambda found: found["right"][0] > found["right"][1],
    "lda_made_incremental": lambda found: found["change"] < LDA_AGREES and min(found["cosines"]) > 1 - 1e-9,
    "mmda_directions": lambda found: found["right"] > 0.97,
    "pictures_of_a_model": lambda found: found["model"].score(found["X_test"], found["y_test"]) > 0.9,
    "river_pipeline": lambda found: found["scores"]["kampong"].get() > 0.85,
    "save_inspect_export": lambda found: found["same"] and found["change"] < 1e-9,
    "text_with_new_classes": lambda found: found["curve"][-1][0] > 0.7 > found["curve"][-1][1],
    "unlearning": lambda found: max(found["distances"]) < 1e-9 and 9 not in found["model"].classes_,
    "wide_sparse_rows": lambda found: (
        found["accuracy"]["FisherDiscriminant(): rows in memory"] > found["accuracy"]["TruncatedSVD(50) and LDA"] + 0.1
    ),
}


def test_every_example_has_a_law():
    assert {path.stem for path in EXAMPLES} == set(LAWS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_draws_and_finds_what_it_says(path, monkeypatch, tmp_path, shown, capsys):
    found = run(path, monkeypatch, tmp_path)
    assert LAWS[path.stem](found), capsys.readouterr().out
    assert shown
    for figure in shown:
        assert figure.axes
        for axes in figure.axes:
            assert axes.get_title() or axes.get_xlabel() or axes.get_label() == "<colorbar>"
    shown[0].savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_examples_need_no_data_of_their_own():
    for path in EXAMPLES:
        assert "KAMPONG_DATA" not in path.read_text(), path
        assert "fetch_" not in path.read_text(), path
