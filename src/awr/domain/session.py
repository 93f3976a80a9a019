"""A session: one agent's stretch of work, and the claim it may hold.

Agent, provider and model are labels that a caller states. Nobody is authenticated by them and no host is started.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from awr.domain.text import bounded_text, not_blank
from awr.errors import InvalidInput

__all__ = [
    "Binding",
    "Checkpoint",
    "CheckpointDraft",
    "Claim",
    "Outcome",
    "Session",
    "SessionStatus",
    "Wait",
    "checked_draft",
    "spoken_text",
    "validate_binding",
    "validate_claim_wish",
    "validate_labels",
]

SessionStatus = Literal["active", "ended", "interrupted", "incomplete"]
Outcome = Literal["ended", "interrupted", "incomplete"]
ClaimStatus = Literal["active", "released", "expired"]
WaitStatus = Literal["waiting_user", "answered", "cancelled"]

MAX_QUESTION_BYTES = 8192
_HASH = re.compile(r"[0-9a-f]{64}")

#: Labels have no bound in the contract but that they are not blank; this one keeps a record readable, and leaves room
#: for an agent that is called by its client and its conversation's id of 512 bytes.
MAX_LABEL_BYTES = 640


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


class Checkpoint(msgspec.Struct, frozen=True):
    """What a session saved of itself. `project_revision` is the revision it was based on, before the save.

    Hash and digest are what the caller says they are; `changed_entities` is what the sources showed.
    """

    id: str
    session_id: str
    project_revision: int
    context_hash: str
    digest: str
    next_action: str
    open_loops: tuple[str, ...]
    changed_entities: tuple[str, ...]
    revision: int
    created_at: int


class CheckpointDraft(msgspec.Struct, frozen=True):
    """What a caller asks to save."""

    context_hash: str
    digest: str
    next_action: str
    open_loops: tuple[str, ...] = ()
    changed_entities: tuple[str, ...] = ()


class Wait(msgspec.Struct, frozen=True):
    """A question to the user that a session waits on. AWR never answers it and never schedules a turn."""

    id: str
    client: str
    session_id: str
    checkpoint_id: str
    question: str
    status: WaitStatus
    reply: str | None
    created_at: int
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


def checked_draft(draft: CheckpointDraft) -> CheckpointDraft:
    """Return the draft with its hash in lower case. Raise InvalidInput for a hash or a text that breaks its rule."""
    context_hash = draft.context_hash.lower()
    if not _HASH.fullmatch(context_hash):
        raise InvalidInput(
            "context_hash is not a hash",
            got=f"{len(draft.context_hash)} characters",
            expected="64 hexadecimal characters, the context_hash of a compiled context",
            next_step="compile the context and send its context_hash",
        )
    texts = (("digest", draft.digest), ("next_action", draft.next_action))
    many = (("open_loops", draft.open_loops), ("changed_entities", draft.changed_entities))
    for name, text in (*texts, *((name, text) for name, values in many for text in values)):
        not_blank(name, text)
    return msgspec.structs.replace(draft, context_hash=context_hash)


def spoken_text(name: str, text: str) -> str:
    """Return a question or reply of 1 to 8,192 bytes. Raise InvalidInput, which does not repeat it."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text.strip() or size > MAX_QUESTION_BYTES:
        raise InvalidInput(
            f"the {name} is blank or too long",
            got=f"{size} bytes",
            expected=f"1 to {MAX_QUESTION_BYTES} bytes",
            next_step=f"say the {name} in fewer words, and keep the detail in a file",
        )
    return text
