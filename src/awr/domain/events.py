"""Event types: which exist, which callers may append, and the bounds of a generic event."""

from __future__ import annotations

import math
import re
from typing import Literal

from awr.domain.text import bounded_text
from awr.errors import InvalidInput

__all__ = ["EVENT_TYPES", "Importance", "is_reserved", "validate_generic_event"]

Importance = Literal["low", "normal", "high", "critical"]

#: Every event type that this program writes by itself, with what it records.
EVENT_TYPES: dict[str, str] = {
    "project.initialized": "the project came into being; its name and external key",
    "source.registered": "a mapping of the manifest became a source",
    "source.configured": "a source's role, adapter or options changed",
    "source.projected": "a source was parsed; what was added, changed and retired",
    "source.freshness_changed": "a source became fresh, stale or unavailable without being parsed",
    "source.retired": "a source left the manifest",
    "session.started": "a session began; its labels, and the conversation it is bound to",
    "session.ended": "a session ended; its outcome and the claims it closed",
    "work.claimed": "a session took a work item for itself",
    "claim.released": "a claim was given back",
    "claim.expired": "a claim's time limit had passed",
    "session.resumed": "a session took over from another one; the predecessor, the checkpoint and the claim",
    "session.resumed_from": "a session was taken over; its successor",
    "session.handoff_received": "a session received another one's checkpoint",
    "session.interrupted": "somebody ended a session that did not end itself",
    "checkpoint.started": "a checkpoint is about to be saved; the draft and the revision it is based on",
    "checkpoint.created": "the checkpoint is saved",
    "checkpoint.abandoned": "an unfinished attempt to save a checkpoint was closed",
    "mcp.wait_created": "a session waits for the user's reply to a question",
    "mcp.wait_replied": "the user replied, or the wait was cancelled",
    "mcp.operation_started": "an identified write is about to be carried out; who asked, and for what",
    "mcp.operation_finished": "an identified write was carried out or refused; its answer",
    "mcp.operation_recovered": "a lost answer was found again in what the journal records",
    "execution.registered": "a session announced something that runs outside AWR",
    "execution.external_reported": "a host reported how an execution stands",
    "work.handoff": "a session handed its work to another one",
    "management.assessed": "a host's observations about how closely the work has to be managed",
    "proposal.created": "a change of a source was proposed; what it changes and what it is based on",
    "proposal.ready": "a proposal is complete",
    "proposal.approved": "a proposal may be written; who approved it",
    "proposal.apply_started": "writing a proposal to its source begins; the source's hash before and after",
    "proposal.applied": "a proposal stands in its source",
    "proposal.conflicted": "a proposal was given up, because its source is neither as before nor as after",
    "work.progressed": "work was begun or went on; the reason and the next action",
    "work.blocked": "work was blocked; the reason and the blocker",
    "work.unblocked": "work goes on after a blocker",
    "work.cancelled": "work was given up",
    "work.reopened": "finished or cancelled work was planned again",
    "work.completed": "work is done; the evidence for each criterion",
    "work.draft_activated": "a draft became planned work",
    "evidence.recorded": "evidence was recorded; its key, level and bindings",
    "client.bound": "a host's conversation was bound to a session",
    "client.updated": "a host said how far a bound conversation is: next action, digest, open loops",
    "client.compaction_observed": "a host reported one completed native compaction",
    "client.compaction_deferred": "the user postponed the advice about one observation",
    "guardian.decided": "a Guardian was asked about a compaction; its decision and the facts behind it",
    "guardian.folded": "a compaction was reported to a Guardian; the decision and the lineage that it is bound to",
    "guardian.fault": "a compaction was not as it was decided, or its lineage does not hold",
    "guardian.endorsed": "an operator said that data of an agent's session may be trusted; who, and why",
}

