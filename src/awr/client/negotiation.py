"""What the AWR behind a transport can do, asked before anything is written."""

from __future__ import annotations

from typing import Any

import msgspec

from awr.client.transport import Transport, WorkflowError

__all__ = ["REQUIRED", "Abilities", "negotiate"]

PROTOCOL_VERSION = 1
REQUIRED = ("session.checkpoint", "context.compile", "evidence.read_write", "completion.engineering")


class Abilities(msgspec.Struct, frozen=True):
    """The capability ids that are available."""

    ids: frozenset[str]

    def view(self, wanted: str) -> str:
        """Return the nearest view of prepared work that there is: action, else summary, else full."""
        if wanted == "action" and "workflow.action_guidance" not in self.ids:
            wanted = "summary"
        if wanted == "summary" and "workflow.response_summary" not in self.ids:
            wanted = "full"
        return wanted

    def require(self, capability: str) -> None:
        """Raise WorkflowError when this AWR lacks a capability; nothing was called yet."""
        if capability not in self.ids:
            raise WorkflowError(f"this AWR does not offer {capability}")


def negotiate(transport: Transport) -> Abilities:
    """Return what is offered. Raise CallFailed, or WorkflowError for another version or a missing capability."""
    stated: dict[str, Any] = {"protocol_version": PROTOCOL_VERSION, "require": list(REQUIRED)}
    found = transport.call("capabilities", stated).require("capabilities")
    if found["program"]["version"] != transport.identity["version"]:
        raise WorkflowError("the program says another version than the one that was stated")
    ids = frozenset(one["id"] for one in found["capabilities"] if one["available"])
    abilities = Abilities(ids)
    for capability in REQUIRED:
        abilities.require(capability)
    return abilities
