"""The start of a session: few facts, always the way to the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from awr.context.tokens import TokenCounter
from awr.errors import BudgetExceeded
from awr.operations.bootstrap import BootstrapRequest, BootstrapResult, bootstrap
from awr.operations.session import EndRequest, end
from awr.project import Project
from tests.context.test_compile import run
from tests.support.contexts import make_context_project, save
from tests.support.projects import begin_session, revision

LAST = "This is not enough to act on. Compile L1 before execution: awr context compile.\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "p")


def started(project: Project, **fields: Any) -> BootstrapResult:
    return bootstrap(project, BootstrapRequest(**fields))


def gaps(result: BootstrapResult) -> list[tuple[str, str | None]]:
    return [(gap.code, gap.reference) for gap in result.context.gaps]


def test_it_names_project_work_session_checkpoint_and_hard_rules(project: Project) -> None:
    session = begin_session(project)
    saved = save(project, session)
    result = started(project, session=session)
    context = result.context
    assert (result.level, context.complete, context.gaps) == ("L0", True, ())
    assert context.work is not None
    assert (context.work.external_key, context.work.next_action) == ("parse", "Write the grammar")
    assert context.session is not None
    assert context.session.agent_id == "tester"
    assert context.checkpoint is not None
    assert (context.checkpoint.id, context.checkpoint_origin) == (saved, "session")
    assert [rule.external_key for rule in context.critical_rules] == ["RULES.md#green", "RULES.md#grammar"]
    for part in ("Cover escapes", "- Ask about tabs", "- RULES.md#green: Keep the tests green"):
        assert part in result.rendered_context


def test_it_always_ends_with_the_way_to_the_rest_and_admits_no_execution(project: Project) -> None:
    for fields in ({}, {"work": "parse"}, {"work": "nowhere"}):
        result = started(project, **fields)
        assert LAST in result.rendered_context.splitlines(keepends=True)[-2:]
        assert result.context.execution_context_complete is False


def test_it_fits_a_thousand_tokens_and_is_counted_exactly(project: Project) -> None:
    session = begin_session(project)
    save(project, session)
    result = started(project, session=session)
    assert result.token_estimate == TokenCounter(None).count(result.rendered_context) <= result.token_budget == 1000


def test_what_may_not_be_left_out_exceeds_a_budget_that_is_too_small(project: Project) -> None:
    with pytest.raises(BudgetExceeded):
        started(project, work="parse", budget=40)


def test_a_long_rule_leaves_its_text_out_and_keeps_its_name(tmp_path: Path) -> None:
    rules = "## Keep quiet {#quiet severity=hard scope=project value=*}\n\n" + "Words " * 2000
    result = started(make_context_project(tmp_path / "p", rules=rules), work="parse")
    assert "RULES.md#quiet: Keep quiet" in result.rendered_context
    assert "Words" not in result.rendered_context


def test_an_unknown_outcome_is_always_shown_and_a_known_one_if_there_is_room(project: Project) -> None:
    session = begin_session(project)
    run(project, session, key="deploy-1", phase="progress")
    run(project, session, key="deploy-2", phase="succeeded")
    result = started(project, session=session)
    assert "deploy-1: outcome unknown: query it before any retry" in result.rendered_context
    assert {one.operation_key: one.uncertain for one in result.context.executions} == {
        "deploy-1": True,
        "deploy-2": False,
    }


def test_no_work_and_missing_work_are_gaps_and_no_errors(project: Project) -> None:
    assert gaps(started(project, work="nowhere")) == [("work_item_not_found", "nowhere")]
    (project.root / "work-ledger.yaml").write_text("goals:\n  - id: goal-1\n    title: G\n    status: active\n")
    assert gaps(started(project)) == [("work_not_selected", None)]


def test_what_is_not_fresh_or_was_not_looked_at_is_a_gap(project: Project) -> None:
    assert gaps(started(project, work="parse", cached=True)) == [("source_refresh_missing", None)]
    (project.root / "RULES.md").unlink()
    assert gaps(started(project, work="parse")) == [("source_not_fresh", "RULES.md")]


def test_a_session_that_is_over_and_saved_nothing_is_a_gap(project: Project) -> None:
    session = begin_session(project)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    assert gaps(started(project, session=session)) == [("checkpoint_missing", session)]


def test_rules_that_cannot_be_told_are_marked(tmp_path: Path) -> None:
    project = make_context_project(tmp_path / "p", rules="## Perhaps {#perhaps severity=hard}\n")
    result = started(project, work="parse")
    assert gaps(result) == [("hard_rule_unresolved", "RULES.md#perhaps")]
    assert "RULES.md#perhaps: Perhaps (may hold; cannot be told)" in result.rendered_context


def test_the_standard_profile_misses_its_rules(tmp_path: Path) -> None:
    project = make_context_project(tmp_path / "p", rules=None)
    assert gaps(started(project, work="parse")) == [("rules_source_missing", None)]


def test_the_hash_changes_with_the_facts_and_only_with_them(project: Project) -> None:
    before = started(project, work="parse")
    assert started(project, work="parse").context_hash == before.context_hash
    assert started(project, work="grammar").context_hash != before.context_hash
