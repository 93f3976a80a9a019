"""What one client has of its own in one project, and valid arguments for every tool, made from it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from tests.support.service import Agent
from tests.support.team import WORK

__all__ = ["ARGUMENTS", "Owned", "arguments_for", "own", "revision_of"]

CONVERSATION = "the same words"
_numbers = count(1)

SAVED = {"context_hash": "ab" * 32, "digest": "Half done", "next_action": "Go on"}

#: The smallest arguments that fit each tool, beside the project, the request's id and the expected revision.
ARGUMENTS: dict[str, Callable[[Owned], dict[str, Any]]] = {
    "awr_project_status": lambda own: {},
    "awr_work_ready": lambda own: {},
    "awr_search": lambda own: {"text": "done"},
    "awr_source_list": lambda own: {},
    "awr_source_scan": lambda own: {},
    "awr_source_reindex": lambda own: {},
    "awr_source_show": lambda own: {"source": "work-ledger.yaml"},
    "awr_work_get": lambda own: {"work": own.work},
    "awr_work_graph": lambda own: {},
    "awr_work_history": lambda own: {"work": own.work, "session": own.session},
    "awr_work_assess": lambda own: {"work": own.work},
    "awr_work_manage": lambda own: {
        "work": own.work,
        "session": own.session,
        "request_key": fresh(),
        "contract_fingerprint": own.fingerprint,
        "observation": {"observed_at": 1, "note": "Looked at"},
    },
    "awr_work_prepare": lambda own: {"work": own.work, "session": own.session},
    "awr_session_claim": lambda own: {"action": "acquire", "session": own.session},
    "awr_work_handoff": lambda own: {"work": own.work, "session": own.session},
    "awr_context_compile": lambda own: {"session": own.session},
    "awr_context_bootstrap": lambda own: {"session": own.session},
    "awr_session_restart_estimate": lambda own: {"session": own.session},
    "awr_work_create": lambda own: {"work": fresh(), "title": "New", "session": own.session},
    "awr_work_activate": lambda own: {"work": own.work, "session": own.session},
    "awr_work_transition": lambda own: {
        "action": "progress",
        "work": own.work,
        "session": own.session,
        "reason": "It goes on",
        "next_action": "Go on",
    },
    "awr_completion_prepare": lambda own: {
        "work": own.work,
        "report": "reports/none.json",
        "evidence_key": fresh(),
        "source_sha": "a" * 40,
        "level": "locally_verified",
    },
    "awr_evidence_record": lambda own: {
        "external_key": fresh(),
        "evidence_type": "review",
        "level": "designed",
        "summary": "Agreed",
        "locator": "docs/design.md",
        "scope": ["parser"],
    },
    "awr_evidence_show": lambda own: {"work": own.work},
    "awr_proposal_show": lambda own: {"proposal": own.proposal},
    "awr_proposal_recover": lambda own: {"proposal": own.proposal},
    "awr_session_start": lambda own: {
        "work": own.work,
        "conversation": fresh(),
        "agent": own.client,
        "provider": "p",
        "model": "m",
    },
    "awr_session_list": lambda own: {},
    "awr_session_get": lambda own: {"session": own.session},
    "awr_session_end": lambda own: {"session": own.session, "outcome": "ended"},
    "awr_session_checkpoint": lambda own: {"session": own.session, **SAVED},
    "awr_session_resume": lambda own: {
        "session": own.session,
        "conversation": fresh(),
        "agent": own.client,
        "provider": "p",
        "model": "m",
    },
    "awr_session_wait": lambda own: {"session": own.session, "question": "Ship it?", **SAVED},
    "awr_session_reply": lambda own: {"wait": own.wait, "reply": "Yes"},
    "awr_session_waits": lambda own: {"session": own.session},
    "awr_compaction_observe": lambda own: {"session": own.session, "observation": observation()},
    "awr_compaction_get": lambda own: {"session": own.session},
    "awr_compaction_defer": lambda own: {"session": own.session, "observation_event_id": own.observed},
    "awr_execution_register": lambda own: {
        "session": own.session,
        "operation_key": fresh(),
        "purpose": "Deploy",
        "external_reference": "run 7",
    },
    "awr_execution_report": lambda own: {"report": report(own.execution)},
    "awr_execution_list": lambda own: {"work": own.work},
    "awr_execution_show": lambda own: {"execution": own.execution},
    "awr_operation_get": lambda own: {"request_id": own.request_id},
    "awr_operation_recover": lambda own: {"request_id": own.request_id},
    "awr_event_append": lambda own: {"event_type": "note.added", "summary": "A note", "session": own.session},
    "awr_event_show": lambda own: {"event": own.event},
    "awr_event_history": lambda own: {"session": own.session},
    "awr_journal_verify": lambda own: {},
}


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of one client's own records in one project."""

    client: str
    project: str
    work: str
    session: str
    checkpoint: str
    execution: str
    operation_key: str
    event: str
    observed: str
    proposal: str
    wait: str
    fingerprint: str
    request_id: str

    @property
    def words(self) -> tuple[str, ...]:
        """What nobody else may be shown."""
        said = (f"Secretly {self.client}", f"Whether {self.client}")
        return (self.checkpoint, self.execution, self.operation_key, self.event, self.observed, self.wait, *said)


