"""A session: one agent's stretch of work, and the claim it may hold.

Agent, provider and model are labels that a caller states. Nobody is authenticated by them and no host is started.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = ["Binding", "Claim", "Outcome", "Session", "SessionStatus", "validate_binding", "validate_labels"]

SessionStatus = Literal["active", "ended", "interrupted", "incomplete"]
Outcome = Literal["ended", "interrupted", "incomplete"]
ClaimStatus = Literal["active", "released", "expired"]

#: Labels have no bound in the contract but that they are not blank; this one keeps a record readable.
MAX_LABEL_BYTES = 512


class Session(msgspec.Struct, frozen=True):
    """One session as recorded. Times are Unix milliseconds."""

    id: str
    project_id: str
    work_item_id: str | None
    branch_id: str | None
    agent_id: str
    provider: str
    model: str
    status: SessionStatus
    started_at: int
    ended_at: int | None
    start_project_revision: int
    end_project_revision: int | None
    last_checkpoint_id: str | None
    revision: int


class Claim(msgspec.Struct, frozen=True):
    """An exclusive hold on one work item. It ends when released, or once `expires_at` has passed."""

    id: str
    project_id: str
    work_item_id: str
    session_id: str
    agent_id: str
    branch_id: str | None
    status: ClaimStatus
    acquired_at: int
    expires_at: int | None
    released_at: int | None
    revision: int


class Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which native conversation a session belongs to: the client that speaks, and its own conversation id."""

    client: str
    conversation: str


def validate_labels(*, agent_id: str, provider: str, model: str) -> None:
    """Check the three labels of a session. Raise InvalidInput."""
    for name, value in (("agent", agent_id), ("provider", provider), ("model", model)):
        bounded_text(name, value, limit=MAX_LABEL_BYTES)


def validate_binding(binding: Binding) -> None:
    """Check a binding's bounds: client up to 128 bytes, conversation up to 512. Raise InvalidInput."""
    bounded_text("client", binding.client, limit=128)
    bounded_text("conversation", binding.conversation, limit=512)


def validate_claim_wish(*, claim: bool, ttl_ms: int | None, has_work: bool) -> None:
    """Check that a claim names work, and that a time limit names a claim. Raise InvalidInput."""
    if ttl_ms is not None and (not claim or ttl_ms < 1):
        raise InvalidInput(
            "a time limit needs a claim and must be positive",
            got=f"ttl_ms {ttl_ms}, claim {str(claim).lower()}",
            expected="claim true and ttl_ms of at least 1 millisecond",
            next_step="ask for the claim as well, or leave the time limit out",
        )
    if claim and not has_work:
        raise InvalidInput(
            "a claim needs a work item",
            got="a claim without work",
            expected="the key of the work item to claim",
            next_step="name the work item, or start the session without a claim",
        )
