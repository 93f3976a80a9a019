"""Every record of a real host gives its known values, also when the file around the boundaries is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from awr.hosts.discovery import host_of, read_transcript
from awr.hosts.transcript import Boundary, Transcript

FOLDER = Path(__file__).parent.parent / "fixtures" / "hosts"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
NAMES = sorted(EXPECTED)
TRIGGERS = {"auto": "automatic", "manual": "manual", None: None}

#: A variant is the lines of the new file, and for each line of the old file the row number it now has.
Variant = tuple[list[bytes], list[int]]


def lines_of(name: str) -> list[bytes]:
    return (FOLDER / name).read_bytes().splitlines()


def boundaries(transcript: Transcript) -> list[Boundary]:
    return [boundary for thread in transcript.threads for boundary in thread.boundaries]


def assert_as_expected(name: str, transcript: Transcript, *, row_of: list[int]) -> None:
    wanted = EXPECTED[name]["boundaries"]
    found = boundaries(transcript)
    assert len(found) == len(wanted)
    for boundary, value in zip(found, wanted, strict=True):
        assert boundary.row == row_of[value["row"] - 1]
        assert boundary.trigger == TRIGGERS[value["trigger"]]
        assert boundary.host_claims == value["host_claims"]
        for request, side in ((boundary.before, "before"), (boundary.after, "after")):
            if value[f"{side}_tokens"] is None:
                assert request is None
            else:
                assert request is not None
                assert request.tokens == value[f"{side}_tokens"]
                assert request.row == row_of[value[f"{side}_row"] - 1]
        if EXPECTED[name]["window"] is not None:
            assert boundary.window_tokens == EXPECTED[name]["window"]


def unchanged(lines: list[bytes]) -> Variant:
    return lines, list(range(1, len(lines) + 1))


def with_half_last_line(lines: list[bytes]) -> Variant:
    return [*lines, lines[0][: len(lines[0]) // 2]], list(range(1, len(lines) + 1))


def with_bad_bytes(lines: list[bytes]) -> Variant:
    bad = b'{"type":"note","text":"\xff\xfe\x80"}'
    return [bad, b"\xff\xfe\x00\x01", *lines, bad], list(range(3, len(lines) + 3))


def with_carriage_returns(lines: list[bytes]) -> Variant:
    return [line + b"\r" for line in lines], list(range(1, len(lines) + 1))


def with_every_row_twice(lines: list[bytes]) -> Variant:
    return [line for line in lines for _ in range(2)], [2 * index + 1 for index in range(len(lines))]


def with_unknown_rows(lines: list[bytes]) -> Variant:
    unknown = b'{"type":"never-seen","payload":{"type":"odd","n":1},"usage":{"input_tokens":5}}'
    other = b"[1,2,3]"
    return [part for line in lines for part in (unknown, line, other)], [3 * index + 2 for index in range(len(lines))]


def with_all_rows_copied_behind(lines: list[bytes]) -> Variant:
    return lines + lines, list(range(1, len(lines) + 1))


def with_byte_order_mark(lines: list[bytes]) -> Variant:
    return [b"\xef\xbb\xbf" + lines[0], *lines[1:]], list(range(1, len(lines) + 1))


def with_damaged_text_in_rows(lines: list[bytes]) -> Variant:
    """Add a field with invalid UTF-8, a raw control character and NaN to every row, so that none decodes strictly."""
    return [line[:-1] + b',"zz":"\xff\x01","n":NaN}' for line in lines], list(range(1, len(lines) + 1))


VARIANTS = [
    unchanged,
    with_half_last_line,
    with_bad_bytes,
    with_carriage_returns,
    with_every_row_twice,
    with_unknown_rows,
    with_all_rows_copied_behind,
    with_byte_order_mark,
    with_damaged_text_in_rows,
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda function: function.__name__)
def test_record_in_any_state_gives_the_same_boundaries(name: str, variant: Any, tmp_path: Path) -> None:
    lines, row_of = variant(lines_of(name))
    path = tmp_path / name
    path.write_bytes(b"\n".join(lines) + (b"" if variant is with_half_last_line else b"\n"))

    assert host_of(path) == EXPECTED[name]["host"]
    assert_as_expected(name, read_transcript(path), row_of=row_of)


@pytest.mark.parametrize("name", NAMES)
def test_record_with_other_whitespace_and_key_order_gives_the_same_boundaries(name: str, tmp_path: Path) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(part) for key, part in reversed(value.items())}
        return [turned(part) for part in value] if isinstance(value, list) else value

    lines = [json.dumps(turned(json.loads(line)), separators=(" ,  ", " :\t")).encode() for line in lines_of(name)]
    path = tmp_path / name
    path.write_bytes(b"".join(line + b"\n" for line in lines))

    assert_as_expected(name, read_transcript(path), row_of=list(range(1, len(lines) + 1)))


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("claude-manual-allow-transcript.jsonl", 3),
        ("claude-auto-allow-transcript.jsonl", 4),
        ("claude-statusline-transcript.jsonl", 4),
        ("codex-pre-allow-transcript.jsonl", 4),
        ("codex-man-allow-transcript.jsonl", 3),
        ("codex-mid-allow-transcript.jsonl", 4),
        ("public-codex-real-0.104-remote-compaction.jsonl", 2),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda function: function.__name__)
def test_record_in_any_state_counts_each_response_once(
    name: str, requests: int, variant: Any, tmp_path: Path
) -> None:
    lines, _ = variant(lines_of(name))
    path = tmp_path / name
    path.write_bytes(b"\n".join(lines) + b"\n")

    assert [thread.requests for thread in read_transcript(path).threads] == [requests]


def test_captured_sessions_give_their_ids_models_and_folders(records: Path) -> None:
    claude = read_transcript(records / "claude-auto-allow-transcript.jsonl").threads[0]
    codex = read_transcript(records / "codex-pre-allow-transcript.jsonl").threads[0]

    assert (claude.session_id, claude.agent, claude.model, claude.cwd) == (
        "241e02f6-502b-4398-b95d-f77c99f4361f",
        "main",
        "claude-opus-4-8",
        "/home/dev/demo",
    )
    assert claude.boundaries[0].row_id == "297e1334-3132-4f4e-b0ec-31b053825a96"
    assert claude.boundaries[0].duration_ms == 73
    assert (codex.session_id, codex.agent, codex.model) == (
        "01a22e22-0951-7f03-94d3-b937e1daaeee",
        "main",
        "stub-model",
    )
    assert codex.boundaries[0].row_id == "resp_stub_00003"
    assert codex.boundaries[0].duration_ms == 73
    assert codex.boundaries[0].host_after_tokens == 6063
    assert codex.boundaries[0].host_before_tokens is None


def test_second_boundary_counts_the_requests_since_the_first(records: Path) -> None:
    first, second = read_transcript(records / "claude-statusline-transcript.jsonl").threads[0].boundaries

    assert (first.sequence, first.requests_since_previous) == (1, None)
    assert (second.sequence, second.requests_since_previous) == (2, 1)
    assert (first.observed_at, second.observed_at) == (1796070440957, 1796070449561)


def test_denied_manual_compaction_is_no_boundary(records: Path) -> None:
    thread = read_transcript(records / "claude-manual-block-transcript.jsonl").threads[0]

    assert thread.boundaries == ()
    assert thread.footprint.peaks == (60000, 70000, 70000)


def test_stream_reports_the_denied_compaction_as_a_failed_attempt(records: Path) -> None:
    thread = read_transcript(records / "claude-stream-compaction.jsonl").threads[0]

    assert [boundary.failed_attempts for boundary in thread.boundaries] == [0]
    assert thread.failed_after_last == 1


def test_sidechain_boundary_belongs_to_the_subagent(records: Path) -> None:
    transcript = read_transcript(records / "public-claude-subagent-sidechain.jsonl")

    assert [thread.agent for thread in transcript.threads] == ["a2223d9"]


def test_subagent_rollout_is_the_subagents_thread_of_its_parents_session(records: Path) -> None:
    thread = read_transcript(records / "public-codex-subagent-session_meta.jsonl").threads[0]

    assert (thread.agent, thread.session_id) == ("00000000-thread", "00000000-0000-7000-8000-00000000c146")


def test_older_codex_boundary_is_located_by_session_and_time(records: Path) -> None:
    thread = read_transcript(records / "public-codex-real-0.104-remote-compaction.jsonl").threads[0]

    assert thread.boundaries[0].row_id == "00000000-0000-7000-8000-00000000c0de@2026-02-24T09:51:48.878Z"
