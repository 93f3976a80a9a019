"""Bringing a project up to date with its files: what costs a revision, what keeps its id, what stays stale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.errors import AwrError, InvalidInput, NotFound, RevisionConflict, SourceStale
from awr.journal.events import Event, events_in_order
from awr.journal.sources import EntityRow, SourceRow, entity, live_sources, source_at
from awr.project import Project
from awr.sources import index
from awr.sources.contents import Contents
from awr.sources.index import RefreshReport, refresh, refreshed_write, scan
from awr.sources.ledger import Ledger
from awr.sources.manifest import SourceMapping
from tests.support.projects import LEDGER, MANIFEST, make_project, revision

SECRET = "sk-ant-0123456789abcdefghij"
SECOND = """
[[sources]]
domain = "ledger"
role = "supporting"
path = "second.yaml"
adapter = "yaml-ledger-v1"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


def ledger(project: Project) -> Path:
    return project.root / "work-ledger.yaml"


def edit(project: Project, old: str, new: str) -> None:
    text = ledger(project).read_text()
    assert old in text
    ledger(project).write_text(text.replace(old, new))


def add_second(project: Project, text: str) -> None:
    (project.root / "second.yaml").write_text(text)
    project.manifest_path.write_text(MANIFEST + SECOND)


def work(project: Project, key: str) -> EntityRow:
    with project.journal.read() as reader:
        found = entity(reader.database, kind="work_item", external_key=key)
    assert found is not None
    return found


def title(project: Project, key: str) -> str | None:
    with project.journal.read() as reader:
        item = Contents(reader).work_item(key)
    return item.title if item else None


def source(project: Project, locator: str = "work-ledger.yaml") -> SourceRow:
    with project.journal.read() as reader:
        found = source_at(reader.database, domain="ledger", locator=locator)
    assert found is not None
    return found


def events(project: Project, *, after: int) -> list[Event]:
    with project.journal.read() as reader:
        return [event for event, _ in events_in_order(reader.database) if event.project_revision > after]


