"""The displays draw what the numbers say, in the axes given, with names, and a word where there is nothing."""

import subprocess
import sys
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.patches import Ellipse
from scipy.stats import binomtest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginSubspace,
    MaxMinOverClassifier,
)
from kampong.report import (
    BiplotDisplay,
    ChoiceDisplay,
    ClassMapDisplay,
    ConfusionDisplay,
    EigenvalueDisplay,
    LoadingsDisplay,
    MarginDisplay,
    ReliabilityDisplay,
)

mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return SimpleNamespace(X=X, y=np.array(["barolo", "grignolino", "barbera"])[y])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_a_map_shows_the_rows_the_names_and_ellipses_of_nine_in_ten(wine):
    model = FisherDiscriminant().fit(wine.X, wine.y)
    display = ClassMapDisplay.from_estimator(model, wine.X, wine.y, directions=(1, 0))
    drawn = np.vstack([np.asarray(one.get_offsets()) for one in display.ax_.collections])
    points = model.transform(wine.X)[:, [1, 0]]
    order = np.argsort(wine.y, kind="stable")
    np.testing.assert_allclose(drawn, points[order])
    assert texts(display.ax_) == ["barbera", "barolo", "grignolino"]
    assert display.ax_.get_xlabel().startswith("direction 2 (")
    rng = np.random.default_rng(0)
    turned = rng.standard_normal((20000, 2)) @ np.array([[3.0, 1.0], [0.0, 0.5]]) + [5.0, -2.0]
    display = ClassMapDisplay.from_predictions(turned, np.zeros(20000))
    (ellipse,) = [one for one in display.ax_.patches if isinstance(one, Ellipse)]
    inside = ellipse.get_patch_transform().inverted().transform(turned)
    assert abs(np.mean(np.square(inside).sum(axis=1) < 1) - 0.9) < 0.01


def test_axes_in_axes_out(wine):
    two = wine.X.iloc[:, :2]
    model = FisherDiscriminant().fit(wine.X, wine.y)
    margin = CoreVectorClassifier().fit(two, wine.y)
    for make in (
        lambda ax: ClassMapDisplay.from_estimator(model, wine.X, wine.y, ax=ax),
        lambda ax: BiplotDisplay.from_estimator(model, wine.X, wine.y, ax=ax),
        lambda ax: ChoiceDisplay.from_estimator(model, ax=ax),
        lambda ax: EigenvalueDisplay.from_estimator(model, ax=ax),
        lambda ax: ConfusionDisplay.from_estimator(model, wine.X, wine.y, ax=ax),
        lambda ax: ReliabilityDisplay.from_estimator(model, wine.X, wine.y, ax=ax),
        lambda ax: MarginDisplay.from_estimator(margin, two, wine.y, resolution=20, ax=ax),
    ):
        figure, ax = plt.subplots()
        display = make(ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        figure.canvas.draw()
    figure, both = plt.subplots(1, 2)
    display = LoadingsDisplay.from_estimator(model, ax=both)
    assert display.axes_ == list(both)


def test_one_direction_is_drawn_in_strips(wine):
    one = FisherDiscriminant(1).fit(wine.X, wine.y)
    display = BiplotDisplay.from_estimator(one, wine.X, wine.y, n_columns=2)
    assert display.ax_.get_ylabel() == "class"
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["barbera", "barolo", "grignolino"]
    assert len(display.shown_) == 2


def test_arrows_and_bars_are_what_a_standard_deviation_adds(wine):
    model = FisherDiscriminant().fit(wine.X, wine.y)
    added = model.components_ * wine.X.to_numpy().std(axis=0)
    longest = wine.X.columns[np.argsort(-np.linalg.norm(added, axis=0))]
    display = BiplotDisplay.from_estimator(model, wine.X, wine.y, n_columns=5)
    assert display.shown_ == list(longest[:5])
    arrows = np.array([one.xy for one in display.ax_.texts if one.arrow_patch is not None])
    wanted = added.T[np.argsort(-np.linalg.norm(added, axis=0))[:5]]
    np.testing.assert_allclose(arrows / arrows[0, 0], wanted / wanted[0, 0])
    display = LoadingsDisplay.from_estimator(model, wine.X, n_columns=4)
    for direction, ax in enumerate(display.axes_):
        order = np.argsort(-np.abs(added[direction]))[:4]
        assert display.top(direction) == list(wine.X.columns[order])
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches][::-1], added[direction][order])
    plain = LoadingsDisplay.from_estimator(model)
    assert plain.top(0)[0] == wine.X.columns[np.argmax(np.abs(model.components_[0]))]


