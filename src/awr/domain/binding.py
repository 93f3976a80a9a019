"""A host's binding: which session one of its conversations works in, and how far that conversation says it is.

A binding is a host's record of itself. It authenticates nobody, and a conversation is bound once: when its session is
over, the work goes on in a conversation of its own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.domain.text import bounded_text, not_blank
from awr.errors import InvalidInput

__all__ = ["MAX_EXTERNAL_BYTES", "NOT_REPORTED", "ClientBinding", "HostName", "Progress", "agent_of", "external_id"]

HostName = Literal["generic", "codex", "kimi", "claude-code"]

MAX_EXTERNAL_BYTES = 512
#: What a host calls a model that it does not know.
NOT_REPORTED = "not-reported"


class ClientBinding(msgspec.Struct, frozen=True):
    """One conversation of a host as recorded. What the host has not reported is null, never a default.

    `revision` is the project revision that last changed the binding, `progress_revision` the one at which the host
    last said how far it is. `observed_at` is Unix milliseconds.
    """

    client: str
    external_session: str
    session_id: str
    revision: int
    digest: str | None
    next_action: str | None
    open_loops: tuple[str, ...]
    context_hash: str | None
    context_revision: int | None
    progress_revision: int | None
    last_delivery_key: str | None
    last_hook_event: str | None
    checkpoint_id: str | None
    observed_at: int


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a host says of a conversation. What is left out stays as it was said before."""

    next_action: str
    digest: str | None = None
    open_loops: tuple[str, ...] | None = None

    @classmethod
    def checked(
        cls, *, next_action: str, digest: str | None, open_loops: tuple[str, ...], clear_open_loops: bool
    ) -> Progress:
        """Return progress whose texts keep a checkpoint's rule. Raise InvalidInput."""
        if clear_open_loops and open_loops:
            raise InvalidInput(
                "open loops are either given or cleared",
                got="both",
                expected="one of them, or neither to keep what was said before",
                next_step="give the open loops that remain, or clear them all",
            )
        not_blank("next_action", next_action)
        if digest is not None:
            not_blank("digest", digest)
        for loop in open_loops:
            not_blank("open_loops", loop)
        return cls(
            next_action=next_action, digest=digest, open_loops=open_loops if open_loops or clear_open_loops else None
        )


def external_id(text: str) -> str:
    """Return a host's own id of a conversation: 1 to 512 bytes without control characters. Raise InvalidInput."""
    return bounded_text("external_session", text, limit=MAX_EXTERNAL_BYTES)


def agent_of(client: HostName, external_session: str) -> str:
    """Return the label of the agent that speaks in a conversation."""
    return f"{client}:{external_session}"
