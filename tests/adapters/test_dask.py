"""Dask: a fit on a cluster is the local fit, whatever the parts, and whoever dies on the way."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_blobs

pytest.importorskip("distributed", reason="the dask extra is not installed")

import dask
import dask.array as da
from dask import delayed
from distributed import Client, LocalCluster

from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginRecursion,
    MarginSubspace,
    MaximumMarginDiscriminant,
    MinOverClassifier,
    fit_landmarks,
    from_bytes,
    merge_all,
    statistics_of,
)
from kampong.adapters import dask as on_dask
from kampong.adapters.dask import LEARN, fit_counted
from kampong.adapters.dask_groups import spread
from kampong.adapters.dask_parts import KilledPartError, parts_of
from kampong.adapters.file_parts import packed, unpacked
from kampong.streaming import Layout

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
EXACT = [
    FisherDiscriminant(ridge=0.1),
    MarginSubspace(2, epsilon=0.2),
    InterClassScatter(head="gaussian"),
    FisherDiscriminant(),
]


@pytest.fixture(scope="module")
def client():
    """Two worker processes, as a user would start them.

    A LocalCluster closes a worker for good if it is absent some time after an earlier loss, which kill after kill makes
    happen by chance; here it may not.
    """
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def wine():
    X, y = load_wine(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def blocks(X, cuts):
    """Return rows as a dask array of dense or CSR blocks, cut at the given places."""
    edges = [0, *cuts, X.shape[0]]
    sizes = tuple(np.diff(edges).tolist())
    if isinstance(X, np.ndarray):
        return da.from_array(X, chunks=(sizes, *((n,) for n in X.shape[1:])))
    dense = da.from_array(X.toarray(), chunks=(sizes, (X.shape[1],)))
    return dense.map_blocks(sparse.csr_array, dtype=X.dtype, meta=sparse.csr_array((0, 0)))


def same(found, local, X, atol=1e-10):
    assert found.get_params() == local.get_params()
    np.testing.assert_array_equal(found.classes_, local.classes_)
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=atol)
    np.testing.assert_allclose(found.predict_proba(X), local.predict_proba(X), rtol=0, atol=1e-7)


@pytest.mark.parametrize("model", EXACT, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_fit_on_two_workers_is_the_local_fit(client, model, form):
    X, y = wine()
    order = np.argsort(y, kind="stable")  # classes on one part only; a part of one row, an empty part
    X, y = X[order], y[order]
    cuts = [1, 40, 40, 100]
    found = on_dask.fit(model, blocks(form(X), cuts), blocks(y, cuts), client=client)
    same(
        found, clone(model).fit(form(X), y), X, atol=1e-8 if isinstance(model.get_params().get("ridge"), str) else 1e-10
    )


def test_weights_strings_and_several_labels(client):
    X, y = wine()
    names, weights, cuts = np.array(["a", "bb", "ccc"])[y], np.arange(len(y)) % 3.0, [50, 51]
    model = FisherDiscriminant(ridge=0.1)
    found = on_dask.fit(model, blocks(X, cuts), names, weights, client)
    same(found, clone(model).fit(X, names, sample_weight=weights), X)
    many = np.eye(3, dtype=int)[y] | (X[:, :3] > 1)
    found = on_dask.fit(model, blocks(X, cuts), blocks(many, cuts), client=client)
    np.testing.assert_allclose(found.transform(X), clone(model).fit(X, many).transform(X), atol=1e-10)
    rows = blocks(X, cuts)
    right = on_dask.score(found := on_dask.fit(model, rows, names, client=client), rows, names, weights, client)
    assert right == pytest.approx(found.score(X, names, sample_weight=weights))


def test_a_thousand_parts_and_parts_of_any_size(client):
    X, y = make_blobs(100_200, n_features=5, centers=3, random_state=0)
    cuts = [*range(1, 100), 100_099]  # parts of a row, and one of 100,000
    model = FisherDiscriminant(ridge=0.1)
    same(on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), client=client), clone(model).fit(X, y), X[:500])
    X, y = X[:3000], y[:3000]
    cuts = range(3, 3000, 3)
    same(on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), client=client), clone(model).fit(X, y), X)


def test_answers_keep_the_container(client):
    import dask.dataframe as dd
    import pandas as pd

    X, y = wine()
    model = FisherDiscriminant(ridge=0.1).fit(X, y)
    rows = blocks(X, [60, 60, 100])
    for name in ("transform", "predict", "predict_proba"):
        lazy = getattr(on_dask, name)(model, rows)
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == rows.chunks[0]
        np.testing.assert_allclose(lazy.compute(), getattr(model, name)(X))
        np.testing.assert_allclose(getattr(on_dask, name)(model, blocks(sparse.csr_array(X), [9])).compute(), lazy)
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])]).assign(kind=y, weight=np.arange(len(y)))
    parts = dd.from_pandas(frame, npartitions=3)
    found = on_dask.fit(FisherDiscriminant(ridge=0.1), parts, "kind", "weight", client)
    features = frame.drop(columns=["kind", "weight"])
    same(found, FisherDiscriminant(ridge=0.1).fit(features, y, sample_weight=frame["weight"]), features)
    assert found.feature_names_in_.tolist() == features.columns.tolist()
    shuffled = parts[[*reversed(features.columns), "kind"]]
    for name in ("transform", "predict", "predict_proba"):
        lazy = getattr(on_dask, name)(found, shuffled)
        np.testing.assert_allclose(lazy.compute().to_numpy(), getattr(found, name)(features))
        assert lazy.npartitions == 3
    assert on_dask.transform(found, parts).columns.tolist() == found.get_feature_names_out().tolist()
    assert on_dask.score(found, parts[[*features.columns, "kind"]], "kind", client=client) == found.score(features, y)


@pytest.mark.parametrize("form", ["csv", "parquet", "libsvm"])
def test_files_are_read_where_they_lie(client, tmp_path, form):
    import pandas as pd
    from sklearn.datasets import dump_svmlight_file

    X, y = wine()
    X = X.round(3)
    for number in range(5):
        rows, labels = X[number::5], y[number::5]
        path = tmp_path / f"part-{number}.{form if form != 'libsvm' else 'svm'}"
        frame = pd.DataFrame(rows, columns=[f"c{j}" for j in range(X.shape[1])]).assign(kind=labels)
        if form == "csv":
            frame.to_csv(path, index=False)
        elif form == "parquet":
            frame.to_parquet(path)
        else:
            dump_svmlight_file(rows, labels, str(path), zero_based=False)
    if form == "csv":
        (tmp_path / "part-9.csv").write_text("")  # an empty part
        with (tmp_path / "part-3.csv").open("a") as file:
            file.write(",".join(["oops"] * 13) + ",1\n")
            file.write(",".join(["1"] * 12) + ",,1\n")  # a number is missing
    layout = Layout(max_features=13) if form == "libsvm" else None
    label = None if form == "libsvm" else "kind"
    model = MarginSubspace(2, epsilon=0.2)
    local = clone(model).fit(X, y)
    for where in (tmp_path, str(tmp_path / "part-*"), sorted(tmp_path.iterdir())):
        found, counts = fit_counted(model, where, label, client=client, layout=layout)
        np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-10)
        assert (counts.rows, counts.dead) == (178, 2 * int(form == "csv"))
    if form == "csv":
        assert counts.first_dead.endswith("which is not a number")
    assert on_dask.score(found, tmp_path, label, client=client, layout=layout) == pytest.approx(local.score(X, y))


def test_files_that_do_not_agree_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,z,kind\n1,2,a\n3,4,b\n")
    (tmp_path / "b.csv").write_text("x,w,kind\n1,2,a\n3,4,b\n")
    with pytest.raises(ValueError, match=r"b\.csv: the model needs: no column is named 'z'.*those of the first file"):
        on_dask.fit(FisherDiscriminant(ridge=1.0), tmp_path, "kind")
    with pytest.raises(ValueError, match=r"tfidf weighs words .* Leave it out"):
        on_dask.fit(FisherDiscriminant(ridge=1.0), tmp_path, "kind", layout=Layout(text="x", tfidf=True))
    with pytest.raises(ValueError, match="there is no such file"):
        on_dask.fit(FisherDiscriminant(ridge=1.0), tmp_path / "none-*.csv", "kind")
    with pytest.raises(ValueError, match=r"which column is the class\? Name it as y. There are 'x', 'z', 'kind'"):
        on_dask.fit(FisherDiscriminant(ridge=1.0), tmp_path / "a.csv")


def test_kernel_models_merge_on_landmarks_of_a_sample(client):
    X, y = load_digits(return_X_y=True)
    cuts = [5, 600, 601, 1200]
    model = KernelFisherDiscriminant(landmarks=60)
    prepared = fit_landmarks(model, X[::3], y[::3])
    found = on_dask.fit(prepared, blocks(X, cuts), blocks(y, cuts), client=client)
    local = statistics_of(prepared, [(X, y)])
    np.testing.assert_allclose(found.transform(X), local.transform(X), rtol=0, atol=1e-8)
    sampled = on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), client=client)
    assert sampled.landmarks == 60
    assert sampled.score(X, y) > 0.93
    given = KernelFisherDiscriminant(landmarks=X[:40], gamma=0.001)
    found = on_dask.fit(given, blocks(X, cuts), blocks(y, cuts), client=client)
    np.testing.assert_allclose(found.transform(X), clone(given).fit(X, y).transform(X), rtol=0, atol=1e-8)
    gain = on_dask.fit(InformationGain(9), blocks(X, cuts), blocks(y, cuts), client=client)
    np.testing.assert_array_equal(gain.get_support(), InformationGain(9).fit(X, y).get_support())


@pytest.mark.parametrize(
    "model", [CoreVectorClassifier(tol=0.05), MaximumMarginDiscriminant()], ids=["machine", "mmda"]
)
def test_core_sets_travel_and_rows_stay(client, model, tmp_path):
    import pandas as pd

    X, y = load_digits(return_X_y=True)
    X, y = np.tile(X, (2, 1)) + np.random.default_rng(0).normal(size=(2 * len(X), 64)), np.tile(y, 2)
    cuts = [1, 900, 900, 3000]
    local = clone(model).fit(X, y)
    found = on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), client=client)
    np.testing.assert_allclose(found.margin_, local.margin_, rtol=2 * model.tol)
    assert (found.dual_gap_ <= model.tol).all()
    assert len(np.setxor1d(found.support_, local.support_)) <= 0.02 * len(local.support_)
    assert found.moved_["violators"] < X.nbytes
    assert found.moved_["looks"] >= 2
    came = found.moved_["violators"] // (8 * 64)
    # a row that came goes once to each worker, with its number and class; then a bit and a weight a look
    assert found.moved_["core vectors"] == 2 * (found.moved_["violators"] + 8 * came)
    assert found.moved_["weights"] < 2 * found.moved_["looks"] * 10 * (8.2 * came + 100)
    assert on_dask.score(found, blocks(X, cuts), blocks(y, cuts), client=client) == found.score(X, y)
    np.testing.assert_array_equal(on_dask.predict(found, blocks(X, cuts)).compute(), found.predict(X))
    if isinstance(model, MaximumMarginDiscriminant):
        np.testing.assert_allclose(on_dask.transform(found, blocks(X, cuts)).compute(), found.transform(X))
        np.testing.assert_allclose(found.class_means_, local.class_means_, rtol=0, atol=0.05)
    # files, and dataframes without a cluster
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(64)]).assign(kind=[f"k{one}" for one in y])
    for number in range(3):
        frame.iloc[number * 1198 : number * 1198 + 1198].to_parquet(tmp_path / f"{number}.parquet")
    files = on_dask.fit(model, tmp_path, "kind", client=client)
    np.testing.assert_array_equal(files.support_, found.support_)
    with pytest.raises(ValueError, match=r"in parts it takes no weights\. Leave sample_weight out, or fit"):
        on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), blocks(np.ones(len(y)), cuts), client=client)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_few_rows_come_whole_and_means_are_those_of_all_rows(client, kernel):
    X, y = load_digits(return_X_y=True)  # up to 2,048 patterns the core set is all of them, and no part is asked
    model = MaximumMarginDiscriminant(kernel=kernel)
    found, local = (
        on_dask.fit(model, blocks(X, [300, 300, 900]), blocks(y, [300, 300, 900]), client=client),
        clone(model).fit(X, y),
    )
    np.testing.assert_allclose(found.class_means_, local.class_means_, rtol=1e-9, atol=1e-9)
    assert found.moved_["violators"] == X.size  # pixels take a byte


def test_a_killed_worker_gives_the_same_core_sets(client):
    X, y = load_digits(return_X_y=True)
    X, y = np.tile(X, (2, 1)) + np.random.default_rng(0).normal(size=(2 * len(X), 64)), np.tile(y, 2)
    cuts = range(100, len(X), 100)
    calm = on_dask.fit(CoreVectorClassifier(), blocks(X, cuts), blocks(y, cuts), client=client)
    assert killed_fit(client, CoreVectorClassifier(), X, y, 3) == calm.to_bytes()


def killed_fit(client, model, X, y, seed):
    """Fit while a worker, chosen at random, is killed at a random moment."""

    def slow_block(block):
        time.sleep(0.15)
        return block

    rng = np.random.default_rng(seed)
    cuts = range(100, len(X), 100)
    rows = blocks(X, cuts).map_blocks(slow_block, name=f"slow-{time.monotonic()}")
    pids = [pid for pid in client.run(os.getpid, on_error="return").values() if isinstance(pid, int)]
    killed = int(rng.choice(pids))
    timer = threading.Timer(float(rng.uniform(0.05, 1.0)), os.kill, (killed, signal.SIGKILL))
    timer.start()
    found = on_dask.fit(model, rows, blocks(y, cuts), client=client)
    timer.join()
    wait_for_two(client, besides=killed)
    return found.to_bytes()


def wait_for_two(client, besides):
    """Wait until two workers answer, none of them the one that was killed: a loss is not noticed at once."""
    for _ in range(2400):
        pids = client.run(os.getpid, on_error="return").values()
        if len(pids) == 2 and all(isinstance(pid, int) and pid != besides for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError(f"the cluster has not come back: {pids}")


def kill_workers(client, times):
    X, y = load_digits(return_X_y=True)
    linear = FisherDiscriminant(ridge=1.0)
    kernel = fit_landmarks(KernelFisherDiscriminant(landmarks=40), X[::4], y[::4])
    cuts = range(100, len(X), 100)
    for model in (linear, kernel):
        calm = on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), client=client).to_bytes()
        for seed in range(times):
            assert killed_fit(client, model, X, y, seed) == calm


def test_a_killed_worker_changes_no_bit(client):
    kill_workers(client, 1)


@pytest.mark.slow
def test_sixty_killed_workers_change_no_bit(client):
    kill_workers(client, 30)


def test_nothing_of_a_fit_stays_on_the_cluster(client):
    """What stayed would be computed again with every worker that dies, fit after fit."""

    def left(dask_scheduler):
        return [str(key) for key in dask_scheduler.tasks if "kampong" in str(key)]

    X, y = wine()

    def slow_block(block):
        time.sleep(0.6)  # longer than one look at the cluster
        return block

    rows = blocks(X, [60]).map_blocks(slow_block)
    on_dask.fit(FisherDiscriminant(ridge=0.1), rows, blocks(y, [60]), client=client)
    for _ in range(100):
        if not client.run_on_scheduler(left):
            return
        time.sleep(0.1)
    raise AssertionError(client.run_on_scheduler(left))


def test_a_part_that_kills_its_workers_is_named():
    X, y = wine()

    def die(block):
        os._exit(1)

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        rows = blocks(X, [90]).map_blocks(die, meta=np.empty((0, 0)))
        with pytest.raises(KilledPartError, match=r"was running on 1 workers that died.*make parts smaller"):
            on_dask.fit(FisherDiscriminant(), rows, blocks(y, [90]), client=client)


def test_without_workers_a_fit_ends_with_a_clear_error():
    X, y = wine()
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, Client(cluster) as client:
        start = time.monotonic()
        with pytest.raises(
            on_dask.NoWorkersError, match=r"has had no worker for 1 seconds.*start workers, and fit again"
        ):
            on_dask.fit(FisherDiscriminant(), blocks(X, [9]), blocks(y, [9]), client=client, patience=1)
        assert time.monotonic() - start < 30


@pytest.mark.parametrize("lost", ["workers", "scheduler"])
def test_a_cluster_that_vanishes_in_the_middle_of_a_fit_is_named(tmp_path, lost):
    """Plain processes that nobody starts again."""
    X, y = wine()
    file = str(tmp_path / "scheduler.json")
    where = ["--scheduler-file", file, "--no-dashboard"]
    with ExitStack() as stack:

        def start(kind, *options):
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *where, *options]
            process = stack.enter_context(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
            return process

        scheduler = start("scheduler", "--port", "0")
        workers = [start("worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path)) for _ in "ab"]
        client = stack.enter_context(Client(scheduler_file=file))
        client.wait_for_workers(2)
        begun = tmp_path / "begun"

        def slow_block(block):
            begun.touch()
            time.sleep(0.3)
            return block

        def kill():
            while not begun.exists() and not over.wait(0.05):
                pass
            for process in workers if lost == "workers" else [scheduler]:
                process.kill()

        over = threading.Event()
        killer = threading.Thread(target=kill)
        killer.start()
        rows = blocks(X, range(5, 178, 5)).map_blocks(slow_block, meta=np.empty((0, 0)))  # five seconds and more
        reason = "has had no worker for 1.5 seconds" if lost == "workers" else "is gone, or has been restarted"
        start_time = time.monotonic()
        try:
            with pytest.raises(on_dask.NoWorkersError, match=rf"{reason}.*Nothing was changed: start .*fit again"):
                on_dask.fit(FisherDiscriminant(ridge=0.1), rows, y, client=client, patience=1.5)
        finally:
            over.set()
            killer.join()
        assert time.monotonic() - start_time < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [CoreVectorClassifier(), MaximumMarginDiscriminant(2)], ids=lambda m: type(m).__name__
)
def test_twenty_fits_of_core_sets_under_threads_are_the_same_bytes(client, model):
    """Problems are solved side by side and ask for rows; threads change places a thousand times as often as usual."""
    X, y = load_digits(return_X_y=True)
    X, y = np.tile(X, (2, 1)) + np.random.default_rng(0).normal(size=(2 * len(X), 64)), np.tile(y, 2)
    cuts = range(300, len(X), 300)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        found = {on_dask.fit(model, blocks(X, cuts), blocks(y, cuts), client=client).to_bytes() for _ in range(20)}
    finally:
        sys.setswitchinterval(usual)
    assert len(found) == 1


def test_the_cut_into_tasks_changes_no_bit():
    X, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")  # classes on some parts only
    X, y = X[order], y[order]
    cuts = [0, 0, 1, *range(40, len(X), 41), len(X)]  # empty parts, one of a row
    for model in (FisherDiscriminant(ridge=1.0), FisherDiscriminant(reservoir_bytes=10_000)):
        given = statistics_of(model, []).to_bytes(solve=False)
        parts = parts_of(blocks(X, cuts), blocks(y, cuts), None, None)
        made = {}
        for threads in (1, 2, 3, 20):
            graph = spread(parts, "learn", LEARN, given, {"": threads})
            made[sum("kampong-learn" in str(key) for key in graph.dask)] = graph.compute(scheduler="sync")
        assert len(made) >= 3  # tasks of one part, of two, of four
        assert len({data for data, _ in made.values()}) == 1
        apart = [statistics_of(model, [(X[a:b], y[a:b])], number=n) for n, (a, b) in enumerate(pairs(cuts, len(X)))]
        one = from_bytes(next(iter(made.values()))[0])
        assert one.n_samples_seen_ == len(X)
        np.testing.assert_allclose(one.transform(X), merge_all(apart).transform(X), rtol=0, atol=1e-8)


def pairs(cuts, stop):
    return itertools.pairwise([0, *cuts, stop])


@pytest.mark.parametrize("tasks", ["one a part", "several parts a task"])
def test_what_rows_and_labels_share_is_made_once(tasks):
    made = []

    def read(number):
        made.append(number)
        X, y = wine()
        return {"X": X[number::24], "y": y[number::24]}

    files = [delayed(read)(number) for number in range(24)]
    lengths = [len(wine()[1][number::24]) for number in range(24)]
    X = da.concatenate([da.from_delayed(file["X"], (n, 13), float) for file, n in zip(files, lengths, strict=True)])
    y = da.concatenate([da.from_delayed(file["y"], (n,), int) for file, n in zip(files, lengths, strict=True)])
    threads = {"": 1 if tasks.startswith("several") else 10}
    given = statistics_of(FisherDiscriminant(ridge=0.1), []).to_bytes(solve=False)
    graph = spread(parts_of(X, y, None, None), "learn", LEARN, given, threads)
    data, _ = graph.compute(scheduler="sync")
    assert sorted(made) == list(range(24))
    assert from_bytes(data).n_samples_seen_ == 178


def test_what_other_parts_need_too_stays_a_task_of_its_own():
    X, y = wine()
    rows = blocks(X, range(10, len(X), 10))
    model, threads = FisherDiscriminant(ridge=0.1), {"": 1}
    given = statistics_of(model, []).to_bytes(solve=False)
    centred = rows - rows.mean(axis=0)  # one value of all parts, which all parts need
    graph = spread(parts_of(centred, blocks(y, range(10, len(X), 10)), None, None), "learn", LEARN, given, threads)
    found = from_bytes(graph.compute(scheduler="sync")[0])
    same(found, clone(model).fit(X - X.mean(axis=0), y), X - X.mean(axis=0))
    calls = []

    def mixed(number):
        calls.append(number)
        return X[number::2], y[number::2]

    sources = [delayed(mixed)(number) for number in range(8)]  # every part is cut from all sources
    cut = [[delayed(lambda pair, i: pair[0][i * 4 : i * 4 + 4])(source, i) for source in sources] for i in range(18)]
    parts = [da.from_delayed(delayed(np.concatenate)(pieces), (np.nan, 13), float) for pieces in cut]
    labels = [
        da.from_delayed(
            delayed(lambda *pairs, i: np.concatenate([pair[1][i * 4 : i * 4 + 4] for pair in pairs]))(*sources, i=i),
            (np.nan,),
            int,
        )
        for i in range(18)
    ]
    graph = spread(parts_of(da.concatenate(parts), da.concatenate(labels), None, None), "learn", LEARN, given, threads)
    leaves = [key for key in graph.dask if str(key).startswith("('kampong-learn-")]
    assert len(leaves) == 18  # a task that took several would hold all sources
    graph.compute(scheduler="sync")
    assert sorted(calls) == list(range(8))


def test_neighbours_run_where_their_state_stays(client):
    """32 parts on two workers: one state crosses to the other worker, and one comes here."""

    def sent(dask_worker):
        return int(dask_worker.transfer_outgoing_bytes_total)

    X, y = make_blobs(3200, n_features=300, centers=4, random_state=0)
    model = FisherDiscriminant(ridge=0.1)
    state = len(statistics_of(model, [(X, y)]).to_bytes(solve=False))

    def slowly(number):
        time.sleep(0.05)
        return X[number * 100 : number * 100 + 100]

    rows = da.concatenate([da.from_delayed(delayed(slowly)(i), (100, 300), float) for i in range(32)])
    on_dask.fit(model, rows, da.from_array(y, chunks=100), client=client)
    before = sum(client.run(sent).values())
    on_dask.fit(model, rows * 1.0, da.from_array(y, chunks=100), client=client)
    moved = (sum(client.run(sent).values()) - before) / state
    assert moved < 5  # 2 where nothing is stolen; 16 if parts went to whoever is free


def test_blocks_that_lie_on_workers_stay_there(client):
    X, y = wine()
    cuts = range(4, len(X), 4)
    rows, labels = client.persist(blocks(X, cuts)), client.persist(blocks(y, cuts))
    graph = spread(parts_of(rows, labels, None, None), "learn", LEARN, b"", {"a": 1, "b": 1})
    leaves = [key for key in graph.dask if str(key).startswith("('kampong-learn-")]
    assert len(leaves) == len(cuts) + 1
    model = FisherDiscriminant(ridge=0.1)
    same(on_dask.fit(model, rows, labels, client=client), clone(model).fit(X, y), X)


def test_the_graph_is_small_and_the_tasks_are_named(tmp_path):
    import pickle

    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("x,z,kind\n1,2,a\n3,4,b\n")
    parts = parts_of([tmp_path / f"{number}.csv" for number in range(3)], "kind", None, None)
    names = [f"/data/rows/part-{number:05}-of-the-rows.csv" for number in range(10_000)]
    parts.reader = replace(parts.reader, files=replace(parts.reader.files, packed=packed(names)))
    parts.arguments = [()] * len(names)
    many = {f"tcp://10.0.{number // 250}.{number % 250}:40001": 1 for number in range(1250)}
    graph = spread(parts, "learn", LEARN, b"model", many).dask
    assert len(pickle.dumps(graph)) < 2**20
    assert len(dict(graph)) == 1 + 10_000 + 1250 + 157 + 20 + 3 + 1
    few = dict(spread(parts, "learn", LEARN, b"model", {"tcp://10.0.0.1:40001": 4}).dask)
    assert len(few) == 1 + 40 + 5 + 1  # 256 parts a task
    assert unpacked(packed(names)) == names
    assert any(str(key).startswith("('kampong-learn-") for key in graph)


def test_what_cannot_be_done_is_named():
    X, y = wine()
    rows = blocks(X, [90])
    for model in (MarginRecursion(), MinOverClassifier()):
        with pytest.raises(TypeError, match=rf"{type(model).__name__} cannot be learnt in parts.*Use one of Fisher"):
            on_dask.fit(model, rows, y)
    with pytest.raises(TypeError, match=r"X is a ndarray; it needs to be a dask array.*estimator's own fit"):
        on_dask.fit(FisherDiscriminant(), X, y)
    with pytest.raises(ValueError, match="y has 5 entries, but X has 178 rows"):
        on_dask.fit(FisherDiscriminant(), rows, y[:5])
    with pytest.raises(ValueError, match="y is missing"):
        on_dask.fit(FisherDiscriminant(), rows)
    with pytest.raises(ValueError, match="none of the 2 parts has a row of positive weight"):
        on_dask.fit(FisherDiscriminant(), rows, y, np.zeros(178))
    with pytest.raises(TypeError, match="predict: X is a ndarray"):
        on_dask.predict(FisherDiscriminant().fit(X, y), X)
    with pytest.raises(TypeError, match="MarginRecursion has no frozen predictor"):
        on_dask.predict(MarginRecursion().fit(X, y), rows)
