"""One locked turn of a workflow, and the rule of its writes.

    save pending    ->  call once  ->  save the outcome  ->  save the success and move it to the history

A process that dies anywhere in it, a refusal and a deadline all leave the write pending. Nothing is repeated: until
somebody inspects and reconciles, every further operation is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from awr.chain import digest, journal_bytes
from awr.client.negotiation import Offer
from awr.client.state import RECEIPTS, Entry, Pending, Phase, State, StateFile
from awr.client.transport import Answer, Receipts, Transport
from awr.domain.secrets import refuse_secrets
from awr.errors import CommandFailed, InvalidInput, WorkflowRefused
from awr.ids import Clock, NewId
from awr.operations.registry import operation_named
from awr.operations.requests import convert_request

__all__ = ["Desk", "Turn", "check", "failure", "part", "plain"]


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """What every turn of one workflow works with."""

    file: StateFile
    transport: Transport
    project: Path
    offer: Offer
    clock: Clock
    make_id: NewId

    def ask(self, operation: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> tuple[Answer, str]:
        """Call once and return the answer with the name of its receipts. A call that failed is an answer as well."""
        name = f"{RECEIPTS}/{call_id or self.make_id(self.clock())}"
        receipts = Receipts(self.file.folder / name)
        given = {key: value for key, value in arguments.items() if value is not None}
        answer = self.transport.call(operation, given, project=self.project, receipts=receipts, clock=self.clock)
        return answer, name


class Turn:
    """What one method does while it holds the state. `state` is what is on the disk."""

    def __init__(self, desk: Desk, state: State) -> None:
        self.desk = desk
        self.state = state

    def save(self, **changes: Any) -> None:
        """Change the state, on the disk first."""
        changed = msgspec.structs.replace(self.state, **changes)
        self.desk.file.save(changed)
        self.state = changed

    def require_phase(self, *phases: Phase) -> None:
        """Raise WorkflowRefused in any other phase."""
        if self.state.phase not in phases:
            raise WorkflowRefused(
                "the workflow is in another phase",
                got=self.state.phase,
                expected=" or ".join(phases),
                next_step="begin or adopt a session first; a workflow that has ended stays ended",
            )

    def revision(self, stated: int | None) -> int:
        """Return the revision that a write is based on: what the caller states, or what was seen last."""
        return self.state.last_revision if stated is None else stated

    def read(self, operation: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Answer, str]:
        """Call something that records nothing. Raise CommandFailed."""
        check(operation, arguments)
        answer, receipts = self.desk.ask(operation, arguments)
        if not answer.ok or answer.value is None:
            raise failure(operation, answer, receipts)
        return answer.value, answer, receipts

    def write(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        options: Mapping[str, Any] = MappingProxyType({}),
        then: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {},
    ) -> dict[str, Any]:
        """Call something that records, by the rule above. `then` says what a success changes in the state.

        `options` are what the build at hand said it takes; a request of this build may not know them.
        Raise what `check` raises with nothing begun, and CommandFailed with the write left pending.
        """
        check(operation, arguments)
        arguments = {**arguments, **options}
        call_id = self.desk.make_id(self.desk.clock())
        pending = Pending(
            id=call_id,
            operation=operation,
            args={key: value for key, value in arguments.items() if value is not None},
            receipts=f"{RECEIPTS}/{call_id}",
            outcome="pending",
            started_at_ms=self.desk.clock(),
        )
        self.save(pending=pending, inspection=None)
        answer, receipts = self.desk.ask(operation, arguments, call_id=call_id)
        outcome = "returned" if answer.known else "unknown"
        self.save(pending=msgspec.structs.replace(pending, outcome=outcome))
        if not answer.ok or answer.value is None:
            raise failure(operation, answer, receipts)
        revision = part(answer.value, "project_revision", kind=int)
        changes = then(answer.value)
        entry = self.entry(pending, outcome="succeeded", revision=revision)
        self.save(pending=None, history=(*self.state.history, entry), last_revision=revision, **changes)
        return answer.value

    def entry(
        self, pending: Pending, *, outcome: Any, revision: int, reconciliation: dict[str, str] | None = None
    ) -> Entry:
        """Return what the history keeps of a write."""
        return Entry(
            id=pending.id,
            operation=pending.operation,
            args_sha256=digest(journal_bytes(pending.args)),
            receipts=pending.receipts,
            outcome=outcome,
            project_revision=revision,
            finished_at_ms=self.desk.clock(),
            reconciliation=reconciliation,
        )


def check(operation: str, arguments: Mapping[str, Any]) -> None:
    """Raise InvalidInput or RuleViolation for arguments that could never be taken, before any of them is kept."""
    given = {key: value for key, value in arguments.items() if value is not None}
    convert_request(given, operation_named(operation).request_type(), what="the request")
    refuse_secrets(given, what="the request")


def plain(value: Any) -> dict[str, Any]:
    """Return a caller's value as plain JSON, so that both transports are given the same. Raise InvalidInput."""
    try:
        found: Any = json.loads(json.dumps(msgspec.to_builtins(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    raise InvalidInput(
        "a value is not one JSON object",
        got=type(value).__name__,
        expected="a dict of plain JSON values, every number finite",
        next_step="give the fields as documented",
    )


def part(value: Mapping[str, Any], *path: str, kind: type[Any]) -> Any:
    """Return a part of an answer. Raise WorkflowRefused where it is missing or of another type."""
    found: Any = value
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise WorkflowRefused(
            "the answer lacks what the workflow needs",
            got=type(found).__name__,
            expected=f"{'.'.join(path)} of type {kind.__name__}",
            next_step="use a build of AWR that answers as documented",
        )
    return found


def failure(operation: str, answer: Answer, receipts: str) -> CommandFailed:
    """Return the error for a call that failed, with what AWR itself said of it."""
    if not answer.known:
        what, got = "nobody knows what the call did", "no answer, or not all of it"
        step = "query what AWR knows with inspect, then reconcile; never repeat the call"
    else:
        what = "AWR refused the call" if answer.report else "the answer is not one JSON object"
        got = str(answer.report["code"]) if answer.report else "something else"
        step = "read the report; a write stays pending until inspect and reconcile"
    return CommandFailed(
        what,
        value=answer.value,
        got=got,
        expected="a success",
        next_step=step,
        operation=operation,
        outcome="returned" if answer.known else "unknown",
        report=answer.report,
        receipts=receipts,
    )
