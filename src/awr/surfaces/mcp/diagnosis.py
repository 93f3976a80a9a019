"""What a look at the project answers when there is nothing to look at: why, and what to do first."""

from __future__ import annotations

from collections.abc import Callable

from awr.errors import AwrError, NotFound
from awr.operations.calling import Answer
from awr.operations.registry import Operation
from awr.project import Project

__all__ = ["diagnosed"]


def diagnosed(operation: Operation, error: AwrError, open_project: Callable[[], Project]) -> Answer:
    """Return a refusal; for a look at the project's status, with the state it is in."""
    if operation.name != "project.status":
        return Answer(None, error.report())
    try:
        open_project()
        state, next_action = "source_unreadable", "reindex_sources"
    except NotFound:
        state, next_action = "not_initialized", "initialize_project"
    except AwrError:
        return Answer(None, error.report())
    if state == "source_unreadable" and error.code not in {"SourceStale", "SourceUnavailable", "InvalidInput"}:
        return Answer(None, error.report())
    value = {
        "ok": False,
        "read_only": True,
        "source_refresh_performed": False,
        "organization": {"state": state},
        "total": None,
        "next_action": next_action,
    }
    return Answer(value, error.report())
