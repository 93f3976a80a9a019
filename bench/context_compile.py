"""Compiling a context from ledgers of three sizes: tokens, and the time it takes cold, warm and after a change."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from awr.context.compile import WorkContext
from awr.context.tokens import TokenCounter
from awr.operations.context import CompileRequest, compile
from awr.project import Project
from bench.ledgers import SIZES, ledger_texts, make_ledger_project, measured_task, rules_text
from bench.measure import Figures, paired, print_figures, process_ms

RUNS = 25
MEANING = (
    "Cold is a whole process of `awr --json context compile` with warm file caches and counted texts; warm is the\n"
    "operation in one process, with its look at the files. First is with texts that were never counted; at the\n"
    "smallest size it loads the vocabulary as well, and later sizes find it loaded. Less is the text against all\n"
    "of the project's sources, in o200k_base tokens; it says nothing about what a model does with either. Tasks\n"
    "depend on earlier ones of their group of 30 only."
)


def main() -> None:
    """Print tokens and times for each size."""
    for tasks in SIZES:
        with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
            _measure(Path(name), tasks)
    print(MEANING)


def _measure(root: Path, tasks: int) -> None:
    start = time.perf_counter()
    project = make_ledger_project(root / "project", tasks=tasks)
    indexed = time.perf_counter() - start
    request = CompileRequest(work=measured_task(tasks))
    start = time.perf_counter()
    context = _compiled(project, request)
    first = (time.perf_counter() - start) * 1000
    warm = Figures([_warm_ms(project, request) for _ in range(RUNS)])
    awr = str(Path(sys.executable).with_name("awr"))
    command = [awr, "--json", "--project", str(project.root), "context", "compile", "--work", measured_task(tasks)]
    cold, bare, ratio = paired(
        lambda: process_ms(command), lambda: process_ms([sys.executable, "-c", "pass"]), runs=RUNS
    )
    read_whole = sum(map(TokenCounter(None).count, [*ledger_texts(tasks), rules_text()]))
    # Only the smallest size has a budget of its own.
    budget = "<= 110 ms" if tasks == SIZES[0] else "none"
    print_figures(f"cold, {tasks} tasks", unit="ms", measured=cold, baseline=bare, ratio=ratio, budget=budget)
    print(
        f"{'':<34} warm {warm.median:.1f} ms (p95 {warm.p95:.1f}){', budget <= 15' if tasks == SIZES[0] else ''}; "
        f"first {first:.0f} ms; indexed in {indexed:.1f} s"
    )
    print(
        f"{'':<34} {context.token_estimate} tokens, {context.required_tokens} required; all sources {read_whole}: "
        f"{100 * (1 - context.token_estimate / read_whole):.1f} % less"
    )


def _compiled(project: Project, request: CompileRequest) -> WorkContext:
    result = compile(project, request)
    assert result.ok, "the generated task has everything it needs"
    assert result.work_context is not None, "and is there"
    return result.work_context


def _warm_ms(project: Project, request: CompileRequest) -> float:
    start = time.perf_counter()
    _compiled(project, request)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