def fresh() -> str:
    """Return a name that nobody used."""
    return f"name-{next(_numbers):05d}"


def observation() -> dict[str, Any]:
    """Return a host's report of one more compaction."""
    number = next(_numbers)
    return {
        "compaction_id": f"c-{number}",
        "sequence": number,
        "observed_at": number,
        "trigger": "automatic",
        "model": "m",
        "source": "test",
        "measurement_scope": "full_request",
        "measurement_basis": "host_reported",
        "before_tokens": 180_000,
        "after_tokens": 120_000,
        "context_window_tokens": 200_000,
    }


def report(execution: str) -> dict[str, Any]:
    """Return a host's statement about an execution."""
    return {
        "version": 1,
        "request_key": fresh(),
        "execution_id": execution,
        "host_id": "h",
        "host_work_key": "k",
        "native_session": "n",
        "agent_id": "a",
        "origin": "caller_reported",
        "phase": "progress",
        "observed_at": 1,
        "summary": "It runs",
        "detail_references": [],
    }


def revision_of(agent: Agent, project: str) -> int:
    """Return the revision that a write has to state now."""
    found: int = agent.call("awr_session_list", project=project).value()["project_revision"]
    return found


def arguments_for(tool: str, own: Owned, *, revision: int, schema: dict[str, Any]) -> dict[str, Any]:
    """Return valid arguments of one tool for the client that owns these records."""
    given = {"project": own.project, **ARGUMENTS[tool](own)}
    if "expected_revision" in schema["properties"]:
        given["expected_revision"] = revision
    if "request_id" in schema["properties"]:
        given.setdefault("request_id", fresh())
    return given


def own(agent: Agent, project: str) -> Owned:
    """Let a client make one record of each kind in a project that it may write to."""
    work, key = WORK[agent.client], fresh()

    def write(tool: str, **arguments: Any) -> dict[str, Any]:
        return agent.call(
            tool,
            project=project,
            request_id=fresh(),
            **{"expected_revision": revision_of(agent, project), **arguments},
        ).value()

    labels = {"agent": agent.client, "provider": "p", "model": "m"}
    started = write("awr_session_start", work=work, conversation=CONVERSATION, claim=True, **labels)
    session = started["session"]["id"]
    execution = write("awr_execution_register", session=session, operation_key=key, purpose="Deploy")
    event = write("awr_event_append", session=session, event_type="note.added", summary=f"Secretly {agent.client}")
    observed = write("awr_compaction_observe", session=session, observation=observation())
    progressed = write(
        "awr_work_transition", action="progress", work=work, session=session, reason="r", next_action="n"
    )
    waiting = write("awr_session_wait", session=session, question=f"Whether {agent.client}?", **SAVED)
    assessed = agent.call("awr_work_assess", project=project, work=work).value()
    return Owned(
        client=agent.client,
        project=project,
        work=work,
        session=session,
        checkpoint=waiting["checkpoint"]["id"],
        execution=execution["execution"]["id"],
        operation_key=key,
        event=event["event_id"],
        observed=observed["observation_event_id"],
        proposal=progressed["proposal"]["id"],
        wait=waiting["wait"]["id"],
        fingerprint=assessed["assessment"]["contract_fingerprint"],
        request_id=started["operation"]["request_id"],
    )
