"""The five dispositions: what a policy says goes out whole, or the substitute that the standard names goes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest

from awr.guardian.guardian import Guardian
from awr.guardian.hooks import HOOKS, Disposition
from awr.guardian.verdict import (
    DEFERRALS,
    Approver,
    AskDetails,
    DeferDetails,
    Modifications,
    PolicyReference,
    Redaction,
    Verdict,
)
from tests.conformance.conftest import Clock
from tests.conformance.measures import Says
from tests.conformance.measures import session as session_of
from tests.conformance.requirements import covers
from tests.support.acs import Agent

TOOL = "steps/toolCallRequest"
#: What each hook may be answered beside allow, as the standard's table of hooks has it.
PERMITTED: dict[str, frozenset[str]] = {
    f"steps/{name}": frozenset({"allow", *others})
    for names, others in (
        ("sessionStart turnStart preCompact subagentStart skillRegister skillLoad", ("deny",)),
        ("agentTrigger userMessage agentResponse memoryContextRetrieval memoryStore", ("deny", "modify")),
        ("knowledgeRetrieval toolCallResult", ("deny", "modify")),
        ("toolCallRequest", ("deny", "modify", "ask", "defer")),
        ("postCompact", ("modify",)),
        ("subagentStop skillUnload turnEnd sessionEnd", ()),
    )
    for name in names.split()
}
REDACTION = Modifications(redactions=(Redaction(path="/arguments/command"),))
ASKED = AskDetails(approver=Approver(type="human", id="u-1"), question="May it?", timeout_seconds=60)
DEFERRED = DeferDetails(reason="low_confidence", resolution_method="timeout", resolution_timeout_ms=1000)
SAID = {
    "allow": Verdict(decision="allow"),
    "deny": Verdict(decision="deny", reasoning="no", reason_codes=("rate_limited",)),
    "modify": Verdict(decision="modify", reasoning="less", modifications=REDACTION),
    "ask": Verdict(decision="ask", reasoning="ask", ask_details=ASKED),
    "defer": Verdict(decision="defer", reasoning="later", defer_details=DEFERRED),
}

Answered = Callable[..., dict[str, Any]]


@pytest.fixture
def answered(make_guardian: Callable[..., Guardian], clock: Clock) -> Answered:
    """Give a function that has a policy say something on a step and returns the result on the wire."""

    def ask(verdict: Verdict, *, on: str = TOOL) -> dict[str, Any]:
        guardian = make_guardian(Says(verdict, on=on))
        agent = Agent(guardian.answer, clock=clock)
        agent.begin()
        result: dict[str, Any] = agent.step(on)["result"]
        *_, row = guardian.store.entries(session_of(guardian.store, agent))
        assert row["link"].hex() == result["chain_hash"], "the step is in the chain, whatever was decided"
        assert (row["decision"], row["reason_codes"]) == (result["decision"], result.get("reason_codes", []))
        return result

    return ask


@covers("allow-and-deny")
@pytest.mark.parametrize("method", HOOKS)
def test_an_allowed_step_is_answered_by_allow(answered: Answered, method: str) -> None:
    assert answered(SAID["allow"], on=method)["decision"] == "allow"


@covers("allow-and-deny")
@pytest.mark.parametrize("method", [name for name in HOOKS if "deny" in PERMITTED[name]])
def test_a_denied_step_is_answered_by_deny_with_its_reasoning(answered: Answered, method: str) -> None:
    result = answered(SAID["deny"], on=method)
    assert (result["decision"], result["reasoning"], result["reason_codes"]) == ("deny", "no", ["rate_limited"])


@covers("allow-and-deny")
def test_a_denial_without_a_reasoning_is_sent_with_one(answered: Answered) -> None:
    assert answered(Verdict(decision="deny"))["reasoning"]


@covers("allow-and-deny")
@pytest.mark.parametrize("decision", get_args(Disposition))
@pytest.mark.parametrize("method", HOOKS)
def test_a_hook_is_answered_by_nothing_that_it_does_not_permit(
    answered: Answered, method: str, decision: str
) -> None:
    permitted = PERMITTED[method]
    result = answered(SAID[decision], on=method)
    assert result["decision"] in permitted
    if decision not in permitted:
        assert result["decision"] == ("deny" if "deny" in permitted else "allow")
        # What the finished fold of the example stands for is not on record, which is said as well.
        more = ["lineage_mismatch"] if method == "steps/postCompact" else []
        assert result["reason_codes"] == ["disposition_not_permitted", *more]


@covers("modify")
@pytest.mark.parametrize("method", [TOOL, "steps/agentResponse", "steps/postCompact"])
@pytest.mark.parametrize(
    "modifications",
    [
        REDACTION,
        Modifications(modified_content="all of it"),
        Modifications(
            redactions=(Redaction(path="/arguments/key", replacement=""),), parameter_overrides={"url": "https://x"}
        ),
    ],
)
def test_a_modification_goes_out_whole(answered: Answered, method: str, modifications: Modifications) -> None:
    said = Verdict(decision="modify", reasoning="less", modifications=modifications)
    result = answered(said, on=method)
    assert (result["decision"], result["reasoning"]) == ("modify", "less")
    assert result["modifications"] == json.loads(msgspec.json.encode(modifications))


@covers("modify")
@pytest.mark.parametrize(
    "modifications",
    [
        Modifications(),
        Modifications(modified_content="all of it", redactions=(Redaction(path="/arguments/key"),)),
        Modifications(modified_content="all of it", parameter_overrides={"key": 1}),
        Modifications(redactions=(Redaction(path="/arguments/key"),), parameter_overrides={"key": 1}),
        Modifications(redactions=(Redaction(path="/arguments/key/value"),), parameter_overrides={"key": 1}),
        Modifications(redactions=(Redaction(path="/arguments"),), parameter_overrides={"key": 1}),
        msgspec.UNSET,
    ],
)
def test_a_modification_that_contradicts_itself_is_never_sent(answered: Answered, modifications: Any) -> None:
    result = answered(Verdict(decision="modify", reasoning="less", modifications=modifications))
    assert (result["decision"], result["reason_codes"]) == ("deny", ["evaluation_failed"])
    assert "modifications" not in result


@covers("ask-substitution")
def test_ask_is_answered_by_deny_because_no_approver_is_known(answered: Answered) -> None:
    result = answered(SAID["ask"])
    assert (result["decision"], result["reason_codes"]) == ("deny", ["approver_unavailable"])
    assert result["reasoning"]
    assert "ask_details" not in result


@covers("defer")
def test_a_deferral_goes_out_with_all_that_its_receiver_needs(answered: Answered) -> None:
    result = answered(SAID["defer"])
    assert (result["decision"], result["reasoning"]) == ("defer", "later")
    assert result["defer_details"] == {
        "reason": "low_confidence",
        "resolution_method": "timeout",
        "resolution_timeout_ms": 1000,
        "timeout_decision": "deny",
        "required_context": [],
    }


@covers("defer")
def test_a_deferral_that_does_not_say_how_it_is_resolved_is_never_sent(answered: Answered) -> None:
    result = answered(Verdict(decision="defer", reasoning="later"))
    assert (result["decision"], result["reason_codes"]) == ("deny", ["evaluation_failed"])


@covers("defer")
def test_the_deferrals_of_a_session_are_bounded(make_guardian: Callable[..., Guardian], clock: Clock) -> None:
    agent = Agent(make_guardian(Says(SAID["defer"], on=TOOL)).answer, clock=clock)
    agent.begin()
    decided = [agent.step(TOOL)["result"]["decision"] for _ in range(DEFERRALS + 2)]
    assert decided == ["defer"] * DEFERRALS + ["deny"] * 2


@covers("envelope")
@pytest.mark.parametrize("member", PolicyReference.__struct_fields__)
def test_an_empty_member_of_a_policy_reference_is_never_sent(answered: Answered, member: str) -> None:
    kept = {name: "x" for name in PolicyReference.__struct_fields__ if name != member}
    whole = answered(Verdict(decision="allow", policy_references=(PolicyReference(**kept),)))
    assert whole["policy_references"] == [kept]
    with pytest.raises(ValueError, match="empty"):
        PolicyReference(**kept, **{member: ""})
