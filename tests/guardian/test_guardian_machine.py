"""Random conversations of several agents with a Guardian that is restarted now and then, and a model of the rules."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from awr.guardian.envelope import rfc3339
from awr.guardian.guardian import Guardian
from awr.guardian.hooks import HOOKS
from awr.guardian.signature import Keys
from awr.guardian.verification import verify
from tests.support.acs import PAYLOADS, Agent, guardian_at

KEYS = Keys({"one": b"1" * 32, "two": b"2" * 32})
NOW = 1_790_000_000_000
#: Methods that are offered at the handshake, and one that is not.
OFFERED = ("steps/toolCallRequest", "steps/turnEnd", "steps/preCompact", "steps/postCompact", "steps/sessionEnd")
METHODS = (*OFFERED, "steps/userMessage", "steps/dance")

methods = st.sampled_from(METHODS)
agents = st.integers(0, 2)


class Model:
    """One session, as the rules have it."""

    def __init__(self) -> None:
        self.begun = self.closed = False
        self.seen: set[str] = set()
        self.heads: list[str] = []


class Conversation(RuleBasedStateMachine):
    """The order of checks: method, session, replay, binding, closed, negotiated, time, payload."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.now = NOW
        self.guardian = self.opened()
        self.agents = [
            Agent(self.send, keys=KEYS, key_id="one", agent_id=f"agent-{n}", clock=lambda: self.now) for n in range(3)
        ]
        self.models = [Model() for _ in range(3)]
        self.sent: list[tuple[int, dict[str, Any]]] = []

    def opened(self) -> Guardian:
        return guardian_at(self.folder / "acs.db", keys=KEYS, clock=lambda: self.now)

    def send(self, body: bytes) -> bytes:
        return self.guardian.answer(body)

    def teardown(self) -> None:
        if hasattr(self, "guardian"):
            self.guardian.store.close()
            shutil.rmtree(self.folder)

    @rule()
    def restart(self) -> None:
        self.guardian.store.close()
        self.guardian = self.opened()

    @rule(milliseconds=st.integers(-400_000, 400_000))
    def let_the_clock_jump(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule(who=agents, offers_http=st.booleans())
    def shake_hands(self, who: int, offers_http: bool) -> None:
        model, agent = self.models[who], self.agents[who]
        answer = agent.begin(
            methods_implemented=list(OFFERED), transports_supported=["http" if offers_http else "stdio"]
        )
        if model.begun:
            assert answer["error"]["data"]["reason"] == "renegotiation_not_supported"
        elif not offers_http:
            assert answer["error"]["data"]["reason"] == "no_common_transport"
        else:
            assert answer["result"]["methods_evaluated"] == list(OFFERED)
            model.begun = True

    @rule(
        who=agents,
        method=methods,
        late=st.sampled_from([0, 0, 0, -300_000, 300_001]),
        valid=st.booleans(),
        key=st.sampled_from(["one", "one", "two"]),
        view=st.sampled_from(["none", "none", "head", "wrong"]),
    )
    def take_a_step(self, who: int, method: str, late: int, valid: bool, key: str, view: str) -> None:
        agent, model = self.agents[who], self.models[who]
        metadata: dict[str, Any] = {}
        if view != "none" and model.heads:
            metadata["session_state"] = {"chain_hash": model.heads[-1] if view == "head" else "0" * 64}
        sender = Agent(self.send, keys=KEYS, key_id=key, session_id=agent.session_id, agent_id=agent.agent_id)
        payload = PAYLOADS.get(method, {}) if valid else {"nonsense": True}
        request = sender.request(method, payload, metadata=metadata, timestamp=rfc3339(self.now + late))
        self.sent.append((who, request))
        self.check(who, method, request, key=key, late=late, valid=valid, view=view)

    @rule(pick=st.integers(0, 10_000))
    def send_one_again(self, pick: int) -> None:
        if self.sent:
            who, request = self.sent[pick % len(self.sent)]
            seen = request["params"]["request_id"] in self.models[who].seen
            outcome = self.outcome(who, request)
            if request["method"] not in HOOKS:
                assert outcome == "method_not_found"
            else:
                # The only step whose id is not used up is one from before its session began.
                assert (outcome == "replay_detected") == seen

    def check(
        self, who: int, method: str, request: dict[str, Any], *, key: str, late: int, valid: bool, view: str
    ) -> None:
        model = self.models[who]
        outcome = self.outcome(who, request)
        can_deny = method in HOOKS and "deny" in HOOKS[method].permits
        if method not in HOOKS:
            assert outcome == "method_not_found"
        elif not model.begun:
            assert outcome == "no_session"
        elif key != "one":
            assert outcome == "key_not_bound"
        elif model.closed and "session_closed" in outcome:
            pass
        elif method not in OFFERED:
            assert outcome == "not_negotiated"
        elif abs(late) > 300_000:
            assert outcome == "timestamp_out_of_window"
        elif not valid:
            assert outcome == "invalid_payload"
        elif view == "wrong" and len(model.heads) > 1:
            assert outcome == ("deny" if can_deny else "allow")
        else:
            assert outcome == "allow"

    def outcome(self, who: int, request: dict[str, Any]) -> str:
        """Send a request and return what came of it, keeping the model's record of ids and heads."""
        agent, model = self.agents[who], self.models[who]
        closed = model.closed
        answer = agent.post(request)
        assert agent.is_signed(answer)
        if request["method"] in HOOKS and model.begun:
            model.seen.add(request["params"]["request_id"])
        if "error" in answer:
            reason: str = answer["error"]["data"]["reason"]
            assert not closed or reason in {"session_closed", "replay_detected", "method_not_found", "key_not_bound"}
            return reason
        result = answer["result"]
        if "chain_hash" in result:
            assert not closed
            model.heads.append(result["chain_hash"])
            if request["method"] == "steps/sessionEnd":
                model.closed = True
            return str(result["decision"])
        assert result["decision"] == "deny"
        return str(result["reason_codes"][0])

    @invariant()
    def every_chain_is_whole_and_holds_what_was_published(self) -> None:
        if not hasattr(self, "guardian"):
            return
        for agent, model in zip(self.agents, self.models, strict=True):
            session = self.guardian.store.session(agent.session_id)
            assert (session is not None) == model.begun
            if session is not None:
                found = verify(self.guardian.store, session, witnessed=tuple(model.heads))
                assert found.broken is None
                assert found.entries == len(model.heads)
                assert found.sealed == model.closed


Conversation.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestConversation = Conversation.TestCase