_RESERVED_PREFIXES = (
    "source.",
    "checkpoint.",
    "proposal.",
    "branch.",
    "client.",
    "execution.",
    "mcp.",
    "management.",
    "guardian.",
)
_RESERVED_TYPES = frozenset(
    {
        "project.initialized",
        "session.started",
        "session.resumed",
        "session.resumed_from",
        "session.ended",
        "session.handoff_received",
        "session.interrupted",
        "work.claimed",
        "work.handoff",
        "work.progressed",
        "work.blocked",
        "work.unblocked",
        "work.cancelled",
        "work.reopened",
        "work.completed",
        "work.draft_activated",
        "work.ordinary_confirmed",
        "claim.released",
        "claim.expired",
        "artifact.recorded",
        "evidence.recorded",
    }
)

MAX_SUMMARY_BYTES = 8192
_MIB = 1024 * 1024
_TYPE_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TEXT_BYTES = {
    "status": _MIB,
    "error_code": 128,
    "tool": 256,
    "operation": 256,
    "command": 4096,
    "report": 4096,
    "detail": _MIB,
    "body": _MIB,
    "stdout": _MIB,
    "stderr": _MIB,
}
_NUMBERS = {"exit_code": -(2**63), "duration_ms": 0, "count": 0, "attempt": 0}
#: Payload fields that name a record of this project; the operation checks that it exists.
REFERENCE_FIELDS = ("source_id", "artifact_id", "checkpoint_id", "evidence_id")


def is_reserved(event_type: str) -> bool:
    """Tell whether only AWR itself may write this type, so that no caller can forge it."""
    return event_type in _RESERVED_TYPES or event_type.startswith(_RESERVED_PREFIXES)


def validate_generic_event(*, event_type: str, summary: str, payload: dict[str, object]) -> None:
    """Check a caller's own event against the contract's bounds. Raise InvalidInput, naming no value."""
    if not _TYPE_PATTERN.fullmatch(event_type):
        raise InvalidInput(
            "the event type has a character or a length that is not allowed",
            got=f"{len(event_type)} characters",
            expected="1 to 128 of A-Z, a-z, 0-9, dot, underscore, colon and hyphen",
            next_step="name the event with these characters, for example tool.finished",
        )
    if is_reserved(event_type):
        raise InvalidInput(
            "this event type is reserved for AWR's own records",
            expected="a type outside the reserved prefixes and names",
            next_step="choose another name, for example note.added; see the event reference for the list",
        )
    # Line breaks are fine in a summary; everything else that names refuse is refused here too.
    bounded_text("summary", summary.replace("\n", " ").replace("\t", " "), limit=MAX_SUMMARY_BYTES)
    for name, value in payload.items():
        if not _payload_field_is_legal(name, value):
            raise _bad_payload_field(name)


def _payload_field_is_legal(name: str, value: object) -> bool:
    if name in _TEXT_BYTES:
        return _is_text(value, limit=_TEXT_BYTES[name])
    if name in _NUMBERS:
        return type(value) is int and _NUMBERS[name] <= value < (2**63 if name == "exit_code" else 2**64)
    if name in REFERENCE_FIELDS:
        return _is_text(value, limit=26)
    if name == "changed_entities":
        return _is_text_list(value, count=256, limit=512)
    if name == "tags":
        return _is_text_list(value, count=32, limit=128)
    return name == "metrics" and _is_metrics(value)


def _is_text(value: object, *, limit: int) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) <= limit


def _is_text_list(value: object, *, count: int, limit: int) -> bool:
    return isinstance(value, list) and len(value) <= count and all(_is_text(item, limit=limit) for item in value)


def _is_metrics(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= 32
        and all(name and _is_text(name, limit=64) for name in value)
        and all(_is_number(number) for number in value.values())
    )


def _is_number(value: object) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**64
    return isinstance(value, float) and math.isfinite(value)


def _bad_payload_field(name: str) -> InvalidInput:
    known = (*_TEXT_BYTES, *_NUMBERS, *REFERENCE_FIELDS, "changed_entities", "tags", "metrics")
    known_field = name in known
    return InvalidInput(
        f"the payload field {name} breaks its bound" if known_field else "the payload has an unknown field",
        expected="the documented type and size" if known_field else "only " + ", ".join(known),
        next_step="see the event reference for each field, and leave out what is not known",
    )
