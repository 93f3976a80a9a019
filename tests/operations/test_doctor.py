"""The doctor changes nothing, names each fault once, and its repair commands repair."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from awr.journal.database import Database
from awr.journal.migrations import SCHEMA_VERSION
from awr.operations.doctor import DoctorRequest, DoctorResult, Finding, doctor
from awr.operations.session import EndRequest, StartRequest, end, start
from awr.project import Project
from awr.sources.index import refresh
from tests.support.cli import call, tree
from tests.support.projects import Clock, begin_session, make_project, revision


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return make_project(tmp_path / "project", clock=clock)


def look(project: Project, *, database_only: bool = False) -> DoctorResult:
    return doctor(project, DoctorRequest(database_only=database_only))


def codes(project: Project) -> list[str]:
    return [finding.code for finding in look(project).findings]


def only(project: Project) -> Finding:
    (finding,) = look(project).findings
    return finding


def corrupt(project: Project, *statements: str) -> None:
    database = Database(project.journal.path, mode="write", schema_version=SCHEMA_VERSION)
    for statement in statements:
        database.execute(statement)
    database.close()


def unfinished(project: Project, session: str) -> str:
    with project.journal.write() as writer:
        return writer.append(
            "checkpoint.started",
            {"save_schema": 1, "base_project_revision": writer.project_revision, "draft": {}},
            summary="Checkpoint started",
            session_id=session,
        ).id


def test_a_sound_project_has_no_findings_and_nothing_is_changed(project: Project) -> None:
    before = tree(project.root)
    result = look(project)
    assert (result.ok, result.findings, result.schema_issues, result.project_revision) == (True, (), (), 2)
    assert result.problem() is None
    assert tree(project.root) == before


def test_an_expired_claim_is_found_and_its_repair_named(project: Project, clock: Clock) -> None:
    request = StartRequest(
        agent="a", provider="p", model="m", work="parse", claim=True, ttl_ms=10, expected_revision=2
    )
    started = start(project, request)
    assert codes(project) == []
    clock.now += 10
    finding = only(project)
    assert (finding.code, finding.severity) == ("claim_expired", "notice")
    assert started.claim is not None
    assert finding.reference == started.claim.id
    assert finding.repair == (
        f"awr doctor repair expire-claim {finding.reference} --expected-revision {revision(project)} --reason TEXT"
    )


def test_an_unfinished_checkpoint_is_found(project: Project) -> None:
    attempt = unfinished(project, begin_session(project))
    finding = only(project)
    assert (finding.code, finding.reference) == ("checkpoint_unfinished", attempt)
    assert "abandon-checkpoint" in str(finding.repair)


def test_an_active_session_of_work_that_is_gone_is_found(project: Project) -> None:
    session = begin_session(project)
    (project.root / "work-ledger.yaml").write_text("work_items: []\n")
    refresh(project)
    finding = only(project)
    assert (finding.code, finding.reference) == ("session_work_retired", session)
    end(project, EndRequest(session=session, expected_revision=revision(project)))
    assert codes(project) == []


def test_a_changed_and_a_missing_source_are_found_without_parsing_them(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    path.write_text("work_items: [")
    finding = only(project)
    assert (finding.code, finding.reference, finding.repair) == (
        *("source_stale", "work-ledger.yaml"),
        "awr source reindex",
    )
    path.unlink()
    assert codes(project) == ["source_unavailable"]
    assert look(project, database_only=True).findings == ()
    assert revision(project) == 2


def test_a_broken_manifest_is_a_fault(project: Project) -> None:
    project.manifest_path.write_text("[project")
    finding = only(project)
    assert (finding.code, finding.severity) == ("manifest_unusable", "fault")


def test_a_changed_event_is_a_fault_and_the_guards_are_named(project: Project) -> None:
    corrupt(project, "DROP TRIGGER events_refuse_update", "UPDATE events SET summary = 'zebra' WHERE position = 2")
    result = look(project)
    assert not result.ok
    assert [finding.code for finding in result.findings] == ["journal_broken", "guard_missing", "schema_changed"]
    assert result.schema_issues == ("trigger events_refuse_update is missing",)
    problem = result.problem()
    assert problem is not None
    assert "zebra" not in str(result) + str(problem.report())


def test_foreign_changed_and_missing_definitions_are_schema_issues(project: Project) -> None:
    corrupt(
        project,
        "CREATE TABLE zebra (x)",
        "DROP INDEX claims_by_session",
        "ALTER TABLE waits ADD COLUMN more TEXT",
    )
    result = look(project)
    assert result.schema_issues == (
        "index claims_by_session is missing",
        "table waits is not as this program made it",
        "1 tables, indexes, views or triggers are not this program's",
    )
    assert "zebra" not in str(result)


@pytest.mark.parametrize("data", [b"", b"no database", b"SQLite format 3\x00" + b"\xff" * 9000])
def test_a_database_that_cannot_be_read_is_a_finding(project: Project, data: bytes) -> None:
    for path in project.folder.glob("state.db?*"):
        path.unlink()
    project.journal.path.write_bytes(data)
    result = look(project)
    assert (result.ok, result.project_revision) == (False, None)
    assert result.findings[0].code == "database_unusable"


def test_files_and_folders_that_a_killed_writer_left_are_found(project: Project) -> None:
    proposal = "01M8Q9C8XGVNVXVKHS4CVFP3ZG"
    names = [
        *(".awr/.project.toml.abc", f".awr/restoring-{proposal}", f".awr/state.db.{proposal}"),
        f".work-ledger.yaml.{proposal}",
    ]
    for name in names:
        (project.root / name).write_text("x")
    (project.root / ".work-ledger.yaml.swp").write_text("an editor's")
    found = look(project).findings
    assert {finding.code for finding in found} == {"file_left_behind"}
    assert sorted(str(finding.reference) for finding in found) == names
    for finding in found:
        words = shlex.split(str(finding.repair))
        assert words[:3] == ["rm", "-r", "--"]
        (project.root / words[3]).unlink()
    assert codes(project) == []


def test_permissions_that_let_others_write_are_found(project: Project) -> None:
    project.journal.path.chmod(0o666)
    project.folder.chmod(0o775)
    found = look(project).findings
    assert [(finding.code, finding.repair) for finding in found] == [
        ("permissions_loose", "chmod go-w .awr"),
        ("permissions_loose", "chmod go-w .awr/state.db"),
    ]
    project.journal.path.chmod(0o644)
    project.folder.chmod(0o755)
    assert codes(project) == []


def test_notices_leave_the_exit_code_alone_and_a_fault_does_not(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = call(capsys, "--project", project.root, "doctor")
    assert (sound.code, "Nothing is wrong" in sound.out) == (0, True)
    (project.root / "work-ledger.yaml").unlink()
    notice = call(capsys, "--project", project.root, "doctor")
    assert (notice.code, "notice: source_unavailable work-ledger.yaml" in notice.out) == (0, True)
    corrupt(project, "DROP TRIGGER events_refuse_delete")
    fault = call(capsys, "--project", project.root, "doctor")
    assert fault.code == 1
    assert "fault: guard_missing" in fault.out
    assert "error: Storage" in fault.err
