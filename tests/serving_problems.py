"""What the tests of the server share: models to serve, servers in a thread and as processes, and a client."""

import asyncio
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from kampong import FisherDiscriminant
from kampong.serving.learning_model import LearningModel
from kampong.serving.served_model import FileModel
from kampong.serving.server import Service
from kampong.streaming import Layout, Source, learn
from stream_problems import write_points

READ, LEARN = "token for reading", "token for learning"
COLUMNS = ("x1", "x2", "x3", "x4")


def served_file(folder, rows=300, *, half_life=None, seed=0, name="points", more=()):
    """Learn a CSV of three classes; return the model file, and further lines as rows with labels."""
    path = folder / f"{name}.csv"
    good, _ = write_points(path, rows + 400, seed=seed)
    (folder / f"{name}.csv").write_text("\n".join(["x1,x2,x3,x4,kind", *good[:rows]]) + "\n")
    model_file = str(folder / f"{name}.kampong")
    model = FisherDiscriminant(half_life=half_life) if not more else more[0]
    learn(Source(str(path), Layout(label="kind")), model, model_file=model_file)
    return model_file, [as_row(line) for line in good[rows:]]


def as_row(line):
    """Return a line of CSV as an object."""
    *numbers, label = line.split(",")
    return {**dict(zip(COLUMNS, map(float, numbers), strict=True)), "kind": label}


class Client:
    """Asks a server with the standard library."""

    def __init__(self, port, token=READ, *, host="127.0.0.1", context=None):
        kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
        more = {} if context is None else {"context": context}
        self.connection = kind(host, port, timeout=60, **more)
        self.token = token

    def ask(self, method, path, body=None, **headers):
        """Return status and answer, decoded where it is JSON."""
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        given = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None and "Content_Type" not in headers:
            given["Content-Type"] = "application/json"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, data, given)
        answer = self.connection.getresponse()
        text = answer.read()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, json.loads(text) if kind == "application/json" else text.decode()

    def close(self):
        self.connection.close()


class Running:
    """A server in a thread of this process."""

    def __init__(self, *paths, learns=False, token=READ, learn_token=LEARN, every=3600.0, key=None, **more):
        make = (lambda name, path: LearningModel(name, path, key, checkpoint_every=every)) if learns else None
        make = make or (lambda name, path: FileModel(name, path, key))
        self.models = {Path(path).stem: path for path in paths}
        self.models = {name: make(name, path) for name, path in self.models.items()}
        self.service = Service(self.models, port=0, token=token, learn_token=learn_token, **more)
        self.listening, ready = self.service.listen(), threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._main(ready)))
        self.thread.start()
        assert ready.wait(60)
        self.port = self.service.port

    async def _main(self, ready):
        self.loop, self.ending = asyncio.get_running_loop(), asyncio.Event()
        self.loop.call_soon(ready.set)
        await self.service.run(self.listening, self.ending)

    def client(self, token=READ, **more):
        return Client(self.port, token, **more)

    def stop(self):
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.ending.set)
            self.thread.join(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Process:
    """`kampong serve` as a process of its own."""

    def __init__(self, *arguments, port=0):
        words = [sys.executable, "-m", "kampong", "serve", *map(str, arguments), "--port", str(port)]
        words += ["--token", READ, "--learn-token", LEARN] if "--no-token" not in arguments else []
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"^Serving .* at \w+://[^:]+:(\d+)/", line):
                self.port = int(found[1])
                break
        else:
            raise AssertionError("".join(self.said))
        self._reader = threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True)
        self._reader.start()

    def client(self, token=READ, **more):
        return Client(self.port, token, **more)

    def kill(self):
        self.process.kill()
        self._end()

    def stop(self):
        """Stop it as a service manager would; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self):
        code = self.process.wait(120)
        self._reader.join(60)
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
