"""Pictures say what they show: axes, legend, a word where there is nothing, and no silent nonsense."""

import matplotlib as mpl
import numpy as np
import pytest

from kampong.report import draw_classes

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def test_every_class_is_drawn_once_named_and_in_the_legend(tmp_path):
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((90, 3)), np.repeat(["a", "b", "c"], 30)
    axes = draw_classes(points, labels, directions=(2, 0), title="three classes")
    assert axes.get_title() == "three classes"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("direction 3", "direction 1")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "c"]
    drawn = np.vstack([collection.get_offsets() for collection in axes.collections])
    np.testing.assert_allclose(drawn, points[:, [2, 0]])
    axes.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_one_direction_shows_the_classes_one_above_the_other():
    axes = draw_classes(np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1])
    assert axes.get_ylabel() == "class"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1"]


def test_no_rows_leave_a_word():
    axes = draw_classes(np.zeros((0, 2)), [])
    assert axes.texts[0].get_text() == "no rows to show"


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"points has shape \(3, 2\) and labels \(2,\); give one label per row"):
        draw_classes(np.zeros((3, 2)), [0, 1])
    with pytest.raises(ValueError, match=r"directions \(0, 5\) need more columns than points has: 2"):
        draw_classes(np.zeros((3, 2)), [0, 1, 1], directions=(0, 5))


def test_many_classes_have_no_legend_to_drown_in():
    axes = draw_classes(np.random.default_rng(0).standard_normal((127, 2)), np.arange(127))
    assert axes.get_legend() is None
