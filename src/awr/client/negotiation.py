"""What the AWR at hand can do, asked once before anything is written, and what is done without the rest."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from awr.client.transport import Answer
from awr.errors import WorkflowRefused

__all__ = ["REQUIRED", "Offer", "View", "negotiated"]

View = Literal["full", "summary", "action"]

PROTOCOL_VERSION = 1
#: Without these there is no workflow.
REQUIRED = ("session.checkpoint", "context.compile", "evidence.read_write", "completion.engineering")


class _Capability(msgspec.Struct, frozen=True):
    id: str
    available: bool
    commands: tuple[str, ...] = ()


class _Named(msgspec.Struct, frozen=True):
    version: int | str


class _Capabilities(msgspec.Struct, frozen=True):
    """The part of an answer that is used; later builds may add to it."""

    protocol: _Named
    program: _Named
    capabilities: tuple[_Capability, ...]


class Offer(msgspec.Struct, frozen=True):
    """The ids that are available, each with the commands behind it."""

    commands: dict[str, tuple[str, ...]]

    def has(self, capability: str) -> bool:
        """Tell whether a capability is there."""
        return capability in self.commands

    def has_for(self, capability: str, command: str) -> bool:
        """Tell whether a capability is there for one command, as far as the build says so."""
        return command in self.commands.get(capability, ())

    def require(self, capability: str) -> None:
        """Raise WorkflowRefused, before any call, for what is not there."""
        if not self.has(capability):
            raise WorkflowRefused(
                "this build of AWR lacks what the call needs",
                expected=capability,
                next_step="do without it, or use a build that lists it under awr capabilities",
            )

    def view(self, wanted: View) -> View:
        """Return the nearest view that there is: action, else summary, else full."""
        if wanted == "action" and not self.has("workflow.action_guidance"):
            wanted = "summary"
        if wanted == "summary" and not self.has("workflow.response_summary"):
            wanted = "full"
        return wanted


def negotiated(answer: Answer, *, version: str) -> Offer:
    """Return what is offered. Raise WorkflowRefused for a build that lacks a requirement or is another version."""
    if not answer.ok:
        details: dict[str, Any] = {"report": answer.report} if answer.report else {}
        raise _refused("a refusal" if answer.known else "no answer in time", **details)
    try:
        found = msgspec.convert(answer.value, _Capabilities)
    except msgspec.ValidationError:
        raise _refused("an answer of another shape") from None
    if found.protocol.version != PROTOCOL_VERSION:
        raise _refused("another protocol version")
    if found.program.version != version:
        raise _refused("another program version than the stated one")
    offer = Offer({one.id: one.commands for one in found.capabilities if one.available})
    missing = sorted(name for name in REQUIRED if not offer.has(name))
    if missing:
        raise _refused("a build without " + ", ".join(missing))
    return offer


def _refused(got: str, **details: Any) -> WorkflowRefused:
    return WorkflowRefused(
        "this program cannot carry a workflow",
        got=got,
        expected=f"host protocol {PROTOCOL_VERSION}, the stated version, and " + ", ".join(REQUIRED),
        next_step="run awr capabilities to see what it offers, and state its version exactly",
        **details,
    )
