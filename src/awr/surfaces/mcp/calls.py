"""One tool call from its arguments to its answer, the same for every agent's transport.

arguments   size, secrets, the closed schema
read        on a private copy of the journal, verified against the files before and after; nothing is written
write       an old answer first, then whose session it is, then the write, recorded when it has a request id
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.secrets import refuse_secrets
from awr.errors import AwrError, InvalidInput, io_error
from awr.journal.sources import live_sources
from awr.operations.calling import Answer, call
from awr.operations.receipts import Identity, identified
from awr.operations.registry import Operation
from awr.operations.requests import convert_request
from awr.project import Project
from awr.sources.index import refresh
from awr.surfaces.mcp.catalogue import HIDDEN, AgentTool, field_names
from awr.surfaces.mcp.diagnosis import diagnosed
from awr.surfaces.mcp.ownership import Caller, meant_session, require_own, require_scope

__all__ = ["MAX_ARGUMENT_BYTES", "MAX_COMPLETION_BYTES", "call_tool"]

MAX_ARGUMENT_BYTES = 1024 * 1024
MAX_COMPLETION_BYTES = 64 * 1024

Open = Callable[[], Project]


class _Call(msgspec.Struct, frozen=True):
    """A call that fits its schema. `fields` are the request's, without what the door decides."""

    tool: AgentTool
    operation: Operation
    given: dict[str, Any]
    fields: dict[str, Any]
    conversation: str | None
    request_id: str | None
    summary: bool


def call_tool(open_project: Open, tool: AgentTool, arguments: dict[str, Any], *, caller: Caller) -> Answer:
    """Answer one call. A refusal is an answer; only a fault of AWR's own is raised.

    `open_project` is asked when the arguments are in order, and may refuse. On a shared service `request_id` is
    required of every write that takes one.
    """
    try:
        checked = _checked(tool, arguments, caller)
        _fits(checked, caller, session=checked.fields.get("session") or _STAND_IN)
    except AwrError as error:
        return Answer(None, error.report())
    try:
        project = open_project()
        if checked.operation.effect == "write":
            with project.journal.kept_open():
                return _shown(_written(project, checked, caller), checked)
        return _read(project, checked, caller)
    except AwrError as error:
        return diagnosed(checked.operation, error, open_project)
    except OSError as error:
        return Answer(None, io_error(error).report())


#: Takes a session's place while a request is checked; the one that is meant is looked up later.
_STAND_IN = "0" * 26


def _checked(tool: AgentTool, arguments: dict[str, Any], caller: Caller) -> _Call:
    _require_size(arguments)
    refuse_secrets(arguments, what="the arguments")
    operation = tool.operation(arguments.get("action"))
    if operation is None:
        raise _misfit("an action that this tool does not have", "one of its documented actions")
    # A null says what leaving out says, wherever leaving out is allowed.
    stated = {name: value for name, value in arguments.items() if value is not None}
    if tool.chooses:
        stated.pop("action", None)
    allowed = _allowed(tool, operation)
    if not stated.keys() <= allowed:
        raise _misfit("a field that does not belong there", "only the documented fields")
    fields = {name: value for name, value in stated.items() if name in field_names(operation)}
    conversation = None if "conversation" in fields else _text(stated.get("conversation"))
    selects = "conversation" in stated and "conversation" not in operation.required
    for name in operation.required:
        if name not in fields and not (name == "session" and selects):
            raise _misfit("nothing", f"the field {name}")
    request_id = _text(stated.get("request_id")) if tool.identified else None
    if tool.identified and request_id is None and caller.authenticated:
        raise _misfit("nothing", "the field request_id, which every write of a shared service has")
    view = None if "response_view" in fields else stated.get("response_view")
    if view not in (None, "full", "summary"):
        raise _misfit("a view that there is not", "full or summary")
    summary = view == "summary"
    if summary and request_id is None:
        raise _misfit("a summary of a write without a request_id", "a request_id, under which the rest can be had")
    return _Call(tool, operation, dict(arguments), fields, conversation, request_id, summary)


def _allowed(tool: AgentTool, operation: Operation) -> frozenset[str]:
    fields = field_names(operation)
    allowed = fields - HIDDEN
    if "session" in fields:
        allowed |= {"conversation"}
    if tool.identified:
        allowed |= {"request_id"}
    if tool.destructive and tool.chooses:
        allowed |= {"response_view"}
    return allowed


def _require_size(arguments: dict[str, Any]) -> None:
    size = len(msgspec.json.encode(arguments))
    if size > MAX_ARGUMENT_BYTES:
        raise InvalidInput(
            "the tool's arguments are too large",
            got=f"{size} bytes",
            expected=f"at most {MAX_ARGUMENT_BYTES} bytes",
            next_step="send facts and references, never bulk",
        )
    completion = len(msgspec.json.encode(arguments.get("completion")))
    if completion > MAX_COMPLETION_BYTES:
        raise InvalidInput(
            "the completion is too large",
            got=f"{completion} bytes",
            expected=f"at most {MAX_COMPLETION_BYTES} bytes",
            next_step="name evidence by its key and leave its content in the report",
        )


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise _misfit("another type", "text")


