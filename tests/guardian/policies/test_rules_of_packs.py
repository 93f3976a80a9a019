"""The packs answer as a table of their rules says; a denial is bounded, reasoned, and says what lifts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.facts import CallFacts, FoldFacts, StepFacts, Trigger, Trust
from awr.guardian.policies.packs import BUILT_IN, chosen
from awr.guardian.policies.schema import ACTIONS, WORDS
from awr.guardian.policies.tables import read_cases, run_case


class Row(NamedTuple):
    """One rule: what it denies, under which reason, and what makes it give way."""

    denies: Callable[[FoldFacts], bool]
    reason: str
    gives_way: Callable[[FoldFacts], bool]


def after(denials: int) -> Callable[[FoldFacts], bool]:
    return lambda fold: fold.denials_of_boundary >= denials


STEPS = (
    Row(lambda fold: fold.unknown_steps > 0, "unknown_step", after(3)),
    Row(lambda fold: fold.foreign_steps > 0, "foreign_step", after(3)),
    Row(lambda fold: fold.folded_steps > 0, "already_folded", after(3)),
)
#: The reference: the rules of every pack for a fold.
MODEL: Mapping[str, tuple[Row, ...]] = {
    "observe": (),
    "trust-boundary": (
        Row(
            lambda fold: fold.untrusted_since_grounding > 0,
            "aarm_cumulative_taint",
            lambda fold: fold.denials_of_boundary >= 1 or (fold.occupancy_percent or 0) > 90,
        ),
        *STEPS,
    ),
    "strict": (
        Row(lambda fold: fold.untrusted_entries > 0, "aarm_cumulative_taint", after(3)),
        Row(lambda fold: fold.unknown_entries > 0, "unknown_trust", after(3)),
        *STEPS,
    ),
    "open-work": (
        Row(lambda fold: (fold.open_waits or 0) > 0, "open_wait", after(2)),
        Row(lambda fold: (fold.uncertain_executions or 0) > 0, "uncertain_execution", after(2)),
        Row(lambda fold: (fold.pending_tool_calls or 0) > 0, "pending_tool_call", after(2)),
        Row(lambda fold: fold.unsaved_required_context is True, "unsaved_required_context", after(2)),
        Row(
            lambda fold: (
                None
                in (
                    fold.open_waits,
                    fold.uncertain_executions,
                    fold.pending_tool_calls,
                    fold.unsaved_required_context,
                )
            ),
            "unknown_fact",
            after(2),
        ),
    ),
}

POLICIES = {name: CedarPolicy(chosen(name, root=Path("/"))) for name in BUILT_IN}

some = st.integers(0, 3)
maybe = st.none() | some
FOLDS = st.builds(
    FoldFacts,
    trigger=st.sampled_from(WORDS["Trigger"]),
    entries=st.integers(1, 2**63 - 1),
    untrusted_entries=some,
    unknown_entries=some,
    untrusted_since_grounding=some,
    restricted_readers=st.booleans(),
    origins=st.frozensets(st.sampled_from(WORDS["Origin"])),
    max_lineage_depth=maybe,
    unknown_steps=some,
    foreign_steps=some,
    folded_steps=some,
    summary_disagreements=st.frozensets(st.sampled_from(WORDS["SummaryMember"])),
    denials_of_boundary=st.integers(0, 4),
    estimated_input_tokens=maybe,
    target_summary_tokens=maybe,
    occupancy_percent=st.none() | st.integers(85, 95),
    open_waits=maybe,
    uncertain_executions=maybe,
    pending_tool_calls=maybe,
    unsaved_required_context=st.none() | st.booleans(),
)
CALLS = st.builds(
    CallFacts,
    tool=st.text(max_size=20),
    argument_trust=st.sampled_from(WORDS["Trust"]),
    untrusted_arguments=some,
    session_untrusted_since_grounding=some,
)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None, max_examples=200)
@given(fold=FOLDS)
def test_a_pack_answers_on_any_fold_as_the_table_of_its_rules(name: str, fold: FoldFacts) -> None:
    expected = {row.reason for row in MODEL[name] if row.denies(fold) and not row.gives_way(fold)}
    judgement = POLICIES[name].judge("preCompact", fold)
    assert set(judgement.reason_codes) == expected
    assert judgement.allowed is not bool(expected)
    assert judgement.errors == ()


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None, max_examples=100)
@given(call=CALLS, action=st.sampled_from(["toolCallRequest", "wrappedMcp"]))
def test_only_strict_denies_a_call_and_only_with_untrusted_arguments_before_an_endorsement(
    name: str, call: CallFacts, action: str
) -> None:
    untrusted = call.argument_trust == "untrusted" or call.untrusted_arguments > 0
    denied = name == "strict" and untrusted and call.session_untrusted_since_grounding > 0
    judgement = POLICIES[name].judge(action, call)
    assert judgement.allowed is not denied
    assert judgement.reason_codes == (("untrusted_into_consequential",) if denied else ())


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None, max_examples=100)
@given(fold=FOLDS)
def test_a_boundary_is_denied_three_times_at_the_most(name: str, fold: FoldFacts) -> None:
    denials = 0
    while not POLICIES[name].judge("preCompact", msgspec.structs.replace(fold, denials_of_boundary=denials)).allowed:
        denials += 1
        assert denials <= 3


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None, max_examples=100)
@given(facts=FOLDS | CALLS)
def test_every_denial_has_a_reason_a_way_out_and_the_rule_that_decided(
    name: str, facts: FoldFacts | CallFacts
) -> None:
    action = "preCompact" if isinstance(facts, FoldFacts) else "toolCallRequest"
    judgement = POLICIES[name].judge(action, facts)
    if not judgement.allowed:
        assert judgement.reason_codes
        assert judgement.lifts
    hashes = {pack.sha256 for pack in POLICIES[name].packs}
    assert judgement.policy_references
    for reference in judgement.policy_references:
        assert str(reference.rule_id).removeprefix("sha256:") in hashes
        assert reference.policy_version == "1"


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_other_step_is_allowed_by_every_pack(name: str) -> None:
    facts = StepFacts(entries_before=3, session_untrusted_since_grounding=3)
    for action, kind in ACTIONS.items():
        if kind is StepFacts:
            assert POLICIES[name].judge(action, facts).allowed


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_pack_passes_its_own_tests(name: str) -> None:
    text = POLICIES[name].packs[-1].tests
    assert text is not None
    assert [outcome for case in read_cases(text) if not (outcome := run_case(POLICIES[name], case)).passed] == []


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "observe"])
def test_every_rule_that_forbids_is_tried_by_the_packs_own_tests(name: str) -> None:
    policy = POLICIES[name]
    text = policy.packs[-1].tests
    assert text is not None
    tried = {code for case in read_cases(text) for code in case.reason_codes}
    own = {rule.reason for rule in policy.rules.values() if rule.effect == "forbid" and rule.pack == name}
    assert own <= tried


@pytest.mark.parametrize("trigger", WORDS["Trigger"])
def test_whatever_set_it_off_the_first_question_of_a_boundary_is_denied(trigger: Trigger) -> None:
    [case] = [one for one in read_cases(POLICIES["trust-boundary"].packs[0].tests or "") if "person asks" in one.name]
    changed = msgspec.structs.replace(case, facts={**case.facts, "trigger": trigger})
    assert run_case(POLICIES["trust-boundary"], changed).passed


@pytest.mark.parametrize("trust", WORDS["Trust"])
def test_the_model_and_the_schema_speak_of_the_same_trust(trust: Trust) -> None:
    facts = CallFacts(tool="x", argument_trust=trust, untrusted_arguments=0, session_untrusted_since_grounding=1)
    assert POLICIES["strict"].judge("toolCallRequest", facts).allowed is (trust != "untrusted")


def test_strict_wants_an_endorsement_and_the_others_take_the_users_word() -> None:
    assert {name: policy.grounding for name, policy in POLICIES.items()} == {
        "observe": "user_step",
        "trust-boundary": "user_step",
        "strict": "endorsement",
        "open-work": "user_step",
    }
