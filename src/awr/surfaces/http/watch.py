"""What the service says of itself: one line of JSON for each call on standard error, and what is counted.

A line has no arguments, no headers, no query and no text of anybody's: only what stands in lists of our own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from awr.ids import new_id, system_clock
from awr.operations.calling import Answer
from awr.surfaces.http.log import Log
from awr.surfaces.http.metrics import Metrics
from awr.surfaces.http.service import Client

__all__ = ["Exchange", "Watch", "exchange_of"]

_KEY = "awr.exchange"


class Exchange:
    """One HTTP request, as far as it is known yet. It travels with the request to the thread that answers it."""

    def __init__(self) -> None:
        self.id = new_id(system_clock())
        self.began = time.perf_counter()
        self.client: Client | None = None
        self.project: str | None = None
        self.tool: str | None = None
        self.outcome: str | None = None
        self.logged = False

    def attach(self, scope: Any) -> None:
        """Put it where `exchange_of` finds it."""
        scope[_KEY] = self


def exchange_of(request: Any) -> Exchange:
    """Return the exchange of an HTTP request that this service let in."""
    found = request.scope[_KEY]
    assert isinstance(found, Exchange), "only requests that were let in arrive here"
    return found


class Watch:
    """Logs and counts what happens."""

    def __init__(self, log: Log) -> None:
        self.metrics = Metrics()
        self._log = log

    @contextmanager
    def call(self, exchange: Exchange, tool: str, *, access: str) -> Iterator[list[Answer]]:
        """Watch one call. The block puts its answer into the list it is given."""
        answers: list[Answer] = []
        began = time.perf_counter()
        exchange.tool, outcome = tool, "fault"
        self.metrics.begin()
        try:
            yield answers
            error = answers[0].error
            outcome = "ok" if error is None else str(error["code"])
        except MCPError as error:
            outcome = "invalid_params" if error.error.code == types.INVALID_PARAMS else "fault"
            raise
        finally:
            seconds = time.perf_counter() - began
            self.metrics.end(tool, outcome=outcome, access=access, seconds=seconds)
            self.done(exchange, outcome, seconds=seconds)

    def done(self, exchange: Exchange, outcome: str, *, seconds: float | None = None) -> None:
        """Log how a request ended. Each has one line."""
        if exchange.logged:
            return
        exchange.logged = True
        taken = time.perf_counter() - exchange.began if seconds is None else seconds
        self._log.line(
            event="call",
            request=exchange.id,
            client=exchange.client.id if exchange.client else None,
            project=exchange.project,
            tool=exchange.tool,
            outcome=outcome,
            ms=round(taken * 1000, 1),
        )
