"""What the server does with a request: one handler for each kind of address; all answer and refuse in one way."""

from __future__ import annotations

import asyncio
import csv
import io
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from tornado.web import HTTPError, RequestHandler, stream_request_body

from kampong.serving import metrics, open_inference, service_page
from kampong.serving.errors_of_requests import RefusedError
from kampong.serving.request_rows import kind_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from kampong.serving.access import ServiceGuard
    from kampong.serving.learning_model import LearningModel
    from kampong.serving.served_model import FileModel, Snapshot
    from kampong.serving.server import Service

SMALL = 2**16
"""Bodies up to this many bytes are predicted at once; larger ones in a thread, so that others do not wait."""

_log = logging.getLogger(__name__)


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
        """Return an option of the address, one of those values that are known."""
        value = self.get_query_argument(name, "")
        if value and known and value not in known:
            raise RefusedError(400, f"{name} is {value!r:.100}; it can be {' or '.join(known)}.")
        return value

    def allow(self, *options: str) -> None:
        """Refuse options of the address that there are not: a mistyped one must not count for nothing."""
        for name in self.request.query_arguments:
            if name not in options:
                raise RefusedError(400, f"There is no option {name!r:.100} here. There are {', '.join(options)}.")

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
        self.allow("model", "probabilities", "set")
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
        self.allow("model", "id")
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


CHANGES = {"/learn": "learn", "/unlearn": "unlearn", "/merge": "merge"}
"""The addresses that change a model, and what they do."""

REFUSE, ADMIT = _Refuse, _Admit


def routes(more: dict[str, Any]) -> list[tuple[str, type[RequestHandler], dict[str, Any]]]:
    """Return the handlers by address.

    Parameters
    ----------
    more : dict
        What every handler is given: the service, and threads for large bodies.

    Returns
    -------
    list of tuple
        Regular expressions, handlers, and what they are given.
    """
    model = r"/v2/models/([^/]+)(?:/versions/([^/]+))?"
    return [
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
