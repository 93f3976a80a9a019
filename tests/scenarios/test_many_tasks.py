"""On a ledger of 150 tasks the compiled context of every open task keeps every required fact."""

from __future__ import annotations

import pytest

from awr.context.tokens import TokenCounter
from awr.domain.work import Goal, WorkItem
from awr.errors import BudgetExceeded
from awr.operations.context import CompileRequest, compile
from awr.project import Project
from awr.sources.contents import Contents
from bench.ledgers import HARD_RULES, ledger_texts, make_ledger_project, rules_text

TASKS = 150


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_ledger_project(tmp_path_factory.mktemp("many") / "project", tasks=TASKS)


@pytest.fixture(scope="module")
def facts(project: Project) -> tuple[list[WorkItem], tuple[Goal, ...]]:
    with project.journal.read() as reader:
        contents = Contents(reader)
        return contents.work_items(), contents.goals()


def required_facts(item: WorkItem, *, every: dict[str, WorkItem], goals: tuple[Goal, ...]) -> list[str]:
    """List, straight from the sources, what an agent must not miss about a task."""
    unfinished = [one.key for one in item.depends_on if every[one.key].status != "completed"]
    return [
        item.title,
        f"Status: {item.status}",
        f"Next action: {item.next_action}",
        *item.acceptance,
        *HARD_RULES,
        *unfinished,
        *(goal.title for goal in goals if goal.status == "active"),
    ]


def test_every_open_task_keeps_every_required_fact_within_its_budget(
    project: Project, facts: tuple[list[WorkItem], tuple[Goal, ...]]
) -> None:
    items, goals = facts
    every = {item.external_key: item for item in items}
    open_items = [item for item in items if item.status != "completed"]
    assert len(open_items) >= 35
    counter = TokenCounter(None)
    whole = sum(map(counter.count, [*ledger_texts(TASKS), rules_text()]))
    for item in open_items:
        result = compile(project, CompileRequest(work=item.external_key, cached=False))
        assert result.ok, (item.external_key, result.completeness.issues)
        assert result.work_context is not None
        text = result.work_context.rendered_context
        missing = [fact for fact in required_facts(item, every=every, goals=goals) if fact not in text]
        assert missing == [], item.external_key
        assert result.work_context.token_estimate == counter.count(text) <= 5000
        assert result.work_context.token_estimate < whole / 10


def test_a_budget_below_what_is_required_is_refused_and_never_cut(project: Project) -> None:
    with pytest.raises(BudgetExceeded) as caught:
        compile(project, CompileRequest(work="task-145", budget=50))
    required, budget = caught.value.details["required"], caught.value.details["budget"]
    assert budget == 50
    assert isinstance(required, int)
    fitting = compile(project, CompileRequest(work="task-145", budget=required))
    assert fitting.work_context is not None
    assert fitting.work_context.required_tokens == required
