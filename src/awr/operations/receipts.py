"""Writes that are carried out once, however often they are asked for.

A caller names its write with a `request_id`. The write is announced in the journal, carried out, and its answer is
recorded, refusals too. The same request then gets the same answer; another request under the same id is a conflict.
Where the answer could not be recorded, nobody knows whether the write happened: it is said so, and only the events
that the write itself left can tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from awr.chain import journal_bytes
from awr.domain.text import bounded_text
from awr.errors import AwrError, Io, MutationConflict, SourceConflict, Storage
from awr.journal.journal import Reader
from awr.journal.receipts import MAX_DOMAIN_EVENTS, Receipt, events_of_operation, receipt_of, recorded_answer
from awr.operations.calling import Answer
from awr.project import Project

__all__ = ["MAX_REQUEST_ID", "Identity", "identified", "observation", "replayed", "unknown_outcome"]

MAX_REQUEST_ID = 256
#: A larger answer is not kept whole; the write is then found by its events.
MAX_RESULT_BYTES = 8 * 1024 * 1024

#: Arguments that change how an answer looks, or whom it is for, and not what is done.
_NOT_IDENTITY = frozenset({"project", "request_id", "response_view"})
_LOST = {Storage.code, Io.code}


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a write the same write: who asks, under which id, for what, with which arguments as given."""

    client: str
    request_id: str
    tool: str
    arguments: dict[str, Any]

    def fingerprint(self) -> str:
        """Return the hash of what is asked for."""
        asked = {name: value for name, value in self.arguments.items() if name not in _NOT_IDENTITY}
        return hashlib.sha256(journal_bytes({"tool": self.tool, "arguments": asked})).hexdigest()


Act = Callable[[Project, int], Answer]


def identified(
    project: Project,
    identity: Identity,
    *,
    expected_revision: int | None,
    act: Act,
    guard: Callable[[], None] = lambda: None,
) -> Answer:
    """Carry out a write once, or answer as it was answered before.

    `guard` is asked before a new write, and not before an old answer. `act` is given the project whose events carry
    this write's id, and the revision to state. Raise InvalidInput, SourceConflict for an id that was used for another
    request, RevisionConflict, or what `guard` raises; none of them leaves a receipt.
    """
    bounded_text("request_id", identity.request_id, limit=MAX_REQUEST_ID)
    fingerprint = identity.fingerprint()
    with project.journal.read() as reader:
        known = _known(reader, identity, fingerprint)
        if known is not None:
            return replayed(reader, known)
    guard()
    with project.journal.write() as writer:
        known = _known(writer, identity, fingerprint)
        if known is not None:
            return replayed(writer, known)
        writer.require_revision(expected_revision)
        operation_id = writer.new_id()
        writer.append(
            "mcp.operation_started",
            {
                "operation_id": operation_id,
                "client": identity.client,
                "request_id": identity.request_id,
                "tool": identity.tool,
                "fingerprint": fingerprint,
            },
            summary="Identified write started",
            importance="low",
        )
        begun = writer.project_revision
    answer = act(project.tagged(operation_id), begun)
    try:
        if answer.error is not None and answer.value is None and answer.error["code"] in _LOST:
            raise Storage("whether the write was carried out is not known")
        return _finished(project, identity, operation_id, answer)
    except AwrError:
        with project.journal.read() as reader:
            receipt = receipt_of(reader.database, client=identity.client, request_id=identity.request_id)
            assert receipt is not None, "the write was announced"
            return unknown_outcome(reader, receipt)


def replayed(reader: Reader, receipt: Receipt) -> Answer:
    """Return the answer on record, or say that the outcome is not known."""
    recorded = recorded_answer(reader.database, receipt)
    if recorded is None:
        return unknown_outcome(reader, receipt)
    return _overlaid(recorded["result"], recorded["is_error"], receipt, now=reader.project_revision, replayed=True)


