"""What a door says of the requests it answered: a line for each that is not simply allowed, and counts where kept."""

from __future__ import annotations

from collections.abc import Callable

from awr.guardian.guardian import Notice
from awr.surfaces.http.log import Log

__all__ = ["Notices"]

#: Outcomes of a request that went as it should: the chain has a step, and nobody looks for the rest.
_SILENT = frozenset({"allow", "hello", "pong"})


class Notices:
    """Where notices go. All words of a line are ours; the id of a session is there once its key has proved it."""

    def __init__(self, log: Log, *, count: Callable[[str, str], None] | None = None) -> None:
        self._log = log
        self._count = count

    def __call__(self, notice: Notice) -> None:
        """Log and count what became of one request."""
        if self._count is not None:
            self._count(notice.method or "none", notice.outcome)
        if notice.outcome in _SILENT and not notice.reasons:
            return
        self._log.line(
            event="acs",
            method=notice.method,
            outcome=notice.outcome,
            reasons=notice.reasons,
            session=notice.session_id,
            fault=notice.fault,
            ms=round(notice.seconds * 1000, 1),
        )

    def early(self, outcome: str, *, fault: str | None = None) -> None:
        """Log what ended before there was a request to be asked about: `http_` and a status, or disconnected."""
        self._log.line(event="acs", method=None, outcome=outcome, reasons=(), session=None, fault=fault, ms=None)
