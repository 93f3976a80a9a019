"""Lines of JSON on standard error, for programs to read: nothing of anybody's words is ever in one."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import IO

import msgspec

from awr.ids import system_clock

__all__ = ["Faults", "Log"]


class Log:
    """Lines of JSON on one stream. Where they cannot be written, they are lost and no call is."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def line(self, **fields: object) -> None:
        """Write one line, which begins with the time in Unix milliseconds."""
        text = msgspec.json.encode({"time": system_clock(), **fields}).decode() + "\n"
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class Faults(logging.Handler):
    """Says that a library complained, without its words: those may repeat what somebody sent."""

    def __init__(self, log: Log) -> None:
        super().__init__(level=logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        self._log.line(event="library", logger=record.name, level=record.levelname.lower(), exception=kind)
