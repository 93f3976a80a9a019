"""Rules of Claude Code's transcripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from awr.hosts.claude_code import read_transcript
from awr.hosts.transcript import Thread

Write = Callable[..., Path]
SECRET = "the words of a person"


def answer(identity: str, tokens: int, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": tokens - 10, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}
    message = {"id": identity, "model": "claude-opus-4-8", "content": SECRET, "usage": usage}
    return {
        "type": "assistant",
        "uuid": f"u-{identity}",
        "sessionId": "s-1",
        "timestamp": "2026-11-30T20:00:00.000Z",
        "message": {**message, **fields.pop("message", {})},
        **fields,
    }


def boundary(uuid: str | None, pre: int = 90_000, **fields: Any) -> dict[str, Any]:
    row = {
        "type": "system",
        "subtype": "compact_boundary",
        "timestamp": "2026-11-30T20:10:00.000Z",
        "compactMetadata": {"trigger": "auto", "preTokens": pre, "postTokens": 600},
        **fields,
    }
    return row if uuid is None else {"uuid": uuid, **row}


def only(path: Path) -> Thread:
    (thread,) = read_transcript(path).threads
    return thread


def test_rows_of_one_response_count_as_one_request(write_rows: Write) -> None:
    thread = only(write_rows([answer("m1", 100), answer("m1", 100, uuid="u-2"), answer("m2", 200)]))

    assert thread.requests == 2
    assert thread.footprint.peaks == (100, 200)


def test_response_without_message_id_is_told_by_its_request_id(write_rows: Write) -> None:
    rows = [answer("x", 100, requestId="r1", uuid=uuid, message={"id": None}) for uuid in ("a", "b")]

    assert only(write_rows(rows)).requests == 1


@pytest.mark.parametrize(
    "row",
    [
        answer("zero", 10, message={"usage": {"input_tokens": 0, "output_tokens": 0}}),
        answer("synthetic", 500, message={"model": "<synthetic>"}),
        answer("error", 500, isApiErrorMessage=True),
        answer("no-input", 500, message={"usage": {"cache_read_input_tokens": 5}}),
        answer("negative", 500, message={"usage": {"input_tokens": -5}}),
        answer("text", 500, message={"usage": {"input_tokens": "many"}}),
        answer("null", 500, message={"usage": None}),
        {"type": "assistant", "message": "not an object"},
        {"type": "result", "usage": {"input_tokens": 900}, "session_id": "s-1"},
        {"type": "user", "message": {}, "toolUseResult": {"usage": {"input_tokens": 900}}},
    ],
)
def test_row_that_is_no_provider_request_is_never_the_measurement(write_rows: Write, row: dict[str, Any]) -> None:
    thread = only(write_rows([answer("m1", 90_000), boundary("b1"), row, answer("m2", 20_000)]))

    (found,) = thread.boundaries
    assert found.after is not None
    assert (found.after.tokens, found.after.row) == (20_000, 4)
    assert thread.requests == 2


def test_usage_without_cache_fields_is_a_full_request(write_rows: Write) -> None:
    thread = only(write_rows([answer("m1", 0, message={"usage": {"input_tokens": 4321}})]))

    assert thread.footprint.peaks == (4321,)


def test_microcompact_boundary_is_no_compaction(write_rows: Write) -> None:
    rows = [answer("m1", 100), boundary("b1", subtype="microcompact_boundary"), answer("m2", 90)]

    assert only(write_rows(rows)).boundaries == ()


def test_order_is_file_position_and_not_time(write_rows: Write) -> None:
    rows = [
        answer("m1", 100, timestamp="2026-11-30T23:00:00.000Z"),
        boundary("b1", timestamp="2026-11-30T22:00:00.000Z"),
        answer("m2", 50, timestamp="2026-11-30T21:00:00.000Z"),
    ]

    (found,) = only(write_rows(rows)).boundaries
    assert (found.before and found.before.tokens, found.after and found.after.tokens) == (100, 50)


def test_nothing_is_measured_across_another_boundary(write_rows: Write) -> None:
    rows = [answer("m1", 100), boundary("b1"), boundary("b2", 80_000), answer("m2", 50)]

    first, second = only(write_rows(rows)).boundaries
    assert (first.before and first.before.tokens, first.after, first.settled) == (100, None, True)
    assert (second.before, second.after and second.after.tokens) == (None, 50)
    assert second.requests_since_previous == 0


def test_boundary_at_the_end_of_the_file_is_not_settled(write_rows: Write) -> None:
    (found,) = only(write_rows([answer("m1", 100), boundary("b1")])).boundaries

    assert (found.after, found.settled, found.model) == (None, False, "claude-opus-4-8")


def test_boundary_row_written_again_is_counted_as_a_copy(write_rows: Write) -> None:
    rows = [answer("m1", 100), boundary("b1"), answer("m2", 50), answer("m1", 100), boundary("b1"), answer("m3", 60)]
    transcript = read_transcript(write_rows(rows))

    assert [found.row for found in transcript.threads[0].boundaries] == [2]
    assert transcript.copied_boundaries == 1
    assert transcript.threads[0].requests == 3


def test_history_written_again_before_a_second_compaction_is_not_its_before(write_rows: Write) -> None:
    rows = [answer("m1", 90_000), boundary("b1"), answer("m2", 20_000), answer("m3", 70_000)]
    again = [answer("m1", 90_000), boundary("b1"), answer("m2", 20_000)]

    _, second = only(write_rows([*rows, *again, boundary("b2", 70_500)])).boundaries
    assert (second.before and second.before.tokens, second.before and second.before.row) == (70_000, 4)
    assert second.requests_since_previous == 2


def test_forked_history_counts_nowhere_and_still_is_what_the_context_held(write_rows: Write) -> None:
    fork: dict[str, Any] = {"forkedFrom": {"sessionId": "s-0", "messageUuid": "x"}}
    rows = [answer("m1", 100, **fork), boundary("b1", **fork), answer("m2", 50, **fork)]
    transcript = read_transcript(write_rows([*rows, boundary("b2", 60), answer("m3", 30)]))

    (found,) = transcript.threads[0].boundaries
    assert (found.row_id, found.sequence, found.requests_since_previous) == ("b2", 1, None)
    assert (found.before and found.before.tokens, found.after and found.after.tokens) == (50, 30)
    assert (transcript.threads[0].requests, transcript.copied_boundaries) == (1, 1)


def test_nothing_is_measured_across_a_forked_boundary(write_rows: Write) -> None:
    fork: dict[str, Any] = {"forkedFrom": {"sessionId": "s-0", "messageUuid": "x"}}
    rows = [answer("m1", 100, **fork), boundary("b1", **fork), boundary("b2", 60)]

    (found,) = only(write_rows(rows)).boundaries
    assert (found.row_id, found.before) == ("b2", None)


def test_forked_failure_is_not_this_sessions(write_rows: Write) -> None:
    failure = {"type": "system", "subtype": "status", "compact_result": "failed", "uuid": "f", "forkedFrom": {}}

    assert only(write_rows([failure, boundary("b1")])).boundaries[0].failed_attempts == 0


def test_boundaries_of_a_transcript_without_requests_tell_no_distance(write_rows: Write) -> None:
    _, second = only(write_rows([boundary("b1"), boundary("b2")])).boundaries

    assert second.requests_since_previous is None


def test_stream_boundary_of_another_compaction_is_a_second_one(write_rows: Write) -> None:
    def stream(uuid: str, trigger: str) -> dict[str, Any]:
        metadata = {"trigger": trigger, "pre_tokens": 90_000, "post_tokens": 600}
        return {"type": "system", "subtype": "compact_boundary", "uuid": uuid, "compact_metadata": metadata}

    for rows in ([stream("first", "auto"), stream("second", "auto")], [stream("second", "manual")]):
        thread = only(write_rows([boundary("first"), *rows]))
        assert [found.row_id for found in thread.boundaries] == ["first", "second"]


def test_boundary_in_both_spellings_is_one_with_the_facts_of_both(write_rows: Write) -> None:
    stream = {
        "type": "system",
        "subtype": "compact_boundary",
        "session_id": "s-1",
        "uuid": "from-stream",
        "compact_metadata": {"trigger": "auto", "pre_tokens": 90_000, "post_tokens": 600},
    }
    for rows in ([boundary(None), stream], [stream, boundary(None)]):
        transcript = read_transcript(write_rows(rows))
        (found,) = transcript.threads[0].boundaries
        assert (found.row, found.row_id, found.observed_at) == (1, "from-stream", 1796069400000)
        assert transcript.copied_boundaries == 0


def test_two_compactions_with_equal_numbers_in_one_spelling_stay_two(write_rows: Write) -> None:
    assert len(only(write_rows([boundary("b1"), boundary("b2")])).boundaries) == 2


def test_trigger_of_another_word_is_unknown(write_rows: Write) -> None:
    (found,) = only(write_rows([boundary("b1", compactMetadata={"trigger": "sometimes"})])).boundaries

    assert (found.trigger, found.host_claims, found.host_before_tokens) == (None, {}, None)


def test_subagent_rows_in_the_same_file_are_a_thread_of_their_own(write_rows: Write) -> None:
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    rows = [
        answer("m1", 30_000),
        answer("s1", 120_000, **side),
        boundary("b1", **side),
        answer("m2", 31_000),
        answer("s2", 15_000, **side),
        answer("t1", 9_000, isSidechain=True),
        answer("p1", 8_000, parent_tool_use_id="toolu_1"),
        answer("a2", 7_000, agentId="a2"),
    ]

    threads = {thread.agent: thread for thread in read_transcript(write_rows(rows)).threads}
    assert {agent: thread.requests for agent, thread in threads.items()} == {
        "main": 2,
        "a1": 2,
        "sidechain": 1,
        "toolu_1": 1,
        "a2": 1,
    }
    (found,) = threads["a1"].boundaries
    assert (found.before and found.before.tokens, found.after and found.after.tokens) == (120_000, 15_000)
    assert threads["main"].boundaries == ()


def test_subagents_own_file_gives_its_agent_and_its_session(write_rows: Write) -> None:
    session = "b98f3e47-f041-42cd-952a-73bd8ec3d70e"
    rows = [answer("s1", 5, sessionId=None), boundary("b1")]
    path = write_rows(rows, name=f"{session}/subagents/agent-abc123.jsonl")

    thread = only(path)
    assert (thread.agent, thread.session_id) == ("abc123", session)


def test_summarizers_own_file_holds_no_thread(write_rows: Write) -> None:
    assert read_transcript(write_rows([answer("s1", 500)], name="agent-acompact-1.jsonl")).threads == ()


def test_file_named_by_its_session_belongs_to_it(write_rows: Write) -> None:
    name = "c6759264-6827-414c-9b94-30059905dcb1"

    assert only(write_rows([answer("m1", 100)], name=f"{name}.jsonl")).session_id == name


@pytest.mark.parametrize(
    "row",
    [
        {"type": "system", "subtype": "status", "status": None, "compact_result": "failed", "uuid": "f"},
        {
            "type": "system",
            "subtype": "local_command",
            "content": "Error: Error during compaction: busy",
            "uuid": "f",
        },
        {
            "type": "system",
            "subtype": "local_command",
            "content": "<local-command-stderr>Compaction blocked by PreCompact hook: [x]: no",
            "uuid": "f",
        },
        answer(
            "stop",
            0,
            uuid="f",
            isApiErrorMessage=True,
            message={"model": "<synthetic>", "content": [{"text": "Autocompact is thrashing: the context"}]},
        ),
    ],
)
def test_failed_attempt_counts_once_for_the_next_boundary(write_rows: Write, row: dict[str, Any]) -> None:
    thread = only(write_rows([answer("m1", 100), row, row, boundary("b1"), answer("m2", 50), boundary("b2", 70)]))

    assert [found.failed_attempts for found in thread.boundaries] == [1, 0]


@pytest.mark.parametrize(
    "row",
    [
        {"type": "system", "subtype": "status", "status": "compacting", "uuid": "f"},
        {"type": "system", "subtype": "status", "status": None, "compact_result": "success", "uuid": "f"},
        {
            "type": "system",
            "subtype": "local_command",
            "content": "<command-name>/compact</command-name> Error during compaction",
            "uuid": "f",
        },
        {"type": "user", "message": {"content": "Error during compaction"}, "uuid": "f"},
    ],
)
def test_row_that_only_resembles_a_failure_is_none(write_rows: Write, row: dict[str, Any]) -> None:
    thread = only(write_rows([answer("m1", 100), row, boundary("b1")]))

    assert thread.boundaries[0].failed_attempts == 0


def test_text_in_the_place_of_an_id_or_model_is_no_fact(write_rows: Write) -> None:
    rows = [answer("m1", 100, message={"model": "line\nbreak"}), boundary("x" * 300), answer("m2", 50)]

    (found,) = only(write_rows(rows)).boundaries
    assert found.row_id is None
    assert found.before is not None
    assert found.before.model is None


def test_result_and_snapshot_hold_no_text_of_the_rows(write_rows: Write) -> None:
    rows = [answer("m1", 100), boundary("b1", content=SECRET), answer("m2", 50)]
    rows += [{"type": "user", "message": {"content": SECRET}, "sessionId": "s-1"}]
    transcript = read_transcript(write_rows(rows))

    assert SECRET not in repr(transcript.threads)
    assert SECRET.encode() not in transcript.snapshot
    assert b"words of" not in transcript.snapshot
