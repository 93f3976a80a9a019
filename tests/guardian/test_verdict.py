"""What a policy says is answered, or what stands in for it where the hook or the client cannot take it."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.guardian.hooks import HOOKS, Disposition, hook_of
from awr.guardian.verdict import (
    Approver,
    AskDetails,
    DeferDetails,
    Modifications,
    Redaction,
    Verdict,
    is_composed,
    settle,
)

ASK = AskDetails(approver=Approver(type="human", id="owner"), question="May it?", timeout_seconds=60)
DEFER = DeferDetails(reason="low_confidence", resolution_method="timeout", resolution_timeout_ms=1000)
VERDICTS: dict[Disposition, Verdict] = {
    "allow": Verdict(decision="allow"),
    "deny": Verdict(decision="deny", reasoning="no"),
    "modify": Verdict(decision="modify", reasoning="less", modifications=Modifications(modified_content="x")),
    "ask": Verdict(decision="ask", reasoning="who knows", ask_details=ASK),
    "defer": Verdict(decision="defer", reasoning="later", defer_details=DEFER),
}


@pytest.mark.parametrize("decision", get_args(Disposition))
@pytest.mark.parametrize("method", [*HOOKS, "protocols/MCP/tools/call"])
def test_a_hook_is_answered_by_nothing_that_it_does_not_permit(method: str, decision: Disposition) -> None:
    hook = hook_of(method)
    assert hook is not None
    settled = settle(hook, VERDICTS[decision], deferrals=0)
    assert settled.decision in hook.permits
    assert settled.decision == "allow" or settled.reasoning
    if decision in hook.permits and decision != "ask":
        assert settled == VERDICTS[decision]
    elif decision == "ask" and "ask" in hook.permits:
        assert settled.reason_codes == ("approver_unavailable",)
    else:
        assert settled.reason_codes == ("disposition_not_permitted",)
        assert settled.decision == ("deny" if "deny" in hook.permits else "allow")


def test_after_a_compaction_nothing_is_denied() -> None:
    assert settle(HOOKS["steps/postCompact"], VERDICTS["deny"], deferrals=0).decision == "allow"
    assert "deny" not in HOOKS["steps/postCompact"].permits


def test_before_a_compaction_the_one_alternative_is_a_denial() -> None:
    assert HOOKS["steps/preCompact"].permits == {"allow", "deny"}


def test_a_denial_without_a_reason_is_given_the_plainest_one() -> None:
    assert settle(HOOKS["steps/preCompact"], Verdict(decision="deny"), deferrals=0).reasoning


def test_a_modification_that_contradicts_itself_is_a_denial() -> None:
    both = Modifications(modified_content="x", redactions=(Redaction(path="/a"),))
    verdict = Verdict(decision="modify", reasoning="r", modifications=both)
    assert settle(HOOKS["steps/toolCallRequest"], verdict, deferrals=0).reason_codes == ("evaluation_failed",)


@pytest.mark.parametrize(
    ("modifications", "composed"),
    [
        (Modifications(), False),
        (Modifications(modified_content="x"), True),
        (Modifications(modified_content=""), True),
        (Modifications(modified_content="x", parameter_overrides={"a": 1}), False),
        (Modifications(modified_content="x", redactions=()), False),
        (Modifications(redactions=(Redaction(path="/arguments/a/value"),)), True),
        (Modifications(redactions=()), False),
        (Modifications(parameter_overrides={"a": 1}), True),
        (Modifications(parameter_overrides={}), False),
        (Modifications(redactions=(Redaction(path="/arguments/a"),), parameter_overrides={"b": 1}), True),
        (Modifications(redactions=(Redaction(path="/arguments/a"),), parameter_overrides={"a": 1}), False),
        (Modifications(redactions=(Redaction(path="/arguments/a/value"),), parameter_overrides={"a": 1}), False),
        (Modifications(redactions=(Redaction(path="/arguments"),), parameter_overrides={"a": 1}), False),
        (Modifications(redactions=(Redaction(path=""),), parameter_overrides={"a": 1}), False),
        (Modifications(redactions=(Redaction(path="/arguments/ab"),), parameter_overrides={"a": 1}), True),
        (Modifications(redactions=(Redaction(path="/arguments/a~1b"),), parameter_overrides={"a/b": 1}), False),
        (Modifications(redactions=(Redaction(path="/params/arguments/a"),), parameter_overrides={"a": 1}), False),
        (msgspec.UNSET, False),
    ],
)
def test_a_modification_is_one_whole_or_parts_that_do_not_touch(
    modifications: Modifications | msgspec.UnsetType, composed: bool
) -> None:
    assert is_composed(modifications) is composed


@given(codes=st.lists(st.text(max_size=3), max_size=4))
def test_a_reason_code_is_there_once(codes: list[str]) -> None:
    verdict = Verdict(decision="allow")
    for code in codes:
        verdict = verdict.with_code(code)
    assert verdict.reason_codes == tuple(dict.fromkeys(codes))


def test_what_has_nothing_to_say_leaves_its_member_out() -> None:
    assert msgspec.to_builtins(Verdict(decision="allow")) == {"decision": "allow"}
