"""Figures of the server in the text format of Prometheus: requests, seconds, rows, and how far each model has come."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper ends of the groups of seconds."""


class Metrics:
    """Counts requests by model, endpoint and status."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._rows: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._groups: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(EDGES) + 1))
        self._seconds: defaultdict[tuple[str, str], float] = defaultdict(float)

    def count(self, model: str, endpoint: str, status: int, seconds: float, rows: int = 0) -> None:
        """Count one request."""
        with self._lock:
            self._requests[model, endpoint, status] += 1
            if status < 400:
                self._rows[model, endpoint] += rows
            self._groups[model, endpoint][bisect_left(EDGES, seconds)] += 1
            self._seconds[model, endpoint] += seconds

    def text(self, gauges: Iterable[tuple[str, str, Sequence[tuple[str, float]]]]) -> str:
        """Return all figures.

        Parameters
        ----------
        gauges : iterable of tuple
            Further figures: their name, what they are, and the value of each model.
        """
        with self._lock:
            lines = _family("kampong_requests_total", "counter", "Requests by model, endpoint and status.")
            for (model, endpoint, status), count in sorted(self._requests.items()):
                labels = _labels(model=model, endpoint=endpoint, status=str(status))
                lines.append(f"kampong_requests_total{labels} {count}")
            lines += _family("kampong_rows_total", "counter", "Rows of requests that were answered.")
            for (model, endpoint), count in sorted(self._rows.items()):
                lines.append(f"kampong_rows_total{_labels(model=model, endpoint=endpoint)} {count}")
            lines += _family("kampong_request_seconds", "histogram", "Seconds from a whole request to its answer.")
            for (model, endpoint), groups in sorted(self._groups.items()):
                so_far = 0
                for edge, count in zip((*map(str, EDGES), "+Inf"), groups, strict=True):
                    so_far += count
                    labels = _labels(model=model, endpoint=endpoint, le=edge)
                    lines.append(f"kampong_request_seconds_bucket{labels} {so_far}")
                labels = _labels(model=model, endpoint=endpoint)
                lines.append(f"kampong_request_seconds_sum{labels} {self._seconds[model, endpoint]:.9g}")
                lines.append(f"kampong_request_seconds_count{labels} {so_far}")
        for name, meaning, values in gauges:
            lines += _family(name, "gauge", meaning)
            lines += [f"{name}{_labels(model=model)} {value:.17g}" for model, value in values]
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _labels(**labels: str) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"
