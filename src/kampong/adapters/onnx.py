"""The adapter to ONNX: fitted models as files that run without Python (extra `onnx`).

Importing this module registers a converter with skl2onnx for every classifier of the library, so that
`skl2onnx.to_onnx` takes them alone and in pipelines. `to_onnx` here does the same with fewer words.

Everything between the rows and the answers is computed in double precision by default, so that float32 rows get the
answers that they get here: a score is a difference of large numbers, and a float32 has seven digits.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kampong import registry
from kampong._core.extras import extra
from kampong.contract import stream_model
from kampong.estimators.kernel_subspace import KernelPredictor
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.export.linear_steps import CERTAIN, LOW
from kampong.export.margin_steps import margin_scores
from kampong.heads import Cosine, Head, Hinge, LinearHead, Mixture, Quadratic, Regression
from kampong.heads.hinge import SHIFT, STEEP
from kampong.heads.linear import regression_map
from kampong.heads.mixture import MEMBERS, TRAINED
from kampong.kernels.fourier import FourierBasis
from kampong.margin.margin_classifier import MarginClassifier

if TYPE_CHECKING:
    from onnx import ModelProto

    from kampong._core.compute import Float
    from kampong.kernels.functions import Kernel
    from kampong.predictor import Predictor

with extra("onnx", "kampong.adapters.onnx"):
    from skl2onnx import to_onnx as convert
    from skl2onnx import update_registered_converter
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
        guess_tensor_type,
    )


__all__ = ["register", "to_onnx"]

OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [False, True],
    "transform": [False, True],
    "single": [False, True],
}
"""What `skl2onnx.to_onnx(options={id(model): {…}})` may set: coordinates instead of classes, and float32 throughout."""


def to_onnx(model: Any, *, transform: bool = False, single: bool = False) -> ModelProto:
    """Return a fitted model, or a pipeline that holds one, as a model of ONNX.

    It takes rows as float32 and gives labels and probabilities, or coordinates.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted classifier of this library, or a pipeline with one at its end or in the middle; the other steps are
        converted by skl2onnx.
    transform : bool
        Whether the result is what `transform` gives, and not labels and probabilities.
    single : bool
        Compute in float32 throughout, for hardware without float64: smaller and quicker, and probabilities may be off
        by more than 1e-5.

    Returns
    -------
    onnx.ModelProto
        Its input is called "X"; its outputs are "label" and "probabilities" (the scores, where a model has no
        probabilities), or "variable". `SerializeToString()` gives the bytes of a file.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters.onnx import to_onnx
    >>> X, y = load_wine(return_X_y=True)
    >>> file = to_onnx(FisherDiscriminant().fit(X, y))
    >>> [output.name for output in file.graph.output]
    ['label', 'probabilities']
    """
    check_is_fitted(model)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    if not any(isinstance(step, _KINDS) for step in steps):
        raise TypeError(
            f"to_onnx takes a fitted classifier of kampong, or a pipeline with one, got {type(model).__name__}. "
            "skl2onnx.to_onnx converts scikit-learn's own."
        )
    options: dict[int, dict[str, Any]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, _KINDS):
            inner = place < len(steps) - 1
            options[id(step)] = {"zipmap": False, "transform": inner or transform, "single": single}
    last = steps[-1]
    if not isinstance(last, _KINDS) and stream_model(last).read("predict_proba") is not None:
        options[id(last)] = {"zipmap": False}
    file: ModelProto = convert(
        model, initial_types=[("X", FloatTensorType([None, model.n_features_in_]))], options=options
    )
    return file


def register() -> None:
    """Register the converters with skl2onnx; importing this module has done so.

    Examples
    --------
    >>> from skl2onnx import supported_converters
    >>> from kampong.adapters.onnx import register
    >>> register()
    >>> "KampongFisherDiscriminant" in supported_converters(from_sklearn=False)
    True
    """
    for name in registry.__all__:
        kind = getattr(registry, name)
        if isinstance(kind, type) and issubclass(kind, _KINDS):
            update_registered_converter(kind, f"Kampong{name}", _shapes, _convert, parser=_parse, options=dict(OPTIONS))


_KINDS = (DiscriminantSubspace, MarginClassifier)


def _options(scope: Any, model: Any) -> dict[str, Any]:
    found: dict[str, Any] = scope.get_options(model, {"transform": False, "single": False, "nocl": False}, fail=False)
    return {"transform": False, "single": False, "nocl": False, **(found or {})}


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs: one of coordinates, or labels and probabilities as for every classifier."""
    if not _options(scope, model)["transform"]:
        return _classifier_parser()(scope, model, inputs, custom_parsers)
    operator = scope.declare_local_operator(f"Kampong{type(model).__name__}", model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("variable", guess_tensor_type(inputs[0].type)))
    return operator.outputs


