"""How a member of the corpus is measured on this client: a Guardian of the test answers as the member describes.

Most of these members describe what an agent did and recorded. The client is put into the same place, and the verdict
is "allow" where it does and records the same.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from awr.client import GuardianClient
from awr.client.acs.audit import AuditRecord
from awr.client.acs.outcome import Outcome
from awr.client.acs.settings import Settings
from tests.conformance.measures import Observed, Payload
from tests.conformance.translation import on_the_wire, parts
from tests.support.guardians import SECRET, Script, allow, door, http, signed

__all__ = ["answering", "asking", "silence"]

#: How long a Guardian that says nothing is waited for, in milliseconds. The members name longer times.
WAIT_MS = 100
TOOL = "steps/toolCallRequest"


def silence(connection: socket.socket, request: Mapping[str, Any]) -> None:
    """Say nothing until the client has gone."""
    connection.recv(1)


def answering(**result: Any) -> Script:
    """Return a script that answers a step by a decision with these members."""

    def answer(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(http(allow(request, **result)))

    return answer


@contextmanager
def asking(
    script: Script,
    *,
    greeting: Script | None = None,
    settings: Mapping[str, Any] | None = None,
    wait_ms: int = 5_000,
    **agreed: Any,
) -> Iterator[tuple[GuardianClient, list[AuditRecord]]]:
    """Give a client of a Guardian that answers by a script, and what the client records."""
    records: list[AuditRecord] = []
    made = Settings(**{"agent_id": "agent", "methods": (TOOL, "steps/postCompact"), **(settings or {})})
    with (
        door(script, greeting=greeting, timeout_config={"default_ms": wait_ms}, **agreed) as address,
        GuardianClient(address, settings=made, secret=SECRET, audit=records.append) as client,
    ):
        yield client, records


def step_of(payload: Payload, client: GuardianClient) -> Outcome:
    """Start the session and ask about the member's step."""
    assert client.start().state == "guarded"
    message = on_the_wire(payload["request"]) if "acs" in payload["request"] else payload["request"]
    return client.step(message["method"], message["params"]["payload"])


def page_of_a_gateway(payload: Payload, folder: Path) -> Observed:
    """Let a gateway's page stand where a decision belongs."""

    def answer(connection: socket.socket, request: dict[str, Any]) -> None:
        connection.sendall(http(payload["guardian_response"]["body"].encode(), status="504 Gateway Timeout"))

    with asking(answer) as (client, records):
        outcome = step_of(payload, client)
    assert [record.event for record in records] == ["decision_failure"]
    taken = outcome.decided_by == "guardian" or outcome.decision is not None
    return Observed(verdict="allow" if taken else "deny")


def undecided_step(payload: Payload, folder: Path) -> Observed:
    """Let nobody answer a step, under the member's posture."""
    assert payload["guardian_response"] is None
    posture = payload["on_decision_failure"]
    with asking(silence, wait_ms=WAIT_MS, on_decision_failure=posture) as (client, records):
        outcome = step_of(payload, client)
    assert outcome.proceeds == (posture == "proceed")
    done = [(record.failure, record.posture) for record in records if record.event == "decision_failure"]
    described = [(event["failure_class"], event["posture"]) for event in payload["audit_events"]]
    return Observed(verdict="allow" if done == described else "deny")


def logged_failure(payload: Payload, folder: Path) -> Observed:
    """Let nobody answer a step, under the posture of a member that tells only of the log."""
    record = payload["record"]
    failure = record["decision_failure"]
    assert failure["class"] == "timeout"
    with asking(silence, wait_ms=WAIT_MS, on_decision_failure=failure["posture"]) as (client, records):
        client.start()
        outcome = client.step(record["step"]["method"], {})
    assert outcome.proceeds == (failure["posture"] == "proceed")
    done = [(one.failure, one.posture) for one in records if one.event == "decision_failure"]
    described = [(one["failure_class"], one["posture"]) for one in record["deployment_audit_log"]]
    return Observed(verdict="allow" if done == described else "deny")


def unguarded_start(payload: Payload, folder: Path) -> Observed:
    """Answer the handshake as the member says, under its start-up posture."""
    stated = payload["handshake_answer"]

    def refuse(connection: socket.socket, request: dict[str, Any]) -> None:
        error = {"code": stated["error"]["code"], "message": "as the member has it"}
        connection.sendall(http(signed(request, {"jsonrpc": "2.0", "id": request["id"], "error": error})))

    settings = {
        "startup": payload["startup_posture"],
        "handshake_timeout_ms": min(payload["connection_timeout_ms"], WAIT_MS) if stated is None else 5_000,
        "methods": tuple(parts(payload["request"])["params"]["methods_implemented"]),
    }
    greeting = silence if stated is None else refuse
    with asking(silence, greeting=greeting, settings=settings) as (client, records):
        started = client.start()
    assert started.state != "guarded"
    done = (started.state == "unguarded", any(record.event == "session_unguarded" for record in records))
    described = (payload["session_started"], bool(payload["deployment_audit_log"]))
    return Observed(verdict="allow" if done == described else "deny", code=started.error_code)


def substitution(payload: Payload, folder: Path) -> Observed:
    """Send the member's MODIFY to a client that is able to apply one, or is not, as the member says."""
    result = cast("dict[str, Any]", json.loads(json.dumps(payload["response"]["result"])))
    for redaction in result["modifications"].get("redactions", ()):
        redaction["path"] = "/" + redaction["path"].replace(".", "/")
    del result["request_id"]
    settings = {"modify_capable": payload["observed_agent"]["modify_capable"]}
    with asking(answering(**result), settings=settings) as (client, records):
        outcome = step_of(payload, client)
    assert outcome.decision == "modify", "the Guardian's decision is not lost"
    kept = any(record.applied == "original_kept" for record in records)
    done = (
        {"block": "deny", "proceed": "original_kept" if kept else "proceed_original"}.get(
            outcome.action, outcome.action
        ),
        [
            (record.received, record.applied, "modify_unsupported" in record.reason_codes)
            for record in records
            if record.event == "substituted"
        ],
        any(record.event == "decision_failure" for record in records),
    )
    told = [event["name"] for span in payload.get("trace", {}).get("observed_agent", ()) for event in span["events"]]
    described = (
        payload["applied"]["outcome"],
        [
            (entry["received"], entry["applied"], "modify_unsupported" in entry["reason_codes"])
            for entry in payload["deployment_audit_log"]
        ],
        "acs.decision.failure" in told,
    )
    return Observed(verdict="allow" if done == described else "deny")


def validation(payload: Payload, folder: Path) -> Observed:
    """Send the member's response, and see whether the client takes it for a decision."""
    result = {name: value for name, value in payload["response"]["result"].items() if name != "request_id"}
    with asking(answering(**result)) as (client, _):
        client.start()
        outcome = client.step(TOOL, {"tool": {"name": "files.read"}, "arguments": {}})
    done = "accepted" if outcome.decided_by == "guardian" else "rejected"
    return Observed(verdict="allow" if done == payload["record"]["observed_agent_validation"] else "deny")
