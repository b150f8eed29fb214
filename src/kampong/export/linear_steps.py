"""A predictor as a pipeline of scikit-learn's own classes, which answers the same where kampong is not installed.

    rows → directions → features of the head → scores → calibration → LogisticRegression

Every head is linear in features that scikit-learn, numpy and scipy can compute: `Features` says which, and with which
weights. The calibration b·L + c·√(−L) of L = log softmax(scores) is linear in (L, √−L). So the last step is always a
logistic regression, or a quadratic discriminant where nothing is calibrated.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import StackingClassifier
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    LabelBinarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)

from kampong.heads import Cosine, Head, Hinge, LinearHead, Mixture, Quadratic, Regression
from kampong.heads.hinge import SHIFT, STEEP
from kampong.heads.linear import regression_map
from kampong.heads.mixture import MEMBERS, TRAINED
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.functions import times_columns

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.predictor import Predictor

    Steps = list[tuple[str, Any]]
    from kampong.kernels.functions import Kernel
    from kampong.kernels.landmarks import LandmarkBasis

FAR = 300.0
"""Above this size of mean·directionᵀ, taking the mean off after the projection would cost more than three digits."""

CERTAIN = 1e4
"""Log-odds that are as good as infinite: their probability is 0 or 1 to the last bit."""

LOW = -30.0
"""Below this log(log(1 + eˣ)) is x."""


class Features(NamedTuple):
    """The scores of a head as features(points)·weightsᵀ + offsets."""

    steps: Steps
    weights: Float
    offsets: Float


def linear_steps(mean: Float, directions: Float, sparse: bool | None) -> Steps:
    """Return steps for (X − mean)·directionsᵀ.

    Parameters
    ----------
    mean : array of shape (d,)
        What is taken off.
    directions : array of shape (p, d)
        The directions.
    sparse : bool or None
        True: sparse rows stay sparse. False: no sparse rows are taken. None: sparse rows are taken, and made dense
        where the mean is far.

    Returns
    -------
    list of pairs
        Names and fitted transformers.
    """
    if sparse or (sparse is None and (np.abs(directions) @ np.abs(mean)).max(initial=0.0) <= FAR):
        return [("directions", _projection(mean, directions))]
    return [*centre_steps(mean, sparse), ("directions", _projection(np.zeros(len(mean)), directions))]


def centre_steps(mean: Float, sparse: bool | None) -> Steps:
    """Return steps for X − mean, for dense rows where `sparse` is False, else for both kinds."""
    centre = ("centre", shifted(mean))
    return [centre] if sparse is False else [*_dense(len(mean)), centre]


def head_steps(known: Predictor) -> Steps:
    """Return the steps from the coordinates that a head looks at to classes and probabilities."""
    head, classes = known.head, known.classes
    if head.multilabel:
        return [("head", _one_by_one(features_of(head)))]
    seen = _seen(head)
    if (head.sharpness, head.tail) == (0.0, 0.0):
        raise TypeError(
            "its calibration gives each class the same probability in every row, so that no classifier could predict "
            "from it. Fit with head='gaussian' and a given ridge or epsilon, which calibrates nothing."
        )
    plain = (head.sharpness, head.tail) == (1.0, 0.0) and known.shift is None and seen.all()
    if isinstance(head, Quadratic) and plain:
        return [("head", _quadratic(head, seen, classes))]
    steps, weights, offsets = features_of(head)
    shift = np.zeros(len(classes)) if known.shift is None else known.shift
    if not head.tail:
        weights = np.where(seen[:, None], head.sharpness * weights, 0.0)
        offsets = np.where(seen, head.sharpness * np.where(seen, offsets, 0.0) + shift, -np.inf)
        return [*steps, ("head", _logistic(weights, offsets, classes))]
    count = int(seen.sum())
    slopes = np.zeros((len(classes), 2 * count))
    slopes[seen] = np.hstack([head.sharpness * np.eye(count), head.tail * np.eye(count)])
    root = Pipeline([("negative", FunctionTransformer(np.negative)), ("sqrt", FunctionTransformer(np.sqrt))])
    return [
        *steps,
        ("scores", product(weights[seen])),
        ("offsets", shifted(-offsets[seen])),
        *log_softmax_steps(count),
        ("tail", FeatureUnion([("log", "passthrough"), ("root", root)])),
        ("head", _logistic(slopes, np.where(seen, shift, -np.inf), classes)),
    ]


@singledispatch
def features_of(head: Head) -> Features:
    """Return a head as weights of features that scikit-learn can compute."""
    raise TypeError(
        f"head={head.name!r} has no translation into scikit-learn. Use one of 'gaussian', 'nearest_mean', 'cosine', "
        "'regression', 'quadratic', 'logistic', 'hinge' or 'mixture', or save the model and load it with kampong."
    )


@features_of.register
def _(head: LinearHead) -> Features:
    return Features([], head.weights, head.offsets)


@features_of.register
def _(head: Cosine) -> Features:
    lengths = np.linalg.norm(head.centres, axis=1)
    units = head.centres / np.where(lengths > 0, lengths, 1.0)[:, None]
    steps = [("whiten", product(head.whitener.T)), ("unit_length", Normalizer())]
    return Features(steps, units, np.where(head.priors > 0, 0.0, -np.inf))


@features_of.register
def _(head: Regression) -> Features:
    return _regression(head)


@features_of.register
def _(head: Hinge) -> Features:
    seen = np.isfinite(head.offsets)
    steps = [
        ("margins", product(STEEP * head.weights)),
        ("offsets", shifted(-STEEP * np.where(seen, head.offsets, 0.0) - SHIFT)),
    ]
    return _softplus(steps, len(seen), np.where(seen, 0.0, -np.inf))


@features_of.register
def _(head: Quadratic) -> Features:
    seen = _seen(head)
    classes = np.arange(len(seen))
    stacked: Any = StackingClassifier(
        [("quadratic", _quadratic(head, seen, classes))], cv="prefit", stack_method="decision_function"
    )
    stacked.estimators_, stacked.stack_method_ = [stacked.estimators[0][1]], ["decision_function"]
    stacked.classes_ = classes[seen]
    weights = np.zeros((len(seen), int(seen.sum())))
    weights[seen] = np.eye(int(seen.sum()))
    if weights.shape[1] == 2:  # of two classes scikit-learn gives the difference alone
        weights = weights[:, 1:]
    return Features([("classes", stacked)], weights, np.where(seen, 0.0, -np.inf))


@features_of.register
def _(head: Mixture) -> Features:
    p, b, priors = len(head.whitener), head.weights, head.priors
    whiten = ("whiten", product(head.whitener.T))
    members: Steps = [("linear", Pipeline([whiten]))]
    linear, offsets = head.linear()
    weights = [linear]
    cosine = features_of(Cosine(False, head.whitener, head.centres, priors))
    for name, weight, (steps, own, more) in (
        ("cosine", b[1], cosine),
        ("regression", b[2], _regression(head)),
    ):
        if weight:
            members.append((name, Pipeline(steps)))
            weights.append(weight * own)
            offsets = offsets + weight * np.where(priors > 0, more, 0.0)
    if p < head.n_seen:  # only members that are trained look at the hidden directions
        first = ("first", product(np.eye(p, head.n_seen)))
        members = [(name, Pipeline([first, *member.steps])) for name, member in members]
    if isinstance(head.trained, Hinge):
        steps, own, _ = features_of(head.trained)
        members.append(("machines", Pipeline(steps)))
        weights.append(b[TRAINED] * own)
    if head.quadratic is not None and b[MEMBERS]:
        steps, own, _ = features_of(head.quadratic)
        members.append(("quadratic", steps[0][1]))
        weights.append(b[MEMBERS] * own)
    return Features([("members", FeatureUnion(members))], np.hstack(weights), np.where(priors > 0, offsets, -np.inf))


def _regression(head: Regression | Mixture) -> Features:
    """Return log(log(1 + exp f)) of the regression f."""
    steps = [
        ("whiten", product(head.whitener.T)),
        ("regression", product(regression_map(head.centres, head.priors).T / head.noise)),
        ("priors", shifted(-head.priors / head.noise)),
    ]
    return _softplus(steps, len(head.priors), np.where(head.priors > 0, 0.0, -np.inf))


def _softplus(steps: Steps, K: int, offsets: Float) -> Features:
    """Return log(log(1 + exp f)) as a part above LOW and one below, where it is f itself; steps lead to f."""
    above = [
        ("above", _clipped(K, LOW, np.inf)),
        ("negative", FunctionTransformer(np.negative)),
        ("log_expit", FunctionTransformer(special.log_expit)),
        ("softplus", FunctionTransformer(np.negative)),
        ("log", FunctionTransformer(np.log)),
    ]
    below = [("below", _clipped(K, -np.inf, LOW)), ("shift", shifted(np.full(K, LOW)))]
    both = FeatureUnion([("above", Pipeline(above)), ("below", Pipeline(below))])
    return Features([*steps, ("log_softplus", both)], np.hstack([np.eye(K), np.eye(K)]), offsets)


def _seen(head: Head) -> np.ndarray:
    """Tell for each class whether it can be predicted."""
    if isinstance(head, LinearHead | Quadratic | Hinge):
        return np.isfinite(head.offsets)
    return np.isfinite(features_of(head).offsets)


def _logistic(weights: Float, offsets: Float, classes: np.ndarray) -> LogisticRegression:
    """Return softmax(points·weightsᵀ + offsets) as a fitted classifier."""
    result: Any = LogisticRegression()
    if len(classes) == 2:
        weights, offsets = weights[1:] - weights[:1], offsets[1:] - offsets[:1]
    result.coef_, result.intercept_ = weights, offsets
    result.classes_, result.n_features_in_ = classes, weights.shape[1]
    result.n_iter_ = np.zeros(1, dtype=np.int32)
    fitted: LogisticRegression = result
    return fitted


def _one_by_one(features: Features) -> OneVsRestClassifier:
    """Return one logistic regression per label; `features` are the points themselves."""
    result: Any = OneVsRestClassifier(LogisticRegression())
    K, p = features.weights.shape
    offsets = np.clip(features.offsets, -CERTAIN, CERTAIN)
    zero, yes = np.zeros(p), np.array([0, 1])
    result.estimators_ = [
        _logistic(np.stack([zero, row]), np.array([0.0, offset]), yes)
        for row, offset in zip(features.weights, offsets, strict=True)
    ]
    result.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(np.eye(K, dtype=np.int64))
    # scikit-learn's binarizer gives back the kind of matrix that it was fitted on
    result.classes_, result.n_features_in_ = result.label_binarizer_.classes_, p
    fitted: OneVsRestClassifier = result
    return fitted


def _quadratic(head: Quadratic, seen: np.ndarray, classes: np.ndarray) -> QuadraticDiscriminantAnalysis:
    """Return the head on the classes that were seen; equal priors, and the offsets in the determinants."""
    result: Any = QuadraticDiscriminantAnalysis()
    count, p = int(seen.sum()), head.roots.shape[1]
    scales = np.exp(-2.0 / p * (head.offsets[seen] + np.log(count)))
    result.means_, result.classes_ = head.centres[seen], classes[seen]
    result.rotations_ = [root * np.sqrt(scale) for root, scale in zip(head.roots[seen], scales, strict=True)]
    result.scalings_ = [np.full(p, scale) for scale in scales]
    result.priors_, result.n_features_in_ = np.full(count, 1.0 / count), p
    fitted: QuadraticDiscriminantAnalysis = result
    return fitted


def product(matrix: Float) -> TruncatedSVD:
    """Return x ↦ x·matrixᵀ as a fitted transformer, for dense and sparse rows."""
    result: Any = TruncatedSVD(n_components=len(matrix))
    result.components_, result.n_features_in_ = np.ascontiguousarray(matrix), matrix.shape[1]
    fitted: TruncatedSVD = result
    return fitted


def _dense(n_features: int) -> Steps:
    """Return what takes dense and sparse rows, and gives dense ones: two classes do so together."""
    rows: Any = MaxAbsScaler()  # by one: it takes sparse rows of every format
    rows.scale_ = rows.max_abs_ = np.ones(n_features)
    rows.n_features_in_, rows.n_samples_seen_ = n_features, 1
    dense = ColumnTransformer([("rows", "passthrough", slice(0, n_features))], sparse_threshold=0.0)
    return [("rows", rows), ("dense", dense.fit(np.zeros((1, n_features))))]


def _clipped(n_features: int, low: float, high: float) -> MinMaxScaler:
    """Return x ↦ min(max(x, low), high) as a fitted transformer."""
    result: Any = MinMaxScaler((low, high), clip=True)
    result.scale_, result.min_ = np.ones(n_features), np.zeros(n_features)
    result.data_min_, result.data_max_, result.data_range_ = result.min_, result.scale_, result.scale_
    result.n_features_in_, result.n_samples_seen_ = n_features, 1
    fitted: MinMaxScaler = result
    return fitted


def log_softmax_steps(K: int) -> Steps:
    """Return log softmax in two parts: a neural network without hidden layers above LOW, naive Bayes below it.

    The network takes the largest score off before its exponentials, so it is exact near 0. There the root of the tail
    would enlarge rounding. Its smallest probabilities are 0, where naive Bayes goes on with logarithms.
    """
    network: Any = MLPClassifier(hidden_layer_sizes=())
    network.coefs_, network.intercepts_, network.out_activation_ = [np.eye(K)], [np.zeros(K)], "softmax"
    network.n_layers_, network.n_outputs_, network.n_features_in_, network.classes_ = 2, K, K, np.arange(K)
    bayes: Any = MultinomialNB()
    bayes.feature_log_prob_, bayes.class_log_prior_ = np.eye(K), np.zeros(K)
    bayes.classes_, bayes.n_features_in_ = np.arange(K), K
    near = [
        ("softmax", _as_step(network, "predict_proba")),
        ("above", _clipped(K, float(np.exp(LOW)), 1.0)),
        ("inverse", FunctionTransformer(np.reciprocal)),  # 1 / (1 / s) is s again, to the last bit
        ("log", FunctionTransformer(np.log)),
        ("negative", FunctionTransformer(np.negative)),
    ]
    far = [
        ("log_softmax", _as_step(bayes, "predict_log_proba")),
        ("below", _clipped(K, -np.inf, LOW)),
        ("shift", shifted(np.full(K, LOW))),
    ]
    both = FeatureUnion([("above", Pipeline(near)), ("below", Pipeline(far))])
    return [("log_softmax", both), ("sum", product(np.hstack([np.eye(K), np.eye(K)])))]


def _as_step(classifier: Any, method: str) -> StackingClassifier:
    """Return a step that gives what a method of a fitted classifier says of each class."""
    result: Any = StackingClassifier([("classes", classifier)], cv="prefit")
    result.estimators_, result.stack_method_ = [classifier], [method]
    result.classes_ = np.arange(max(len(classifier.classes_), 3))  # of two, it would leave one out
    fitted: StackingClassifier = result
    return fitted


def shifted(mean: Float | None, units: Float | None = None) -> StandardScaler:
    """Return x ↦ (x − mean) / units as a fitted transformer; without a mean it takes sparse rows too."""
    result: Any = StandardScaler(with_mean=mean is not None, with_std=units is not None)
    result.mean_, result.scale_, result.var_ = None if mean is None else np.asarray(mean), units, None
    known: Any = units if mean is None else mean
    result.n_features_in_, result.n_samples_seen_ = len(known), 1
    fitted: StandardScaler = result
    return fitted


def _projection(mean: Float, directions: Float) -> PCA:
    result: Any = PCA(n_components=len(directions))
    result.mean_, result.components_ = mean, directions
    result.explained_variance_ = np.ones(len(directions))  # scikit-learn 1.6 looks at its type
    result.n_components_, result.n_features_in_ = len(directions), len(mean)
    fitted: PCA = result
    return fitted


def kernel_steps(
    basis: LandmarkBasis | FourierBasis, coefficients: Float, centre: Float, sparse: bool | None
) -> list[tuple[str, Any]]:
    """Return steps for values(X)·coefficientsᵀ − centre.

    Parameters
    ----------
    basis : LandmarkBasis or FourierBasis
        What gives a row its values.
    coefficients : array of shape (p, m)
        What each direction multiplies them by.
    centre : array of shape (p,)
        What is taken off.
    sparse : bool or None
        True: sparse rows stay sparse. False: no sparse rows are taken. None: sparse rows are taken, and made dense
        where the kernel is centred.

    Returns
    -------
    list of pairs
        Names and fitted transformers.
    """
    if isinstance(basis, FourierBasis):
        return [("waves", _waves(basis)), ("directions", product(coefficients)), ("mean", shifted(centre))]
    kernel, landmarks = basis.kernel, basis.landmarks
    return [*value_steps("landmarks", kernel, landmarks, coefficients, sparse), ("mean", shifted(centre))]


def value_steps(
    name: str, kernel: Kernel, points: Any, coefficients: Float, sparse: bool | None
) -> list[tuple[str, Any]]:
    """Return steps for k(X, points)·coefficientsᵀ, in the units and about the centre of the kernel if it has them."""
    steps: list[tuple[str, Any]] = []
    if kernel.centre is not None and not sparse:  # the distances keep their digits
        steps = centre_steps(kernel.centre, sparse)
        points = (points if isinstance(points, np.ndarray) else points.toarray()) - kernel.centre
    if kernel.units is not None:
        steps = [*steps, ("scale", shifted(None, kernel.units))]
        points = times_columns(points, 1.0 / kernel.units)
    return [*steps, (name, values_step(kernel, points, coefficients))]


def values_step(kernel: Kernel, points: Any, coefficients: Float) -> Nystroem:
    """Return x ↦ k(x, points)·coefficientsᵀ as a fitted transformer.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a name.
    points : array or sparse matrix of shape (m, d)
        The points.
    coefficients : array of shape (p, m)
        What their kernel values are multiplied by.

    Returns
    -------
    Nystroem
        It computes k(x, points) for all rows at once.
    """
    if kernel.name == "precomputed":
        raise TypeError(
            "its kernel is precomputed, so there are no rows to compute kernel values with. Fit with a kernel by name: "
            "'linear', 'rbf', 'laplacian', 'polynomial' or 'sigmoid'."
        )
    if kernel.name == "callable":
        raise TypeError(
            f"its kernel is a function ({kernel.function!r}), which takes blocks of rows here and single rows in "
            "scikit-learn. Use a kernel by name: 'linear', 'rbf', 'laplacian', 'polynomial' or 'sigmoid'."
        )
    numbers: dict[str, Any] = {}
    if kernel.name != "linear":
        numbers["gamma"] = kernel.gamma
    if kernel.name in ("polynomial", "sigmoid"):
        numbers["coef0"] = kernel.coef0
    if kernel.name == "polynomial":
        numbers["degree"] = kernel.degree
    result: Any = Nystroem(kernel.name, n_components=points.shape[0], **numbers)
    result.components_ = points.astype(np.float64)
    result.component_indices_ = np.arange(points.shape[0])
    result.normalization_, result.n_features_in_ = coefficients, points.shape[1]
    fitted: Nystroem = result
    return fitted


def _waves(basis: FourierBasis) -> RBFSampler:
    """Return the Fourier features; a sine is a cosine a quarter turn late."""
    half = basis.rank // 2
    result: Any = RBFSampler(gamma=basis.kernel.gamma, n_components=basis.rank)
    result.random_weights_ = np.hstack([basis.frequencies.T, basis.frequencies.T])
    result.random_offset_ = np.repeat([0.0, -np.pi / 2], half)
    result.n_features_in_ = basis.width
    fitted: RBFSampler = result
    return fitted
