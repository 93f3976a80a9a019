"""A session of 100,000 steps is answered, shown and proved like a short one."""

from __future__ import annotations

import uuid
from pathlib import Path

from awr.guardian.entries import canonical_entry, step_bytes, step_text
from awr.guardian.store import Appended
from awr.guardian.verification import verify
from tests.support.acs import PAYLOADS, Agent, guardian_at

STEPS = 100_000
TOOL = "steps/toolCallRequest"


def test_a_session_of_100_000_steps_goes_on_and_verifies(tmp_path: Path) -> None:
    guardian = guardian_at(tmp_path / "acs.db")
    agent = Agent(guardian.answer)
    agent.begin()
    first = agent.request(TOOL, PAYLOADS[TOOL])
    agent.post(first)
    # The steps between are written as the Guardian writes them, in one transaction: each alone would be a commit.
    with guardian.store.database.transaction("IMMEDIATE"):
        for number in range(1, STEPS):
            session = guardian.store.session(agent.session_id)
            assert session is not None
            step_id = step_bytes(str(uuid.UUID(int=number)))
            content = {"entry_id": str(number), "step_id": step_text(step_id), "step_type": TOOL}
            added = Appended(
                step_id=step_id,
                step_type=TOOL,
                entry=canonical_entry(content),
                facts={"payload_bytes": number},
                provenance=(),
                depths={},
                summary={},
                intent=None,
                decision="allow",
                reason_codes=(),
                findings=(),
                seals=False,
                subagent=None,
            )
            guardian.store.append(session, added, now=0)
    head = agent.step(TOOL)["result"]["chain_hash"]
    assert agent.post(first)["error"]["code"] == -32005, "the first step is still known"
    referring = {**PAYLOADS["steps/toolCallResult"], "request_id_ref": first["params"]["request_id"]}
    assert agent.ask("steps/toolCallResult", referring)["result"]["decision"] == "allow"
    session = guardian.store.session(agent.session_id)
    assert session is not None
    found = verify(guardian.store, session, witnessed=(head,))
    assert (found.broken, found.entries) == (None, STEPS + 2)
    *_, last = guardian.store.entries(session, after=STEPS + 1)
    assert last["findings"] == []
    live = guardian.store.database.rows("SELECT count(*) FROM acs_contents")[0][0]
    assert live < 1000, "all but the newest are packed"
    guardian.store.close()
