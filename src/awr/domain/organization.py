"""In what state a project's work is as a whole, in one word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from awr.domain.work import WorkItem

__all__ = ["Organization", "OrganizationState", "organization_of"]

OrganizationState = Literal[
    "not_initialized",
    "source_unreadable",
    "needs_organization",
    "ready",
    "blocked",
    "completed",
    "closed_without_completion",
]


class Organization(msgspec.Struct, frozen=True):
    """The state of a project's work. `ready` means that work is under way or may be taken up."""

    state: OrganizationState


def organization_of(items: Iterable[WorkItem], *, startable: bool) -> Organization:
    """Return the state of work that is not archived; `startable` tells whether any is under way or ready."""
    statuses = {item.status for item in items if not item.archived}
    if not statuses:
        return Organization("needs_organization")
    if startable:
        return Organization("ready")
    if statuses <= {"completed", "cancelled"}:
        return Organization("completed" if "completed" in statuses else "closed_without_completion")
    return Organization("blocked")
