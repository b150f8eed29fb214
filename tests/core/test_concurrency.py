"""Threads, forks, workers of joblib and read-only installations: the answers of one of the states, or none."""

import copy
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import kampong
from fuzz.subjects import ESTIMATORS
from kampong._core.locks import both_locked, lock_of

BATCHES, ROWS, D = 12, 40, 9
PREDICTING = 8
STREAMS = [name for name, model in ESTIMATORS.items() if hasattr(model, "partial_fit") and "wide" not in name]
ROUNDING = {"rtol": 1e-9, "atol": 1e-9}


def problem():
    rng = np.random.default_rng(0)
    y = np.arange(BATCHES * ROWS) % 3
    X = rng.normal(size=(len(y), D)) + 2.0 * np.eye(3, D)[y]
    batches = [(X[at : at + ROWS], y[at : at + ROWS]) for at in range(0, len(y), ROWS)]
    return batches, rng.normal(size=(16, D))


def ask(model, X):
    answer = next(name for name in ("decision_function", "predict_proba", "transform") if hasattr(model, name))
    return np.asarray(getattr(model, answer)(X))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STREAMS)
def test_eight_predict_while_one_learns(name):
    """Every answer is that of the model after some batch; none is of a model half learnt, and the last one stays."""
    batches, X = problem()
    model, states = clone(ESTIMATORS[name]), []
    for batch in batches:
        model.partial_fit(*batch)
        states.append(ask(model, X))
    model = clone(ESTIMATORS[name]).partial_fit(*batches[0])
    done, wrong, answers = threading.Event(), [], []

    def predict():
        while not done.is_set():
            try:
                found = ask(model, X)
            except Exception as error:
                wrong.append(repr(error))
                return
            answers.append(1)
            if not any(found.shape == state.shape and np.allclose(found, state, **ROUNDING) for state in states):
                wrong.append("an answer of no state")
                return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=predict) for _ in range(PREDICTING)]
    try:
        for thread in threads:
            thread.start()
        for batch in batches[1:]:
            model.partial_fit(*batch)
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert wrong == []
    assert answers
    assert np.allclose(ask(model, X), states[-1], **ROUNDING)


def test_a_predictor_that_was_begun_before_a_batch_is_not_kept_after_it(monkeypatch):
    """The order in which an old answer would stay for good, made by hand."""
    batches, X = problem()
    model = kampong.InterClassScatter().partial_fit(*batches[0])
    make, begun, learnt = type(model)._make, threading.Event(), threading.Event()

    def slowly(self, *arguments):
        found = make(self, *arguments)
        begun.set()
        learnt.wait(0.5)  # without a lock the other thread learns now
        return found

    monkeypatch.setattr(type(model), "_make", slowly)
    reading = threading.Thread(target=model.transform, args=(X,))
    reading.start()
    begun.wait()
    model.partial_fit(*batches[1])
    learnt.set()
    reading.join()
    monkeypatch.undo()
    expected = kampong.InterClassScatter().partial_fit(*batches[0]).partial_fit(*batches[1])
    assert np.allclose(model.transform(X), expected.transform(X), **ROUNDING)


def test_two_threads_merge_two_models_into_each_other():
    batches, X = problem()
    one, other = (kampong.InterClassScatter().partial_fit(*batch) for batch in batches[:2])
    found = []

    def merge(first, second):
        found.extend(first.merge(second).transform(X) for _ in range(50))

    threads = [threading.Thread(target=merge, args=pair, daemon=True) for pair in ((one, other), (other, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert all(np.allclose(np.abs(points), np.abs(found[0])) for points in found)
    with both_locked(one, one):  # a model and itself
        assert len(found) == 100


def test_copies_have_locks_of_their_own():
    model = kampong.InterClassScatter().fit(*problem()[0][0])
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model)]
    assert len({id(lock_of(one)) for one in [model, *copies]}) == 4
    assert lock_of(model) is lock_of(model)


FORKED = """
import os, sys, threading, warnings
import numpy as np
import kampong
from kampong._core.locks import lock_of
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = rng.normal(size=(3000, 200)), np.arange(3000) % 3
X[y == 1] += 0.3
model = kampong.FisherDiscriminant(ridge=0.1).fit(X, y)
expected = model.decision_function(X)
held = threading.Event()
def hold():
    with lock_of(model):
        held.set()
        threading.Event().wait(60)
threading.Thread(target=hold, daemon=True).start()
held.wait()
for _ in range(3):
    child = os.fork()
    if not child:
        same = np.allclose(model.decision_function(X), expected)
        again = kampong.FisherDiscriminant(ridge=0.1).fit(X, y)
        same &= np.allclose(again.decision_function(X), expected)
        model.partial_fit(X, y)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("all right")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_after_a_fit_predicts_and_learns_also_where_a_thread_held_the_lock():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "all right", done.stderr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_workers_of_joblib_answer_as_this_process(backend):
    batches, X = problem()
    models = [kampong.FisherDiscriminant(ridge=0.1).fit(*batch) for batch in batches[:4]]
    found = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(ask)(model, X) for model in models)
    assert all(np.allclose(mine, ask(model, X)) for mine, model in zip(found, models, strict=True))
    fitted = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(kampong.InterClassScatter().fit)(*batch) for batch in batches[:4]
    )
    for model, batch in zip(fitted, batches, strict=False):
        assert np.allclose(model.transform(X), kampong.InterClassScatter().fit(*batch).transform(X))


def without_rights(command):
    """Return a command that may not write where nobody may, for root too."""
    if os.geteuid() != 0:
        return command
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv")
    return ["setpriv", "--bounding-set=-dac_override", *command]


@pytest.mark.skipif(sys.platform != "linux", reason="rights are taken away as Linux does it")
def test_a_read_only_installation_works(tmp_path):
    """Neither the package nor the home can be written: loops are compiled again, and nothing fails."""
    shutil.copytree(Path(kampong.__file__).parent, tmp_path / "kampong", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "home").mkdir()
    folders = [tmp_path / "home", *(path for path in (tmp_path / "kampong").rglob("*") if path.is_dir())]
    folders.append(tmp_path / "kampong")
    for folder in folders:
        folder.chmod(0o555)
    code = (
        "import sys, numpy as np, kampong; X = np.random.default_rng(0).normal(size=(60, 4)); y = np.arange(60) % 3;"
        "print(kampong.__file__, kampong.InterClassScatter().fit(X, y).transform(X).shape)"
    )
    environment = {key: value for key, value in os.environ.items() if key not in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    environment |= {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path / "home")}
    try:
        command = without_rights([sys.executable, "-W", "ignore", "-c", code])
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.stdout.split() == [str(tmp_path / "kampong" / "__init__.py"), "(60,", "2)"], done.stderr[-500:]
    assert not list(tmp_path.rglob("*.nbi"))