def test_names_of_words_and_of_columns_through_a_pipeline(wine):
    lines = ["grape red bottle", "ship wave salt", "grape cellar red", "salt sail wave"] * 20
    pipe = make_pipeline(TfidfVectorizer(), FisherDiscriminant(ridge=0.1)).fit(lines, [0, 1, 0, 1] * 20)
    found = LoadingsDisplay.from_estimator(pipe, lines, n_columns=4).top(0)
    assert set(found) <= {"grape", "red", "wave", "salt", "bottle", "ship", "cellar", "sail"}
    assert {"salt", "wave"} & set(found)
    scaled = make_pipeline(StandardScaler(), FisherDiscriminant()).fit(wine.X, wine.y)
    assert "flavanoids" in BiplotDisplay.from_estimator(scaled, wine.X, wine.y).shown_
    bare = FisherDiscriminant().fit(wine.X.to_numpy(), wine.y)
    assert LoadingsDisplay.from_estimator(bare).top(0)[0].startswith("column ")
    own = [f"measure {place}" for place in range(13)]
    assert LoadingsDisplay.from_estimator(bare, feature_names=own).top(0)[0].startswith("measure ")
    with pytest.raises(ValueError, match=r"LoadingsDisplay: 3 feature names for 13 columns. Give one name a column"):
        LoadingsDisplay.from_estimator(bare, feature_names=["a", "b", "c"])


def test_a_choice_shows_its_nodes_and_what_was_chosen():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    ax = ChoiceDisplay.from_estimator(model).ax_
    nodes = ax.lines[0]
    np.testing.assert_allclose(nodes.get_xdata(), model.choice_.values)
    np.testing.assert_allclose(nodes.get_ydata(), model.choice_.losses)
    assert ax.lines[2].get_xdata()[0] == model.ridge_
    assert any("heads, by cost" in text for text in texts(ax))
    margin = MarginSubspace(epsilon="auto").fit(X, y)
    ax = ChoiceDisplay.from_estimator(margin).ax_
    assert ax.get_xlabel() == "epsilon"
    assert texts(ax)[0] == f"epsilon = {margin.epsilon_:.3g}"
    assert ChoiceDisplay.from_estimator(KernelFisherDiscriminant(landmarks=50).fit(X, y)).ax_.get_xlabel() == "gamma"
    given = ChoiceDisplay.from_estimator(KernelFisherDiscriminant(landmarks=50, gamma=1e-3).fit(X, y)).ax_
    assert "rows left out" in given.get_xlabel()
    assert texts(ChoiceDisplay.from_estimator(FisherDiscriminant(ridge=1.0).fit(X, y)).ax_)[0].startswith("nothing was")
    with pytest.raises(TypeError, match="ChoiceDisplay: PCA chooses nothing on held-out rows"):
        ChoiceDisplay.from_estimator(PCA(2).fit(X))


def test_eigenvalues_cross_zero_at_the_fisher_ratios(wine):
    X = StandardScaler().fit_transform(wine.X)
    display = EigenvalueDisplay.from_estimator(MarginSubspace(2, epsilon=1.0).fit(X, wine.y))
    between = np.cov(X.T, bias=True)
    means = np.stack([X[wine.y == label].mean(axis=0) for label in np.unique(wine.y)])
    shares = np.array([np.mean(wine.y == label) for label in np.unique(wine.y)])
    between = (means.T * shares) @ means
    within = np.cov(X.T, bias=True) - between
    ratios = np.sort(np.linalg.eigvals(np.linalg.solve(within, between)).real)[::-1][:2]
    np.testing.assert_allclose(display.ratios, ratios)
    at = EigenvalueDisplay.from_estimator(MarginSubspace(2, epsilon=1.0).fit(X, wine.y), epsilons=ratios).eigenvalues
    assert abs(at[0, 0]) < 1e-9
    assert abs(at[1, 1]) < 1e-9
    with pytest.raises(TypeError, match=r"InterClassScatter keeps no within-class scatter.*Fit MarginSubspace"):
        EigenvalueDisplay.from_estimator(InterClassScatter().partial_fit(X, wine.y))


def test_confusion_is_scikit_learns():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant(head="gaussian").fit(X[:900], y[:900])
    display = ConfusionDisplay.from_estimator(model, X[900:], y[900:])
    wanted = confusion_matrix(y[900:], model.predict(X[900:]))
    np.testing.assert_array_equal(display.counts, wanted)
    true, said, rows = display.worst(1)[0]
    np.fill_diagonal(wanted, 0)
    assert rows == wanted.max() == wanted[true, said]
    many = ConfusionDisplay.from_predictions(np.arange(50) % 50, (np.arange(50) + (np.arange(50) == 3)) % 50)
    assert "most confused: 3 as 4 (1)" in many.ax_.get_title()
    with pytest.raises(ValueError, match=r"ConfusionDisplay: y_true has shape \(2,\) and y_pred \(1,\)"):
        ConfusionDisplay.from_predictions([0, 1], [0])