def _classifier_parser() -> Any:
    """Return what declares the outputs of scikit-learn's classifiers, which has no public name."""
    try:
        from skl2onnx._parse import _parse_sklearn_classifier
    except ImportError:
        import skl2onnx

        raise ImportError(
            f"kampong.adapters.onnx: skl2onnx {skl2onnx.__version__} has no _parse_sklearn_classifier, which says what "
            "a classifier returns. Install a release that has it, such as skl2onnx 1.20, or export with to_sklearn."
        ) from None
    return _parse_sklearn_classifier


def _shapes(operator: Any) -> None:
    """Set the types and shapes of the outputs."""
    model, rows = operator.raw_operator, operator.inputs[0].get_first_dimension()
    real = DoubleTensorType if isinstance(operator.inputs[0].type, DoubleTensorType) else FloatTensorType
    if len(operator.outputs) == 1:
        operator.outputs[0].type = real([rows, len(model.get_feature_names_out())])
        return
    several = isinstance(model, DiscriminantSubspace) and _known(model).head.multilabel
    named = model.classes_.dtype.kind in "OUS" and not _options(operator.scope_inst, model)["nocl"]
    label = StringTensorType if named and not several else Int64TensorType
    operator.outputs[0].type = label([rows, len(model.classes_)] if several else [rows])
    operator.outputs[1].type = real([rows, len(model.classes_)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the nodes of a model."""
    from onnx import TensorProto

    model, chosen = operator.raw_operator, _options(scope, operator.raw_operator)
    graph = Graph(scope, container, np.float32 if chosen["single"] else np.float64)
    inner = TensorProto.FLOAT if chosen["single"] else TensorProto.DOUBLE
    outer = TensorProto.DOUBLE if isinstance(operator.inputs[0].type, DoubleTensorType) else TensorProto.FLOAT
    rows = graph.node("Cast", operator.inputs[0].full_name, to=inner)
    names = [output.full_name for output in operator.outputs]
    try:
        points = _points(graph, rows, model, chosen["transform"])
        if chosen["transform"]:
            graph.node("Cast", points, outputs=names, to=outer)
            return
        several, classes = False, model.classes_
        if isinstance(model, DiscriminantSubspace):
            if stream_model(model).follows_drift:
                raise TypeError(
                    "half_life='auto' answers by a contest of learners. set_params(half_life=None) answers by all rows."
                )
            scores, chances, kept = answers(graph, points, _known(model))
            several = _known(model).head.multilabel
        else:
            scores = chances = _margin_scores(graph, points, model)
            kept = np.arange(len(classes))
    except TypeError as error:
        raise TypeError(f"{type(model).__name__} as ONNX: {error}") from None
    graph.node("Cast", chances, outputs=names[1:], to=outer)
    if several:
        graph.node("Cast", graph.node("Greater", scores, 0.0), outputs=names[:1], to=TensorProto.INT64)
        return
    named = classes.dtype.kind in "OUS" and not chosen["nocl"]
    labels = np.arange(len(classes)) if chosen["nocl"] else classes.astype(str) if named else classes.astype(np.int64)
    best = graph.node("ArgMax", scores, axis=1, keepdims=0)
    graph.node("Gather", labels[kept], best, outputs=names[:1])


def _known(model: DiscriminantSubspace) -> Predictor:
    known = model.freeze()
    if known is None:
        raise NotFittedError(f"{type(model).__name__} as ONNX: it has not seen two classes. Fit it first.")
    return known


def _points(graph: Graph, rows: str, model: Any, shown: bool) -> str:
    """Write the coordinates of rows; those that `transform` shows, or all that the head looks at."""
    if isinstance(model, DiscriminantSubspace):
        known = _known(model)
        points = coordinates(graph, rows, known)
        if not shown or not len(known.hidden):
            return points
        return graph.node("Slice", points, np.array([0]), np.array([len(known.components)]), np.array([1]))
    found = margin_scores(model)
    if found.directions is not None:
        return graph.node("MatMul", rows, found.directions.T)
    return graph.node("MatMul", kernel_values(graph, rows, found.kernel, found.support_vectors), found.coefficients.T)


def _margin_scores(graph: Graph, points: str, model: Any) -> str:
    """Write one score per class; two classes have the one score with both signs."""
    found = margin_scores(model)
    weights, offsets = found.weights, found.offsets
    if len(weights) == 1:
        weights, offsets = np.concatenate([-weights, weights]), np.concatenate([-offsets, offsets])
    return graph.affine(points, weights, np.maximum(offsets, -1e30))


register()


TINY = np.finfo(np.float32).tiny


class Graph:
    """Writes nodes into the container of a converter; results are names.

    Parameters
    ----------
    scope, container : object
        What skl2onnx gives to a converter.
    dtype : numpy dtype
        In which precision to compute.
    """

    def __init__(self, scope: Any, container: Any, dtype: Any) -> None:
        self._scope, self._container, self.dtype = scope, container, np.dtype(dtype)

    def node(self, kind: str, *inputs: str | Float | float, outputs: list[str] | None = None, **options: Any) -> str:
        """Add an operator; arrays and numbers among its inputs become constants of the file."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        results = [self._scope.get_unique_variable_name(kind.lower())] if outputs is None else outputs
        name = self._scope.get_unique_operator_name(kind)
        self._container.add_node(kind, names, results, name=name, **options)
        return results[0]

    def constant(self, values: Any) -> str:
        """Add an array; real numbers in the precision of the graph."""
        from onnx import TensorProto, helper, numpy_helper

        array = np.asarray(values)
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        name: str = self._scope.get_unique_variable_name("constant")
        if array.dtype.kind in "US":
            words = [str(word).encode() for word in array.ravel()]
            self._container.add_initializer(name, TensorProto.STRING, list(array.shape), words)
            return name
        tensor = numpy_helper.from_array(np.ascontiguousarray(array))
        if not array.ndim:
            tensor = helper.make_tensor("", tensor.data_type, [], array.tobytes(), raw=True)
        self._container.add_initializer(name, tensor.data_type, list(array.shape), tensor)
        return name

    def affine(self, points: str, weights: Float, offsets: Float) -> str:
        """Return points·weightsᵀ + offsets."""
        return self.node("Add", self.node("MatMul", points, weights.T), offsets)

    def summed(self, values: str) -> str:
        """Return the sum of each row, as a column."""
        return self.node("ReduceSum", values, np.array([1]), keepdims=1)

    def lengths(self, points: str) -> str:
        """Return the squared length of each row, as a column."""
        return self.summed(self.node("Mul", points, points))


def coordinates(graph: Graph, rows: str, known: Predictor) -> str:
    """Return the coordinates that the head looks at."""
    if isinstance(known, KernelPredictor):
        values = _features(graph, rows, known)
        points = graph.node("MatMul", values, known.coefficients.T)
        return graph.node("Sub", points, known.mean @ known.components.T)
    centred = graph.node("Sub", rows, known.mean)
    return graph.node("MatMul", centred, np.concatenate([known.components, known.hidden]).T)


def _features(graph: Graph, rows: str, known: KernelPredictor) -> str:
    basis = known.basis
    if isinstance(basis, FourierBasis):
        phases = graph.node("MatMul", rows, basis.frequencies.T)
        waves = graph.node("Concat", graph.node("Cos", phases), graph.node("Sin", phases), axis=1)
        return graph.node("Mul", waves, float(np.sqrt(2.0 / basis.rank)))
    return kernel_values(graph, rows, basis.kernel, basis.landmarks)


def kernel_values(graph: Graph, rows: str, kernel: Kernel, points: Any) -> str:
    """Return the kernel values of rows to some points."""
    dense: Float = (points if isinstance(points, np.ndarray) else points.toarray()).astype(np.float64)
    if kernel.name == "rbf":
        centre = dense.mean(axis=0) if kernel.centre is None else kernel.centre
        root = np.sqrt(2.0 * kernel.gamma) / (1.0 if kernel.units is None else kernel.units)
        near, centred = root * (dense - centre), graph.node("Mul", graph.node("Sub", rows, centre), root)
        exponents = graph.affine(centred, near, -0.5 * np.square(near).sum(axis=1))
        half = graph.node("Mul", graph.lengths(centred), 0.5)
        return graph.node("Exp", graph.node("Min", graph.node("Sub", exponents, half), 0.0))
    if kernel.name not in ("linear", "polynomial", "sigmoid"):
        raise TypeError(
            f"a kernel that is {kernel.name} cannot be written to a file. Use a kernel by name: 'linear', 'rbf', "
            "'polynomial' or 'sigmoid'."
        )
    if kernel.units is not None:
        rows, dense = graph.node("Div", rows, kernel.units), dense / kernel.units
    values = graph.node("MatMul", rows, dense.T)
    if kernel.name == "linear":
        return values
    values = graph.node("Add", graph.node("Mul", values, float(kernel.gamma)), float(kernel.coef0))
    return graph.node("Tanh", values) if kernel.name == "sigmoid" else graph.node("Pow", values, float(kernel.degree))


def answers(graph: Graph, points: str, known: Predictor) -> tuple[str, str, np.ndarray]:
    """Write scores and probabilities.

    Parameters
    ----------
    graph : Graph
        Where to write.
    points : str
        The coordinates that the head looks at.
    known : Predictor
        The predictor.

    Returns
    -------
    scores, probabilities : str
        Names of two results; the scores are of the classes that can be predicted alone.
    kept : array of int
        Which classes those are.
    """
    head = known.head
    scores, kept = scores_of(head, graph, points)
    if head.multilabel:
        return scores, graph.node("Sigmoid", scores), kept
    logs = graph.node("LogSoftmax", scores, axis=1)
    bent = logs
    if (head.sharpness, head.tail) != (1.0, 0.0):
        bent = graph.node("Mul", logs, head.sharpness)
        if head.tail:
            root = graph.node("Sqrt", graph.node("Max", graph.node("Neg", logs), 0.0))
            bent = graph.node("Add", bent, graph.node("Mul", root, head.tail))
    if known.shift is not None:  # as `Predictor.scores`: what is forbidden is never predicted
        shift = np.maximum(known.shift[kept], -CERTAIN)
        bent = graph.node("Add", bent, shift)
        tilted = bool(head.tail) or not head.sharpness
        scores = bent if tilted else graph.node("Add", scores, shift / head.sharpness)
    chances = graph.node("Softmax", bent, axis=1)
    if len(kept) < len(known.classes):
        places = np.zeros((len(kept), len(known.classes)))
        places[np.arange(len(kept)), kept] = 1.0
        chances = graph.node("MatMul", chances, places)
    return scores, chances, kept


@singledispatch
def scores_of(head: Head, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    """Return the scores of the classes that a head may predict, and which those are."""
    raise TypeError(f"head={head.name!r} has no translation into ONNX. Use head='auto' or one of the library's own.")


@scores_of.register
def _(head: LinearHead, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    if head.multilabel:
        everything = np.arange(len(head.offsets))
        return graph.affine(points, head.weights, np.clip(head.offsets, -CERTAIN, CERTAIN)), everything
    kept = np.flatnonzero(np.isfinite(head.offsets))
    return graph.affine(points, head.weights[kept], head.offsets[kept]), kept


@scores_of.register
def _(head: Cosine, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    kept = np.flatnonzero(head.priors)
    white = graph.node("MatMul", points, head.whitener)
    return _cosine(graph, white, head.centres[kept]), kept


@scores_of.register
def _(head: Regression, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    kept = np.flatnonzero(head.priors)
    return _regression(graph, graph.node("MatMul", points, head.whitener), head, kept), kept


@scores_of.register
def _(head: Quadratic, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    kept = np.flatnonzero(np.isfinite(head.offsets))
    # one product for all classes: (n, 1, p) less (K, 1, p), times (K, p, p)
    apart = graph.node("Unsqueeze", points, np.array([0]))
    away = graph.node("MatMul", graph.node("Sub", apart, head.centres[kept][:, None, :]), head.roots[kept])
    squares = graph.node("ReduceSum", graph.node("Mul", away, away), np.array([2]), keepdims=0)
    scores = graph.node("Sub", head.offsets[kept][:, None], graph.node("Mul", squares, 0.5))
    return graph.node("Transpose", scores, perm=[1, 0]), kept


@scores_of.register
def _(head: Mixture, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    kept, b = np.flatnonzero(head.priors), head.weights
    p, centres = len(head.whitener), head.centres[kept]
    first = points
    if p < head.n_seen:  # only members that are trained look at the hidden directions
        first = graph.node("Slice", points, np.array([0]), np.array([p]), np.array([1]))
    white = graph.node("MatMul", first, head.whitener)
    weights, offsets = head.linear()
    scores = graph.affine(white, weights[kept], offsets[kept])
    if b[1]:
        scores = graph.node("Add", scores, graph.node("Mul", _cosine(graph, white, centres), float(b[1])))
    if b[2]:
        scores = graph.node("Add", scores, graph.node("Mul", _regression(graph, white, head, kept), float(b[2])))
    if isinstance(head.trained, Hinge):
        more = _machines(graph, points, head.trained, kept)
        scores = graph.node("Add", scores, graph.node("Mul", more, float(b[TRAINED])))
    if head.quadratic is not None and b[MEMBERS]:
        more, seen = scores_of(head.quadratic, graph, points)
        places = (seen[:, None] == kept).astype(float)
        scores = graph.node("Add", scores, graph.node("Mul", graph.node("MatMul", more, places), float(b[MEMBERS])))
    return scores, kept


@scores_of.register
def _(head: Hinge, graph: Graph, points: str) -> tuple[str, np.ndarray]:
    kept = np.flatnonzero(np.isfinite(head.offsets))
    return _machines(graph, points, head, kept), kept


def _machines(graph: Graph, points: str, head: Hinge, kept: np.ndarray) -> str:
    """Write log(log(1 + exp(4 m + 2))) of the margins m."""
    return _log_softplus(graph, graph.affine(points, STEEP * head.weights[kept], STEEP * head.offsets[kept] + SHIFT))


def _cosine(graph: Graph, white: str, centres: Float) -> str:
    lengths = np.linalg.norm(centres, axis=1)
    units = centres / np.where(lengths > 0, lengths, 1.0)[:, None]
    length = graph.node("Max", graph.node("Sqrt", graph.lengths(white)), float(TINY))
    return graph.node("Div", graph.node("MatMul", white, units.T), length)


def _regression(graph: Graph, white: str, head: Regression | Mixture, kept: np.ndarray) -> str:
    """Write log(log(1 + exp f)) of the regression f."""
    weights = regression_map(head.centres, head.priors).T[kept] / head.noise
    return _log_softplus(graph, graph.affine(white, weights, head.priors[kept] / head.noise))


def _log_softplus(graph: Graph, fitted: str) -> str:
    """Write log(log(1 + exp f)), which is f where that is very negative."""
    above = graph.node("Log", _softplus(graph, graph.node("Max", fitted, LOW)))
    return graph.node("Add", above, graph.node("Min", graph.node("Sub", fitted, LOW), 0.0))


def _softplus(graph: Graph, values: str) -> str:
    """Write log(1 + eˣ) for x ≥ LOW; runtimes have the operator in float32 alone."""
    if graph.dtype == np.float32:
        return graph.node("Softplus", values)
    small = graph.node("Exp", graph.node("Neg", graph.node("Abs", values)))
    small = graph.node("Max", small, float(np.exp(LOW)))
    one = graph.node("Add", small, 1.0)
    # log(1 + u) = u · log(w) / (w − 1) for w = 1 + u as it is rounded (Kahan)
    log = graph.node("Div", graph.node("Mul", small, graph.node("Log", one)), graph.node("Sub", one, 1.0))
    return graph.node("Add", graph.node("Max", values, 0.0), log)
