"""Stores of objects on this machine: a web server, and as much of S3 and Google Cloud Storage as their clients ask."""

import contextlib
import json
import multiprocessing
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

WHEN = "2026-11-18T12:00:00.000Z"


class Store:
    """Files by name, and what happens when they are asked for.

    A name begins with a bucket. `ranges` tells whether parts are given, `sized` whether answers say their length,
    `breaks` how many of them end in the middle, `password` what a request must bring, `redirect` where it is sent, and
    `asked` collects method, address, range and authorisation of every request.
    """

    def __init__(self):
        self.files, self.asked, self.ranges, self.sized, self.breaks = {}, [], True, True, 0
        self.password, self.redirect, self.version = "", "", '"1"'

    @contextlib.contextmanager
    def serving(self):
        """Serve; yield host and port."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfStore", (Answers,), {"store": self}))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class Answers(BaseHTTPRequestHandler):
    """Answers to the clients."""

    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, *_):
        """Print nothing."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        store, query = self.store, parse_qs(urlsplit(self.path).query)
        path = unquote(urlsplit(self.path).path).strip("/")
        secret = self.headers.get("Authorization", "")
        store.asked.append((self.command, self.path, self.headers.get("Range"), secret))
        if store.redirect:
            self.say(302, b"", {"Location": store.redirect})
        elif store.password and store.password not in secret:
            self.say(401)
        elif "list-type" in query:
            self.list_s3(path, query.get("prefix", [""])[0])
        elif path.startswith("storage/v1/b/"):
            bucket, files, name = path.removeprefix("storage/v1/b/").partition("/o")
            self.of_google(bucket, name.strip("/"), bool(files), query)
        else:
            self.give(path)

    def give(self, name):
        """Give a file, or a part of it."""
        store, data = self.store, self.store.files.get(name)
        if data is None:
            return self.say(404)
        if self.headers.get("If-Match", store.version) != store.version:
            return self.say(412)
        facts = {"ETag": store.version, "Last-Modified": "Wed, 18 Nov 2026 12:00:00 GMT", "x-goog-generation": "1"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not (wanted and store.ranges):
            return self.say(200, data, facts)
        first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
        if first >= len(data):
            return self.say(416)
        facts["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return self.say(206, data[first : last + 1], facts)

    def say(self, code, data=b"", facts=()):
        """Answer; some answers end in the middle."""
        self.send_response(code)
        for name, value in dict(facts).items():
            self.send_header(name, value)
        if self.store.sized:
            self.send_header("Content-Length", str(len(data)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        if code < 300 and self.store.breaks > 0 and len(data) > 20_000:
            self.store.breaks -= 1
            self.close_connection = True
            data = data[: len(data) // 3]
        with contextlib.suppress(ConnectionError):  # the client may have read enough
            self.wfile.write(data)

    def list_s3(self, bucket, prefix):
        """List the files of a bucket, as S3 does."""
        found = ""
        for name, data in sorted(self.store.files.items()):
            if name.startswith(f"{bucket}/{prefix}"):
                key = escape(name.removeprefix(f"{bucket}/"))
                found += (
                    f"<Contents><Key>{key}</Key><Size>{len(data)}</Size><LastModified>{WHEN}</LastModified></Contents>"
                )
        count = found.count("<Key>")
        facts = f"<Name>{bucket}</Name><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{found}"
        text = f'<?xml version="1.0"?><ListBucketResult>{facts}</ListBucketResult>'
        self.say(200, text.encode(), {"Content-Type": "application/xml"})

    def of_google(self, bucket, name, files, query):
        """Give a file, what Google's store knows of it, or a list of files."""
        if query.get("alt") == ["media"]:
            return self.give(f"{bucket}/{name}")
        names = sorted(one.removeprefix(f"{bucket}/") for one in self.store.files if one.startswith(f"{bucket}/"))
        if name:
            found = self.fact(bucket, name) if name in names else None
        elif files:
            prefix = query.get("prefix", [""])[0]
            items = [self.fact(bucket, one) for one in names if one.startswith(prefix)]
            found = {"kind": "storage#objects", "items": items}
        else:
            found = {"kind": "storage#bucket", "name": bucket, "id": bucket}
        code = 404 if found is None else 200
        return self.say(code, json.dumps(found or {}).encode(), {"Content-Type": "application/json"})

    def fact(self, bucket, name):
        """Return what Google's store says of a file."""
        size = str(len(self.store.files[f"{bucket}/{name}"]))
        facts = {"kind": "storage#object", "name": name, "bucket": bucket, "id": f"{bucket}/{name}/1", "size": size}
        return {**facts, "generation": "1", "metageneration": "1", "etag": "1", "updated": WHEN, "timeCreated": WHEN}


@contextlib.contextmanager
def apart(files):
    """Serve files in a process of its own, for a client that waits without letting other threads run."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(files, theirs), daemon=True)
    process.start()
    try:
        yield mine.recv()
    finally:
        process.terminate()
        process.join()


def serve(files, pipe):
    """Serve files until the process is ended."""
    store = Store()
    store.files = files
    with store.serving() as host:
        pipe.send(host)
        threading.Event().wait()
