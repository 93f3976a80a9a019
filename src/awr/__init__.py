"""AWR. Names load when they are first used, because every command pays for what is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awr.client.acs.async_guardian_client import AsyncGuardianClient
    from awr.client.acs.guardian_client import GuardianClient
    from awr.client.workflow import Workflow

__all__ = ["AsyncGuardianClient", "GuardianClient", "Workflow"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from awr import client

    return getattr(client, name)
