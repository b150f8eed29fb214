"""The server of models: routes, handlers, and a stop that answers what has come and saves what was learnt."""

from __future__ import annotations

import asyncio
import csv
import io
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from tornado.ioloop import PeriodicCallback
from tornado.web import Application, HTTPError, RequestHandler, stream_request_body

from kampong.report.admission import LimitedServer
from kampong.serving import metrics, open_inference, service_page
from kampong.serving.access import ServiceGuard
from kampong.serving.errors_of_requests import RefusedError
from kampong.serving.request_rows import kind_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from ssl import SSLContext

    from kampong.serving.learning_model import LearningModel
    from kampong.serving.served_model import FileModel, Snapshot

SMALL = 2**16
"""Bodies up to so many bytes are predicted at once; larger ones in a thread, so that others do not wait."""

THREADS = 4
LOOK = 1.0
"""Seconds between two looks at the model files."""

PATIENCE = 30.0
"""Seconds that a request may take to come, and an idle connection may stay."""

DRAINED = 2**26
"""A refused body up to so many bytes is read and dropped, so that its sender reads the answer."""

CHANGES = {"/learn": "learn", "/unlearn": "unlearn", "/merge": "merge"}
OPEN = ("/v2/health/live", "/v2/health/ready")
"""What probes may ask without a token."""

_log = logging.getLogger(__name__)