def unknown_outcome(reader: Reader, receipt: Receipt) -> Answer:
    """Say that a write was announced and its outcome is not on record. Nothing is tried."""
    problem = MutationConflict(
        "whether this write was carried out is not known",
        got="a write that was announced, without an answer on record",
        expected="an answer on record",
        next_step="look at its events with awr operation get, then settle it with awr operation recover; "
        "do not repeat it under another id before you know",
    )
    return Answer({**observation(reader, receipt), "write_outcome": "unknown"}, problem.report())


def observation(reader: Reader, receipt: Receipt) -> dict[str, Any]:
    """Return what the journal knows of an identified write."""
    recorded = recorded_answer(reader.database, receipt)
    events = events_of_operation(reader.database, receipt)
    return {
        "ok": True,
        "read_only": True,
        "source_refresh_performed": False,
        "freshness_basis": "runtime_database",
        "project_revision": reader.project_revision,
        "operation": {
            "id": receipt.id,
            "request_id": receipt.request_id,
            "tool": receipt.tool,
            "status": receipt.status,
            "result": recorded["result"] if recorded else None,
            "is_error": recorded["is_error"] if recorded else None,
            "started_revision": receipt.started_revision,
            "finished_revision": receipt.finished_revision,
        },
        "outcome": "recorded" if recorded else "unknown",
        "domain_receipts": [
            {
                "id": event.id,
                "event_type": event.event_type,
                "project_revision": event.project_revision,
                "session_id": event.session_id,
                "work_item_id": event.work_item_id,
            }
            for event in events
        ],
        "receipts_may_have_more": len(events) == MAX_DOMAIN_EVENTS,
        "next_action": "use_the_recorded_answer" if recorded else "recover_the_operation_and_do_not_repeat_it",
    }


def _known(reader: Reader, identity: Identity, fingerprint: str) -> Receipt | None:
    receipt = receipt_of(reader.database, client=identity.client, request_id=identity.request_id)
    if receipt is not None and (receipt.tool, receipt.fingerprint) != (identity.tool, fingerprint):
        raise SourceConflict(
            "this request id was used for another request",
            got="the same request_id with another operation or other arguments",
            expected="the request exactly as it was sent first, or an id that was never used",
            next_step="look at it with awr operation get; give the new request an id of its own",
        )
    return receipt


def _finished(project: Project, identity: Identity, operation_id: str, answer: Answer) -> Answer:
    """Record the answer. Only this bookkeeping may be repeated, never the write."""
    result = answer.body()
    if result.get("read_only") is True:
        result = {**result, "domain_read_only": True, "read_only": False}
    if len(msgspec.json.encode(result)) > MAX_RESULT_BYTES:
        raise Storage("the answer is too large to be recorded")
    with project.journal.write() as writer:
        writer.append(
            "mcp.operation_finished",
            {"operation_id": operation_id, "result": result, "is_error": answer.is_error},
            summary="Identified write refused" if answer.is_error else "Identified write finished",
            importance="low",
        )
        receipt = receipt_of(writer.database, client=identity.client, request_id=identity.request_id)
        assert receipt is not None, "the write was announced"
        return _overlaid(result, answer.is_error, receipt, now=writer.project_revision, replayed=False)


def _overlaid(result: dict[str, Any], is_error: bool, receipt: Receipt, *, now: int, replayed: bool) -> Answer:
    """Put the receipt over an answer: the revision now, the answer's own, and which request it belongs to."""
    shown = {
        **result,
        "receipt_project_revision": result.get("project_revision"),
        "project_revision": now,
        "operation": {
            "id": receipt.id,
            "request_id": receipt.request_id,
            "status": receipt.status,
            "replayed": replayed,
        },
    }
    if not is_error:
        return Answer(shown, None)
    report = result["error"] if "error" in result else {key: result[key] for key in _REPORT if key in result}
    return Answer(shown, report)


_REPORT = ("code", "message", "details")
