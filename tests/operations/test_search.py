"""Finding things by their words, in any script, from an index that is never the truth."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from awr.errors import InvalidInput, NotFound, SourceStale
from awr.operations.event import AppendRequest, append
from awr.operations.search import SearchRequest, SearchResult, search
from awr.project import Project
from awr.sources.index import refresh
from tests.support.cli import call, tree
from tests.support.projects import MANIFEST, begin_session, make_project, revision

LEDGER = """\
goals:
  - {id: goal-1, title: Ship the parser, status: active, summary: "A parser that reports errors"}
milestones:
  - {id: m1, title: First parser release}
work_items:
  - {id: parser, title: Write the grammar, status: planned, tags: [syntax]}
  - {id: other, title: Write the parser, status: completed}
  - {id: third, title: Other things, status: planned, summary: "They need the parser too"}
  - {id: cjk, title: 解析器实现v2, status: planned, summary: "日本語のテスト、한국어 문서"}
  - {id: x-1, title: "Naïve café", status: planned}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project", ledger=LEDGER)


def find(project: Project, text: str | None, **options: Any) -> SearchResult:
    return search(project, SearchRequest(text=text, **options))


def keys(project: Project, text: str | None, **options: Any) -> list[str | None]:
    return [hit.external_key for hit in find(project, text, **options).hits]


def test_a_key_weighs_more_than_a_title_and_a_title_more_than_a_summary(project: Project) -> None:
    assert keys(project, "parser", kind="work") == ["parser", "other", "third"]


def test_every_word_must_occur(project: Project) -> None:
    assert keys(project, "parser release") == ["m1"]
    assert keys(project, "parser nowhere") == []


def test_a_hit_says_where_it_comes_from(project: Project) -> None:
    (hit,) = find(project, "grammar").hits
    assert (hit.kind, hit.external_key, hit.title, hit.status) == (
        "work_item",
        "parser",
        "Write the grammar",
        "planned",
    )
    assert (hit.source_ref, hit.source_freshness, hit.origin) == ("work-ledger.yaml:6", "fresh", "source")
    assert (hit.work_item_key, hit.revision) == ("parser", 1)
    assert hit.rank < 0


@pytest.mark.parametrize(
    "text", ["解析", "析器", "器", "解析器", "实现", "v2", "解析器 v2", "解析器实现v2", "テスト", "한국", "語"]
)
def test_chinese_japanese_and_korean_are_found_by_characters_and_pairs(project: Project, text: str) -> None:
    assert keys(project, text) == ["cjk"]


@pytest.mark.parametrize("text", ["解器", "器解", "現実"])
def test_characters_that_do_not_stand_together_are_not_found(project: Project, text: str) -> None:
    assert keys(project, text) == []


def test_case_accents_and_tags_are_found(project: Project) -> None:
    assert keys(project, "NAIVE cafe") == ["x-1"]
    assert keys(project, "syntax") == ["parser"]
    assert keys(project, "x-1") == ["x-1"]


@pytest.mark.parametrize(
    "text", ['"', "parser OR (", "NEAR(parser", "title:parser", "*", "par*", "-", "'; --", "a AND", "\x00"]
)
def test_nothing_in_a_text_is_taken_as_a_query_language(project: Project, text: str) -> None:
    assert keys(project, text) == []


def test_filters_narrow_the_search(project: Project) -> None:
    assert keys(project, "parser", kind="goal") == ["goal-1"]
    assert keys(project, "parser", kind="plan") == ["m1"]
    assert keys(project, "parser", status="completed") == ["other"]
    assert keys(project, "parser", work="third") == ["third"]
    assert keys(project, "parser", kind="decision") == []


def test_without_a_text_the_filters_list(project: Project) -> None:
    assert keys(project, None, kind="work_item") == ["cjk", "other", "parser", "third", "x-1"]
    assert find(project, None, kind="work_item").hits[0].rank == 0


def test_a_limit_says_that_there_is_more(project: Project) -> None:
    result = find(project, "parser", limit=1)
    assert (len(result.hits), result.truncated) == (1, True)
    assert not find(project, "parser", limit=100).truncated


def test_events_are_found_by_their_summary_and_never_by_their_payload(project: Project) -> None:
    append(
        project,
        AppendRequest(
            event_type="note.added",
            summary="Chose the zebra library",
            payload={"detail": "giraffe"},
            work="parser",
            expected_revision=revision(project),
        ),
    )
    (hit,) = find(project, "zebra").hits
    assert (hit.kind, hit.external_key, hit.title, hit.work_item_key) == ("event", None, "note.added", "parser")
    assert (hit.origin, hit.source_ref, hit.source_freshness) == ("runtime", None, None)
    assert keys(project, "giraffe") == []
    cached = b"".join(path.read_bytes() for path in (project.folder / "cache").iterdir())
    assert b"giraffe" not in cached


