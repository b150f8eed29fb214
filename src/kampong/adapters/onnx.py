"""The adapter to ONNX: fitted models as files that run without Python (extra `onnx`).

Importing this module registers a converter with skl2onnx for every classifier of the library, so that
`skl2onnx.to_onnx` takes them alone and in pipelines. `to_onnx` here does the same with fewer words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kampong import registry
from kampong._core.extras import extra
from kampong.adapters.onnx_graph import Graph, answers, coordinates, kernel_values
from kampong.contract import stream_model
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.export.margin_steps import margin_scores
from kampong.margin.margin_classifier import MarginClassifier

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

if TYPE_CHECKING:
    from onnx import ModelProto

    from kampong.predictor import Predictor

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
