"""The server of models: its address, its routes, and a stop that answers what has come and saves what was learnt."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tornado.ioloop import PeriodicCallback
from tornado.web import Application

from kampong.report.admission import LimitedServer
from kampong.serving import handlers, metrics
from kampong.serving.access import ServiceGuard
from kampong.serving.errors_of_requests import RefusedError
from kampong.streaming.increments import said_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from ssl import SSLContext

    from kampong.serving.learning_model import LearningModel
    from kampong.serving.served_model import FileModel, Snapshot

THREADS = 4
LOOK = 1.0
"""Seconds between two looks at the model files."""

PATIENCE = 30.0
"""Seconds that a request may take to come, and an idle connection may stay."""

DRAINED = 2**26
"""A refused body up to this many bytes is read and dropped, so that its sender reads the answer."""

SWITCH = 0.0005
"""Seconds that a thread which learns may keep the interpreter while a request waits for it; Python's own are ten times
as many, and a request hands over several times."""

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
        """Take the port."""
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
        # Once for all requests: filters of warnings belong to the process, not to a thread.
        with said_before(), ThreadPoolExecutor(THREADS, thread_name_prefix="kampong serves") as pool:
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
        absent = {**more, "endpoint": "", "status": 404, "reason": "There is nothing at this address. GET / names all."}
        super().__init__(
            handlers.routes(more),
            default_handler_class=handlers.REFUSE,
            default_handler_args=absent,
            log_function=lambda handler: None,
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
            return self.get_handler_delegate(
                request, handlers.ADMIT, {**self._more, "endpoint": "page", "guard": self._guard}
            )
        if request.path not in OPEN:
            status, reason = self._guard.status(request, learns=request.path in handlers.CHANGES)
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
        return self.get_handler_delegate(request, handlers.REFUSE, {**self._more, **facts})