def test_rules_are_found_by_title_and_by_the_beginning_of_their_text(project: Project) -> None:
    project.manifest_path.write_text(
        MANIFEST + '\n[[sources]]\ndomain = "rules"\npath = "RULES.md"\nadapter = "markdown-rules-v1"\n'
    )
    (project.root / "RULES.md").write_text("## Zebra rule {#z}\n\n" + "Giraffe. " * 40 + "\nElephant.\n")
    assert keys(project, "zebra giraffe", kind="rule") == ["RULES.md#z"]
    assert keys(project, "elephant") == []
    assert len(find(project, "zebra").hits[0].summary or "") == 280


def test_an_edit_an_event_and_a_removal_are_found_at_once(project: Project) -> None:
    assert keys(project, "zebra") == []
    path = project.root / "work-ledger.yaml"
    path.write_text(path.read_text().replace("Write the grammar", "Write the zebra"))
    assert keys(project, "zebra", kind="work") == ["parser"]
    assert keys(project, "grammar", kind="work") == []
    path.write_text("work_items: []\n")
    assert keys(project, "zebra", kind="work") == []
    begin_session(project, work=None)
    assert [hit.title for hit in find(project, "started", kind="event").hits] == ["session.started"]


def test_a_search_costs_no_revision_and_an_unchanged_index_is_not_written(project: Project) -> None:
    find(project, "parser")
    before, at = tree(project.root), revision(project)
    find(project, "parser")
    assert (tree(project.root), revision(project)) == (before, at)


@pytest.mark.parametrize("damage", [b"", b"not a database", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_or_foreign_index_is_made_anew(project: Project, damage: bytes) -> None:
    find(project, "parser")
    path = project.folder / "cache" / "search.db"
    path.write_bytes(damage)
    assert keys(project, "grammar") == ["parser"]


def test_an_index_of_another_journal_is_not_believed(project: Project, tmp_path: Path) -> None:
    other = make_project(tmp_path / "other", ledger=LEDGER.replace("grammar", "zebra"))
    find(other, "zebra")
    (project.folder / "cache").mkdir()
    (project.folder / "cache" / "search.db").write_bytes((other.folder / "cache" / "search.db").read_bytes())
    assert keys(project, "zebra") == []
    assert keys(project, "grammar") == ["parser"]


def test_a_folder_that_cannot_be_written_is_searched_all_the_same(project: Project, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project.folder / "cache").symlink_to(elsewhere)
    assert keys(project, "grammar") == ["parser"]
    assert list(elsewhere.iterdir()) == []
    (project.folder / "cache").unlink()
    (project.folder / "cache").write_text("a file")
    assert keys(project, "grammar") == ["parser"]


def test_the_cache_is_ignored_by_version_control(project: Project) -> None:
    find(project, "parser")
    assert (project.folder / "cache" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("text", ["", "  ", "x" * 501])
def test_a_blank_or_too_long_text_is_refused(project: Project, text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        find(project, text)
    assert "xxx" not in str(raised.value.report())
    assert find(project, "x" * 500).hits == ()


def test_an_unknown_work_item_is_not_found(project: Project) -> None:
    with pytest.raises(NotFound):
        find(project, "parser", work="zebra")


def test_a_stale_source_is_an_error_and_a_cached_answer_says_so(project: Project) -> None:
    (project.root / "work-ledger.yaml").write_text("work_items: [")
    with pytest.raises(SourceStale):
        find(project, "grammar")
    (hit,) = find(project, "grammar", cached=True).hits
    assert hit.source_freshness == "stale"


def test_thousands_of_work_items_are_indexed_once_and_then_found_fast(tmp_path: Path) -> None:
    ledger = "work_items:\n" + "".join(
        f"  - {{id: t{n}, title: Task {n} of many, status: planned, summary: Words about number {n}}}\n"
        for n in range(3000)
    )
    project = make_project(tmp_path / "many", ledger=ledger)
    refresh(project)
    find(project, "1234", cached=True)
    started = time.perf_counter()
    assert keys(project, "2345", cached=True) == ["t2345"]
    assert time.perf_counter() - started < 0.5


def test_a_person_reads_hits_with_their_place(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    shown = call(capsys, "--project", project.root, "search", "grammar", "--kind", "work")
    assert shown.code == 0
    assert "work_item  parser  [planned]" in shown.out
    assert "work-ledger.yaml:6" in shown.out
    assert "Nothing was found." in call(capsys, "--project", project.root, "search", "nowhere").out
