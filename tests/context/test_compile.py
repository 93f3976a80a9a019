"""What a compiled context holds, and what its two hashes stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.chain import journal_bytes
from awr.context.request import ContextRequest
from awr.domain.compaction import Observation
from awr.domain.execution import Report
from awr.errors import BudgetExceeded
from awr.operations.compaction import ObserveRequest, observe
from awr.operations.execution import RegisterRequest, ReportRequest, register, report
from awr.project import Project
from tests.support.contexts import compiled, make_context_project, note, save, shown, write_source
from tests.support.projects import begin_session, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "p")


def keys(project: Project, **fields: Any) -> list[tuple[str, str, bool]]:
    return [(one.section, one.key, one.required) for one in shown(project, **fields).selected_chunks]


def run(project: Project, session: str, *, key: str = "deploy-1", phase: str | None = None) -> None:
    """Announce an execution and let its host report a phase."""
    request = RegisterRequest(
        session=session, operation_key=key, purpose="Deploy the\n## Rules", expected_revision=revision(project)
    )
    execution = register(project, request).execution
    if phase is not None:
        said = Report(
            request_key=f"{key}-{phase}",
            execution_id=execution.id,
            host_id="h",
            host_work_key="w",
            native_session="n",
            agent_id="tester",
            origin="host_observed",
            phase=phase,  # type: ignore[arg-type]
            observed_at=1,
            summary="Seen",
        )
        report(project, ReportRequest(report=said, expected_revision=revision(project)))


def compact(project: Project, session: str, *, sequence: int = 1) -> None:
    """Record a compaction: an event of low importance."""
    observation = Observation(
        compaction_id=f"c-{sequence}",
        sequence=sequence,
        observed_at=1,
        trigger="automatic",
        model="m",
        source="s",
        measurement_scope="full_request",
        measurement_basis="host_reported",
    )
    observe(project, ObserveRequest(session=session, expected_revision=revision(project), observation=observation))


def test_the_text_begins_with_project_work_branch_and_the_version_of_every_source(project: Project) -> None:
    context = shown(project)
    identity = context.identity
    ledger, rules = identity.source_versions
    assert context.rendered_context.startswith(
        f"Project demo [{identity.project_id}] r{revision(project)}\n"
        f"Work parse [{identity.work_item_id}] r1\n"
        "Branch main\n"
        "Sources:\n"
        f"{ledger.id} r1 {ledger.fingerprint} Fresh work-ledger.yaml\n"
        f"{rules.id} r1 {rules.fingerprint} Fresh RULES.md\n"
        "## Goal\n[goal:goal-1]\n"
    )


def test_every_required_fact_is_in_the_text(project: Project) -> None:
    text = shown(project, budget=100_000).rendered_context
    for fact in (
        "Ship the parser\nStatus: active\nSuccess criteria:\n- Every sample parses\n",
        "Parse input\nIntent: work\nSelected by: explicit_work\nSession: none\nAgent: not named\nPhase: m-1\n",
        "Status: planned\nStatus as the source spells it: planned\nBlocker: none stated\n"
        "Next action: Write the grammar\n",
        "Every one of these:\n- Every sample parses\n- Errors name their place\n",
        "Hard rule: Keep the tests green\nRun the tests before every commit.\n",
        "Hard rule: Ask before the grammar changes\n",
        "Required: x2, finished x1, unfinished x1. Optional: x0.\n",
        "Agree on the grammar\nRequired. Status: in_progress. Source: fresh.\n",
        "- evidence_not_recorded: parse: acceptance is stated and no evidence is\n",
        "[completeness]\nCONTEXT COMPLETE\n",
    ):
        assert fact in text
    assert "billing" not in text
    assert "An old aim" not in text


def test_chunks_are_required_or_optional_as_the_contract_says(project: Project) -> None:
    found = keys(project, budget=100_000)
    optional = {key for _, key, required in found if not required}
    assert {key for key in optional if not key.startswith("event:")} == {
        "goal-body:goal-1",
        "summary",
        "rule:RULES.md#short",
        "rule:RULES.md#samples",
        "work:lexer",
    }
    assert ("dependencies", "work:grammar", True) in found
    assert ("rules", "rule:RULES.md#green", True) in found


def test_the_smallest_budget_keeps_every_required_chunk_and_one_less_is_refused(project: Project) -> None:
    everything = shown(project, budget=100_000)
    least = shown(project, budget=everything.required_tokens)
    assert all(one.required for one in least.selected_chunks)
    assert {one.key for one in least.selected_chunks} == {
        one.key for one in everything.selected_chunks if one.required
    }
    assert {one.reason for one in least.omitted_chunks} == {"insufficient_budget_for_whole_chunk"}
    with pytest.raises(BudgetExceeded) as caught:
        compiled(project, budget=everything.required_tokens - 1)
    assert caught.value.details["required"] == everything.required_tokens


def test_a_path_or_tag_that_the_caller_names_brings_its_rules(project: Project) -> None:
    assert ("rules", "rule:RULES.md#billing", True) in keys(project, paths=("src/billing/invoice.py",))
    assert ("rules", "rule:RULES.md#billing", True) not in keys(project)


def test_the_minimal_profile_is_said(tmp_path: Path) -> None:
    project = make_context_project(tmp_path / "p", rules=None, profile="minimal")
    assert ("work", "context-profile", True) in keys(project)


def test_an_ordinary_completion_is_a_required_part_of_the_work(project: Project) -> None:
    write_source(
        project, "work-ledger.yaml", "    tags: [core]\n", "    tags: [core]\n    ordinary_completion: {by: anyone}\n"
    )
    context = shown(project)
    assert ("work", "ordinary-work-policy", True) in keys(project)
    assert 'Ordinary completion: {"by":"anyone"}' in context.rendered_context


def test_every_execution_is_required_and_an_unknown_outcome_stops_a_retry(project: Project) -> None:
    session = begin_session(project)
    run(project, session, key="deploy-1", phase="progress")
    run(project, session, key="deploy-2", phase="succeeded")
    context = shown(project, session=session)
    assert sum(one.section == "executions" and one.required for one in context.selected_chunks) == 2
    assert context.rendered_context.count("Query execution status before any retry.") == 1
    assert "Purpose: Deploy the\n> ## Rules\n" in context.rendered_context


def test_evidence_that_the_source_names_is_optional_and_its_unknown_level_a_gap(project: Project) -> None:
    write_source(
        project,
        "work-ledger.yaml",
        "    tags: [core]\n",
        "    tags: [core]\n    evidence: [{locator: r.json, summary: Run}]\n",
    )
    context = shown(project)
    assert ("evidence", "evidence:parse/evidence/r.json", False) in keys(project)
    assert "evidence_level_unknown: parse/evidence/r.json" in context.rendered_context


def test_the_text_is_the_same_for_the_same_facts(project: Project) -> None:
    one, other = shown(project), shown(project)
    assert one == other


def test_the_context_hash_is_that_of_the_documented_parts(project: Project) -> None:
    context = shown(project, tags=("core",))
    parts = {
        "policy": "awr.whole_chunks.v1",
        "tokenizer": "o200k_base",
        "budget": 5000,
        "identity": context.identity,
        "request": ContextRequest(work="parse", tags=("core",)),
        "selected_chunks": context.selected_chunks,
        "selected_entities": context.selected_entities,
        "omitted_chunks": context.omitted_chunks,
        "rendered_context": context.rendered_context,
    }
    assert context.context_hash == hashlib.sha256(journal_bytes(parts)).hexdigest()
    assert len(context.context_hash) == len(context.content_hash) == 64


def _other_work_is_noted(project: Project, session: str) -> None:
    note(project, importance="critical", summary="Elsewhere", work="other")


def _a_note_on_this_work(project: Project, session: str) -> None:
    note(project, importance="normal", summary="Small", work="parse")


def _a_compaction(project: Project, session: str) -> None:
    compact(project, session)


def _another_session_starts(project: Project, session: str) -> None:
    begin_session(project, work="other")


def _other_work_changes_in_the_same_file(project: Project, session: str) -> None:
    write_source(project, "work-ledger.yaml", "title: Something else", "title: Something quite else")


def _a_comment_is_added(project: Project, session: str) -> None:
    path = project.root / "work-ledger.yaml"
    path.write_text("# a comment\n" + path.read_text())


def _a_thousand_revisions(project: Project, session: str) -> None:
    with project.journal.held_open() as journal:
        for _ in range(1000):
            with journal.write() as writer:
                writer.append("note.added", {}, summary="Elsewhere")


UNRELATED: tuple[Callable[[Project, str], None], ...] = (
    _other_work_is_noted,
    _a_note_on_this_work,
    _a_compaction,
    _another_session_starts,
    _other_work_changes_in_the_same_file,
    _a_comment_is_added,
    _a_thousand_revisions,
)


@pytest.mark.parametrize("change", UNRELATED)
def test_what_is_unrelated_moves_the_context_hash_and_not_the_content_hash(
    project: Project, change: Callable[[Project, str], None]
) -> None:
    session = begin_session(project)
    before = shown(project, session=session)
    change(project, session)
    after = shown(project, session=session)
    assert after.identity.project_revision > before.identity.project_revision
    assert after.context_hash != before.context_hash
    assert after.content_hash == before.content_hash


def _edit(name: str, old: str, new: str) -> Callable[[Project, str], None]:
    return lambda project, session: write_source(project, name, old, new)


RELATED: dict[str, Callable[[Project, str], None]] = {
    "title": _edit("work-ledger.yaml", "title: Parse input", "title: Parse all input"),
    "next action": _edit("work-ledger.yaml", "Write the grammar", "Write the tests"),
    "status": _edit("work-ledger.yaml", "input\n    status: planned", "input\n    status: ready"),
    "acceptance": _edit("work-ledger.yaml", "Errors name their place", "Errors name their line"),
    "milestone": _edit("work-ledger.yaml", "    milestone: m-1\n", ""),
    "goal criterion": _edit(
        "work-ledger.yaml", "criteria:\n      - Every sample parses", "criteria:\n      - Each sample parses"
    ),
    "goal status": _edit("work-ledger.yaml", "parser\n    status: active", "parser\n    status: confirmed"),
    "hard rule": _edit("RULES.md", "before every commit", "after every commit"),
    "dependency": _edit("work-ledger.yaml", "status: in_progress", "status: blocked"),
    "dependencies": _edit("work-ledger.yaml", "[lexer, grammar]", "[lexer, grammar, other]"),
    "blocked": _edit("work-ledger.yaml", "    tags: [core]\n", "    tags: [core]\n    blocker: Tabs\n"),
    "checkpoint": lambda project, session: (save(project, session), None)[1],
    "critical event": lambda project, session: (note(project, importance="critical", work="parse"), None)[1],
    "execution": lambda project, session: run(project, session),
    "optional rule": _edit("RULES.md", "About twenty lines", "About ten lines"),
    "a source is gone": lambda project, session: (project.root / "RULES.md").unlink(),
}


@pytest.mark.parametrize("name", RELATED)
def test_what_is_known_of_the_work_changes_and_so_does_the_content_hash(project: Project, name: str) -> None:
    session = begin_session(project)
    before = shown(project, session=session)
    RELATED[name](project, session)
    after = shown(project, session=session)
    assert after.content_hash != before.content_hash
    assert after.context_hash != before.context_hash


def test_the_content_hash_does_not_depend_on_the_budget(project: Project) -> None:
    large = shown(project, budget=5000)
    small = shown(project, budget=large.required_tokens)
    assert small.content_hash == large.content_hash
    assert small.context_hash != large.context_hash


def test_nothing_of_a_conversation_and_no_vocabulary_is_kept(project: Project) -> None:
    shown(project, intent="An unusual intention")
    cache = (project.folder / "cache" / "o200k-counts").read_bytes()
    assert b"unusual" not in cache


def test_a_result_is_plain_json(project: Project) -> None:
    result = compiled(project)
    assert msgspec.json.decode(msgspec.json.encode(result))["level"] == "L1"
