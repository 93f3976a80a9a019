"""How a member of the corpus is measured on this Guardian: what it describes is done, and what comes back is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from awr.guardian.entries import entry_hash, request_hash
from awr.guardian.guardian import Guardian
from awr.guardian.signature import Keys, sign
from awr.guardian.store import Session, Store
from awr.guardian.verdict import Approver, AskDetails, Observe, Policy, Step, Verdict
from awr.guardian.verification import exported, verify
from tests.conformance.translation import moment, on_the_wire, parts, session_of, signed_as
from tests.support.acs import KEYS, Agent, guardian_at

__all__ = ["Measure", "Observed", "Says", "bound", "guarded"]

Payload = Mapping[str, Any]
Measure = Callable[[Payload, Path], "Observed"]


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the verdict in the corpus's words, and the code of a refusal."""

    verdict: str
    code: int | None = None


class Says:
    """A policy that gives one verdict on one method, and allows the rest."""

    name = "says"
    requires_provenance = False

    def __init__(self, verdict: Verdict, *, on: str) -> None:
        self._verdict = verdict
        self._on = on

    def decide(self, step: Step) -> Verdict:
        """Return the verdict."""
        return self._verdict if step.method == self._on else Observe().decide(step)


@contextmanager
def guarded(
    folder: Path, *, at: int, keys: Keys = KEYS, policy: Policy | None = None, name: str = "acs.db"
) -> Iterator[Guardian]:
    """Give a Guardian whose clock stands still."""
    guardian = guardian_at(folder / name, keys=keys, policy=policy, clock=lambda: at)
    try:
        yield guardian
    finally:
        guardian.store.close()


