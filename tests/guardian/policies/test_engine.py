"""What Cedar alone would let through is denied here, and the packs decide together or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cedarpy
import msgspec
import pytest

from awr.errors import InvalidInput
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.facts import CallFacts, FoldFacts, StepFacts
from awr.guardian.policies.packs import Pack, built_in, chosen
from awr.guardian.policies.schema import context_of, schema_text
from awr.guardian.policies.tables import HARMLESS, with_overrides

FOLD = HARMLESS[FoldFacts]
PERMIT = '@id("permit") permit (principal, action, resource);'


def forbid(condition: str, *, action: str = 'action == Action::"preCompact"', id: str = "no") -> str:
    return (
        f'@id("{id}") @reason("because") @lifts("Nothing.") forbid (principal, {action}, resource) '
        f"when {{ {condition} }};"
    )


def pack(*texts: str, **changed: Any) -> Pack:
    policies = {f"{number}.cedar": text for number, text in enumerate(texts)}
    return msgspec.structs.replace(
        built_in("trust-boundary"), **{"id": "house", "source": "operator", "policies": policies, **changed}
    )


def cedar_alone(text: str, facts: FoldFacts, *, schema: str | None) -> bool:
    """Whether Cedar itself would allow."""
    request = {
        "principal": 'Agent::"agent"',
        "action": 'Action::"preCompact"',
        "resource": 'Session::"session"',
        "context": context_of(facts),
    }
    return cedarpy.is_authorized(request, text, [], schema).allowed


@pytest.mark.parametrize(
    ("condition", "got"),
    [
        ("context.open_waits > 0", "without asking `has`"),
        ("context.opn_waits > 0", "no fact of the rule's actions"),
        ("context has opn_waits && context.opn_waits > 0", "`has` for something that is no fact"),
        ('context.origins.contains("tool_output")', "type"),
        ('context.origins.contains(Origin::"tool-output")', "word that is not on its list"),
        ("principal has owner && principal.owner == 1", "`has` for something that is no fact"),
        ('principal.hasTag("owner")', "tags"),
        ('principal == Agent::"coder"', "principal or resource"),
        ("context.tool == 1", "no fact of the rule's actions"),
    ],
)
def test_a_rule_that_cedar_would_skip_or_never_apply_does_not_load(condition: str, got: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CedarPolicy([pack(PERMIT, forbid(condition))])
    assert got in str(caught.value.details["got"])
    assert caught.value.details["location"] in {"no in 1.cedar", "1.cedar"}


@pytest.mark.parametrize(
    "condition",
    ["context.open_waits > 0", "context.opn_waits > 0", "context has opn_waits && context.opn_waits > 0"],
)
def test_cedar_alone_would_allow_what_such_a_rule_forbids(condition: str) -> None:
    waiting = with_overrides("preCompact", {}, unknown=("open_waits",))
    assert isinstance(waiting, FoldFacts)
    assert cedar_alone(PERMIT + forbid(condition), waiting, schema=schema_text())


def test_a_rule_that_fails_on_the_facts_is_skipped_by_cedar_and_denied_here() -> None:
    text = PERMIT + forbid("context.entries + 1 > 0")
    full = with_overrides("preCompact", {"entries": 2**63 - 1})
    assert isinstance(full, FoldFacts)
    assert cedar_alone(text, full, schema=schema_text())
    judgement = CedarPolicy([pack(text)]).judge("preCompact", full)
    assert not judgement.allowed
    assert judgement.reason_codes == ("evaluation_failed",)
    assert judgement.errors == ("the rule house/no failed",)
    assert judgement.lifts


def test_a_rule_that_fails_is_named_beside_one_that_forbids() -> None:
    text = PERMIT + forbid("context.entries + 1 > 0", id="fails") + forbid("context.entries > 0")
    judgement = CedarPolicy([pack(text)]).judge("preCompact", with_overrides("preCompact", {"entries": 2**63 - 1}))
    assert judgement.reason_codes == ("because", "evaluation_failed")
    assert [rule.name for rule in judgement.rules] == ["house/no"]


def test_without_a_schema_cedar_takes_facts_of_any_type_and_here_they_are_denied() -> None:
    text = PERMIT + forbid("context.entries > 3")
    odd = msgspec.structs.replace(FOLD, entries="many")
    assert isinstance(odd, FoldFacts)
    assert cedar_alone(text, odd, schema=None)
    judgement = CedarPolicy([pack(text)]).judge("preCompact", odd)
    assert (judgement.allowed, judgement.reason_codes) == (False, ("evaluation_failed",))
    assert judgement.errors == ("the facts do not fit the schema",)


@pytest.mark.parametrize(
    "changed",
    [
        {"entries": None},
        {"entries": 2**63},
        {"entries": 2**70},
        {"entries": 1.5},
        {"trigger": "whim"},
        {"trigger": 3},
    ],
)
def test_facts_that_are_none_of_the_schemas_are_denied(changed: dict[str, Any]) -> None:
    policy = CedarPolicy([pack(PERMIT, forbid('context.entries > 99 && context.trigger == Trigger::"manual"'))])
    judgement = policy.judge("preCompact", msgspec.structs.replace(FOLD, **changed))
    assert (judgement.allowed, judgement.reason_codes) == (False, ("evaluation_failed",))
    assert len(judgement.errors) == 1


@pytest.mark.parametrize("action", ["", "toolCallRequest", "userMessage", 'preCompact"', "nothing"])
def test_an_action_with_the_facts_of_another_is_denied_though_no_rule_reads_any(action: str) -> None:
    judgement = CedarPolicy([pack(PERMIT)]).judge(action, FOLD)
    assert (judgement.allowed, judgement.reason_codes) == (False, ("evaluation_failed",))


def test_a_tools_name_that_is_no_text_is_denied() -> None:
    policy = CedarPolicy([pack(PERMIT, forbid('context.tool == "x"', action='action == Action::"toolCallRequest"'))])
    facts = msgspec.structs.replace(HARMLESS[CallFacts], tool="\ud800")
    assert policy.judge("toolCallRequest", facts).reason_codes == ("evaluation_failed",)


def test_no_permit_is_a_denial_that_says_so() -> None:
    judgement = CedarPolicy([pack(forbid("context.entries > 99"))]).judge("preCompact", FOLD)
    assert (judgement.allowed, judgement.reason_codes) == (False, ("no_permit",))
    assert judgement.lifts
    assert judgement.policy_references[0].policy_name == "house"


class PanicException(BaseException):
    """As a fault inside of Cedar's own code arrives."""


