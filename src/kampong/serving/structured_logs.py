"""Logs of the server: one JSON object per line, with the time, the level, the event, and its facts."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import IO


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; its attribute `facts` holds further values by name."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False, default=str)


def log_to(stream: IO[str], level: int) -> None:
    """Let the server write its logs to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in ("kampong", "tornado"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level if name == "kampong" else logging.WARNING)
