"""For programs that embed AWR. Names load when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awr.client.acs.async_guardian_client import AsyncGuardianClient
    from awr.client.acs.guardian_client import GuardianClient
    from awr.client.executable import ExecutableTransport
    from awr.client.in_process import InProcessTransport
    from awr.client.workflow import Workflow

__all__ = ["AsyncGuardianClient", "ExecutableTransport", "GuardianClient", "InProcessTransport", "Workflow"]

_HOMES = {
    "AsyncGuardianClient": "acs.async_guardian_client",
    "ExecutableTransport": "executable",
    "GuardianClient": "acs.guardian_client",
    "InProcessTransport": "in_process",
    "Workflow": "workflow",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