def test_reliability_of_true_and_of_bold_probabilities():
    rng = np.random.default_rng(1)
    chance = rng.uniform(0.5, 1.0, 20000)
    labels = (rng.uniform(size=20000) < chance).astype(int)
    display = ReliabilityDisplay.from_predictions(labels, np.column_stack([1 - chance, chance]), [0, 1])
    assert display.error < 0.02
    low, high = display.interval()
    right, rows = round(display.was[7] * display.counts[7]), display.counts[7]
    wanted = binomtest(right, rows).proportion_ci(method="wilson")
    np.testing.assert_allclose([low[7], high[7]], wanted, rtol=1e-4)
    bold = np.where(chance > 0.5, 0.99, 0.01)
    display = ReliabilityDisplay.from_predictions(labels, np.column_stack([1 - bold, bold]), [0, 1])
    assert abs(display.error - 0.24) < 0.02
    with pytest.raises(ValueError, match="give one true class per row, and one probability per row and class"):
        ReliabilityDisplay.from_predictions([0, 1], np.ones((2, 3)), [0, 1])


def test_margins_and_support_vectors(wine):
    two = wine.X[["alcohol", "flavanoids"]]
    pair = wine.y != "barbera"
    model = MaxMinOverClassifier(nu=0.2).fit(two[pair], wine.y[pair])
    display = MarginDisplay.from_estimator(model, two[pair], wine.y[pair], resolution=30)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("alcohol", "flavanoids")
    rings = np.asarray(display.ax_.collections[-1].get_offsets())
    np.testing.assert_allclose(rings, model.support_vectors_)
    assert display.scores.min() < -1
    assert display.scores.max() > 1
    several = MarginDisplay.from_estimator(FisherDiscriminant().fit(two, wine.y), two, wine.y, resolution=30)
    assert set(np.unique(several.scores)) == {0, 1, 2}
    with pytest.raises(ValueError, match=r"MarginDisplay: X has shape \(178, 13\), and this picture needs two columns"):
        MarginDisplay.from_estimator(FisherDiscriminant().fit(wine.X, wine.y), wine.X, wine.y)


def test_nothing_leaves_a_word(wine):
    assert texts(ClassMapDisplay.from_predictions(np.zeros((0, 2)), []).ax_) == ["no rows to show"]
    assert texts(ConfusionDisplay.from_predictions([], []).ax_) == ["no rows to show"]
    assert texts(ReliabilityDisplay([], []).plot().ax_) == ["no rows to show"]
    assert texts(EigenvalueDisplay([], np.zeros((0, 0))).plot().ax_) == ["no directions to show"]
    assert texts(LoadingsDisplay(np.zeros((1, 3)), list("abc")).plot().axes_[0]) == ["this direction is zero"]


def test_mistakes_are_named(wine):
    model = FisherDiscriminant()
    with pytest.raises(NotFittedError):
        ClassMapDisplay.from_estimator(model, wine.X, wine.y)
    model.fit(wine.X, wine.y)
    with pytest.raises(ValueError, match=r"directions=\(0, 2\), but there are 2 directions, counted from 0"):
        ClassMapDisplay.from_estimator(model, wine.X, wine.y, directions=(0, 2))
    with pytest.raises(ValueError, match="give one label per row of points"):
        ClassMapDisplay.from_estimator(model, wine.X, wine.y[:-1])
    kernel = KernelFisherDiscriminant(landmarks=20).fit(wine.X, wine.y)
    ClassMapDisplay.from_estimator(kernel, wine.X, wine.y)
    for display in (BiplotDisplay, LoadingsDisplay):
        with pytest.raises(TypeError, match="KernelFisherDiscriminant has no directions in the space of the columns"):
            display.from_estimator(kernel, wine.X, *([wine.y] if display is BiplotDisplay else []))


def test_any_classifier_may_be_judged():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    assert ConfusionDisplay.from_estimator(model, X, y).counts.sum() == 150
    assert ReliabilityDisplay.from_estimator(model, X, y).error < 0.2


def test_a_name_is_never_mathematics():
    display = ClassMapDisplay.from_predictions(np.random.default_rng(0).normal(size=(9, 2)), ["$a$", "$_b", "c"] * 3)
    display.figure_.canvas.draw()


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from kampong import report
try:
    report.ConfusionDisplay.from_predictions([0], [0])
except ModuleNotFoundError as error:
    print(error)
"""


def test_without_matplotlib_the_extra_is_named():
    found = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    wanted = (
        "ConfusionDisplay needs matplotlib, which is not installed. Install the plot extra: "
        'pip install ".[plot]" in the source folder of kampong, or pip install "WHEEL[plot]" with its wheel.'
    )
    assert found.stdout.strip() == wanted, found.stderr
