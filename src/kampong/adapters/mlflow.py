"""The adapter to MLflow: models logged and loaded as model files of kampong, never as pickles (extra `mlflow`)."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kampong._core.extras import extra
from kampong._core.version import __version__
from kampong.contract import stream_model
from kampong.registry import load

with extra("mlflow", "kampong.adapters.mlflow"):
    from mlflow import pyfunc
    from mlflow.artifacts import download_artifacts
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

__all__ = ["load_model", "log_model", "save_model", "signature_of"]

FLAVOR_NAME = "kampong"
DATA = "model.kampong"
REQUIREMENTS = "requirements.txt"
ENVIRONMENT = "python_env.yaml"
ANSWERS = ("predict", "predict_proba", "transform")
"""What a loaded pyfunc may be asked for, by the parameter `method`."""


def log_model(model: Any, name: str = "model", **more: Any) -> ModelInfo:
    """Log a model to the run of MLflow that is active; begin one if none is.

    Parameters
    ----------
    model : estimator or path
        A fitted model, or a file of one, which is copied as it is: `kampong learn` goes on with it later.
    name : str
        The name of the model in the run.
    **more : dict
        What `save_model` takes, and what `mlflow.models.Model.log` takes: `registered_model_name`, `metadata`, ….

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its `model_uri` loads the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> model = FisherDiscriminant().fit(*load_iris(return_X_y=True))
    >>> logged = log_model(model, "flowers")  # doctest: +SKIP
    >>> load_model(logged.model_uri)  # doctest: +SKIP
    FisherDiscriminant()
    """
    flavor = sys.modules[__name__]
    return Model.log(artifact_path=None, name=name, flavor=flavor, model=model, **more)


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    signature: ModelSignature | None = None,
    pip_requirements: list[str] | None = None,
    mlflow_model: Model | None = None,
    **more: Any,
) -> None:
    """Save a model as a folder that MLflow can load: the model file, and what describes it.

    Parameters
    ----------
    model : estimator or path
        A fitted model, or a file of one.
    path : path
        A folder that does not exist yet.
    signature : mlflow.models.ModelSignature, optional
        By default that of `signature_of`.
    pip_requirements : list of str, optional
        What the model needs where it is served; by default this version of kampong. Give the path or the address of
        your wheel.
    mlflow_model : mlflow.models.Model, optional
        The description to extend; MLflow gives it.
    **more : dict
        Not taken; an error names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> folder = Path(tempfile.mkdtemp()) / "flowers"
    >>> save_model(FisherDiscriminant().fit(*load_iris(return_X_y=True)), folder)
    >>> sorted(path.name for path in folder.iterdir())
    ['MLmodel', 'model.kampong', 'python_env.yaml', 'requirements.txt']
    """
    if more:
        raise TypeError(
            f"kampong.adapters.mlflow: no option is called {', '.join(map(repr, sorted(more)))}. Give signature, "
            "pip_requirements, or what mlflow.models.Model.log takes."
        )
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: this folder holds something already. Give another one.")
    given = load(model) if isinstance(model, str | os.PathLike) else model
    check_is_fitted(given)
    folder.mkdir(parents=True, exist_ok=True)
    if given is model:
        given.save(folder / DATA)
    else:
        shutil.copyfile(model, folder / DATA)
    described = Model() if mlflow_model is None else mlflow_model
    described.signature = signature_of(given) if signature is None else signature
    described.add_flavor(FLAVOR_NAME, kampong_version=__version__, model=type(given).__name__, data=DATA)
    wanted = [f"kampong=={__version__}"] if pip_requirements is None else pip_requirements
    (folder / REQUIREMENTS).write_text("\n".join(wanted) + "\n")
    environment = f"python: {platform.python_version()}\ndependencies:\n- -r {REQUIREMENTS}\n"
    (folder / ENVIRONMENT).write_text(environment)
    pyfunc.add_to_model(described, loader_module=__name__, data=DATA, python_env=ENVIRONMENT)
    described.save(str(folder / "MLmodel"))


def load_model(model_uri: str | os.PathLike[str], *, key: Any = None) -> Any:
    """Return a model that was logged or saved, as the estimator that it was.

    Parameters
    ----------
    model_uri : str or path
        Where it is: "runs:/…", "models:/…", or a folder.
    key : bytes, str or path, optional
        The key of the model file, if it is signed.

    Returns
    -------
    estimator
        It learns on, merges and unlearns as before.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> folder = Path(tempfile.mkdtemp()) / "flowers"
    >>> save_model(FisherDiscriminant().fit(*load_iris(return_X_y=True)), folder)
    >>> load_model(folder)
    FisherDiscriminant()
    """
    return load(Path(download_artifacts(artifact_uri=str(model_uri))) / DATA, key=key)


def signature_of(model: Any) -> ModelSignature:
    """Return what a fitted model takes and gives, as MLflow checks it; no rows are needed.

    Parameters
    ----------
    model : estimator
        A fitted model.

    Returns
    -------
    mlflow.models.ModelSignature
        Named columns if the model was fitted with names, else rows of numbers; labels; and the parameter `method`,
        which is "predict", "predict_proba" or "transform".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> signature_of(FisherDiscriminant().fit(*load_iris(return_X_y=True))).outputs
    [Tensor('int64', (-1,))]
    """
    names, classes = (stream_model(model).read(name) for name in ("feature_names_in_", "classes_"))
    if names is None:
        taken = Schema([TensorSpec(np.dtype(np.float64), (-1, int(model.n_features_in_)))])
    else:
        taken = Schema([ColSpec(AnyType(), str(name)) for name in names])
    if classes is None:
        given = Schema([TensorSpec(np.dtype(np.float64), (-1, -1))])
    elif classes.dtype.kind in "iufb":
        given = Schema([TensorSpec(classes.dtype, (-1,))])
    else:
        given = Schema([ColSpec(DataType.string)])
    method = ParamSpec("method", DataType.string, ANSWERS[-1 if classes is None else 0])
    return ModelSignature(inputs=taken, outputs=given, params=ParamSchema([method]))


class Served:
    """A loaded model as MLflow serves it.

    Parameters
    ----------
    model : estimator
        The model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the classes of rows, or what `params["method"]` asks for.

        Parameters
        ----------
        model_input : data frame or array
            The rows.
        params : dict, optional
            {"method": "predict_proba"} for probabilities, "transform" for coordinates.
        """
        method = (params or {}).get("method", "predict")
        known = {name: stream_model(self.model).read(name) for name in ANSWERS}
        if known.get(method) is None:
            able = ", ".join(repr(name) for name, answer in known.items() if answer is not None)
            name = type(self.model).__name__
            raise ValueError(f"method={method!r:.100}: this {name} answers {able}. Give one of them.")
        return known[method](model_input)


def _load_pyfunc(path: str) -> Served:
    """Return a model as MLflow serves it; MLflow calls this by its name."""
    return Served(load(path))
