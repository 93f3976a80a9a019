"""AWR. Names load when they are first used, because every command pays for what is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awr.client.workflow import Workflow

__all__ = ["Workflow"]


def __getattr__(name: str) -> Any:
    if name != "Workflow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from awr.client.workflow import Workflow

    return Workflow
