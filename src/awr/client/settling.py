"""What an inspection changes in the loop's state, once the host has said how a pending write came out."""

from __future__ import annotations

from typing import Any

from awr.client.state import State
from awr.client.transport import WorkflowError

__all__ = ["settled_fields", "summary"]

_KEPT = {"session": ("id", "status", "work_item_id"), "work": ("id", "external_key", "status")}


def summary(value: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return what of an inspected session or work item a reconciliation rests on."""
    return None if value is None else {field: value[name][field] for field in _KEPT[name]}


def settled_fields(state: State, seen: dict[str, Any], *, session: str | None, work: str | None) -> dict[str, Any]:
    """Return the fields that the inspection changes: the session a lost begin made, and a phase that was reached.

    Raise WorkflowError when the host names another session or work than it inspected.
    """
    found, item = seen["session"], seen["work"]
    _require_shown("session", session, found and found["id"])
    _require_shown("work", work, item and item["external_key"])
    if found is None or item is None:
        return {}
    if found["work_item_id"] != item["id"]:
        raise WorkflowError("the inspected session is bound to other work")
    known = {"session": found["id"], "work": item["external_key"]}
    if found["status"] != "active":
        return {**known, "phase": "ended"}
    completing = state.pending is not None and state.pending.operation == "transition.complete"
    completed = state.phase == "work_completed" or (completing and item["status"] == "completed")
    return {**known, "phase": "work_completed" if completed else "active"}


def _require_shown(what: str, stated: str | None, shown: str | None) -> None:
    if stated is not None and stated != shown:
        raise WorkflowError(f"that {what} is not the one the inspection showed")