def changes(project: Project, *, after: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for event in events(project, after=after):
        listed: Any = event.content()["changes"]
        found.update({change["external_key"]: change["action"] for change in listed})
    return found


def actions(report: RefreshReport) -> dict[str, str]:
    return {outcome.locator: outcome.action for outcome in report.sources}


# What costs a revision


def test_indexing_again_what_is_unchanged_costs_no_revision(project: Project) -> None:
    report = refresh(project)
    assert (report.ok, report.project_revision, report.unchanged, report.indexed) == (True, 2, 1, 0)
    assert report.change_window == {"after_revision": 2, "through_revision": 2}
    assert (report.projection_complete, report.issues) == (True, ())
    assert revision(project) == 2


def test_a_file_that_was_only_touched_costs_no_revision(project: Project) -> None:
    ledger(project).write_bytes(ledger(project).read_bytes())
    refresh(project)
    assert revision(project) == 2


def test_an_edit_costs_one_revision_and_says_what_changed(project: Project) -> None:
    edit(project, "title: Parse input", "title: Parse all input")
    report = refresh(project)
    assert (report.ok, report.indexed, report.project_revision) == (True, 1, 3)
    assert report.change_window == {"after_revision": 2, "through_revision": 3}
    (event,) = events(project, after=2)
    content = event.content()
    assert event.event_type == "source.projected"
    assert set(content) == {
        *("source_id", "change_schema", "before", "after", "changes", "freshness", "fingerprint"),
        *("source_revision", "warnings"),
    }
    assert content["changes"] == [
        {
            "kind": "work_item",
            "id": work(project, "parse").id,
            "external_key": "parse",
            "action": "changed",
            "before_revision": 1,
            "after_revision": 2,
        }
    ]
    assert (content["change_schema"], content["source_revision"], content["freshness"]) == (1, 2, "fresh")
    assert title(project, "parse") == "Parse all input"


def test_a_forced_parse_of_the_same_bytes_changes_no_entity(project: Project) -> None:
    before = work(project, "parse")
    report = refresh(project, force=True)
    assert (report.indexed, report.project_revision) == (1, 3)
    assert changes(project, after=2) == {}
    assert work(project, "parse") == before
    assert source(project).source_revision == 2


def test_lines_that_move_are_no_change_of_what_stands_on_them(project: Project) -> None:
    ledger(project).write_text("# a comment\n\n" + ledger(project).read_text())
    before = work(project, "parse")
    assert refresh(project).project_revision == 3
    assert changes(project, after=2) == {}
    assert work(project, "parse") == before
    with project.journal.read() as reader:
        item = Contents(reader).work_item("parse")
    assert item is not None
    assert "id: parse" in ledger(project).read_text().splitlines()[item.line - 1]


def test_several_files_that_changed_are_one_revision(project: Project) -> None:
    add_second(project, "work_items:\n  - id: other\n    title: Other\n    status: planned\n")
    edit(project, "title: Parse input", "title: Parse it")
    report = refresh(project)
    assert (report.indexed, report.project_revision) == (2, 3)
    assert changes(project, after=2) == {"parse": "changed", "other": "added"}
    assert title(project, "other") == "Other"


# Ids that last


def test_what_goes_and_comes_back_keeps_its_id(project: Project) -> None:
    before = work(project, "release")
    ledger(project).write_text(LEDGER.partition("  - id: release")[0])
    refresh(project)
    gone = work(project, "release")
    assert (gone.id, gone.retired, gone.revision) == (before.id, 1, 2)
    assert title(project, "release") is None
    assert changes(project, after=2) == {"release": "retired"}
    ledger(project).write_text(LEDGER)
    refresh(project)
    back = work(project, "release")
    assert (back.id, back.retired, back.revision) == (before.id, 0, 3)
    assert title(project, "release") == "Release"
    assert changes(project, after=3) == {"release": "added"}


def test_a_source_that_leaves_the_manifest_retires_and_keeps_its_id_when_it_returns(project: Project) -> None:
    add_second(project, "work_items:\n  - id: other\n    title: Other\n    status: planned\n")
    refresh(project)
    known, item = source(project, "second.yaml"), work(project, "other")
    project.manifest_path.write_text(MANIFEST)
    report = refresh(project)
    assert (report.ok, report.retired, report.project_revision) == (True, 1, 4)
    assert actions(report) == {"work-ledger.yaml": "unchanged", "second.yaml": "retired"}
    assert source(project, "second.yaml").retired == 1
    assert title(project, "other") is None
    assert refresh(project).project_revision == 4
    project.manifest_path.write_text(MANIFEST + SECOND)
    refresh(project)
    assert (source(project, "second.yaml").id, source(project, "second.yaml").retired) == (known.id, 0)
    assert (work(project, "other").id, title(project, "other")) == (item.id, "Other")


@pytest.mark.parametrize("upward", [False, True], ids=["to the later source", "to the earlier source"])
def test_work_that_moves_to_another_source_in_one_edit_keeps_its_id(project: Project, upward: bool) -> None:
    release = "  - id: release\n    title: Release\n    status: completed\n"
    rest = LEDGER.replace(release, "")
    other = "work_items:\n  - id: other\n    title: Other\n    status: planned\n"
    add_second(project, other + (release if upward else ""))
    ledger(project).write_text(rest if upward else LEDGER)
    assert refresh(project).ok
    before = work(project, "release")
    (project.root / "second.yaml").write_text(other + ("" if upward else release))
    ledger(project).write_text(LEDGER if upward else rest)
    report = refresh(project)
    assert report.ok, report.issues
    after = work(project, "release")
    assert (after.id, after.retired) == (before.id, 0)
    assert after.source_id == source(project, "work-ledger.yaml" if upward else "second.yaml").id
    assert title(project, "release") == "Release"


def test_new_options_of_a_mapping_are_recorded_and_parsed_anew(project: Project) -> None:
    edit(project, "status: completed", "status: shipped")
    refresh(project)
    mapped = MANIFEST + '\n[sources.options.status_map]\nshipped = "completed"\n'
    project.manifest_path.write_text(mapped)
    report = refresh(project)
    assert (report.indexed, report.project_revision) == (1, 4)
    assert [event.event_type for event in events(project, after=3)] == ["source.configured", "source.projected"]
    assert changes(project, after=3) == {"release": "changed"}


# What cannot be parsed


def test_a_key_in_two_sources_is_a_conflict_and_keeps_the_old_facts(project: Project) -> None:
    add_second(project, "work_items:\n  - id: other\n    title: Other\n    status: planned\n")
    refresh(project)
    (project.root / "second.yaml").write_text("work_items:\n  - id: parse\n    title: Mine\n    status: planned\n")
    report = refresh(project)
    assert (report.ok, actions(report)["second.yaml"]) == (False, "failed")
    (issue,) = report.issues
    assert (issue.code, issue.mapping) == ("SourceConflict", "ledger:second.yaml")
    assert (title(project, "parse"), title(project, "other")) == ("Parse input", "Other")
    assert source(project, "second.yaml").freshness == "stale"
    assert source(project).freshness == "fresh"


def test_a_new_source_whose_key_is_taken_is_registered_and_not_fresh(project: Project) -> None:
    add_second(project, LEDGER)
    report = refresh(project)
    assert [issue.code for issue in report.issues] == ["SourceConflict"]
    assert source(project, "second.yaml").fingerprint is None
    assert source(project, "second.yaml").freshness == "stale"
    assert title(project, "parse") == "Parse input"


def test_a_broken_file_keeps_the_old_facts_and_is_fresh_again_once_it_is_corrected(project: Project) -> None:
    good = ledger(project).read_text()
    ledger(project).write_text(good + f"  - id: [{SECRET}\n")
    report = refresh(project)
    assert (report.ok, report.projection_complete, report.project_revision) == (False, False, 3)
    (issue,) = report.issues
    assert actions(report) == {"work-ledger.yaml": "failed"}
    assert issue.code in {"InvalidInput", "RuleViolation"}
    assert SECRET not in str(report)
    assert (title(project, "parse"), source(project).freshness) == ("Parse input", "stale")
    assert [event.event_type for event in events(project, after=2)] == ["source.freshness_changed"]
    again = refresh(project)
    assert (again.project_revision, again.ok, len(again.issues)) == (3, False, 1)
    ledger(project).write_text(good)
    assert refresh(project).project_revision == 4
    assert source(project).freshness == "fresh"
    assert changes(project, after=3) == {}


def test_an_issue_has_the_place_and_the_repair_and_no_content(project: Project) -> None:
    ledger(project).write_text("work_items:\n  - id: a\n    required: zq-marker\n")
    (issue,) = refresh(project).issues
    assert issue.location is not None
    assert (issue.location["line"], issue.location["column"]) == (3, 15)
    assert issue.location["pointer"] == "/work_items/0/required"
    assert issue.next_step
    assert "zq-marker" not in str(issue)


def test_a_deleted_file_is_unavailable_and_keeps_its_facts(project: Project) -> None:
    ledger(project).unlink()
    report = refresh(project)
    assert (report.ok, actions(report)) == (False, {"work-ledger.yaml": "unavailable"})
    assert [issue.code for issue in report.issues] == ["SourceUnavailable"]
    assert (title(project, "parse"), source(project).freshness) == ("Parse input", "unavailable")
    ledger(project).write_text(LEDGER)
    assert refresh(project).ok
    assert source(project).freshness == "fresh"


def test_a_file_that_is_still_missing_is_said_again_and_costs_nothing(project: Project) -> None:
    ledger(project).unlink()
    first = refresh(project)
    again = refresh(project)
    assert (again.ok, again.project_revision) == (False, first.project_revision)
    assert [issue.code for issue in again.issues] == ["SourceUnavailable"]
    assert actions(again) == {"work-ledger.yaml": "unavailable"}


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _huge(path: Path) -> None:
    path.write_bytes(b"#" * (4 * 1024 * 1024 + 1))


@pytest.mark.parametrize("replace", [_link, _folder, _huge])
def test_a_link_a_folder_or_a_huge_file_in_a_sources_place_is_not_read(
    project: Project, replace: Callable[[Path], None]
) -> None:
    replace(ledger(project))
    report = refresh(project)
    assert not report.ok
    assert len(report.issues) == 1
    assert source(project).freshness == "unavailable"
    assert title(project, "parse") == "Parse input"


def test_a_file_of_exactly_four_mebibytes_is_read(project: Project) -> None:
    filler = 4 * 1024 * 1024 - len(LEDGER) - 2
    ledger(project).write_text(LEDGER + "#" + "x" * filler + "\n")
    assert refresh(project).ok


def test_a_file_that_changes_while_it_is_parsed_is_a_conflict(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real parser, with an editor that saves while it runs."""
    edit(project, "title: Parse input", "title: First")
    parse = index.parse_mapping

    def parse_while_edited(mapping: SourceMapping, data: bytes) -> Ledger:
        found = parse(mapping, data)
        edit(project, "title: First", "title: Second")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(index, "parse_mapping", parse_while_edited)
        report = refresh(project)
    assert [issue.code for issue in report.issues] == ["SourceConflict"]
    assert title(project, "parse") == "Parse input"
    assert source(project).freshness == "stale"
    assert refresh(project).ok
    assert title(project, "parse") == "Second"


@pytest.mark.parametrize("text", ["", "[project", "[project]\nname = 'x'\n"])
def test_a_broken_manifest_is_refused_and_nothing_is_written(project: Project, text: str) -> None:
    project.manifest_path.write_text(text)
    for act in (refresh, scan):
        with pytest.raises(InvalidInput):
            act(project)
    assert revision(project) == 2


def test_a_missing_manifest_is_not_found(project: Project) -> None:
    project.manifest_path.unlink()
    with pytest.raises(NotFound):
        refresh(project)


# Scanning


def test_a_scan_of_what_is_unchanged_costs_no_revision(project: Project) -> None:
    report = scan(project)
    assert (report.ok, report.project_revision, report.unchanged) == (True, 2, 1)


def test_a_scan_marks_a_changed_file_stale_without_parsing_it(project: Project) -> None:
    edit(project, "title: Parse input", "title: [broken")
    report = scan(project)
    assert (report.ok, report.pending, report.project_revision) == (False, 1, 3)
    assert actions(report) == {"work-ledger.yaml": "pending"}
    assert report.issues == ()
    assert [event.event_type for event in events(project, after=2)] == ["source.freshness_changed"]
    assert title(project, "parse") == "Parse input"
    assert scan(project).project_revision == 3


def test_equal_bytes_do_not_promote_a_source_that_was_found_stale(project: Project) -> None:
    edit(project, "title: Parse input", "title: Other")
    scan(project)
    ledger(project).write_text(LEDGER)
    report = scan(project)
    assert (report.ok, actions(report)) == (False, {"work-ledger.yaml": "pending"})
    assert source(project).freshness == "stale"
    assert refresh(project).ok
    assert source(project).freshness == "fresh"


def test_a_scan_finds_a_missing_file_each_time_and_records_it_once(project: Project) -> None:
    ledger(project).unlink()
    for _ in range(2):
        report = scan(project)
        assert (report.ok, report.project_revision) == (False, 3)
        assert [issue.code for issue in report.issues] == ["SourceUnavailable"]
        assert actions(report) == {"work-ledger.yaml": "unavailable"}
    ledger(project).write_text(LEDGER)
    assert actions(scan(project)) == {"work-ledger.yaml": "pending"}
    assert source(project).freshness == "unavailable"


def test_a_scan_lists_a_mapping_that_was_never_indexed_as_pending(project: Project) -> None:
    add_second(project, LEDGER)
    report = scan(project)
    assert (report.ok, report.pending, report.projection_complete) == (False, 1, False)
    assert report.sources[-1].source_id is None
    assert revision(project) == 2


# Writing on fresh sources


def append_note(project: Project, *, expected_revision: int | None) -> int:
    with refreshed_write(project, expected_revision=expected_revision) as writer:
        writer.append("note.added", {}, summary="note")
        return writer.project_revision


def test_a_refreshed_write_is_one_revision_when_nothing_changed(project: Project) -> None:
    assert append_note(project, expected_revision=2) == 3


def test_a_refreshed_write_conflicts_before_it_looks_at_the_files(project: Project) -> None:
    ledger(project).unlink()
    with pytest.raises(RevisionConflict):
        append_note(project, expected_revision=1)
    assert revision(project) == 2


@pytest.mark.parametrize("expected", [2, None])
def test_a_refreshed_write_conflicts_with_what_the_refresh_found(project: Project, expected: int | None) -> None:
    edit(project, "title: Parse input", "title: Other")
    with pytest.raises(RevisionConflict) as caught:
        append_note(project, expected_revision=expected)
    assert (caught.value.details["expected"], caught.value.details["actual"]) == (2, 3)
    assert [event.event_type for event in events(project, after=2)] == ["source.projected"]


@pytest.mark.parametrize("again", [False, True])
def test_a_refreshed_write_needs_every_source_and_names_the_one_that_is_not(project: Project, again: bool) -> None:
    ledger(project).unlink()
    if again:
        refresh(project)
    with pytest.raises(SourceStale) as caught:
        append_note(project, expected_revision=revision(project))
    assert "work-ledger.yaml" in str(caught.value.report())
    assert events(project, after=2)[-1].event_type == "source.freshness_changed"


def test_a_failing_block_of_a_refreshed_write_leaves_the_revision_alone(project: Project) -> None:
    with pytest.raises(AwrError), refreshed_write(project, expected_revision=2) as writer:
        writer.append("note.added", {}, summary="note")
        raise InvalidInput("no")
    assert revision(project) == 2
    with project.journal.read() as reader:
        assert len(live_sources(reader.database)) == 1


RULES = """
[[sources]]
domain = "rules"
path = "RULES.md"
adapter = "markdown-rules-v1"

[[sources]]
domain = "goal"
path = "GOALS.md"
adapter = "markdown-heading-v1"

[[sources]]
domain = "plan"
path = "PLAN.md"
adapter = "markdown-heading-v1"
"""


def add_markdown(project: Project) -> None:
    (project.root / "RULES.md").write_text(
        "## Green {#green severity=hard scope=project value=*}\nAlways.\n\n## Nice\n"
    )
    (project.root / "GOALS.md").write_text("## Ship {#ship status=active}\n")
    (project.root / "PLAN.md").write_text("## First {#first}\n")
    project.manifest_path.write_text(MANIFEST + RULES)


def test_markdown_sources_become_rules_goals_and_plans(project: Project) -> None:
    add_markdown(project)
    report = refresh(project)
    assert report.ok
    assert report.indexed == 3
    with project.journal.read() as reader:
        contents = Contents(reader)
        assert [(rule.external_key, rule.line, rule.text) for rule in contents.rules()] == [
            ("RULES.md#green", 1, "Always."),
            ("RULES.md#nice", 4, ""),
        ]
        assert {goal.external_key for goal in contents.goals()} == {"goal-1", "GOALS.md#ship"}
        assert [(plan.external_key, plan.kind) for plan in contents.plans()] == [("PLAN.md#first", "plan")]
        identity = contents.identity("rule", "RULES.md#green")
        assert identity is not None
        assert identity.revision == 1
    assert refresh(project).indexed == 0


def test_a_changed_rule_keeps_its_id_and_a_removed_one_has_none(project: Project) -> None:
    add_markdown(project)
    refresh(project)
    with project.journal.read() as reader:
        before = Contents(reader).identity("rule", "RULES.md#green")
    (project.root / "RULES.md").write_text("\n## Green {#green severity=soft scope=project value=*}\nAlways.\n")
    refresh(project)
    with project.journal.read() as reader:
        after = Contents(reader).identity("rule", "RULES.md#green")
        assert Contents(reader).identity("rule", "RULES.md#nice") is None
    assert before is not None
    assert after is not None
    assert (after.id, after.revision) == (before.id, before.revision + 1)


def test_markdown_that_breaks_keeps_the_old_rules_and_is_stale(project: Project) -> None:
    add_markdown(project)
    refresh(project)
    (project.root / "RULES.md").write_text("## Green {#green severity=zebra}\n")
    report = refresh(project)
    assert [(issue.code, issue.locator) for issue in report.issues] == [("InvalidInput", "RULES.md")]
    with project.journal.read() as reader:
        assert [rule.severity for rule in Contents(reader).rules()] == ["hard", None]
        assert {row.locator for row in live_sources(reader.database) if row.freshness == "stale"} == {"RULES.md"}
