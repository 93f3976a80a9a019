"""The judge recomputes what would be folded from the record, and policies decide on that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.domain.provenance import TrustMap, TrustRule
from awr.guardian.guardian import Guardian
from awr.guardian.judge import Judge
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.packs import chosen
from tests.support.acs import KEYS, Agent, guardian_at, provenance

FOLD = "steps/preCompact"


def judged(path: Path, *packs: str, rules: tuple[TrustRule, ...] = ()) -> tuple[Guardian, Agent]:
    """Return a Guardian that decides by packs, and an agent that has shaken hands with it."""
    guardian = guardian_at(path / "acs.db")
    judge = Judge(
        CedarPolicy([pack for name in packs for pack in chosen(name, root=path)]),
        guardian.store,
        trust_map=TrustMap(rules),
    )
    guardian = Guardian(guardian.store, keys=KEYS, transports=("http",), policy=judge)
    agent = Agent(guardian.answer)
    agent.begin()
    return guardian, agent


def said(agent: Agent, provenance_id: str) -> str:
    """Let the user speak; return the step's id."""
    part = {"type": "text", "value": "x", "provenance": provenance(provenance_id, "user_input")}
    return str(agent.ask("steps/userMessage", {"content": [part]})["result"]["request_id"])


def read(agent: Agent, provenance_id: str, *derived: str, source: str = "web") -> str:
    """Let a tool answer; return the step's id."""
    output = {"value": "x", "provenance": {**provenance(provenance_id, "tool_output", *derived), "source_id": source}}
    payload = {"tool": {"name": "fetch"}, "exit_status": "success", "outputs": [output]}
    return str(agent.ask("steps/toolCallResult", payload)["result"]["request_id"])


def asked(agent: Agent, steps: list[str], **more: Any) -> Any:
    payload = {"entries_to_compact": steps, "triggered_by": "size_threshold", **more}
    return agent.ask(FOLD, payload)["result"]


def folded(agent: Agent, steps: list[str], summary_id: str, *lineage: str, head: str) -> Any:
    summary = {"value": "x", "provenance": provenance(summary_id, "agent_generated", *lineage)}
    payload = {
        "summary": summary,
        "entries_compacted": steps,
        "pre_compact_chain_hash": head,
        "post_compact_chain_hash": "0" * 64,
    }
    return agent.ask("steps/postCompact", payload)["result"]


def head_of(guardian: Guardian, agent: Agent) -> str:
    session = guardian.store.session(agent.session_id)
    assert session is not None
    assert session.head is not None
    return session.head.hex()


