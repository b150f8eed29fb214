"""`kampong serve`: models answered over HTTP, and taught over it if that is wanted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kampong.cli.common import RESULTS, KeyFile, Quiet, app, say

if TYPE_CHECKING:
    from ssl import SSLContext

ACCESS = "Access"


@app.command(
    epilog="Examples:\n\n"
    "  kampong serve flowers.kampong\n\n"
    "  kampong serve flowers.kampong --learn --port 8080\n\n"
    "  kampong serve iris=flowers.kampong digits=digits.kampong --no-token\n\n"
    "  curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: text/csv' --data-binary @new.csv "
    "http://127.0.0.1:8080/predict\n\n"
    "Ctrl-C and SIGTERM stop the server: it answers what has come, saves what was learnt, and ends with code 0."
)
def serve(
    model: Annotated[
        list[str], typer.Argument(help="Model files: FILE, or NAME=FILE to give it a name.", show_default=False)
    ],
    learn: Annotated[
        bool, typer.Option("--learn", help="Let requests teach, unlearn and merge; each is durable when answered.")
    ] = False,
    port: Annotated[int, typer.Option(help="On which port; 0 for any free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Where to serve.", rich_help_panel=ACCESS)] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(
            help="A secret that readers must send, at least 8 characters.",
            envvar="KAMPONG_TOKEN",
            show_default="a new one, which is printed",
            rich_help_panel=ACCESS,
        ),
    ] = "",
    learn_token: Annotated[
        str,
        typer.Option(
            help="A secret that those must send who change models.",
            envvar="KAMPONG_LEARN_TOKEN",
            show_default="a new one, which is printed",
            rich_help_panel=ACCESS,
        ),
    ] = "",
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Serve every user of this machine.", rich_help_panel=ACCESS)
    ] = False,
    certificate: Annotated[
        str, typer.Option("--tls-certificate", help="A PEM file, to serve https.", rich_help_panel=ACCESS)
    ] = "",
    private_key: Annotated[
        str, typer.Option("--tls-key", help="The private key of the certificate, a PEM file.", rich_help_panel=ACCESS)
    ] = "",
    max_request_bytes: Annotated[int, typer.Option(help="A larger request is refused.", rich_help_panel=ACCESS)] = 8
    * 2**20,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between two saves of a model that learns.", rich_help_panel=RESULTS)
    ] = 30.0,
    key: KeyFile = None,
    quiet: Quiet = False,
) -> None:
    """Answer requests with models, over HTTP: JSON, CSV, and the Open Inference Protocol.

    Without --learn, a model file that is replaced is read again. Logs are JSON lines on stderr; with --quiet, warnings
    and errors alone.
    """
    import logging

    from kampong.serving.structured_logs import log_to

    named = _named(model)
    secrets = _secrets(token, learn_token, no_token, host, learn)
    tls = _tls(certificate, private_key)
    log_to(sys.stderr, logging.WARNING if quiet else logging.INFO)
    made = not (token or no_token), learn and not (learn_token or no_token)
    _run(named, learn, host, port, secrets, tls, max_request_bytes, checkpoint_every, key, quiet, made)


def _run(
    named: dict[str, str],
    learn: bool,
    host: str,
    port: int,
    secrets: tuple[str | None, str | None],
    tls: SSLContext | None,
    largest: int,
    every: float,
    key: str | None,
    quiet: bool,
    made: tuple[bool, bool],
) -> None:
    import asyncio
    import contextlib
    import signal

    from kampong._core.compute import one_blas_thread
    from kampong.serving.learning_model import LearningModel
    from kampong.serving.served_model import FileModel
    from kampong.serving.server import SWITCH, Service
    from kampong.streaming.errors import OutputError

    models: dict[str, Any] = {}
    try:
        for name, path in named.items():
            models[name] = (
                LearningModel(name, path, key, checkpoint_every=every) if learn else FileModel(name, path, key)
            )
        service = Service(models, host, port, *secrets, largest=largest, tls=tls)
        try:
            listening = service.listen()
        except OSError as error:
            raise OutputError(str(error.args[-1])) from None
        _tell(service, quiet and port > 0, made)

        async def main() -> None:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the process
                    loop.add_signal_handler(number, stop.set)
            await service.run(listening, stop)

        sys.setswitchinterval(SWITCH)
        with one_blas_thread():
            asyncio.run(main())
    finally:
        for one in models.values():
            if one.learner is not None:
                one.learner.stop()


def _tell(service: Any, quiet: bool, made: tuple[bool, bool]) -> None:
    """Say where the server is, and the tokens that it has made, which nobody can guess."""
    names, address = ", ".join(service.models), service.address(with_token=made[0])
    say(quiet and not any(made), f"Serving {names} at {address}")
    if made[0]:
        say(False, f"Token for reading: {service.token}")
    if made[1]:
        say(False, f"Token for learning: {service.learn_token}")
    if service.token is None:
        say(quiet, "WARNING: --no-token: every user of this machine can use the server.")


def _named(models: list[str]) -> dict[str, str]:
    """Return the files by the names of their models."""
    from kampong.streaming.errors import UsageError

    found: dict[str, str] = {}
    for one in models:
        name, separator, path = one.partition("=")
        if not separator or Path(one).exists():
            name, path = Path(one).stem, one
        if not name or "/" in name:
            raise UsageError(f"{one}: a model needs a name without '/'. Give it as NAME=FILE.")
        if name in found:
            raise UsageError(f"{one}: two models are named {name!r}. Give them names: NAME=FILE.")
        found[name] = path
    return found


def _secrets(token: str, learn_token: str, no_token: bool, host: str, learn: bool) -> tuple[str | None, str | None]:
    """Return the tokens for reading and for learning, None for none."""
    import secrets

    from kampong.report.admission import is_this_machine
    from kampong.report.live import SHORTEST_TOKEN
    from kampong.streaming.errors import UsageError

    if no_token:
        if token or learn_token:
            raise UsageError("--no-token and --token contradict each other. Give one of them, or none.")
        if not is_this_machine(host):
            raise UsageError(
                f"--no-token: --host {host} can be reached from other machines. Leave out --no-token, or serve at "
                "127.0.0.1."
            )
        return None, None
    for option, one in (("--token", token), ("--learn-token", learn_token)):
        if one and len(one) < SHORTEST_TOKEN:
            raise UsageError(
                f"{option} has {len(one)} characters; at least {SHORTEST_TOKEN} are needed. Without the option, a "
                "good one is made."
            )
    if token and token == learn_token:
        raise UsageError("--token and --learn-token are the same. Give two, so that readers cannot change models.")
    return token or secrets.token_urlsafe(), (learn_token or secrets.token_urlsafe()) if learn else None


def _tls(certificate: str, private_key: str) -> SSLContext | None:
    """Return what the server speaks TLS with, None without a certificate."""
    import ssl

    from kampong.streaming.errors import UsageError

    if not certificate:
        if private_key:
            raise UsageError("--tls-key needs --tls-certificate. Give both, or none.")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, private_key or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"--tls-certificate {certificate}: the certificate and its key cannot be read: {error.strerror or error}. "
            "Give PEM files that belong together."
        ) from None
    return context
