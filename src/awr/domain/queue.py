"""In what order work is offered."""

from __future__ import annotations

import re

from awr.domain.work import WorkItem

__all__ = ["queue_order"]

#: Words that people write for a priority, the most urgent first. A number, also as `P1`, ranks as itself.
_RANKS = {
    **dict.fromkeys(("critical", "urgent", "highest"), 0),
    "high": 1,
    **dict.fromkeys(("medium", "normal"), 2),
    "low": 3,
    "lowest": 4,
}
_NUMBER = re.compile(r"p?(\d{1,9})", re.ASCII)
_OTHER = 10**9
_NONE = _OTHER + 1


def queue_order(item: WorkItem) -> tuple[int, str, int, str]:
    """Return the sort key of a work item: priority, then the higher score, then its key.

    Work without a priority comes last, and a priority whose rank nobody knows comes before it, by its text. Work
    without a score counts as 0.
    """
    stated = (item.priority or "").strip().lower()
    number = _NUMBER.fullmatch(stated)
    rank = int(number[1]) if number else _RANKS.get(stated, _OTHER if stated else _NONE)
    return rank, stated if rank == _OTHER else "", -(item.score or 0), item.external_key