def bound(agent: Agent, message: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request as it is. Return its answer, which is bound to it, and signed under its label where it is read
    as authentic."""
    answer: dict[str, Any] = agent.post(message)
    place = "result" if "result" in answer else "error"
    assert answer["id"] == message["id"]
    if place == "error" and answer["error"]["code"] == -32004:
        assert "signature" not in answer["error"], "nobody is answered by name who has not been known"
        return answer
    assert agent.is_signed(answer)
    assert answer[place]["signature"]["key_id"] == message["params"]["signature"]["key_id"]
    if "decision" in answer.get("result", {}):
        assert answer["result"]["request_id"] == message["params"]["request_id"]
    return answer


def told(answer: Mapping[str, Any]) -> Observed:
    """Return what an answer is in the corpus's words: a ServerHello allows a session to begin."""
    if "error" in answer:
        return Observed(verdict="deny", code=answer["error"]["code"])
    result = answer["result"]
    allowed = "negotiated_version" in result or result["decision"] == "allow"
    return Observed(verdict="allow" if allowed else "deny")


def requests(payload: Payload, folder: Path) -> Observed:
    """Send one request, or several in one session of which all but the last have to be allowed."""
    steps = [step["request"] for step in payload.get("steps", ())] or [payload["request"]]
    at = moment(payload.get("guardian_clock", parts(steps[0])["timestamp"]))
    with guarded(folder, at=at) as guardian:
        agent = Agent(guardian.answer, session_id=session_of(steps[0]), agent_id="agent", clock=lambda: at)
        if steps[0]["method"] != "handshake/hello":
            hello = agent.begin()["result"]
            assert hello["skew_window_ms"] == payload.get("skew_window_ms", hello["skew_window_ms"])
        found = Observed(verdict="allow")
        for step in steps:
            assert found.verdict == "allow", "every step but the last is allowed"
            message = signed_as(
                agent,
                on_the_wire(step),
                state=payload.get("signature_state", "VALID"),
                omitted=tuple(payload.get("signed_fields_omitted", ())),
            )
            answer = bound(agent, message) if "signature" in message["params"] else agent.post(message)
            found = told(answer)
            if step["method"] == "handshake/hello" and found.verdict == "allow":
                assert answer["result"]["negotiated_version"] in payload["guardian_versions_supported"]
    return found


def escalation(payload: Payload, folder: Path) -> Observed:
    """Let a policy ask for an approval that nobody here can give."""
    details = AskDetails(approver=Approver(type="human", id="u-1"), question="May it?", timeout_seconds=60)
    policy = Says(
        Verdict(decision="ask", reasoning=payload["policy_verdict_before_mapping"]["reason"], ask_details=details),
        on="steps/toolCallRequest",
    )
    at = moment(payload["request"]["timestamp"])
    with guarded(folder, at=at, policy=policy) as guardian:
        agent = Agent(guardian.answer, session_id=session_of(payload["request"]), agent_id="agent", clock=lambda: at)
        assert agent.begin()["result"]["approver_types_supported"] == []
        result = bound(agent, signed_as(agent, on_the_wire(payload["request"]), state="VALID"))["result"]
        assert result["reason_codes"] == ["approver_unavailable"]
        [row] = guardian.store.entries(session(guardian.store, agent))
        assert (row["decision"], row["reason_codes"]) == ("deny", ["approver_unavailable"])
    return told({"result": result})


def coverage(payload: Payload, folder: Path) -> Observed:
    """Publish a head, and leave out of the signature what the member leaves out of it."""
    with guarded(folder, at=0) as guardian:
        agent = Agent(guardian.answer, clock=lambda: 0)
        agent.begin()
        answer = agent.step("steps/toolCallRequest")
        left_out = {"decision", "chain_hash"} - set(payload["signature_covers"])
        published = answer["result"]["chain_hash"]
        if left_out:
            inner = {name: value for name, value in answer["result"].items() if name not in {*left_out, "signature"}}
            partly = {**answer, "result": inner}
            sign(partly, place="result", keys=agent.keys, key_id=agent.key_id, session_id=agent.session_id)
            assert agent.is_signed(partly), "it does sign what it covers"
            answer = {**answer, "result": {**answer["result"], "signature": inner["signature"]}}
        [row] = guardian.store.entries(session(guardian.store, agent))
        witnessed = agent.is_signed(answer) and row["link"].hex() == published
    return Observed(verdict="allow" if witnessed else "deny")


def integrity(payload: Payload, folder: Path) -> Observed:
    """Publish a head to the agent that holds the key, and let it look."""
    assert payload["signed_by"] == "guardian"
    with guarded(folder, at=0) as guardian:
        agent = Agent(guardian.answer, clock=lambda: 0)
        agent.begin()
        answer = agent.step("steps/toolCallRequest")
    other = {**answer, "result": {**answer["result"], "chain_hash": "3" * 64}}
    assert not agent.is_signed(other), "another head is none of the Guardian's"
    return Observed(verdict="allow" if agent.is_signed(answer) else "deny")


def audited_entry(payload: Payload, folder: Path) -> Observed:
    """Write an entry under acs-audit, and take out of it what the member has not."""
    with guarded(folder, at=0) as guardian:
        agent = Agent(guardian.answer, clock=lambda: 0)
        assert "acs-audit" in agent.begin()["result"]["profiles_accepted"]
        message = agent.request("steps/toolCallRequest", {"tool": {"name": "Bash"}, "arguments": {}})
        bound(agent, message)
        [_, line] = exported(guardian.store, session(guardian.store, agent))
    entry = dict(line["entry"])
    assert entry["request_hash"] == request_hash(message["params"])
    if "request_hash" not in payload["context_entry"]:
        del entry["request_hash"]
    whole = "request_hash" in entry and entry_hash(entry, previous_hash=None) == entry["entry_hash"]
    return Observed(verdict="allow" if whole else "deny")


def seal(payload: Payload, folder: Path) -> Observed:
    """Publish heads, and seal the chain behind the one that the member names.

    To seal it behind an earlier one, the Guardian is put back to a copy of its record from before the later ones.
    """
    heads = [head["chain_hash"] for head in payload["witnessed_heads"]]
    kept = heads.index(payload["context_entry"]["previous_hash"]) + 1
    published = []
    with guarded(folder, at=0) as guardian:
        agent = Agent(guardian.answer, clock=lambda: 0)
        agent.begin()
        for number in range(1, len(heads) + 1):
            published.append(agent.step("steps/toolCallRequest")["result"]["chain_hash"])
            if number == kept:
                guardian.store.database.copy_to(folder / "sealed.db")
    with guarded(folder, at=0, name="sealed.db") as guardian:
        agent.send = guardian.answer
        assert agent.step("steps/sessionEnd")["result"]["decision"] == "allow"
        found = verify(guardian.store, session(guardian.store, agent), witnessed=tuple(published))
    assert found.sealed
    assert found.entries == kept + 1
    return Observed(verdict="allow" if found.broken is None else "deny")


def envelope(payload: Payload, folder: Path) -> Observed:
    """Send a signed envelope of the corpus, byte for byte, to a Guardian that holds the keys it names."""
    found, _ = _delivered(payload["request"], payload["verifier"], folder)
    return found


def label(payload: Payload, folder: Path) -> Observed:
    """See whether the answer comes under the label that the member's answer comes under."""
    found, answer = _delivered(payload["request"], payload["observed_agent"], folder)
    assert found.verdict == "allow"
    used = answer["result"]["signature"]["key_id"]
    return Observed(verdict="allow" if used == payload["response"]["result"]["signature"]["key_id"] else "deny")


def _delivered(request: dict[str, Any], holder: Payload, folder: Path) -> tuple[Observed, dict[str, Any]]:
    params = request["params"]
    named = params["signature"]["key_id"]
    # The label that the request names is the last one, so that no answer comes under it for being the first.
    labels = sorted(holder["configured_key_ids"], key=lambda name: bool(name == named))
    keys = Keys({name: bytes.fromhex(holder["secret_hex"][name]) for name in labels})
    at = moment(params["timestamp"])
    with guarded(folder, at=at, keys=keys) as guardian:
        agent = Agent(
            guardian.answer,
            keys=keys,
            key_id=named if named in holder["configured_key_ids"] else keys.first_id,
            session_id=params["metadata"]["session_id"],
            agent_id=params["metadata"]["agent_id"],
            clock=lambda: at,
        )
        agent.begin()
        answer = bound(agent, request)
    return told(answer), answer


def reference(payload: Payload, folder: Path) -> Observed:
    """See whether the Guardian decides and records what the member describes, over the same sessions."""
    request = payload["request"]
    at = moment(request["params"]["timestamp"])
    agent_id = request["params"]["metadata"]["agent_id"]
    policy = None
    if payload["guardian_decision"] == "deny":
        policy = Says(Verdict(decision="deny", reasoning="a policy of the test's"), on="steps/toolCallResult")
    with guarded(folder, at=at, policy=policy) as guardian:
        for session_id, records in payload["guardian_session_records"].items():
            agent = Agent(guardian.answer, session_id=session_id, agent_id=agent_id, clock=lambda: at)
            agent.begin()
            for record in records:
                answer = agent.step(record["method"], request_id=record["request_id"])
                assert answer["result"]["decision"] == "allow"
        agent = Agent(guardian.answer, session_id=session_of(request), agent_id=agent_id, clock=lambda: at)
        decision = bound(agent, agent.signed(on_the_wire(request)))["result"]["decision"]
        *_, row = guardian.store.entries(session(guardian.store, agent))
    record = [
        {"finding": finding, "request_id_ref": row["facts"]["request_id_ref"], "session_id": agent.session_id}
        for finding in row["findings"]
    ]
    described = (payload["guardian_decision"], payload["guardian_audit_record"])
    return Observed(verdict="allow" if (decision, record) == described else "deny")


def session(store: Store, agent: Agent) -> Session:
    """Return an agent's session as the store has it."""
    found = store.session(agent.session_id)
    assert found is not None
    return found
