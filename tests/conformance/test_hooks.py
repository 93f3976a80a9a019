"""The hooks: all 19 native ones and MCP's wrapped messages reach the policy and the chain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from awr.guardian.guardian import Guardian
from awr.guardian.verdict import Observe, Step, Verdict
from tests.conformance.conftest import Clock
from tests.conformance.requirements import covers
from tests.support.acs import PAYLOADS, Agent, hello

#: The standard's table of hooks, in its order.
NATIVE = [
    f"steps/{name}"
    for name in (
        *("sessionStart", "agentTrigger", "turnStart", "userMessage", "agentResponse", "knowledgeRetrieval"),
        *("memoryContextRetrieval", "memoryStore", "toolCallRequest", "toolCallResult", "preCompact", "postCompact"),
        *("subagentStart", "subagentStop", "skillRegister", "skillLoad", "skillUnload", "turnEnd", "sessionEnd"),
    )
]
COMPACTION = ["steps/preCompact", "steps/postCompact"]
WRAPPED = [
    "protocols/MCP/initialize",
    "protocols/MCP/tools/call",
    "protocols/MCP/resources/read",
    "protocols/MCP/prompts/get",
    "protocols/MCP/notifications/resources/updated",
    "wrapped:mcp-2025-06-18/tools/call",
]


class Asked:
    """A policy that notes what it is asked about and says one thing."""

    name = "asked"
    requires_provenance = False

    def __init__(self, verdict: Verdict | None = None) -> None:
        self._verdict = verdict
        self.steps: list[Step] = []

    def decide(self, step: Step) -> Verdict:
        """Note it, and decide."""
        self.steps.append(step)
        return self._verdict or Observe().decide(step)


def _mark(method: str) -> object:
    return pytest.param(method, marks=covers("compaction-hooks" if method in COMPACTION else "hooks"))


@pytest.mark.parametrize("method", [_mark(method) for method in NATIVE])
def test_a_native_hook_reaches_the_policy_and_the_chain(
    make_guardian: Callable[..., Guardian], clock: Clock, method: str
) -> None:
    policy = Asked()
    agent = Agent(make_guardian(policy).answer, clock=clock)
    assert method in agent.begin()["result"]["methods_evaluated"]
    result = agent.step(method)["result"]
    assert (result["decision"], len(result["chain_hash"])) == ("allow", 64)
    assert [step.method for step in policy.steps] == [method]


@covers("hooks")
def test_a_whole_session_is_answered_from_its_start_to_its_end(agent: Agent) -> None:
    assert set(NATIVE) == set(PAYLOADS)
    agent.begin()
    heads = [agent.step(method)["result"]["chain_hash"] for method in NATIVE]
    assert len(set(heads)) == len(NATIVE)


@covers("hooks")
@pytest.mark.parametrize("method", NATIVE)
def test_a_hook_that_was_not_offered_is_not_negotiated(agent: Agent, method: str) -> None:
    agent.begin(methods_implemented=[name for name in NATIVE if name != method])
    assert agent.step(method)["error"]["code"] == -32003


@covers("wrapped-mcp")
@pytest.mark.parametrize("method", WRAPPED)
@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_wrapped_message_reaches_the_policy_and_the_chain(
    make_guardian: Callable[..., Guardian], clock: Clock, method: str, decision: str
) -> None:
    policy = Asked(Verdict(decision="deny", reasoning="no") if decision == "deny" else None)
    agent = Agent(make_guardian(policy).answer, clock=clock)
    offered = hello(methods_implemented=[method], wrapped_protocols=[{"protocol": "MCP", "version": "2025-06-18"}])
    assert agent.ask("handshake/hello", offered)["result"]["methods_evaluated"] == [method]
    result = agent.ask(method, {"method": method.partition("/")[2], "params": {"name": "lookup"}})["result"]
    assert (result["decision"], len(result["chain_hash"])) == (decision, 64)
    assert [step.method for step in policy.steps] == [method]


@covers("wrapped-mcp")
def test_a_wrapped_message_that_was_not_offered_is_not_negotiated(agent: Agent) -> None:
    agent.begin(methods_implemented=["steps/toolCallRequest"])
    assert agent.ask("protocols/MCP/resources/read", {"params": {}})["error"]["code"] == -32003
