"""For programs that embed AWR: a host's loop over the operations in this process, or over an `awr` executable."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from awr.client.transport import CallFailed, WorkflowError
    from awr.client.workflow import Workflow

__all__ = ["CallFailed", "Workflow", "WorkflowError"]

_ROOMS = {
    "CallFailed": "awr.client.transport",
    "Workflow": "awr.client.workflow",
    "WorkflowError": "awr.client.transport",
}


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(name)
    return getattr(import_module(_ROOMS[name]), name)
