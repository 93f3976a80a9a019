"""Where transcripts are, and whose they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.errors import InvalidInput, Unsupported
from awr.hosts.discovery import default_folders, find_transcripts, host_of, read_transcript

Write = Callable[..., Path]


@pytest.mark.parametrize("name", ["foreign-copilot.jsonl", "foreign-opencode.jsonl", "foreign-gemini.jsonl"])
def test_record_of_another_host_is_unsupported(records: Path, name: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        read_transcript(records / name)
    assert set(refusal.value.details) == {"got", "expected", "next_step"}


@pytest.mark.parametrize(
    "row",
    [
        {"uuid": "1", "sessionId": "2", "type": "user", "message": {"role": "user", "parts": [{"text": "hi"}]}},
        {"type": "message", "message": {"role": "user"}},
        {"type": "compacted", "data": {}},
        {"type": 5, "sessionId": "x"},
        {"role": "user", "message": {"content": "hi"}},
    ],
)
def test_row_that_resembles_a_known_host_is_unsupported(write_rows: Write, row: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        host_of(write_rows([row]))


@pytest.mark.parametrize(
    ("row", "host"),
    [
        ({"type": "mode", "mode": "normal", "sessionId": "x"}, "claude-code"),
        ({"type": "summary", "summary": "s", "leafUuid": "x"}, "claude-code"),
        ({"type": "file-history-snapshot", "messageId": "m"}, "claude-code"),
        ({"type": "system", "subtype": "init", "session_id": "x"}, "claude-code"),
        ({"type": "session_meta", "payload": {}}, "codex"),
        ({"type": "compacted", "payload": {"message": ""}}, "codex"),
    ],
)
def test_first_row_of_a_host_tells_it(write_rows: Write, row: dict[str, Any], host: str) -> None:
    assert host_of(write_rows([b"broken", {"type": "odd"}, row])) == host


def test_empty_file_is_invalid_input(write_rows: Write) -> None:
    with pytest.raises(InvalidInput) as refusal:
        host_of(write_rows([]))
    assert refusal.value.details["got"] == "0 bytes"


def test_file_without_an_object_is_invalid_input_and_echoes_nothing(write_rows: Write) -> None:
    with pytest.raises(InvalidInput) as refusal:
        host_of(write_rows([b"password=hunter2", b"\x00\x01"]))
    assert "hunter2" not in json.dumps(refusal.value.report())


def test_stated_host_must_be_the_files_host(records: Path) -> None:
    with pytest.raises(Unsupported) as refusal:
        read_transcript(records / "codex-pre-allow-transcript.jsonl", host="claude-code")
    assert (refusal.value.details["got"], refusal.value.details["expected"]) == ("codex", "claude-code")


def test_default_folders_follow_the_hosts_settings(tmp_path: Path) -> None:
    assert [str(folder) for folder, _ in default_folders({"HOME": "/h"})] == [
        "/h/.claude/projects",
        "/h/.codex/sessions",
        "/h/.codex/archived_sessions",
    ]
    environment = {"HOME": "/h", "CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "CODEX_HOME": str(tmp_path / "x")}
    assert [folder for folder, _ in default_folders(environment, host="claude-code")] == [tmp_path / "c" / "projects"]
    assert default_folders(environment, host="codex")[0] == (tmp_path / "x" / "sessions", "rollout-*.jsonl")


def test_folder_is_searched_below_and_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    for name in ("b/two.jsonl", "a/one.jsonl", "a/other.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)

    found = [path.relative_to(tmp_path).as_posix() for path in find_transcripts(tmp_path)]
    assert found == ["a/one.jsonl", "b/two.jsonl"]