def _misfit(got: str, expected: str) -> InvalidInput:
    return InvalidInput(
        "the tool's arguments do not match its schema",
        got=got,
        expected=expected,
        next_step="compare the call with the tool's input schema",
    )


def _fits(checked: _Call, caller: Caller, *, session: str | None, **more: Any) -> msgspec.Struct:
    """Return the operation's request. Raise InvalidInput."""
    names = field_names(checked.operation)
    values = {**checked.fields, **more}
    if "session" in names and (checked.conversation is not None or "session" in values):
        values["session"] = session
    if "client" in names:
        values["client"] = caller.client
    if "visible_to" in names and caller.authenticated:
        values["visible_to"] = caller.client
    return convert_request(values, checked.operation.request_type(), what="the tool's arguments")


def _session(project: Project, checked: _Call, caller: Caller) -> str | None:
    """Return the session that is meant, once it is found to be the caller's own."""
    named = checked.fields.get("session")
    with project.journal.read() as reader:
        require_own(reader, caller, checked.fields)
        if named is None and checked.conversation is None:
            if "detached" in field_names(checked.operation):
                require_scope(caller, checked.fields)
            return None
        return meant_session(reader, caller, session=named, conversation=checked.conversation)


def _written(project: Project, checked: _Call, caller: Caller) -> Answer:
    operation = checked.operation
    if checked.request_id is None:
        session = _session(project, checked, caller)
        return call(operation, project, _fits(checked, caller, session=session))
    meant: list[str | None] = []

    def act(tagged: Project, revision: int) -> Answer:
        # Every identified write is announced first, and carried out on the revision that the announcement made.
        stated = {"expected_revision": revision} if "expected_revision" in field_names(operation) else {}
        return call(operation, tagged, _fits(checked, caller, session=meant[0], **stated))

    return identified(
        project,
        Identity(
            client=caller.client,
            request_id=checked.request_id,
            tool=checked.tool.name,
            arguments=checked.given,
        ),
        expected_revision=checked.fields.get("expected_revision"),
        guard=lambda: meant.append(_session(project, checked, caller)),
        act=act,
    )


def _shown(answer: Answer, checked: _Call) -> Answer:
    """Cut a recorded write down to its outcome, where that is asked for. Errors stay as they are."""
    if not checked.summary or answer.error is not None or answer.value is None:
        return answer
    kept = {name: value for name, value in answer.value.items() if name not in {"proposal", "event"}}
    for name, parts in _SUMMARY.items():
        part = answer.value.get(name)
        kept[name] = {key: part[key] for key in parts if key in part} if isinstance(part, dict) else part
    whole = {"tool": "awr_operation_get", "arguments": {"request_id": checked.request_id}, "basis": "recorded_answer"}
    return Answer({**kept, "response_view": {"view": "summary", "full_result": whole}}, None)


_SUMMARY = {
    "proposal": ("id", "status", "mutation_type", "work_item_id", "revision"),
    "event": ("id", "event_type", "project_revision"),
}


def _read(project: Project, checked: _Call, caller: Caller) -> Answer:
    if checked.operation.effect == "runtime_read":
        session = _session(project, checked, caller)
        return call(checked.operation, project, _fits(checked, caller, session=session))
    with project.snapshot() as copy:
        session = _session(copy, checked, caller)
        answer = call(checked.operation, copy, _fits(checked, caller, session=session))
        # Whatever came out rests on the files: they have to be now what they were when they were indexed.
        refresh(copy)
        return (
            answer if answer.value is None else Answer({**answer.value, **_basis(copy, answer.value)}, answer.error)
        )


def _basis(copy: Project, value: dict[str, Any]) -> dict[str, Any]:
    """Say what a read rests on. A value's own list of issues stays."""
    with copy.journal.read() as reader:
        sources = live_sources(reader.database)
        state = [(row.id, row.fingerprint, row.freshness, row.source_revision) for row in sources]
        return {
            "project_revision": reader.project_revision,
            "freshness_basis": "source_verified_readonly",
            "source_refresh_performed": False,
            "read_only": True,
            "source_issues": value.get("source_issues", []),
            "source_warnings": sum(row.warnings for row in sources),
            "snapshot": {
                "version": 1,
                "storage": "private_memory",
                "coherent": True,
                "project_revision": reader.project_revision,
                "source_state_fingerprint": digest(journal_bytes(state)),
                "source_refresh_revision": None,
                "source_currentness_verified": True,
            },
        }