def test_a_fold_of_untrusted_entries_is_denied_once_with_what_would_lift_it(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t1"), read(agent, "t2")]
    first = asked(agent, steps)
    assert (first["decision"], first["reason_codes"]) == ("deny", ["aarm_cumulative_taint"])
    assert first["cited_provenance_ids"] == ["t1", "t2"]
    assert first["policy_data"]["aarm"] == {
        "untrusted_entries": 2,
        "untrusted_since_grounding": 2,
        "denials_of_boundary": 0,
        "earliest_untrusted_step_id": steps[1],
    }
    assert first["policy_data"]["fides"] == {"integrity": "untrusted"}
    assert "What would lift it" in first["reasoning"]
    assert first["policy_references"][0]["policy_name"] == "trust-boundary"
    assert "chain_hash" in first
    second = asked(agent, steps)
    assert second["decision"] == "allow", "a denial is bounded"


def test_a_user_who_speaks_afterwards_grounds_the_session_again(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [read(agent, "t1"), said(agent, "u")]
    assert asked(agent, steps)["decision"] == "allow"


def test_trusted_entries_may_be_folded(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    assert asked(agent, [said(agent, "u")])["decision"] == "allow"


def test_an_operators_rule_makes_a_tool_trusted(tmp_path: Path) -> None:
    rule = TrustRule(origin="tool_output", source_id="internal-*", trust="trusted")
    _, agent = judged(tmp_path, "trust-boundary", rules=(rule,))
    assert asked(agent, [read(agent, "t1", source="internal-wiki")])["decision"] == "allow"
    assert asked(agent, [read(agent, "t2", source="web")])["decision"] == "deny"


def test_the_clients_own_summary_is_a_hint_whose_disagreement_is_said(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t1")]
    lie = {"origins_seen": ["user_input"], "entry_count": 2, "max_lineage_depth": 0}
    result = asked(agent, steps, pre_compact_provenance_summary=lie)
    assert result["decision"] == "deny"
    assert result["reason_codes"] == ["aarm_cumulative_taint", "provenance_summary_mismatch"]


def test_ids_that_name_no_step_of_the_session_are_denied(tmp_path: Path) -> None:
    guardian, agent = judged(tmp_path, "trust-boundary")
    other = Agent(guardian.answer)
    other.begin()
    own, foreign = said(agent, "u"), said(other, "u")
    assert asked(agent, [own, "nonsense"])["reason_codes"] == ["unknown_step"]
    assert asked(agent, [own, foreign])["reason_codes"] == ["foreign_step"]
    assert asked(agent, [own.upper()])["decision"] == "allow", "an id is the same in either case"


def test_steps_that_were_folded_before_are_not_folded_again(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u1"), said(agent, "u2")]
    head = asked(agent, steps)["chain_hash"]
    folded(agent, steps, "s1", "u1", "u2", head=head)
    assert asked(agent, [steps[0]])["reason_codes"] == ["already_folded"]


def test_a_summary_of_a_summary_keeps_the_trust_of_everything_below_it(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t")]
    asked(agent, steps)
    head = asked(agent, steps)["chain_hash"]
    summary = folded(agent, steps, "s1", "u", "t", head=head)
    assert (summary["decision"], summary.get("reason_codes")) == ("allow", None)
    result = asked(agent, [str(summary["request_id"])])
    assert result["decision"] == "deny", "another boundary, and what it stands for is still untrusted"
    assert result["cited_provenance_ids"] == ["s1"]


@pytest.mark.parametrize(
    ("change", "findings"),
    [
        ({}, []),
        ({"lineage": ("u",)}, ["lineage_mismatch"]),
        ({"about": 1}, ["fold_differs"]),
        ({"lineage": ("u", "t", "made up")}, ["lineage_mismatch"]),
        ({"origin": "user_input"}, ["lineage_mismatch"]),
        ({"head": "0" * 64}, ["lineage_mismatch"]),
        ({"more": ["5c3f1b8e-9a0d-4c2e-8f4b-2d6a7e9c1b30"]}, ["fold_differs", "lineage_mismatch"]),
        ({"asked": 1}, ["deny_not_honoured"]),
        ({"asked": 0}, ["ungoverned_fold"]),
        ({"asked": 0, "lineage": ()}, ["ungoverned_fold", "lineage_mismatch"]),
    ],
)
def test_a_finished_fold_is_bound_to_its_decision_and_its_lineage(
    tmp_path: Path, change: dict[str, Any], findings: list[str]
) -> None:
    guardian, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t")]
    session = guardian.store.session(agent.session_id)
    assert session is not None
    assert session.head is not None
    head = session.head.hex()
    for _ in range(change.get("asked", 2)):
        head = asked(agent, steps[: change.get("about", 2)])["chain_hash"]
    summary = provenance("s", change.get("origin", "agent_generated"), *change.get("lineage", ("u", "t")))
    payload = {
        "summary": {"value": "x", "provenance": summary},
        "entries_compacted": [*steps, *change.get("more", [])],
        "pre_compact_chain_hash": change.get("head", head),
        "post_compact_chain_hash": "0" * 64,
    }
    result = agent.ask("steps/postCompact", payload)["result"]
    assert result["decision"] == "allow", "it has happened"
    *_, last = guardian.store.entries(guardian.store.session(agent.session_id) or session)
    assert last["findings"] == findings
    assert ("lineage_mismatch" in result.get("reason_codes", [])) == ("lineage_mismatch" in findings)


def test_a_summary_that_hides_what_it_stands_for_is_judged_on_all_of_it(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t")]
    asked(agent, steps)
    head = asked(agent, steps)["chain_hash"]
    summary = folded(agent, steps, "s", "u", head=head)
    assert summary["reason_codes"] == ["lineage_mismatch"]
    assert asked(agent, [str(summary["request_id"])])["decision"] == "deny"


@pytest.mark.parametrize("method", ["protocols/MCP/tools/call", "steps/toolCallResult"])
def test_only_a_users_own_message_grounds_a_session_again(tmp_path: Path, method: str) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [read(agent, "t")]
    forged = {"value": "x", "provenance": provenance("forged", "user_input")}
    if method.startswith("protocols"):
        agent.ask(method, {"params": {"name": "send", "arguments": {"body": forged}}})
    else:
        agent.ask(method, {"tool": {"name": "fetch"}, "exit_status": "success", "outputs": [forged]})
    assert asked(agent, steps)["decision"] == "deny"


def test_a_denial_for_another_reason_does_not_use_up_the_boundarys(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t")]
    payload = {"entries_to_compact": steps, "triggered_by": "manual"}
    wrong = {"session_state": {"chain_hash": "0" * 64}}
    assert agent.ask(FOLD, payload, metadata=wrong)["result"]["reason_codes"] == ["chain_mismatch"]
    assert asked(agent, steps)["reason_codes"] == ["aarm_cumulative_taint"]
    assert asked(agent, steps)["decision"] == "allow"


def test_a_denied_tool_result_never_reached_the_agent(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    output = {"value": "x", "provenance": provenance("t", "tool_output")}
    payload = {"tool": {"name": "fetch"}, "exit_status": "success", "outputs": [output]}
    wrong = {"session_state": {"chain_hash": "0" * 64}}
    said(agent, "u0")
    denied = agent.ask("steps/toolCallResult", payload, metadata=wrong)["result"]
    assert denied["decision"] == "deny"
    assert asked(agent, [str(denied["request_id"])])["decision"] == "allow"


def test_without_provenance_a_step_has_the_origin_of_its_hook(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    plain = {"tool": {"name": "fetch"}, "exit_status": "success", "outputs": [{"value": "x"}]}
    step = str(agent.ask("steps/toolCallResult", plain)["result"]["request_id"])
    assert asked(agent, [step])["reason_codes"] == ["aarm_cumulative_taint"]
    user = agent.ask("steps/userMessage", {"content": [{"type": "text", "value": "x"}]})["result"]["request_id"]
    assert asked(agent, [step, str(user)])["decision"] == "allow"


def test_the_next_consequential_use_is_judged_on_what_a_summary_stands_for(tmp_path: Path) -> None:
    """The laundering case: three untrusted results become one text of the agent's own, and then an argument."""
    _, agent = judged(tmp_path, "strict")
    steps = [said(agent, "u"), read(agent, "t1"), read(agent, "t2"), read(agent, "t3")]
    for _ in range(3):
        assert asked(agent, steps)["decision"] == "deny"
    head = asked(agent, steps)["chain_hash"]
    folded(agent, steps, "s", "u", "t1", "t2", "t3", head=head)
    argument = {"value": "x", "provenance": provenance("a", "agent_generated", "s")}
    call = {"tool": {"name": "send"}, "arguments": {"body": argument}}
    result = agent.ask("steps/toolCallRequest", call)["result"]
    assert (result["decision"], result["reason_codes"]) == ("deny", ["untrusted_into_consequential"])


def test_another_guardian_on_the_same_record_judges_alike(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t")]
    assert asked(agent, steps)["decision"] == "deny"
    guardian = guardian_at(tmp_path / "acs.db")
    judge = Judge(CedarPolicy(chosen("trust-boundary", root=tmp_path)), guardian.store, trust_map=TrustMap())
    other = Guardian(guardian.store, keys=KEYS, transports=("http",), policy=judge)
    successor = Agent(other.answer, session_id=agent.session_id)
    result = asked(successor, steps)
    assert (result["decision"], result["policy_data"]["aarm"]["denials_of_boundary"]) == ("allow", 1)


def test_a_fold_of_10_000_entries_is_judged_on_all_of_them(tmp_path: Path) -> None:
    guardian, agent = judged(tmp_path, "trust-boundary")
    with guardian.store.group():  # one commit for all of them
        steps = [read(agent, "t0"), *(said(agent, f"u{number}") for number in range(9_998)), read(agent, "t1")]
    result = asked(agent, steps)
    assert (result["decision"], result["cited_provenance_ids"]) == ("deny", ["t0", "t1"])
    assert result["policy_data"]["aarm"] == {
        "untrusted_entries": 2,
        "untrusted_since_grounding": 1,
        "denials_of_boundary": 0,
        "earliest_untrusted_step_id": steps[0],
    }
    head = asked(agent, steps)["chain_hash"]
    summary = folded(agent, steps, "s", "t0", "t1", *(f"u{number}" for number in range(9_998)), head=head)
    assert "reason_codes" not in summary
    assert asked(agent, [steps[5_000]])["reason_codes"] == ["already_folded"]


def test_a_lineage_1_000_deep_keeps_the_trust_of_its_lowest_step(tmp_path: Path) -> None:
    guardian, agent = judged(tmp_path, "strict")
    with guardian.store.group():
        step, lineage = read(agent, "t"), "t"
        for number in range(1_000):
            summary = folded(agent, [step], f"s{number}", lineage, head=head_of(guardian, agent))
            assert "reason_codes" not in summary
            step, lineage = str(summary["request_id"]), f"s{number}"
    # Nobody asked before, and each summary is of a step that was not folded.
    result = asked(agent, [step], pre_compact_provenance_summary={"max_lineage_depth": 1_000})
    assert (result["decision"], result["reason_codes"]) == ("deny", ["aarm_cumulative_taint"])
    assert result["cited_provenance_ids"] == ["s999"]


def test_two_guardians_on_one_database_count_one_denial_of_a_boundary(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    store = guardian_at(tmp_path / "acs.db").store
    judge = Judge(CedarPolicy(chosen("trust-boundary", root=tmp_path)), store, trust_map=TrustMap())
    other = Guardian(store, keys=KEYS, transports=("http",), policy=judge)
    twin = Agent(other.answer, session_id=agent.session_id)
    steps = [read(agent, "t"), read(twin, "t2")]
    answers = [asked(who, steps) for who in (twin, agent, twin, agent)]
    assert [answer["decision"] for answer in answers] == ["deny", "allow", "allow", "allow"]
    assert [answer["policy_data"]["aarm"]["denials_of_boundary"] for answer in answers] == [0, 1, 1, 1]


def test_a_question_that_a_wrong_chain_hash_had_denied_is_no_denial_of_the_boundary(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [read(agent, "t")]
    payload = {"entries_to_compact": steps, "triggered_by": "manual"}
    wrong = agent.ask(FOLD, payload, metadata={"session_state": {"chain_hash": "0" * 64}})["result"]
    assert wrong["reason_codes"] == ["chain_mismatch"]
    assert asked(agent, steps)["reason_codes"] == ["aarm_cumulative_taint"], "nobody had judged it yet"
    assert asked(agent, steps)["decision"] == "allow"


def test_a_step_of_a_group_whose_commit_failed_has_grounded_nothing(tmp_path: Path) -> None:
    guardian, agent = judged(tmp_path, "trust-boundary")
    steps = [read(agent, "t")]
    with pytest.raises(KeyError), guardian.store.group():
        said(agent, "u")
        assert asked(agent, steps)["decision"] == "allow", "the judge has read what the user said"
        raise KeyError
    assert asked(agent, steps)["decision"] == "deny"


def test_a_user_step_whose_data_turn_out_to_be_untrusted_has_grounded_nothing(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [read(agent, "t"), said(agent, "u")]
    read(agent, "u")
    result = asked(agent, steps)
    assert result["decision"] == "deny"
    assert result["policy_data"]["aarm"]["untrusted_since_grounding"] == 2


def test_a_denied_result_stays_without_data_when_labels_are_worked_out_again(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    output = {"value": "x", "provenance": provenance("t", "tool_output")}
    payload = {"tool": {"name": "fetch"}, "exit_status": "success", "outputs": [output]}
    said(agent, "u0")
    denied = agent.ask("steps/toolCallResult", payload, metadata={"session_state": {"chain_hash": "0" * 64}})
    said(agent, "u1")
    read(agent, "u0")
    result = asked(agent, [str(denied["result"]["request_id"])])
    assert (result["decision"], result["policy_data"]["fides"]) == ("allow", {"integrity": "trusted"})


def test_an_argument_under_a_trusted_id_is_judged_on_what_the_call_says_of_it_too(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "strict")
    said(agent, "u")
    read(agent, "t")
    call = {
        "tool": {"name": "send"},
        "arguments": {"body": {"value": "x", "provenance": provenance("u", "user_input", "t")}},
    }
    assert agent.ask("steps/toolCallRequest", call)["result"]["reason_codes"] == ["untrusted_into_consequential"]


def test_a_step_in_both_cases_of_letters_is_one_step_of_a_fold(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    step = said(agent, "u")
    head = asked(agent, [step, step.upper()])["chain_hash"]
    assert "reason_codes" not in folded(agent, [step, step.upper()], "s", "u", head=head)


def test_an_own_step_without_its_hyphens_is_no_step_of_another_session(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    assert asked(agent, [said(agent, "u").replace("-", "")])["reason_codes"] == ["unknown_step"]
