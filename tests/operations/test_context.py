"""Compiling from the command line: what it prints, what it writes, and what it never loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from awr.project import Project
from tests.support.cli import call, tree
from tests.support.contexts import make_context_project, write_source
from tests.support.projects import begin_session, revision


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_context_project(tmp_path / "p")


def test_a_complete_context_is_one_json_object_and_exit_code_zero(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    value = call(capsys, "--json", "--project", project.root, "context", "compile", "--work", "parse").value()
    assert (value["ok"], value["level"], value["project_revision"]) == (True, "L1", revision(project))
    assert "error" not in value
    assert value["work_context"]["tokenizer"] == "o200k_base"
    assert value["completeness"]["status"] == "CONTEXT COMPLETE"


def test_an_incomplete_context_is_printed_and_ends_with_an_error(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    write_source(project, "work-ledger.yaml", "    next_action: Write the grammar\n", "")
    outcome = call(capsys, "--json", "--project", project.root, "context", "compile", "--work", "parse")
    assert outcome.code == 1
    assert '"ok":false' in outcome.out
    assert '"rendered_context":"Project demo' in outcome.out
    assert '"code":"ContextIncomplete"' in outcome.out
    assert '"code":"ContextIncomplete"' in outcome.err
    assert "work_state_incomplete" in outcome.err


def test_a_budget_that_is_too_small_says_what_is_needed(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--json", "--project", project.root, "context", "compile", "--work", "parse", "--budget", "50")
    details = call(capsys, *words).error("BudgetExceeded")["details"]
    assert details["budget"] == 50
    assert details["required"] > 50


def test_paths_that_are_not_given_are_unknown_and_not_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_context_project(tmp_path / "p")
    write_source(project, "work-ledger.yaml", "    paths: [src/grammar/rules.py]\n", "")
    words = ("--json", "--project", project.root, "context", "compile", "--work", "parse")
    assert call(capsys, *words).code == 1
    value = call(capsys, *words, "--path", "README.md", "--path", "src/grammar/x.py").value()
    assert "Ask before the grammar changes" in value["work_context"]["rendered_context"]


def test_a_person_sees_the_text_its_cost_and_what_is_missing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = call(capsys, "--project", project.root, "context", "compile", "--work", "parse")
    assert "## Current Work\n" in whole.out
    assert "of 5000 (o200k_base)" in whole.out
    assert whole.out.rstrip().endswith("CONTEXT COMPLETE")
    missing = call(capsys, "--project", project.root, "context", "compile", "--work", "nowhere")
    assert missing.code == 1
    assert "work_item_not_found (nowhere)" in missing.out
    small = call(capsys, "--project", project.root, "context", "compile", "--work", "parse", "--budget", "800")
    assert "left out whole, for lack of room: " in small.out


def test_a_session_starts_from_the_command_line(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    session = begin_session(project)
    value = call(capsys, "--json", "--project", project.root, "context", "bootstrap", "--session", session).value()
    assert (value["level"], value["token_budget"]) == ("L0", 1000)
    outcome = call(capsys, "--project", project.root, "context", "bootstrap", "--cached")
    assert "source_refresh_missing" in outcome.out
    assert "Compile L1 before execution" in outcome.out


def test_a_restart_is_estimated_from_the_command_line(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    session = begin_session(project)
    words = ("session", "restart-estimate", "--session", session, "--fixed-tokens", "1", "--fixed-basis", "measured")
    value = call(capsys, "--json", "--project", project.root, *words).value()
    assert value["fixed_instructions"] == {"tokens": 1, "basis": "measured", "reason": None}
    assert (value["total"], value["smaller"]) == (None, None)


def test_compiling_moves_no_revision_and_writes_only_its_cache(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    before, at = tree(project.root), revision(project)
    call(capsys, "--json", "--project", project.root, "context", "compile", "--work", "parse").value()
    after = tree(project.root)
    assert revision(project) == at
    assert {path for path in after if after[path] != before.get(path)} <= {
        ".awr/cache",
        ".awr/cache/.gitignore",
        ".awr/cache/o200k-counts",
    }


def test_a_second_compile_in_a_fresh_process_never_imports_the_tokenizer_even_after_a_write(project: Project) -> None:
    script = (
        "import sys\n"
        "from awr.surfaces.cli.app import run\n"
        f"code = run(['--json', '--project', {str(project.root)!r}, 'context', 'compile', '--work', 'parse'])\n"
        "print(code, 'quicktok' in sys.modules, file=sys.stderr)\n"
    )

    def compile_once() -> list[str]:
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        return done.stderr.split()

    assert compile_once() == ["0", "True"]
    assert compile_once() == ["0", "False"]
    begin_session(project, work="other")
    assert compile_once() == ["0", "False"]


def test_an_edit_of_the_ledger_is_seen_by_the_next_compile(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--json", "--project", project.root, "context", "compile", "--work", "parse")
    before = call(capsys, *words).value()["work_context"]["content_hash"]
    write_source(project, "work-ledger.yaml", "Write the grammar", "Write the tests")
    after = call(capsys, *words).value()["work_context"]
    assert "Next action: Write the tests" in after["rendered_context"]
    assert after["content_hash"] != before
