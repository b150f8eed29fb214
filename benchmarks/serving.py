"""Latency of one row over HTTP: `kampong serve` beside a bare tornado echo, idle and while others teach the model.

All servers are processes of their own. One client asks them in turn, a hundred requests over one connection.
MLServer and BentoML, if they are installed, serve the same model file by a runtime that calls its `predict`, with one
worker each and settings as they come.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from kampong import FisherDiscriminant
from kampong.streaming import Layout, Source, learn

COLUMNS, CLASSES, ROWS, BLOCK = 16, 4, 5000, 100
TOKENS = ("--token", "for reading", "--learn-token", "for learning")
ECHO = """
import asyncio
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

class Echo(RequestHandler):
    def post(self):
        self.set_header("Content-Type", "application/json")
        self.finish(self.request.body)

async def main():
    server = HTTPServer(Application([("/", Echo)], log_function=lambda handler: None))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    print(f"at 127.0.0.1:{sockets[0].getsockname()[1]}/", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
MLSERVER = """
import kampong
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceResponse

class Runtime(MLModel):
    async def load(self):
        self.model = kampong.load("rows.kampong")
        return True

    async def predict(self, payload):
        found = self.model.predict(NumpyCodec.decode_input(payload.inputs[0]))
        output = StringCodec.encode_output("predict", found.tolist())
        return InferenceResponse(model_name=self.name, outputs=[output])
"""
MLSERVER_MODEL = {"name": "rows", "implementation": "runtime.Runtime"}
BENTOML = """
import bentoml
import kampong
import numpy as np

@bentoml.service(workers=1)
class Rows:
    def __init__(self):
        self.model = kampong.load("rows.kampong")

    @bentoml.api
    def predict(self, X: list[list[float]]) -> list[str]:
        return self.model.predict(np.array(X)).tolist()
"""
PATIENCE = 120.0
"""Seconds that a server may take to answer its first request."""


class Server:
    """A server in processes of its own, which says its port on its first lines."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if found := re.search(r"at \S*127\.0\.0\.1:(\d+)/", line):
                self.port = int(found[1])
                break
        threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()

    @classmethod
    def at(cls, folder: Path, path: str, body: bytes, *words: str) -> Server:
        """Return a server whose command ends with its port, once it answers a request."""
        self = cls.__new__(cls)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        environment = {**os.environ, "MLSERVER_HTTP_PORT": str(self.port), "BENTOML_DO_NOT_TRACK": "True"}
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, sys.path)])
        ports = () if words[0].endswith("mlserver") else ("--port", str(self.port))
        kept = (folder / "log").open("w")
        self.process = subprocess.Popen((*words, *ports), cwd=folder, env=environment, stdout=kept, stderr=kept)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                ask(self.connection(), path, body, "for reading")
            except (OSError, AssertionError, http.client.HTTPException):
                if time.monotonic() > until or self.process.poll() is not None:
                    self.stop()
                    raise RuntimeError((folder / "log").read_text()[-2000:]) from None
                time.sleep(0.5)
            else:
                return self

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that stays open."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def cpu(self) -> float:
        """Return the seconds of processor time that its processes have used, all threads together."""
        total, left = 0, [self.process.pid]
        while left:
            pid = left.pop()
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
            left += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return total / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()


def rows(number: int, seed: int) -> list[dict[str, float | str]]:
    """Return labelled rows of normal classes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(CLASSES, size=number)
    X = np.round(rng.normal(size=(number, COLUMNS)) + 1.5 * np.eye(CLASSES, COLUMNS)[codes], 4)
    return [
        {**{f"x{j}": value for j, value in enumerate(row)}, "kind": f"c{code}"}
        for row, code in zip(X.tolist(), codes.tolist(), strict=True)
    ]


def write_model(folder: Path) -> str:
    """Learn a stream as `kampong learn` does by default; return the model file."""
    lines = [",".join(map(str, row.values())) for row in rows(ROWS, 0)]
    names = ",".join([*(f"x{j}" for j in range(COLUMNS)), "kind"])
    (folder / "rows.csv").write_text("\n".join([names, *lines]) + "\n")
    source = Source(str(folder / "rows.csv"), Layout(label="kind"))
    learn(source, FisherDiscriminant(half_life="auto"), model_file=str(folder / "rows.kampong"))
    return str(folder / "rows.kampong")


def ask(connection: http.client.HTTPConnection, path: str, body: bytes, token: str) -> None:
    """Ask once, and read the answer."""
    connection.request("POST", path, body, {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status


def teach(server: Server, stop: threading.Event, seed: int, taught: list[int]) -> None:
    """Let a client teach a row, again and again, with a pause between."""
    connection = server.connection()
    for row in rows(100_000, seed):
        if stop.is_set():
            break
        ask(connection, "/learn", json.dumps(row).encode(), "for learning")
        taught[0] += 1
        time.sleep(0.02)
    connection.close()


def peers(folder: Path, tensor: bytes, rows: bytes) -> dict[str, Server | str]:
    """Return the other servers with the same model, and why one is not there."""
    (folder / "runtime.py").write_text(MLSERVER)
    (folder / "model-settings.json").write_text(json.dumps(MLSERVER_MODEL))
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": 0, "debug": False}))
    (folder / "service.py").write_text(BENTOML)
    asked = {
        "MLServer": ("/v2/models/rows/infer", tensor, ("mlserver", "start", ".")),
        "BentoML": ("/predict", rows, ("bentoml", "serve", "service:Rows")),
    }
    found: dict[str, Server | str] = {}
    for name, (path, body, words) in asked.items():
        program = shutil.which(words[0], path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        if program is None:
            found[name] = "not installed"
            continue
        try:
            found[name] = Server.at(folder, path, body, program, *words[1:])
        except RuntimeError as error:
            found[name] = f"does not start: {error}"
    return found


def measure(contenders: dict[str, tuple[Server, str, list[bytes]]], rounds: int) -> dict[str, tuple[np.ndarray, float]]:
    """Ask all contenders in turn, a block each; return the seconds of each request, and processor seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    used = dict.fromkeys(contenders, 0.0)
    for number in range(rounds + 1):  # the first round warms up
        for name, (server, path, bodies) in contenders.items():
            connection = server.connection()  # some servers close one that rests
            ask(connection, path, bodies[0], "for reading")
            before = server.cpu()
            for i in range(BLOCK):
                body = bodies[(number * BLOCK + i) % len(bodies)]
                start = time.perf_counter()
                ask(connection, path, body, "for reading")
                if number:
                    seconds[name].append(time.perf_counter() - start)
            used[name] += (server.cpu() - before) * (number > 0)
            connection.close()
    return {name: (np.array(seconds[name]), used[name] / max(len(seconds[name]), 1)) for name in contenders}


def show(found: dict[str, tuple[np.ndarray, float]]) -> None:
    """Print medians, 99th percentiles, and how they compare with the echo."""
    echo = np.median(found["tornado echo"][0])
    print(f"{'':34} {'p50 ms':>8} {'p99 ms':>8} {'× echo':>7} {'CPU ms':>7}")
    for name, (seconds, used) in found.items():
        middle, high = 1000 * np.median(seconds), 1000 * np.quantile(seconds, 0.99)
        print(f"{name:34} {middle:8.3f} {high:8.3f} {middle / 1000 / echo:7.2f} {1000 * used:7.3f}")


def main(shrink: int = 1) -> None:
    """Print the latency of one row."""
    rounds = max(40 // shrink, 1)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = write_model(Path(folder))
        plain = [{name: row[name] for name in row if name != "kind"} for row in rows(2000, 1)]
        bodies = [json.dumps(row).encode() for row in plain]
        tensors = [
            json.dumps(
                {"inputs": [{"name": "X", "shape": [1, COLUMNS], "datatype": "FP64", "data": list(row.values())}]}
            ).encode()
            for row in plain
        ]
        lists = [json.dumps({"X": [list(row.values())]}).encode() for row in plain]
        echo = Server(sys.executable, "-c", ECHO)
        stack.callback(echo.stop)
        words = (sys.executable, "-m", "kampong", "serve", path, "--learn", "--port", "0", *TOKENS)
        server = Server(*words)
        stack.callback(server.stop)
        contenders = {
            "tornado echo": (echo, "/", bodies),
            "/predict": (server, "/predict", bodies),
            "/v2/models/rows/infer": (server, "/v2/models/rows/infer", tensors),
        }
        for name, found in peers(Path(folder), tensors[0], lists[0]).items():
            if isinstance(found, str):
                print(f"{name}: {found}")
                continue
            stack.callback(found.stop)
            path, bodies_of = ("/v2/models/rows/infer", tensors) if name == "MLServer" else ("/predict", lists)
            contenders[f"{name}, {path}"] = (found, path, bodies_of)
        print(f"one row of {COLUMNS} columns, {CLASSES} classes, {rounds * BLOCK:,} requests each, one client:")
        show(measure(contenders, rounds))
        stop, taught = threading.Event(), [0]
        teachers = [threading.Thread(target=teach, args=(server, stop, seed, taught)) for seed in (2, 3, 4, 5)]
        for one in teachers:
            one.start()
        contenders = {name: contenders[name] for name in ("tornado echo", "/predict")}
        busy, started = max(rounds // 4, 1), time.perf_counter()
        found = measure(contenders, busy)
        rate = taught[0] / (time.perf_counter() - started)
        stop.set()
        for one in teachers:
            one.join()
        print(f"\nwhile four clients teach the model one row at a time ({rate:.0f} rows/s, each on the disk):")
        show(found)


if __name__ == "__main__":
    main()
