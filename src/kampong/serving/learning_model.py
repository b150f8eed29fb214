"""A model that learns from requests: one thread learns and writes the journal, another solves copies and saves.

A request is learnt in memory, then written to the journal, then answered: what the model refuses leaves no trace, and
what was answered is on the disk. Where the journal cannot be written, the model is built again from its file and from
what the journal holds. Predictions come from the last solved copy, so they never wait.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from kampong.files import held
from kampong.files.model_errors import CheckpointError
from kampong.files.signing import key_bytes
from kampong.serving.errors_of_requests import RefusedError
from kampong.serving.journal import REMEMBERED, Answered, Entry, Journal, digest_of
from kampong.serving.request_rows import RowReader, schema_of
from kampong.serving.served_model import Snapshot, read_increments
from kampong.streaming.model_file import write_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong.files.signing import Key
    from kampong.streaming.increments import Increments

SHARE = 0.25
"""The largest part of the time that solving copies may take."""

PAUSE = 0.05
"""Seconds between two copies at least."""

GROUP = 64
"""Requests that share one write to the disk, at most."""

WAITING, WAITING_BYTES = 1024, 2**28
"""Requests that may wait to be learnt, and their bytes; more are refused for the moment."""

FULL = 2**26
"""Bytes of a journal from which on the model is saved at once."""

LONGEST_ID = 200

_log = logging.getLogger(__name__)


class Job(NamedTuple):
    """A request that waits to be learnt, and the future of its answer."""

    action: str
    kind: str
    body: bytes
    request: str
    done: Future[dict[str, Any]]


class LearningModel:
    """A model that learns from requests and is saved in its file.

    Parameters
    ----------
    name : str
        What requests call it.
    path : str
        The model file; a run lock is held on it until `stop`.
    key : bytes, str or path, optional
        Its key, or the file that holds it, where model files are signed.
    checkpoint_every : float
        Seconds between two saves of a model that has changed.
    """

    def __init__(self, name: str, path: str, key: Key = None, *, checkpoint_every: float = 30.0) -> None:
        self.name, self.path, self._key, self._every = name, path, key_bytes(key), checkpoint_every
        self._lock, self._jobs = threading.Lock(), queue.Queue[Job | None](WAITING)
        self._broken = False
        self._urgent, self._waiting, self._counting = False, 0, threading.Lock()
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._held = held(path)
        self._held.__enter__()
        try:
            self._open()
        except BaseException:
            self._held.__exit__(None, None, None)
            raise
        self._threads = [
            threading.Thread(target=work, name=f"kampong {what} {name}", daemon=True)
            for work, what in ((self._learn, "learns"), (self._publish, "saves"))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, action: str, kind: str, body: bytes, request: str = "") -> Future[dict[str, Any]]:
        """Let a request be learnt.

        Parameters
        ----------
        action : str
            "learn", "unlearn" or "merge".
        kind : str
            How the body is read; "model" for the bytes of a model file.
        body : bytes
            What was sent.
        request : str
            The id that the client gave. A request whose id was answered before is answered the same, and not learnt.

        Returns
        -------
        Future of dict
            The answer, once what was learnt is on the disk; or a `RefusedError`.
        """
        if len(request) > LONGEST_ID:
            raise RefusedError(400, f"The id of the request has {len(request):,} characters; {LONGEST_ID} are allowed.")
        if self._stopping.is_set():
            raise RefusedError(503, "The server is stopping. Send the request, with the same id, to the next one.")
        done: Future[dict[str, Any]] = Future()
        done.set_running_or_notify_cancel()  # from here on nobody can cancel it
        try:
            if self._waiting + len(body) > WAITING_BYTES:
                raise queue.Full
            self._jobs.put_nowait(Job(action, kind, body, request, done))
        except queue.Full:
            raise RefusedError(
                503, "Too many requests wait to be learnt. Send the request again later, with the same id."
            ) from None
        self._count_waiting(len(body))
        return done

    def _count_waiting(self, size: int) -> None:
        with self._counting:
            self._waiting += size

    @property
    def number(self) -> int:
        """The number of the last request that was learnt."""
        return self._journal.number

    @property
    def unsaved(self) -> int:
        """The requests that only the journal holds."""
        return len(self._journal.entries)

    @property
    def rows(self) -> int:
        """The rows learnt."""
        return self._learnt.rows

    def reload(self) -> bool:
        """Return False: the file is this object's own."""
        return False

    @property
    def learner(self) -> LearningModel:
        """Itself."""
        return self

    def stop(self) -> None:
        """Answer what waits, save the model, and release its file."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._jobs.put(None)
        self._threads[0].join()
        self._changed.set()
        self._threads[1].join()
        self._journal.close()
        self._held.__exit__(None, None, None)

    # Opening, and building the model again.

    def _open(self) -> None:
        self._learnt, known = read_increments(self.path, self._key)
        self._learnt.check()
        self._reader = RowReader(schema_of(self.path, self._learnt.model, self._learnt.state))
        self._journal = Journal(f"{self.path}.journal", known)
        self._answers = OrderedDict(self._journal.answers)
        if known != self._journal.held(self._journal.base):  # from now on the file says which journal goes on with it
            write_model(self.path, *self._learnt.packed(self._journal.held(self._journal.base)), key=self._key)
        self._replay(self._journal.entries)
        self._saved = self._journal.base
        first = self._learnt.copy()
        first.settle()
        self.snapshot = Snapshot.of(self.name, first, self._journal.number, self._reader)

    def _replay(self, entries: Sequence[Entry]) -> None:
        """Learn requests again that were answered before."""
        for entry in entries:
            try:
                self._apply(entry.action, entry.kind, entry.body, entry.number)
            except ValueError as error:
                raise CheckpointError(
                    f"{self.path}.journal: request {entry.number} was learnt before, and is refused now: {error}"
                ) from None
            self._remember(entry)

    def _build_again(self, pending: Sequence[Entry]) -> None:
        """Return to what the journal holds, and requests of this group after it."""
        self._broken = True  # until it is done; the next request tries again
        self._learnt, _ = read_increments(self.path, self._key)
        self._answers = OrderedDict(self._journal.answers)
        self._replay([*self._journal.entries, *pending])
        self._broken = False

    # The thread that learns.

    def _learn(self) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            while len(group) < GROUP:
                try:
                    following = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._jobs.put(None)
                    break
                group.append(following)
            with self._lock:
                self._take(group)
            self._count_waiting(-sum(len(one.body) for one in group))
            self._urgent = self._urgent or self._journal.size > FULL
            self._changed.set()

    def _take(self, group: Sequence[Job]) -> None:
        """Learn a group of requests, write them to the disk together, and answer them."""
        pending: list[Entry] = []
        answers: list[tuple[Job, dict[str, Any]]] = []
        for job in group:
            try:
                answers.append((job, self._answer(job, pending)))
            except RefusedError as error:
                job.done.set_exception(error)
            except Exception as error:
                _log.exception("%s: a request could not be learnt.", self.name)
                job.done.set_exception(error)
        try:
            if pending:
                self._journal.append(pending)
        except OSError as error:
            _log.exception("%s: the journal could not be written.", self.name)
            self._broken = True
            failed = RefusedError(
                503,
                f"{self._journal.path}: {error.strerror or error}. Nothing of the request was learnt. Send it again "
                "when the disk can be written.",
            )
            for job, _ in answers:
                job.done.set_exception(failed)
            return
        for job, answer in answers:
            job.done.set_result(answer)

    def _answer(self, job: Job, pending: list[Entry]) -> dict[str, Any]:
        """Learn one request, or find the answer that it was given before."""
        if self._broken:
            self._build_again(pending)
        before = self._answers.get(job.request) if job.request else None
        if before is not None:
            if before.digest != digest_of(job.action, job.kind, job.body):
                raise RefusedError(
                    409, f"The id {job.request!r} belongs to another request that was learnt. Give each its own id."
                )
            return {**before.answer, "repeated": True}
        number = self._journal.number + len(pending) + 1
        answer = self._apply(job.action, job.kind, job.body, number, pending)
        pending.append(Entry(number, job.action, job.kind, job.body, job.request, answer if job.request else {}))
        self._remember(pending[-1])
        return answer

    def _apply(
        self, action: str, kind: str, body: bytes, number: int, pending: Sequence[Entry] | None = None
    ) -> dict[str, Any]:
        """Change the model in memory; where that fails half way, build it again."""
        learnt = self._learnt
        if action == "merge":
            try:
                rows = learnt.merge(body, key=self._key)
            except ValueError as error:
                raise RefusedError(400, str(error)) from None
            return {"model": self.name, "rows": rows, "learnt": learnt.rows, "version": str(number)}
        batch = self._reader.read(kind, body, labels=True)
        if action == "unlearn":
            try:
                receipt = vars(learnt.unlearn(batch))
            except ValueError as error:
                raise RefusedError(400, str(error)) from None
            self._urgent = True  # until the model is saved, the journal holds the rows
            return {"model": self.name, "rows": batch.rows, "version": str(number), "receipt": receipt}
        try:
            right = learnt.learn(batch)
        except ValueError as error:
            if pending is not None:
                self._build_again(pending)
            raise RefusedError(400, f"{self.name}: {error}") from None
        except BaseException:
            if pending is not None:
                self._build_again(pending)
            raise
        return {
            "model": self.name,
            "rows": batch.rows,
            "right_before": right,
            "learnt": learnt.rows,
            "version": str(number),
        }

    def _remember(self, entry: Entry) -> None:
        if entry.request:
            self._answers[entry.request] = Answered(entry.digest, entry.answer)
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)

    # The thread that solves copies and saves them.

    def _publish(self) -> None:
        saved_at, ending = time.monotonic(), False
        while not ending:
            due = saved_at if self._urgent else saved_at + self._every
            waited = self._changed.wait(None if self._saved == self.number else max(due - time.monotonic(), PAUSE))
            self._changed.clear()
            ending = self._stopping.is_set() and not self._threads[0].is_alive()
            started = time.monotonic()
            try:
                copy, number, answers = self._copy()
                if waited and number != self.snapshot.version:
                    self.snapshot = Snapshot.of(self.name, copy, number, self._reader)
                if number > self._saved and (ending or self._urgent or time.monotonic() >= due):
                    self._save(copy, number, answers)
                    saved_at = time.monotonic()
            except Exception:
                saved_at = time.monotonic()
                _log.exception("%s: the model could not be saved; the journal holds what was learnt.", self.name)
            if not ending:
                self._stopping.wait(max(PAUSE, (time.monotonic() - started) / SHARE))

    def _copy(self) -> tuple[Increments, int, dict[str, Answered]]:
        """Return a solved copy of the model, the last request that it knows, and the answers so far."""
        with self._lock:
            if self._broken:
                self._build_again(())
            copy, number, answers = self._learnt.copy(), self._journal.number, dict(self._answers)
        copy.settle()
        return copy, number, answers

    def _save(self, copy: Increments, number: int, answers: Mapping[str, Answered]) -> None:
        """Write the model file, then let the journal drop what the file holds."""
        write_model(self.path, *copy.packed(self._journal.held(number)), key=self._key)
        self._saved = number
        with self._lock:
            self._journal.compact(number, answers)
            self._urgent = any(one.action == "unlearn" for one in self._journal.entries)
