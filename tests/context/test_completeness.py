"""Every gap is named by its code, and nothing else makes a context incomplete."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from awr.context.completeness import ISSUE_CODES, Completeness
from awr.operations.context import CompileResult
from awr.project import Project
from tests.support.contexts import LEDGER, compiled, make_context_project, note, write_source

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "context.md"
FIELDS = (
    "source_fresh",
    "work_item_found",
    "work_state_complete",
    "acceptance_complete",
    "rules_complete",
    "dependencies_complete",
    "decision_context_complete",
    "goal_context_complete",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "p")


def codes(result: CompileResult) -> list[tuple[str, str | None]]:
    return [(issue.code, issue.reference) for issue in result.completeness.issues]


def false_fields(completeness: Completeness) -> set[str]:
    return {name for name in FIELDS if getattr(completeness, name) is False}


def test_a_context_with_everything_is_complete(project: Project) -> None:
    result = compiled(project)
    completeness = result.completeness
    assert result.ok
    assert (completeness.complete, completeness.status, completeness.issues) == (True, "CONTEXT COMPLETE", ())
    assert false_fields(completeness) == set()
    assert completeness.freshness_basis == "source_refresh_at_project_revision"


def test_unfinished_dependencies_and_missing_evidence_are_told_and_leave_it_complete(project: Project) -> None:
    completeness = compiled(project).completeness
    assert completeness.unresolved_required_dependencies == ("grammar",)
    assert [(gap.code, gap.reference) for gap in completeness.evidence_gaps] == [("evidence_not_recorded", "parse")]
    assert completeness.complete


def test_without_a_look_at_the_files_it_is_incomplete(project: Project) -> None:
    result = compiled(project, cached=True)
    assert codes(result) == [("source_refresh_missing", None)]
    assert false_fields(result.completeness) == {"source_fresh"}
    assert result.completeness.freshness_basis == "last_recorded_projection_only"


def test_a_source_that_cannot_be_parsed_is_a_failed_refresh_and_old_facts_stay(project: Project) -> None:
    (project.root / "work-ledger.yaml").write_text("work_items: [\n")
    result = compiled(project)
    assert ("source_refresh_failed", "work-ledger.yaml") in codes(result)
    assert ("source_not_fresh", "work-ledger.yaml") not in codes(result)
    assert ("acceptance_missing_or_stale", "parse") in codes(result)
    assert ("goal_state_incomplete", "goal-1") in codes(result)
    assert ("dependency_source_not_fresh", "lexer") in codes(result)
    assert result.work_context is not None
    assert "Write the grammar" in result.work_context.rendered_context


def test_a_source_that_is_gone_is_a_failed_refresh(project: Project) -> None:
    (project.root / "RULES.md").unlink()
    assert codes(compiled(project)) == [("source_refresh_failed", "RULES.md")]


def test_what_was_stale_when_last_seen_is_told_without_a_look(project: Project) -> None:
    (project.root / "RULES.md").unlink()
    compiled(project)
    assert ("source_not_fresh", "RULES.md") in codes(compiled(project, cached=True))


def test_work_that_no_source_names_is_not_found_and_no_hash_is_made(project: Project) -> None:
    result = compiled(project, "nothing")
    assert codes(result) == [("work_item_not_found", "nothing")]
    assert (result.work_context, result.completeness.goal_context_complete) == (None, None)
    assert result.diagnostic_text
    assert not result.completeness.acceptance_complete


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    next_action: Write the grammar\n", "", "work_state_incomplete"),
        ("    next_action: Write the grammar\n", '    next_action: " "\n', "work_state_incomplete"),
        (
            "    title: Parse input\n    status: planned\n",
            "    title: P\n    status: soon\n",
            "work_state_incomplete",
        ),
        (
            "    title: Parse input\n    status: planned\n",
            "    title: P\n    status: blocked\n",
            "work_state_incomplete",
        ),
        (
            "    acceptance:\n      - Every sample parses\n      - Errors name their place\n",
            "",
            "acceptance_missing_or_stale",
        ),
    ],
    ids=["no-next-action", "blank-next-action", "unknown-status", "blocked-by-nothing", "no-acceptance"],
)
def test_a_gap_in_the_work_itself_is_named(project: Project, old: str, new: str, expected: str) -> None:
    write_source(project, "work-ledger.yaml", old, new)
    assert codes(compiled(project)) == [(expected, "parse")]


def test_blocked_work_that_names_its_blocker_is_complete(project: Project) -> None:
    write_source(
        project,
        "work-ledger.yaml",
        "    title: Parse input\n    status: planned\n",
        "    title: Parse input\n    status: blocked\n    blocker: Waits for samples\n",
    )
    assert compiled(project).ok


def test_a_missing_source_of_rules_is_a_gap_in_the_standard_profile_only(tmp_path: Path) -> None:
    standard = make_context_project(tmp_path / "a", rules=None)
    assert codes(compiled(standard)) == [("rules_source_missing", None)]
    minimal = make_context_project(tmp_path / "b", rules=None, profile="minimal")
    assert compiled(minimal).ok


@pytest.mark.parametrize(
    ("attributes", "is_gap"),
    [
        ("severity=hard", True),
        ("scope=project value=*", True),
        ("severity=soft", False),
        ("severity=hard scope=agent value=tester", True),
        ("severity=hard scope=tag value=elsewhere", False),
    ],
)
def test_only_a_rule_that_may_be_hard_and_may_hold_is_a_gap(tmp_path: Path, attributes: str, is_gap: bool) -> None:
    project = make_context_project(tmp_path / "p", rules=f"## A rule {{#a {attributes}}}\n\nIts text.\n")
    result = compiled(project)
    assert codes(result) == ([("hard_rule_unresolved", "RULES.md#a")] if is_gap else [])
    assert result.work_context is not None
    assert ("Its text." in result.work_context.rendered_context) is is_gap


def _depends(project: Project, keys: str) -> None:
    write_source(project, "work-ledger.yaml", "depends_on: [lexer, grammar]", f"depends_on: [{keys}]")


def _missing(project: Project) -> None:
    _depends(project, "lexer, nowhere")


def _unavailable(project: Project) -> None:
    lexer = LEDGER[LEDGER.index("  - id: lexer") : LEDGER.index("  - id: grammar")]
    write_source(project, "work-ledger.yaml", lexer, "")


def _unknown(project: Project) -> None:
    write_source(project, "work-ledger.yaml", "title: Lex input\n    status: completed", "title: L\n    status: odd")


def _circle(project: Project) -> None:
    write_source(project, "work-ledger.yaml", "acceptance: [Agreed]", "depends_on: [parse]")


def _missing_below(project: Project) -> None:
    write_source(project, "work-ledger.yaml", "acceptance: [Agreed]", "depends_on: [nowhere]")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_missing, ("required_dependency_missing", "nowhere")),
        (_unavailable, ("required_dependency_unavailable", "lexer")),
        (_unknown, ("required_dependency_state_incomplete", "lexer")),
        (_circle, ("dependency_cycle", "parse")),
        (_missing_below, ("required_dependency_missing", "nowhere")),
    ],
)
def test_a_dependency_that_cannot_be_known_is_a_gap(
    project: Project, change: Callable[[Project], None], expected: tuple[str, str]
) -> None:
    change(project)
    result = compiled(project)
    assert codes(result) == [expected]
    assert false_fields(result.completeness) == {"dependencies_complete"}


def test_an_optional_dependency_that_is_missing_is_no_gap(project: Project) -> None:
    _depends(project, "lexer, {id: nowhere, required: false}")
    assert compiled(project).ok


def test_no_open_goal_is_a_gap(project: Project) -> None:
    write_source(
        project, "work-ledger.yaml", "title: Ship the parser\n    status: active", "title: S\n    status: done"
    )
    assert codes(compiled(project)) == [("goal_context_missing", None)]


def test_a_goal_that_was_asked_for_must_be_there(project: Project) -> None:
    assert codes(compiled(project, goals=("goal-9",))) == [("goal_not_found", "goal-9")]
    assert compiled(project, goals=("goal-2",)).ok


@pytest.mark.parametrize("status", ["draft", "candidate", "pending", "needs_confirmation", "unknown", "Draft"])
def test_a_goal_that_is_not_settled_is_a_gap(project: Project, status: str) -> None:
    write_source(project, "work-ledger.yaml", "parser\n    status: active", f"parser\n    status: {status}")
    assert codes(compiled(project)) == [("goal_state_incomplete", "goal-1")]


def test_critical_events_beyond_the_limit_are_a_gap(project: Project) -> None:
    for number in range(13):
        note(project, importance="critical", summary=f"Alarm {number}", work="parse")
    result = compiled(project)
    assert codes(result) == [("scoped_delta_incomplete", None)]
    context = result.work_context
    assert context is not None
    assert "Alarm 12" in context.rendered_context
    assert "Alarm 0\n" not in context.rendered_context


def test_the_gaps_stand_in_the_text_as_well(project: Project) -> None:
    write_source(project, "work-ledger.yaml", "    next_action: Write the grammar\n", "")
    context = compiled(project).work_context
    assert context is not None
    assert "CONTEXT INCOMPLETE\n- work_state_incomplete: parse: no next action" in context.rendered_context


def test_every_code_is_documented() -> None:
    named = set(re.findall(r"^\| `([a-z_]+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    assert set(ISSUE_CODES) <= named
