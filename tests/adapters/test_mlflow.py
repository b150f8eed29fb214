"""MLflow: what is logged is a model file and no pickle; it comes back, is served, and is checked by its signature."""

import doctest

import numpy as np
import pandas as pd
import pytest

from kampong import FisherDiscriminant, InterClassScatter, MinOverClassifier
from kampong.streaming import learn
from problems import problem

mlflow = pytest.importorskip("mlflow", reason="the mlflow extra")
flavor = pytest.importorskip("kampong.adapters.mlflow")

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own, of what it deprecates


@pytest.fixture
def rows():
    X, y = problem(0, classes=3, rows=90, features=4)
    return pd.DataFrame(X, columns=list("abcd")), np.array(["ash", "oak", "elm"])[y]


def test_a_logged_model_comes_back_learns_on_and_is_served(rows, tmp_path, monkeypatch):
    X, y = rows
    model = FisherDiscriminant().fit(X, y)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = flavor.log_model(model, "trees")
    again = flavor.load_model(logged.model_uri)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.partial_fit(X, y).n_samples_seen_ == 180
    served = mlflow.pyfunc.load_model(logged.model_uri)
    np.testing.assert_array_equal(served.predict(X), model.predict(X))
    whole = X.round().astype(int)
    np.testing.assert_array_equal(served.predict(whole), model.predict(whole))
    shuffled = X[["d", "b", "a", "c"]]
    np.testing.assert_array_equal(served.predict(shuffled), model.predict(X))
    for method in ("predict_proba", "transform"):
        np.testing.assert_array_equal(served.predict(X, params={"method": method}), getattr(model, method)(X))
    with pytest.raises(ValueError, match=r"'score': this FisherDiscriminant answers 'predict', 'predict_proba', '"):
        served.predict(X, params={"method": "score"})
    with pytest.raises(mlflow.exceptions.MlflowException, match="missing inputs"):
        served.predict(X[["a", "b"]])


def test_the_folder_holds_the_model_file_and_no_pickle(rows, tmp_path):
    X, y = rows
    model = FisherDiscriminant().fit(X, y)
    flavor.save_model(model, tmp_path / "folder", pip_requirements=["kampong.whl"])
    names = {path.name for path in (tmp_path / "folder").rglob("*") if path.is_file()}
    assert names == {"MLmodel", "model.kampong", "python_env.yaml", "requirements.txt"}
    model.save(tmp_path / "plain.kampong")
    assert (tmp_path / "folder" / "model.kampong").read_bytes() == (tmp_path / "plain.kampong").read_bytes()
    assert (tmp_path / "folder" / "requirements.txt").read_text() == "kampong.whl\n"
    said = mlflow.models.Model.load(str(tmp_path / "folder"))
    assert said.flavors["kampong"]["model"] == "FisherDiscriminant"
    assert said.signature.inputs.input_names() == list("abcd")
    assert said.signature.outputs.to_dict() == [{"type": "string", "required": True}]
    with pytest.raises(FileExistsError, match=r"holds something already\. Give another one"):
        flavor.save_model(model, tmp_path / "folder")
    with pytest.raises(TypeError, match=r"no option is called 'pickle'\. Give signature, pip_requirements"):
        flavor.save_model(model, tmp_path / "other", pickle=True)


def test_a_file_of_a_stream_is_copied_as_it_is(rows, tmp_path):
    X, y = rows
    X.assign(kind=y).to_csv(tmp_path / "trees.csv", index=False)
    file = tmp_path / "trees.kampong"
    run = learn(str(tmp_path / "trees.csv"), FisherDiscriminant(), label="kind", model_file=str(file))
    flavor.save_model(file, tmp_path / "folder")
    assert (tmp_path / "folder" / "model.kampong").read_bytes() == file.read_bytes()
    served = mlflow.pyfunc.load_model(str(tmp_path / "folder"))
    np.testing.assert_array_equal(served.predict(X.to_numpy()), run.model.predict(X.to_numpy()))


@pytest.mark.parametrize("model", [InterClassScatter(), MinOverClassifier()], ids=repr)
def test_numbers_keep_their_type(model, tmp_path):
    X, y = problem(1, classes=2, rows=60, features=3)
    flavor.save_model(model.fit(X, y), tmp_path / "folder")
    served = mlflow.pyfunc.load_model(str(tmp_path / "folder"))
    found = served.predict(X)
    assert found.dtype == y.dtype
    np.testing.assert_array_equal(found, model.predict(X))


def test_the_examples_of_its_docstrings_run():
    found = doctest.testmod(flavor)
    assert found.attempted > 0
    assert found.failed == 0
