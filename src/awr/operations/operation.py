"""What became of an identified write, and finding its lost answer again. Nothing is ever carried out twice."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from awr.domain.events import is_reserved
from awr.errors import AwrError, NotFound, error_of
from awr.journal.events import Event
from awr.journal.journal import Reader
from awr.journal.receipts import MAX_DOMAIN_EVENTS, Receipt, events_of_operation, receipt_of
from awr.operations.calling import Answer
from awr.operations.fields import ExpectedRevision, described
from awr.operations.receipts import observation, replayed, unknown_outcome
from awr.operations.registry import OPERATIONS
from awr.operations.selection import LOCAL_CLIENT
from awr.project import Project

__all__ = ["GetRequest", "OperationResult", "RecoverRequest", "get", "recover"]

RequestId = Annotated[
    str, msgspec.Meta(min_length=1, max_length=256, description="The request's own id.", extra={"argument": True})
]
Client = Annotated[str, described("Which client asked for it.")]


class GetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: RequestId
    client: Client = LOCAL_CLIENT


class RecoverRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: RequestId
    expected_revision: ExpectedRevision
    client: Client = LOCAL_CLIENT


class OperationResult(msgspec.Struct, frozen=True):
    """What is known of an identified write. `body` is the public JSON."""

    body: dict[str, Any]
    error: dict[str, Any] | None = None

    def public(self) -> dict[str, Any]:
        """Return the part that is JSON."""
        return self.body

    def problem(self) -> AwrError | None:
        """Return the error that the write ended with, or that its outcome is not known, or None."""
        return None if self.error is None else error_of(self.error)


def get(project: Project, request: GetRequest) -> OperationResult:
    """Return what the journal knows of an identified write. Raise NotFound, for another client's too."""
    with project.journal.read() as reader:
        return OperationResult(observation(reader, _receipt(reader, request.client, request.request_id)))


def recover(project: Project, request: RecoverRequest) -> OperationResult:
    """Settle an identified write whose answer was lost, by the one event that proves that it was carried out.

    A write whose answer is on record is answered again. Without exactly one such event the outcome stays unknown, and
    nothing is written. Raise NotFound or RevisionConflict.
    """
    with project.journal.write() as writer:
        receipt = _receipt(writer, request.client, request.request_id)
        if receipt.status != "started":
            return _result(replayed(writer, receipt))
        writer.require_revision(request.expected_revision)
        if not _is_proved(receipt, events_of_operation(writer.database, receipt)):
            return _result(unknown_outcome(writer, receipt))
        found = {
            **observation(writer, receipt),
            "read_only": False,
            "write_outcome": "committed",
            "outcome": "committed",
            "recovered": True,
            "continuation_requires_context": True,
            "next_action": "compile_the_context_and_continue_from_the_recorded_events",
        }
        writer.append(
            "mcp.operation_recovered",
            {"operation_id": receipt.id, "result": found, "is_error": False},
            summary="Lost answer found again",
        )
        settled = _receipt(writer, request.client, request.request_id)
        answered = replayed(writer, settled)
        assert answered.value is not None, "what was recovered has a value"
        operation = {**found["operation"], "status": settled.status, "replayed": False}
        return OperationResult({**answered.value, "operation": operation})


def _receipt(reader: Reader, client: str, request_id: str) -> Receipt:
    found = receipt_of(reader.database, client=client, request_id=request_id)
    if found is None:
        raise NotFound(
            "no identified write of this client has that id",
            expected="the request_id of a write of this client",
            next_step="if the write was never received, send it again under the same request_id",
        )
    return found


def _is_proved(receipt: Receipt, events: list[Event]) -> bool:
    wanted = {kind for one in OPERATIONS if one.exposed and one.tool_name == receipt.tool for kind in one.terminal}
    proofs = [
        event
        for event in events
        if event.event_type in wanted or ("*" in wanted and not is_reserved(event.event_type))
    ]
    return len(proofs) == 1 and len(events) < MAX_DOMAIN_EVENTS


def _result(answer: Answer) -> OperationResult:
    assert answer.value is not None, "an answer about a receipt has a value"
    return OperationResult(answer.value, answer.error)
