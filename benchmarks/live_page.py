"""What readers cost a stream: rows per second with no live page, with one that nobody reads, and with 200 readers.

The readers are in another process, as browsers are: each loads the page and then asks for state after state. One of
them reads a few bytes a second.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from kampong import FisherDiscriminant
from kampong.report.live import LivePage
from kampong.streaming import learn

READERS, ROUNDS = 200, 5


async def read(port: int, counts: list[int]) -> None:
    """Load the page, then ask for each next state on the same connection."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            seen = "-1"
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await answer(reader)
            while True:
                writer.write(f"GET /data?seen={seen} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                headers, _ = await answer(reader)
                if b" 200 " in headers.split(b"\r\n", 1)[0]:
                    counts[0] += 1
                    seen = headers.split(b"X-Kampong-State: ")[1].split(b"\r\n")[0].decode()
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.2)


async def answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the headers and the body of one answer."""
    headers = await reader.readuntil(b"\r\n\r\n")
    length = headers.lower().split(b"content-length: ")
    return headers, await reader.readexactly(int(length[1].split(b"\r\n")[0])) if len(length) > 1 else b""


async def crawl(port: int) -> None:
    """Ask for everything and read a few bytes a second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=256)
    for _ in range(20):
        writer.write(b"GET /data?seen=-1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    while await reader.read(16):
        await asyncio.sleep(1.0)


def readers(port: int, n: int, pipe: object) -> None:
    """Read until the process is ended; answer what was read when asked."""
    counts = [0]

    async def everybody() -> None:
        tasks = [asyncio.create_task(read(port, counts)) for _ in range(n)] + [asyncio.create_task(crawl(port))]
        while not pipe.poll():
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()

    asyncio.run(everybody())
    pipe.send(counts[0])


def run(path: str, n_readers: int | None) -> tuple[float, int, int]:
    """Return rows per second of one run, the states it showed, and those that readers got."""
    page, process, watch, got = None, None, None, 0
    if n_readers is not None:
        page = LivePage(token=None)
        page.start()

        def watch(run: object) -> None:
            page.publish(run.model, run.history, predictor=run.predictor, memory=run.memory)

    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    if n_readers:
        process = multiprocessing.get_context("spawn").Process(target=readers, args=(page.port, n_readers, theirs))
        process.start()
        time.sleep(2.0)
    start = time.perf_counter()
    rows = learn(path, FisherDiscriminant(half_life="auto"), label="kind", watch=watch).counters.rows
    seconds = time.perf_counter() - start
    shown = 0 if page is None else page._current["number"]
    if process is not None:
        ours.send("enough")
        got = ours.recv()
        process.join()
    if page is not None:
        page.stop()
    return rows / seconds, shown, got


def main(shrink: int = 1) -> None:
    """Print rows per second with and without readers, as ratios within rounds."""
    rng = np.random.default_rng(0)
    codes = rng.integers(10, size=200_000 // shrink)
    X = rng.normal(size=(10, 20))[codes] + rng.normal(size=(len(codes), 20))
    readers_here = max(2, READERS // shrink)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.csv"
        lines = (",".join([*(f"{value:.4f}" for value in row), str(code)]) for row, code in zip(X, codes, strict=True))
        path.write_text("\n".join([",".join([*(f"x{j}" for j in range(20)), "kind"]), *lines]) + "\n")
        run(str(path), None)  # compilation
        idle, read_by_many, states, sent = [], [], [], []
        for _ in range(ROUNDS if shrink == 1 else 1):
            alone = run(str(path), None)[0]
            idle.append(run(str(path), 0)[0] / alone)
            speed, shown, got = run(str(path), readers_here)
            read_by_many.append(speed / alone)
            states.append(shown)
            sent.append(got / readers_here)
    print(f"{len(codes):,} rows of 20 columns; speed beside that without a page, median of {len(idle)} rounds (least):")
    for words, ratios in (("a page that nobody reads", idle), (f"{readers_here} readers and a slow one", read_by_many)):
        print(f"  {words}: {statistics.median(ratios):.3f} ({min(ratios):.3f})")
    shown, got = statistics.median(states), statistics.median(sent)
    print(f"  states taken in a run: {shown:.0f}, states that a reader got: {got:.1f}")


if __name__ == "__main__":
    main()
