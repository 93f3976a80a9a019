"""Prepared work: one card in the contract's order, and smaller views that lose no required fact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.context.tokens import TokenCounter
from awr.domain.card import MAX_CARD_BYTES
from awr.errors import ContextIncomplete, RuleViolation
from awr.operations.claim import ClaimRequest, claim
from awr.operations.compaction import ObserveRequest, observe
from awr.operations.execution import RegisterRequest, register
from awr.operations.management import AssessRequest, ManageRequest, assess, manage
from awr.operations.preparation import PrepareRequest, prepare
from awr.operations.session import EndRequest, end
from awr.project import Project
from awr.sources.index import refresh
from tests.domain.test_compaction import observation
from tests.domain.test_management import SIMPLE
from tests.operations.test_checkpoint import answer, ask
from tests.operations.test_execution import announce, say
from tests.support.projects import LEDGER, begin_session, make_project, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return small(tmp_path / "p")


@pytest.fixture
def session(project: Project) -> str:
    return begin_session(project)


def small(root: Path, *, ledger: str = LEDGER) -> Project:
    made = make_project(root, ledger=ledger)
    manifest = made.manifest_path
    manifest.write_text(manifest.read_text().replace('name = "demo"', 'name = "demo"\ncontext_profile = "minimal"'))
    return made


def ready(
    project: Project, view: str = "action", *, session: str | None = None, work: str = "parse"
) -> dict[str, Any]:
    return prepare(project, PrepareRequest(work=work, session=session, response_view=view)).body  # type: ignore[arg-type]


def action(project: Project, session: str | None = None) -> str:
    text: str = ready(project, session=session)["guidance"]["next_action"]
    return text


def compacted(project: Project, session: str) -> None:
    observe(project, ObserveRequest(session=session, expected_revision=revision(project), observation=observation()))


def managed(project: Project, session: str) -> None:
    fingerprint = assess(project, AssessRequest(work="parse")).assessment.contract_fingerprint
    request = ManageRequest(
        work="parse",
        session=session,
        request_key="m",
        contract_fingerprint=fingerprint,
        observation=SIMPLE,
        expected_revision=revision(project),
    )
    manage(project, request)


def test_the_card_follows_the_contracts_order_as_each_reason_goes_away(project: Project, session: str) -> None:
    compacted(project, session)
    execution = announce(project, session).execution.id
    say(project, execution, "started", key="r1")
    asked = ask(project, session).wait
    ledger = project.root / "work-ledger.yaml"
    whole = ledger.read_text()
    ledger.write_text(
        whole.replace("    acceptance:\n      - Every sample parses\n", "").replace(
            "status: planned\n    goal", "status: blocked\n    blocker: no keys\n    goal"
        )
    )
    assert "Query execution status" in action(project, session)
    say(project, execution, "succeeded", key="r2")
    assert "Do not repeat the request" in action(project, session)
    answer(project, asked.id)
    assert "required gaps" in action(project, session)
    ledger.write_text(whole.replace("status: planned\n    goal", "status: blocked\n    blocker: no keys\n    goal"))
    assert "blockers or the conflicting claim" in action(project, session)
    ledger.write_text(whole)
    assert "ask before opening" in action(project, session)
    observe(
        project,
        ObserveRequest(
            session=session,
            expected_revision=revision(project),
            observation=observation(compaction_id="c8", sequence=8, after_tokens=1),
        ),
    )
    assert "record known observations" in action(project, session)
    managed(project, session)
    assert "Consume the rendered context" in action(project, session)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    assert "resume" in action(project, session)


def test_a_tasks_own_claim_is_no_conflict_and_a_foreign_one_is(project: Project, session: str) -> None:
    claim(project, ClaimRequest(work="parse", session=session, expected_revision=revision(project)))
    managed(project, session)
    assert "Consume the rendered context" in action(project, session)
    other = begin_session(project)
    assert "conflicting claim" in action(project, other)
    assert "conflicting claim" in action(project)


def test_the_compaction_travels_with_the_continuity_once_there_is_one(project: Project, session: str) -> None:
    assert "compaction" not in ready(project, session=session)["continuity"]
    compacted(project, session)
    found = ready(project, session=session)["continuity"]["compaction"]
    assert (found["state"], found["post_compaction_percent"]) == ("handoff_candidate", 54.6875)


def test_a_full_answer_has_the_documented_fields_and_no_card(project: Project, session: str) -> None:
    body = ready(project, "full", session=session)
    assert {
        "version",
        "stage",
        "work",
        "ready",
        "diagnostics",
        "active_claims",
        "context",
        "context_consumed",
        "completion_claimed",
        "management",
        "continuity",
        "next_action",
    } <= set(body)
    assert (body["version"], body["stage"], body["context_consumed"]) == (1, "prepared", False)
    assert body["next_action"] == "consume_context_then_start_or_resume_session"
    assert "guidance" not in body
    assert "response_view" not in body


def test_the_next_action_of_a_full_answer_follows_its_precedence(project: Project, session: str) -> None:
    ledger = project.root / "work-ledger.yaml"
    whole = ledger.read_text()
    asked = ask(project, session).wait
    assert ready(project, "full", session=session)["next_action"] == "resolve_persistent_wait_before_resuming"
    answer(project, asked.id)
    ledger.write_text(whole.replace("    next_action: Write the grammar\n", ""))
    assert ready(project, "full", session=session)["next_action"] == "resolve_required_context_gaps"
    ledger.write_text(whole.replace("status: planned\n    goal", "status: blocked\n    blocker: x\n    goal"))
    assert ready(project, "full", session=session)["next_action"] == "inspect_readiness_and_current_claim"


def test_incomplete_context_is_never_trimmed_and_says_so(project: Project, session: str) -> None:
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("    next_action: Write the grammar\n", ""))
    result = prepare(project, PrepareRequest(work="parse", session=session, response_view="action"))
    assert isinstance(result.problem(), ContextIncomplete)
    assert result.body["ok"] is False
    assert result.body["response_view"]["omitted_fields"] == []
    assert result.body["context"] == ready(project, "full", session=session)["context"]


def test_a_session_of_other_work_is_refused(project: Project) -> None:
    other = begin_session(project, work="report")
    with pytest.raises(RuleViolation):
        ready(project, session=other)


def test_preparing_twice_changes_nothing(project: Project, session: str) -> None:
    first = ready(project, session=session)
    before = revision(project)
    assert ready(project, session=session) == first
    assert revision(project) == before


# Five situations, from a bare start to a day's history.


def _bare(project: Project) -> str | None:
    return None


def _claimed(project: Project) -> str | None:
    session = begin_session(project)
    claim(project, ClaimRequest(work="parse", session=session, expected_revision=revision(project)))
    return session


def _compacted(project: Project) -> str | None:
    session = _claimed(project)
    assert session is not None
    compacted(project, session)
    return session


def _waiting(project: Project) -> str | None:
    session = _compacted(project)
    assert session is not None
    answer(project, ask(project, session).wait.id)
    ask(project, session, question="And then?")
    return session


def _busy(project: Project) -> str | None:
    session = _claimed(project)
    assert session is not None
    managed(project, session)
    for number in range(4):
        register(
            project,
            RegisterRequest(
                session=session,
                operation_key=f"k{number}",
                purpose="Run the samples",
                expected_revision=revision(project),
            ),
        )
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("Report errors", "Report every error"))
    refresh(project)
    return session


SITUATIONS = [_bare, _claimed, _compacted, _waiting, _busy]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_action_view_is_smaller_than_the_summary_in_bytes_and_tokens(
    project: Project, situation: Callable[[Project], str | None]
) -> None:
    session = situation(project)
    small_text = json.dumps(ready(project, "action", session=session))
    summary_text = json.dumps(ready(project, "summary", session=session))
    full_text = json.dumps(ready(project, "full", session=session))
    counter = TokenCounter(None)
    assert len(small_text) < len(summary_text) < len(full_text)
    assert counter.count(small_text) < counter.count(summary_text)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_action_view_keeps_every_required_fact(
    project: Project, situation: Callable[[Project], str | None]
) -> None:
    session = situation(project)
    full = ready(project, "full", session=session)
    found = ready(project, "action", session=session)
    for fact in ("work", "ready", "diagnostics", "active_claims", "ok", "project_revision"):
        assert found[fact] == full[fact], fact
    assert found["continuity"]["waits"] == full["continuity"]["waits"]
    context, whole = found["context"], full["context"]
    kept = ("identity", "rendered_context", "context_hash", "content_hash", "required_tokens", "omitted_chunks")
    for fact in kept:
        assert context["work_context"][fact] == whole["work_context"][fact], fact
    identity = context["work_context"]["identity"]
    judged = whole["completeness"]
    assert identity["source_versions"] == judged.pop("source_versions")
    # What the completeness repeats stands in the identity or at the top; the rest of it is whole.
    assert (identity["project_id"], identity["work_item_key"]) == (
        judged.pop("project_id"),
        judged.pop("work_item_key"),
    )
    assert (identity["project_revision"], identity["branch_id"]) == (
        judged.pop("project_revision"),
        judged.pop("branch_id"),
    )
    assert found["source_refresh_performed"] == judged.pop("source_refresh_performed")
    assert (judged.pop("status") == "CONTEXT COMPLETE") == judged["complete"]
    del judged["assessment_scope"]
    assert context["completeness"] == judged
    for fact in ("contract_fingerprint", "observation", "observer", "record_required", "admission_gaps"):
        assert found["management"][fact] == full["management"][fact], fact
    assert found["management"]["decision"]["required_actions"] == full["management"]["decision"]["required_actions"]
    assert len(json.dumps(found["guidance"]).encode()) <= MAX_CARD_BYTES


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_omission_is_listed_and_is_one(project: Project, situation: Callable[[Project], str | None]) -> None:
    session = situation(project)
    full = ready(project, "full", session=session)
    found = ready(project, "action", session=session)
    assert found["response_view"]["omitted_fields"]
    for path in omitted_paths(found):
        whole: Any = full
        rest: Any = found
        *parents, name = path.split(".")
        for parent in parents:
            whole, rest = whole[parent], rest[parent]
        assert name in whole
        assert name not in rest


def omitted_paths(body: dict[str, Any]) -> list[str]:
    found = []
    for text in body["response_view"]["omitted_fields"]:
        place, brace, names = text.partition("{")
        found += [place + name for name in names.rstrip("}").split(",")] if brace else [text]
    return found