@dataclass
class Service:
    """Models, and how they are served.

    Parameters
    ----------
    models : mapping of str to FileModel or LearningModel
        The models by name.
    host : str
        The address to serve at.
    port : int
        The port; 0 takes a free one, which `listen` puts here.
    token, learn_token : str or None
        The secrets of readers, and of those who may change models. None for both admits every user of this machine.
    largest : int
        The most bytes of the body of a request.
    tls : SSLContext or None
        Certificate and key, where the server speaks TLS.
    """

    models: Mapping[str, FileModel | LearningModel]
    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    learn_token: str | None = None
    largest: int = 8 * 2**20
    tls: SSLContext | None = None
    ready: bool = False
    busy: int = 0
    figures: metrics.Metrics = field(default_factory=metrics.Metrics)

    @property
    def learns(self) -> bool:
        """Whether some model learns."""
        return any(one.learner is not None for one in self.models.values())

    @property
    def snapshots(self) -> list[Snapshot]:
        """The models as they answer now."""
        return [one.snapshot for one in self.models.values()]

    def listen(self) -> socket.socket:
        """Take the port.

        Returns
        -------
        socket
            What `run` serves.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server((self.host, self.port), family=family, backlog=128)
        except OSError as error:
            raise OSError(
                error.errno, f"cannot serve at {self.host}:{self.port}: {error.strerror}. Try another --port."
            ) from None
        listening.setblocking(False)
        self.port = int(listening.getsockname()[1])
        return listening

    def address(self, *, with_token: bool = False) -> str:
        """Return where the server is, with the token of readers if it is wanted."""
        host = socket.gethostname() if self.host in ("", "0.0.0.0", "::") else self.host
        scheme = "http" if self.tls is None else "https"
        found = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"
        return f"{found}?token={quote(self.token, safe='')}" if with_token and self.token else found

    async def run(self, listening: socket.socket, stop: asyncio.Event) -> None:
        """Serve until the event is set; then answer what has come, and save what was learnt.

        Parameters
        ----------
        listening : socket
            What `listen` has returned.
        stop : asyncio.Event
            Ends it.
        """
        with ThreadPoolExecutor(THREADS, thread_name_prefix="kampong serves") as pool:
            application = _Application(self, pool)
            server = application.server = LimitedServer(
                application, largest=self.largest, patience=PATIENCE, ssl_options=self.tls
            )
            server.take_from(listening)
            look = PeriodicCallback(lambda: self._look(pool), LOOK * 1000)
            look.start()
            self.ready = True
            await stop.wait()
            self.ready = False
            look.stop()
            server.stop()
            loop, until = asyncio.get_running_loop(), time.monotonic() + PATIENCE
            while self.busy and time.monotonic() < until:
                await asyncio.sleep(0.01)
            for one in self.models.values():
                if one.learner is not None:
                    await loop.run_in_executor(pool, one.learner.stop)
            await server.close_all_connections()

    async def _look(self, pool: ThreadPoolExecutor) -> None:
        """Read model files again that were replaced."""
        for name, one in self.models.items():
            try:
                if await asyncio.get_running_loop().run_in_executor(pool, one.reload):
                    _log.info("reloaded", extra={"facts": {"model": name, "rows": one.snapshot.rows}})
            except Exception as error:
                _log.warning("not reloaded", extra={"facts": {"model": name, "reason": str(error)}})

    def gauges(self) -> list[tuple[str, str, list[tuple[str, float]]]]:
        """Return how far each model has come, for Prometheus."""
        found: list[tuple[str, str, list[tuple[str, float]]]] = []

        def add(name: str, meaning: str, values: Iterable[tuple[str, float]]) -> None:
            found.append((name, meaning, list(values)))

        models = self.snapshots
        add("kampong_model_rows", "Rows that the answering model knows.", ((one.name, one.rows) for one in models))
        add("kampong_model_version", "Version of the answering model.", ((one.name, one.version) for one in models))
        learners = [one.learner for one in self.models.values() if one.learner is not None]
        if learners:
            unsaved = ((one.name, one.unsaved) for one in learners)
            add("kampong_learnt_rows", "Rows learnt.", ((one.name, one.rows) for one in learners))
            add("kampong_learnt_requests", "Requests learnt.", ((one.name, one.number) for one in learners))
            add("kampong_journal_requests", "Requests that only the journal holds.", unsaved)
        return found

    def model(self, name: str) -> FileModel | LearningModel:
        """Return a model by its name, "" for the only one."""
        if not name and len(self.models) == 1:
            return next(iter(self.models.values()))
        if name not in self.models:
            known = ", ".join(self.models)
            what = f"There is no model {name!r:.100}." if name else "Say which model, with ?model=NAME."
            raise RefusedError(404 if name else 400, f"{what} There are: {known}.")
        return self.models[name]


class _Application(Application):
    """An application that asks the guard before every request, and refuses bodies that are too large."""

    server: LimitedServer

    def __init__(self, service: Service, pool: ThreadPoolExecutor) -> None:
        more = {"service": service, "pool": pool}
        # The name of a model is one part of a path; it may be escaped.
        model = r"/v2/models/([^/]+)(?:/versions/([^/]+))?"
        routes = [
            (r"/predict", _Predict, {**more, "endpoint": "predict"}),
            *((path, _Change, {**more, "endpoint": action}) for path, action in CHANGES.items()),
            (rf"{model}/infer", _Infer, {**more, "endpoint": "infer"}),
            (rf"{model}(/ready)?", _Model, {**more, "endpoint": "model"}),
            (r"/v2/?", _Facts, {**more, "endpoint": "server"}),
            (r"/v2/health/(live|ready)", _Health, {**more, "endpoint": "health"}),
            (r"/metrics", _Metrics, {**more, "endpoint": "metrics"}),
            (r"/openapi\.json", _OpenApi, {**more, "endpoint": "openapi"}),
            (r"/", _Page, {**more, "endpoint": "page"}),
        ]
        absent = {**more, "endpoint": "", "status": 404, "reason": "There is nothing at this address. GET / names all."}
        super().__init__(
            routes, default_handler_class=_Refuse, default_handler_args=absent, log_function=lambda handler: None
        )
        self._more, self._service = more, service
        self._guard = ServiceGuard(service.token, service.learn_token, service.port)

    def find_handler(self, request: Any, **more: Any) -> Any:
        """Route a request to its handler, or to one that refuses it."""
        length = request.headers.get("Content-Length", "0")
        size = int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else 0
        if size <= DRAINED:
            request.connection.set_max_body_size(max(size, self._service.largest))
        if self._guard.brings_token(request):
            return self.get_handler_delegate(request, _Admit, {**self._more, "endpoint": "page", "guard": self._guard})
        if request.path not in OPEN:
            status, reason = self._guard.status(request, learns=request.path in CHANGES)
            if status:
                return self._refuse(request, status, reason, size)
        self.server.admit(request.connection.stream)
        if size > self._service.largest:
            reason = (
                f"The body has {size:,} bytes; at most {self._service.largest:,} are allowed (--max-request-bytes). "
                "Send fewer rows per request."
            )
            return self._refuse(request, 413, reason, size)
        return super().find_handler(request, **more)

    def _refuse(self, request: Any, status: int, reason: str, size: int) -> Any:
        facts = {"endpoint": "", "status": status, "reason": reason, "drain": size <= DRAINED}
        return self.get_handler_delegate(request, _Refuse, {**self._more, **facts})


class _Handler(RequestHandler):
    """Answers in JSON, counts and logs each request once."""

    def initialize(self, service: Service, pool: ThreadPoolExecutor, endpoint: str, **more: Any) -> None:
        self.service, self._pool, self._endpoint = service, pool, endpoint
        self._model, self._rows, self._done = "", 0, False
        service.busy += 1

    def on_finish(self) -> None:
        self._leave()
        status, seconds = self.get_status(), self.request.request_time()
        self.service.figures.count(self._model, self._endpoint, status, seconds, self._rows)
        facts = {"model": self._model, "method": self.request.method, "path": self.request.path, "status": status}
        facts |= {"rows": self._rows, "milliseconds": round(1000 * seconds, 3), "remote": self.request.remote_ip}
        _log.info("request", extra={"facts": facts})

    def on_connection_close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self._done:
            self._done = True
            self.service.busy -= 1

    def log_exception(self, kind: Any, value: Any, traceback: Any) -> None:
        if not isinstance(value, HTTPError):
            facts = {"path": self.request.path}
            _log.error("unexpected", exc_info=(kind, value, traceback), extra={"facts": facts})

    def write_error(self, status_code: int, **more: Any) -> None:
        reason = "Something unexpected happened; the log of the server says what."
        if status_code == 405:
            reason = f"{self.request.method} is not for {self.request.path}. GET / names what is."
        elif status_code < 500:
            reason = self._reason
        self.answer({"error": reason})

    def answer(self, found: Any, kind: str = "application/json") -> None:
        """Send an answer."""
        self.set_header("Content-Type", kind)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(msgspec.json.encode(found) if kind == "application/json" else found)

    def refuse(self, error: RefusedError) -> None:
        """Send a refusal."""
        self.set_status(error.status)
        if error.status == 401:
            self.set_header("WWW-Authenticate", "Bearer")
        self.answer({"error": str(error), **error.more})

    async def work(self, act: Callable[[], Awaitable[tuple[Any, int, str]]]) -> None:
        """Send what an action answers, or why it is refused."""
        try:
            found, self._rows, kind = await act()
        except RefusedError as error:
            self.refuse(error)
            return
        self.answer(found, kind)

    async def computed(self, compute: Callable[[], Any]) -> Any:
        """Return what a computation on the body gives: at once for small bodies, else from a thread."""
        if len(self.request.body) <= SMALL:
            return compute()
        return await asyncio.get_running_loop().run_in_executor(self._pool, compute)

    def wanted(self, name: str, known: Sequence[str] = ()) -> str:
        """Return an option of the address, one of those that are known."""
        value = self.get_query_argument(name, "")
        if value and known and value not in known:
            raise RefusedError(400, f"{name} is {value!r:.100}; it can be {' or '.join(known)}.")
        return value

    def asked(self, name: str = "") -> FileModel | LearningModel:
        """Return the model that is asked."""
        found = self.service.model(name or self.get_query_argument("model", ""))
        self._model = found.name
        return found


@stream_request_body
class _Refuse(_Handler):
    """Refuses a request: after its body was dropped, or at once where that is too large."""

    def initialize(self, service: Service, pool: ThreadPoolExecutor, endpoint: str, **more: Any) -> None:
        super().initialize(service, pool, endpoint)
        self._error, self._drain = RefusedError(more["status"], more["reason"]), more.get("drain", True)

    def prepare(self) -> None:
        if not self._drain:
            self.refuse(self._error)

    def data_received(self, chunk: bytes) -> None:
        """Drop a part of the body."""

    def _answer(self, *_: str) -> None:
        self.refuse(self._error)

    get = head = post = put = patch = delete = options = _answer


class _Predict(_Handler):
    """Predicts rows of JSON or CSV."""

    async def post(self) -> None:
        await self.work(self._act)

    async def _act(self) -> tuple[Any, int, str]:
        snapshot, body = self.asked().snapshot, self.request.body
        chances = self.wanted("probabilities", ("best", "all"))
        share = self.wanted("set")
        try:
            coverage = float(share) if share else None
        except ValueError:
            raise RefusedError(400, f"set is {share!r:.40}; it is a share such as 0.9.") from None
        kind = kind_of(self.request.headers.get("Content-Type", ""), body)
        accepted = self.request.headers.get("Accept", "")
        as_csv = "text/csv" in accepted or (kind == "csv" and "application/json" not in accepted)

        def compute() -> tuple[Any, int, str]:
            batch = snapshot.reader.read(kind, body, labels=False)
            found = snapshot.predict(batch, chances=bool(chances), coverage=coverage)
            rows = _rows_of(snapshot, found, chances, flat=as_csv)
            if as_csv:
                return _as_csv(rows), batch.rows, "text/csv; charset=utf-8"
            return (
                {"model": snapshot.name, "version": str(snapshot.version), "rows": rows},
                batch.rows,
                "application/json",
            )

        result: tuple[Any, int, str] = await self.computed(compute)
        return result


class _Infer(_Handler):
    """Predicts tensors, as the Open Inference Protocol has them."""

    async def post(self, name: str, version: str | None = None) -> None:
        async def act() -> tuple[Any, int, str]:
            snapshot = _of_version(self.asked(name).snapshot, version)
            length = self.request.headers.get("Inference-Header-Content-Length")
            found, rows = await self.computed(lambda: open_inference.infer(snapshot, self.request.body, length))
            return found, rows, "application/json"

        await self.work(act)


class _Change(_Handler):
    """Learns, unlearns and merges."""

    async def post(self) -> None:
        await self.work(self._act)

    async def _act(self) -> tuple[Any, int, str]:
        model, body, action = self.asked(), self.request.body, self._endpoint
        learner = model.learner
        if learner is None:
            raise RefusedError(405, f"{model.name}: this server only predicts. Start it with --learn to change models.")
        kind = "model" if action == "merge" else kind_of(self.request.headers.get("Content-Type", ""), body)
        request = self.request.headers.get("Idempotency-Key", "") or self.wanted("id")
        found = await asyncio.wrap_future(learner.submit(action, kind, body, request))
        return found, int(found["rows"]), "application/json"


class _Model(_Handler):
    """Says what a model takes and gives, and whether it answers."""

    async def get(self, name: str, version: str | None = None, ready: str | None = None) -> None:
        async def act() -> tuple[Any, int, str]:
            snapshot = _of_version(self.asked(name).snapshot, version)
            if ready:
                return {"name": snapshot.name, "ready": self.service.ready}, 0, "application/json"
            return open_inference.model_metadata(snapshot), 0, "application/json"

        await self.work(act)


class _Health(_Handler):
    """Says whether the server runs, and whether it answers."""

    def get(self, what: str) -> None:
        good = what == "live" or self.service.ready
        self.set_status(200 if good else 503)
        self.answer({what: good})


class _Facts(_Handler):
    """Says what the server is."""

    def get(self) -> None:
        self.answer({**open_inference.server_metadata(), "models": list(self.service.models)})


class _Metrics(_Handler):
    """Gives figures for Prometheus."""

    def get(self) -> None:
        self.answer(self.service.figures.text(self.service.gauges()), metrics.CONTENT_TYPE)


class _OpenApi(_Handler):
    """Gives the OpenAPI document."""

    def get(self) -> None:
        self.answer(service_page.openapi(self.service.snapshots, self.service.learns))


class _Page(_Handler):
    """Gives the page for people."""

    def get(self) -> None:
        self.set_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.answer(service_page.page(self.service.snapshots, self.service.learns), "text/html; charset=utf-8")


class _Admit(_Handler):
    """Puts the token of readers into a cookie, and takes it out of the address."""

    def initialize(self, service: Service, pool: ThreadPoolExecutor, endpoint: str, **more: Any) -> None:
        super().initialize(service, pool, endpoint)
        self._guard: ServiceGuard = more["guard"]

    def get(self) -> None:
        token = quote(self._guard.token or "", safe="")
        secure = self.service.tls is not None
        self.set_cookie(self._guard.cookie, token, httponly=True, samesite="Lax", secure=secure)
        self.redirect("/")


def _of_version(snapshot: Snapshot, version: str | None) -> Snapshot:
    if version is not None and version != str(snapshot.version):
        raise RefusedError(
            404, f"{snapshot.name}: version {version!r:.40} is not here; the only one is {snapshot.version}."
        )
    return snapshot


def _rows_of(snapshot: Snapshot, found: Any, chances: str, *, flat: bool) -> list[dict[str, Any]]:
    """Return predictions row by row: flat ones are the columns of `kampong predict`."""
    names = snapshot.classes.tolist()
    rows: list[dict[str, Any]] = [{"row": i + 1, "predicted": label} for i, label in enumerate(found.labels.tolist())]
    if chances == "best":
        for row, chance in zip(rows, found.chances.max(axis=1).tolist(), strict=True):
            row["probability"] = chance
    elif chances == "all":
        for row, one in zip(rows, found.chances.tolist(), strict=True):
            if flat:
                row |= {f"probability of {name}": chance for name, chance in zip(names, one, strict=True)}
            else:
                row["probabilities"] = {str(name): chance for name, chance in zip(names, one, strict=True)}
    if found.sets is not None:
        for row, one in zip(rows, found.sets.tolist(), strict=True):
            members = [name for name, there in zip(names, one, strict=True) if there]
            row["set"] = "|".join(map(str, members)) if flat else members
    return rows


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