@pytest.mark.parametrize(
    "answer",
    [
        PanicException("a value of somebody's"),
        ValueError("a value of somebody's"),
        cedarpy.AuthzResult({"decision": "Allow", "diagnostics": {"reason": [], "errors": []}}),
        cedarpy.AuthzResult({"decision": "Allow", "diagnostics": {"reason": ["policy0"], "errors": []}}),
        cedarpy.AuthzResult({"decision": "Allow", "diagnostics": {"reason": ["house/permit"], "errors": ["what"]}}),
        cedarpy.AuthzResult({"decision": "Allow", "diagnostics": {"reason": ["house/permit", "x"], "errors": []}}),
        cedarpy.AuthzResult({"decision": "Perhaps", "diagnostics": {"reason": ["house/permit"], "errors": []}}),
        cedarpy.AuthzResult({}),
    ],
)
def test_whatever_is_no_clean_yes_of_a_known_rule_is_denied(
    answer: BaseException | cedarpy.AuthzResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> cedarpy.AuthzResult:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    policy = CedarPolicy([pack(PERMIT)])
    monkeypatch.setattr(cedarpy, "is_authorized", asked)
    judgement = policy.judge("preCompact", FOLD)
    assert not judgement.allowed
    assert judgement.reason_codes
    assert judgement.lifts
    assert "somebody's" not in repr(judgement)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("permit (principal action", "line 1"),
        (f"{PERMIT}\n\n// a comment;\n{PERMIT.replace('(', '[')}\n{PERMIT}", "line 4"),
        ("", "no policy"),
        ("// nothing", "no policy"),
        ('@id("t") permit (principal == ?principal, action, resource);', "a template"),
        ("permit (principal, action, resource);", "no usable @id"),
        ('@id("a\\nb") permit (principal, action, resource);', "no usable @id"),
        (PERMIT + PERMIT, "another rule of the pack"),
        (forbid("true").replace('@reason("because")', ""), "no usable @reason"),
        (forbid("true").replace("because", "Because of this"), "no usable @reason"),
        (forbid("true").replace('@lifts("Nothing.")', "@lifts"), "no usable @lifts"),
        (PERMIT.replace("permit", '@gives_way("x") permit', 1), "syntax"),
        (f'@gives_way("x") {PERMIT}', "no usable @gives_way"),
        ("(" * 5000, "syntax"),
        ("\0", "syntax"),
    ],
)
def test_a_text_that_is_no_set_of_named_rules_does_not_load(text: str, got: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CedarPolicy([pack(text)])
    assert got in str(caught.value.details["got"])


def test_too_many_rules_do_not_load() -> None:
    text = "".join(PERMIT.replace("permit", f"p{number}", 1) for number in range(513))
    with pytest.raises(InvalidInput, match="cannot be used"):
        CedarPolicy([pack(text)])


def test_a_record_in_a_rule_may_have_members_of_any_name() -> None:
    policy = CedarPolicy([pack(PERMIT, forbid('{"has": context.entries, "Var": 1}["has"] > 9'))])
    assert not policy.judge("preCompact", FOLD).allowed


def test_a_rule_that_compares_the_whole_context_is_given_all_of_it() -> None:
    whole = '[{"entries_before": 10, "session_untrusted_since_grounding": 0}].contains(context)'
    policy = CedarPolicy([pack(PERMIT, forbid(whole, action='action == Action::"userMessage"'))])
    assert policy.judge("userMessage", HARMLESS[StepFacts]).reason_codes == ("because",)
    assert policy.judge("userMessage", msgspec.structs.replace(HARMLESS[StepFacts], entries_before=9)).allowed


def test_packs_decide_together_and_each_names_its_rule() -> None:
    policy = CedarPolicy([*chosen("trust-boundary", root=Path("/")), *chosen("open-work", root=Path("/"))])
    facts = with_overrides("preCompact", {"untrusted_since_grounding": 1, "open_waits": 1})
    judgement = policy.judge("preCompact", facts)
    assert judgement.reason_codes == ("aarm_cumulative_taint", "open_wait")
    assert [(one.policy_name, one.policy_id) for one in judgement.policy_references] == [
        ("trust-boundary", "untrusted-fold"),
        ("open-work", "open-wait"),
    ]


def test_an_operator_leaves_out_a_rule_of_the_pack_that_is_extended() -> None:
    ours = pack(forbid("context.restricted_readers"), leaves_out=("trust-boundary/unknown-step",))
    policy = CedarPolicy([built_in("trust-boundary"), ours])
    assert policy.judge("preCompact", with_overrides("preCompact", {"unknown_steps": 1})).allowed
    restricted = with_overrides("preCompact", {"unknown_steps": 1, "restricted_readers": True})
    assert policy.judge("preCompact", restricted).reason_codes == ("because",)


def test_a_rule_that_is_not_there_cannot_be_left_out() -> None:
    with pytest.raises(InvalidInput, match="leaves out a rule"):
        CedarPolicy([pack(PERMIT, leaves_out=("trust-boundary/unknown-step",))])


def test_a_pack_that_is_named_and_extended_decides_once() -> None:
    packs = [one for name in ("trust-boundary", "strict", "trust-boundary") for one in chosen(name, root=Path("/"))]
    assert [one.id for one in CedarPolicy(packs).packs] == ["trust-boundary", "strict"]


@pytest.mark.parametrize(
    "packs",
    [
        lambda: [],
        lambda: [built_in("observe"), built_in("strict")],
        lambda: [pack(PERMIT), pack(PERMIT + PERMIT)],
    ],
)
def test_packs_that_cannot_decide_together_are_refused(packs: Callable[[], list[Pack]]) -> None:
    with pytest.raises(InvalidInput):
        CedarPolicy(packs())


@pytest.mark.parametrize(("name", "needs_cedar"), [("observe", False), ("trust-boundary", True)])
def test_observe_never_loads_cedar(name: str, needs_cedar: bool) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from awr.guardian.policies.engine import CedarPolicy\n"
        "from awr.guardian.policies.packs import chosen\n"
        "from awr.guardian.policies.tables import with_overrides\n"
        f"policy = CedarPolicy(chosen({name!r}, root=Path('/')))\n"
        "assert policy.judge('preCompact', with_overrides('preCompact', {})).allowed\n"
        "print('cedarpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(needs_cedar)
