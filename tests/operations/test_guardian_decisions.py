"""What was decided about a fold is kept whole, and what a summary was made of can be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.errors import NotFound
from awr.operations.guardian_decisions import (
    DecisionRequest,
    DecisionsRequest,
    LineageRequest,
    decision,
    decisions,
    lineage,
)
from awr.surfaces.cli.app import run
from tests.guardian.test_judge import asked, folded, judged, read, said
from tests.support.acs import Agent

DATABASE = "acs.db"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A session with one denied question, one allowed, and the fold that followed."""
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t", "u")]
    asked(agent, steps)
    head = asked(agent, steps)["chain_hash"]
    folded(agent, steps, "s", "t", "u", head=head)
    return agent


def test_decisions_about_folds_are_listed_page_by_page(tmp_path: Path, agent: Agent) -> None:
    first = decisions(tmp_path, DecisionsRequest(database=DATABASE, limit=2))
    rest = decisions(tmp_path, DecisionsRequest(database=DATABASE, after=first.next_after, session=agent.session_id))
    found = [(row.step_type, row.decision) for row in (*first.decisions, *rest.decisions)]
    assert found == [("steps/preCompact", "deny"), ("steps/preCompact", "allow"), ("steps/postCompact", "allow")]
    assert rest.next_after is None


def test_one_decision_has_the_rules_and_the_facts_behind_it(tmp_path: Path, agent: Agent) -> None:
    step = decisions(tmp_path, DecisionsRequest(database=DATABASE)).decisions[0].step_id
    found = decision(tmp_path, DecisionRequest(step=step.upper(), database=DATABASE))
    assert found.decision.reason_codes == ("aarm_cumulative_taint",)
    assert found.verdict["policy_data"]["aarm"]["untrusted_since_grounding"] == 1
    [reference] = found.verdict["policy_references"]
    assert (reference["policy_name"], reference["policy_id"]) == ("trust-boundary", "untrusted-fold")
    assert reference["rule_id"].startswith("sha256:")
    for unknown in ("nonsense", "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(NotFound):
            decision(tmp_path, DecisionRequest(step=unknown, database=DATABASE))


def test_the_lineage_of_a_summary_is_all_that_it_stands_for(tmp_path: Path, agent: Agent) -> None:
    found = lineage(tmp_path, LineageRequest(session=agent.session_id, data="s", database=DATABASE))
    assert {row.provenance_id: (row.origin, row.trust) for row in found.data} == {
        "s": ("agent_generated", "untrusted"),
        "t": ("tool_output", "untrusted"),
        "u": ("user_input", "trusted"),
    }
    with pytest.raises(NotFound):
        lineage(tmp_path, LineageRequest(session=agent.session_id, data="other", database=DATABASE))


def test_the_lineage_of_a_summary_that_hides_some_is_the_one_that_it_is_judged_on(tmp_path: Path) -> None:
    _, agent = judged(tmp_path, "trust-boundary")
    steps = [said(agent, "u"), read(agent, "t")]
    asked(agent, steps)
    head = asked(agent, steps)["chain_hash"]
    folded(agent, steps, "s", "u", head=head)
    found = lineage(tmp_path, LineageRequest(session=agent.session_id, data="s", database=DATABASE))
    assert {row.provenance_id: row.trust for row in found.data} == {
        "s": "untrusted",
        "t": "untrusted",
        "u": "trusted",
    }


def test_a_person_sees_decisions_as_a_table_and_lineage_as_a_tree(
    tmp_path: Path, agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    step = decisions(tmp_path, DecisionsRequest(database=DATABASE)).decisions[0].step_id
    project = ["--project", str(tmp_path)]
    assert run([*project, "guardian", "decisions", "--database", DATABASE]) == 0
    assert run([*project, "guardian", "decision", step, "--database", DATABASE]) == 0
    assert run([*project, "guardian", "lineage", agent.session_id, "s", "--database", DATABASE]) == 0
    shown = capsys.readouterr().out
    for expected in (
        "aarm_cumulative_taint",
        "What would lift it",
        "rule untrusted-fold of trust-boundary 1",
        "fides: integrity untrusted",
        "s  [agent_generated, untrusted, from source of s]\n  t  [tool_output, untrusted, from web]\n"
        "    u  [user_input, trusted, from source of u]\n",
    ):
        assert expected in shown
