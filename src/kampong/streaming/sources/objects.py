"""Objects of S3, Google Cloud Storage and web servers: files that are read by ranges of bytes, at the same places."""

from __future__ import annotations

import base64
import functools
import io
import netrc
import os
import time
import urllib.error
import urllib.request
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from kampong.streaming.arrow import pa
from kampong.streaming.errors import SourceError, UsageError
from kampong.streaming.formats.format import LineFormat
from kampong.streaming.sources.address import Address
from kampong.streaming.sources.blocks import PAUSE
from kampong.streaming.sources.kind import Kind
from kampong.streaming.sources.learnt import CHUNK

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from kampong.streaming.formats.format import AnyPlace, Format, Opened
    from kampong.streaming.sources.source import Source

OPTIONS = ("region", "endpoint_override", "scheme", "anonymous")
PATIENCE = 30.0
"""Seconds that a web server may take to answer, and that it may be away before a read fails."""

UNKNOWN = 2**62
"""The size of a file whose server does not say it."""

CHECK = "Check the address and the credentials; the guide to sources says where they come from."


class Objects(Kind):
    """Files of a store, or of a web server."""

    lone: ClassVar[bool] = False
    place = "that of a file: bytes or rows, and a digest of those before"

    def __init__(self, name: str, example: str) -> None:
        self.name, self.example = name, example

    def place_type(self, chosen: Format) -> type[AnyPlace]:
        """Return the places of the format."""
        return chosen.place_type

    def check(self, source: Source) -> None:
        """Refuse options that do not belong to it."""
        super().check(source)
        if source.follow:
            raise UsageError(
                f"{source.path}: --follow is for files and streams that grow; {self.name} gives what is there. Run the "
                "same command again for what comes later."
            )

    def open(
        self, source: Source, chosen: Format, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> Opened:
        """Open a source at a place, or at its start."""
        lines = isinstance(chosen, LineFormat)
        if not chosen.in_stores or (source.untrusted and not lines):
            how = "with --untrusted " if chosen.in_stores else ""
            raise SourceError(f"{source.path}: {chosen.name} is read {how}from this machine only. Copy the file here.")
        return chosen.open(source, place, stop)

    def inputs(self, source: Source) -> list[str]:
        """Return the addresses."""
        return [source.path, *source.more]

    def bytes_of(self, path: str) -> io.BufferedReader:
        """Open a file for reading bytes from any place."""
        if self.name not in STORES:
            return io.BufferedReader(WebFile(path), CHUNK)
        parts = Address.of(path)
        try:
            file = _filesystem(path).open_input_file(f"{parts.server}/{parts.path}")
        except (OSError, pa.ArrowException) as error:
            raise _failed(path, error) from None
        return io.BufferedReader(StoredFile(file), CHUNK)

    def listing(self, path: str) -> list[str] | None:
        """Return the addresses of all files in a folder of a store; None for a file."""
        address = Address.of(path)
        if self.name not in STORES:
            return None
        files, inside = _filesystem(path), f"{address.server}/{address.path}".rstrip("/")
        try:
            (found,) = files.get_file_info([inside])
            if found.type != pa.fs.FileType.Directory:
                return None
            found = files.get_file_info(pa.fs.FileSelector(inside, recursive=True))
        except (OSError, pa.ArrowException) as error:
            raise _failed(path, error) from None
        query = path.partition("?")
        names = sorted(one.path for one in found if one.type == pa.fs.FileType.File)
        return [f"{self.name}://{name}{''.join(query[1:])}" for name in names]


class Ranges(io.RawIOBase):
    """A file whose bytes are asked for from a place on."""

    size: int

    def __init__(self) -> None:
        super().__init__()
        self._at = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can go to any place."""
        return True

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        if whence == io.SEEK_END and self.size == UNKNOWN:
            raise OSError("the server does not say how long the file is, which tables need. Copy the file here")
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at


class StoredFile(Ranges):
    """A file of a store, read by pyarrow."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self.size = file, int(file.size())

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        if self._at >= self.size:
            return 0
        try:
            data = self._file.read_at(min(len(buffer), self.size - self._at), self._at)
        except pa.ArrowException as error:
            raise OSError(str(error).partition("\n")[0]) from None
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            self._file.close()
        super().close()


class WebFile(Ranges):
    """A file of a web server. If a connection breaks, the rest is asked for, of the same version of the file."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address, self._version, self._whole = address, "", False
        self._response: Any = None
        self._next, self.size = 0, -1
        try:
            self._ask()
        except (OSError, HTTPException) as error:
            raise _failed(address, error) from None

    def _ask(self) -> None:
        """Ask for the bytes from the place on."""
        self._drop()
        request = urllib.request.Request(self._address, headers={"Accept-Encoding": "identity"})
        request.add_header("Range", f"bytes={self._at}-")
        if self._version:
            request.add_header("If-Match", self._version)
        if secret := _secret(self._address):
            request.add_unredirected_header("Authorization", secret)  # no other server gets it
        try:
            self._response = _opener().open(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and self.size < 0:  # the file is empty
                self.size = 0
                return
            if error.code == 412:
                raise SourceError(f"{self._address}: the file has changed while it was read. Start again.") from None
            raise
        headers = self._response.headers
        if self._response.status == 206:
            size = headers["Content-Range"].rpartition("/")[2]
            self._next = self._at
        else:  # the server gives whole files only
            size = headers.get("Content-Length") or ""
            self._next, self._whole = 0, True
        self.size = int(size) if size.isdigit() else UNKNOWN
        version = headers.get("ETag") or ""
        self._version = "" if version.startswith("W/") else version

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; a server that is away for a while is asked again."""
        end = time.monotonic() + PATIENCE
        while self._at < self.size:
            try:
                if self._response is None or not self._here():
                    self._ask()
                    self._here()
                count = int(self._response.readinto(memoryview(buffer)[: self.size - self._at]))
                if count or self.size == UNKNOWN:
                    self._at, self._next = self._at + count, self._next + count
                    return count
                self._drop()
            except (OSError, HTTPException) as error:
                self._drop()
                gone = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if gone or time.monotonic() >= end:
                    raise OSError(str(error)) from None
            if time.monotonic() >= end:
                raise OSError("the server ends the file too early")
            time.sleep(PAUSE)
        return 0

    def _here(self) -> bool:
        """Read on to the place if it is near, or if the server gives whole files only; tell whether it is reached."""
        while self._next < self._at and (self._whole or self._at - self._next <= CHUNK):
            part = self._response.read(min(self._at - self._next, CHUNK))
            if not part:
                break
            self._next += len(part)
        return self._next == self._at

    def _drop(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        super().close()


class Redirects(urllib.request.HTTPRedirectHandler):
    """Goes where a server sends, but never from an encrypted connection to another."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        """Return the request for another address."""
        if urlsplit(newurl).scheme != "https" and req.type == "https":
            raise OSError(f"the server sends to {urlsplit(newurl).scheme}://, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@functools.cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(Redirects)


def _secret(address: str) -> str:
    """Return what the file that NETRC names, or ~/.netrc, says of a server."""
    try:
        path = os.environ.get("NETRC") or Path("~/.netrc").expanduser()
        found = netrc.netrc(path).hosts.get(urlsplit(address).hostname or "")
    except (OSError, RuntimeError, netrc.NetrcParseError):
        return ""
    pair = f"{found[0]}:{found[2]}".encode() if found else b""
    return f"Basic {base64.b64encode(pair).decode()}" if pair else ""


def _filesystem(address: str) -> Any:
    """Return the store of an address."""
    parts = Address.of(address)
    wrong = [name for name in parts.options if name not in OPTIONS]
    if wrong:
        raise UsageError(f"{address}: ?{wrong[0]}= is unknown. Use {', '.join(OPTIONS)}.")
    given = {**(_of_environment() if parts.scheme == "s3" else {}), **parts.options}
    try:
        return _store(parts.scheme, parts.server, tuple(sorted(given.items())))
    except (OSError, pa.ArrowException) as error:
        raise _failed(address, error) from None


def _of_environment() -> dict[str, str]:
    """Return where S3 is, as the variables of its own tools say it."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    found = {"region": region} if region else {}
    if endpoint:
        scheme, _, found["endpoint_override"] = endpoint.rstrip("/").rpartition("://")
        found["scheme"] = scheme or "https"
    return found


@functools.cache
def _store(scheme: str, bucket: str, options: tuple[tuple[str, str], ...]) -> Any:
    given: dict[str, Any] = dict(options)
    given["anonymous"] = given.get("anonymous", "") == "yes"
    if scheme == "gs":
        given.pop("region", None)
        return pa.fs.GcsFileSystem(retry_time_limit=timedelta(seconds=PATIENCE), **given)
    if not {"region", "endpoint_override"} & given.keys():
        given["region"] = pa.fs.resolve_s3_region(bucket)
    return pa.fs.S3FileSystem(**given)


def _failed(address: str, error: Exception) -> SourceError:
    """Return the error for a file that cannot be opened."""
    reason = str(error).strip().partition("\n")[0][:300].rstrip(".") or type(error).__name__
    return SourceError(f"{address}: {reason}. {CHECK}")


STORES = ("s3", "gs")
S3 = Objects("s3", "s3://bucket/rows.parquet, s3://bucket/rows/")
GS = Objects("gs", "gs://bucket/rows.parquet, gs://bucket/rows/")
HTTPS = Objects("https", "https://host/rows.csv")
HTTP = Objects("http", "http://host/rows.csv")
