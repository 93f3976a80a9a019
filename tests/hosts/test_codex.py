"""Rules of Codex's rollouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from awr.hosts.codex import read_transcript
from awr.hosts.transcript import Thread

Write = Callable[..., Path]


def row(kind: str, second: int = 0, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-11-30T20:00:{second:02}.000Z", "type": kind, "payload": payload}


def tokens(value: int, total: int | None = None) -> dict[str, int]:
    return {"input_tokens": value, "cached_input_tokens": 0, "output_tokens": 20, "total_tokens": total or value + 20}


def count(value: int, running: int, window: int | None = 95_000, estimate: int | None = None) -> dict[str, Any]:
    info = {"total_token_usage": tokens(running), "last_token_usage": tokens(value, estimate)}
    return row("event_msg", type="token_count", info={**info, "model_context_window": window})


def record(response: str, value: int, running: int) -> dict[str, Any]:
    return row("token_usage_record", response_id=response, usage=tokens(value), thread_token_usage=tokens(running))


def compacted(second: int = 30, **payload: Any) -> dict[str, Any]:
    return row("compacted", second, message="a summary", **payload)


META = row("session_meta", id="t-1", cwd="/home/dev/demo")


def only(path: Path) -> Thread:
    (thread,) = read_transcript(path).threads
    return thread


def test_record_and_its_late_count_are_one_request(write_rows: Write) -> None:
    rows = [META, record("r1", 100, 100), record("r2", 200, 300), count(100, 100), count(200, 300), count(200, 300)]

    assert only(write_rows(rows)).footprint.peaks == (100, 200)


def test_count_before_its_record_is_one_request(write_rows: Write) -> None:
    assert only(write_rows([META, count(100, 100), record("r1", 100, 100)])).requests == 1


def test_count_is_its_records_repetition_also_when_their_running_sums_differ(write_rows: Write) -> None:
    assert only(write_rows([META, record("r1", 100, 100), count(100, 900)])).requests == 1


def test_counts_alone_are_requests_once_for_each_total(write_rows: Write) -> None:
    rows = [META, count(100, 100), count(100, 100), count(100, 200), count(0, 200, estimate=70)]

    assert only(write_rows(rows)).footprint.peaks == (100, 100)


def test_provider_with_one_id_for_all_responses_still_gives_every_request(write_rows: Write) -> None:
    rows = [META, record("same", 100, 100), record("same", 150, 250), record("same", 150, 250)]

    assert only(write_rows(rows)).footprint.peaks == (100, 150)


def test_summarizers_call_is_neither_a_request_nor_before_nor_after(write_rows: Write) -> None:
    rows = [
        META,
        record("r1", 85_000, 85_000),
        record("sum", 90_000, 175_000),
        count(90_000, 175_000),
        compacted(compaction_response_id="sum"),
        record("sum", 90_000, 175_000),
        record("r2", 21_000, 196_000),
    ]

    thread = only(write_rows(rows))
    (found,) = thread.boundaries
    assert (found.before and found.before.tokens, found.after and found.after.tokens) == (85_000, 21_000)
    assert found.host_claims == {"summarizer_input_tokens": 90_000}
    assert thread.requests == 2


def test_summarizers_call_right_behind_a_boundary_is_not_its_after(write_rows: Write) -> None:
    rows = [
        META,
        record("r1", 85_000, 85_000),
        compacted(30, compaction_response_id="none"),
        record("sum", 21_500, 106_500),
        compacted(40, compaction_response_id="sum"),
        record("r2", 9_000, 115_500),
    ]

    first, second = only(write_rows(rows)).boundaries
    assert (first.after, second.before) == (None, None)
    assert second.after is not None
    assert second.after.tokens == 9_000
    assert second.requests_since_previous == 0


def test_summarizers_record_behind_its_boundary_is_not_the_after(write_rows: Write) -> None:
    rows = [META, compacted(compaction_response_id="sum"), record("sum", 90_000, 90_000), record("r1", 9_000, 99_000)]

    (found,) = only(write_rows(rows)).boundaries
    assert found.after is not None
    assert found.after.tokens == 9_000


def test_summarizers_call_is_known_also_when_its_count_comes_first(write_rows: Write) -> None:
    rows = [
        META,
        record("r1", 80, 80),
        count(90, 170),
        record("sum", 90, 170),
        compacted(compaction_response_id="sum"),
    ]

    (found,) = only(write_rows(rows)).boundaries
    assert found.before is not None
    assert found.before.tokens == 80


def test_rows_behind_the_first_request_say_nothing_about_the_boundary(write_rows: Write) -> None:
    item = {"type": "ContextCompaction"}
    late = row("event_msg", type="item_completed", item=item, started_at_ms=1000, completed_at_ms=1250)
    rows = [META, count(100, 100), compacted(), count(40, 140), count(50, 190), count(0, 190, estimate=70), late]

    (found,) = only(write_rows(rows)).boundaries
    assert (found.duration_ms, found.host_after_tokens, found.host_claims) == (None, None, {})


def test_subagents_session_is_the_one_its_meta_row_names(write_rows: Write) -> None:
    meta = row("session_meta", id="t-3", session_id="root", parent_thread_id="t-2")

    assert only(write_rows([meta])).session_id == "root"


def test_summarizers_tokens_come_from_the_boundary_when_its_record_is_missing(write_rows: Write) -> None:
    latest = {"response_id": "sum", "usage": tokens(90_000)}
    rows = [META, compacted(compaction_response_id="sum", latest_token_usage_record=latest)]

    assert only(write_rows(rows)).boundaries[0].host_claims == {"summarizer_input_tokens": 90_000}


def test_estimate_behind_the_boundary_is_the_hosts_claim_and_no_measurement(write_rows: Write) -> None:
    rows = [META, count(100, 100), count(0, 100, estimate=900), compacted(), count(0, 100, estimate=70)]

    (found,) = only(write_rows(rows)).boundaries
    assert (found.after, found.host_after_tokens) == (None, 70)
    assert found.host_claims == {"estimate_total_tokens": 70}


def test_other_rows_about_the_same_compaction_are_no_boundaries(write_rows: Write) -> None:
    item = {"type": "ContextCompaction"}
    rows = [
        META,
        count(100, 100),
        compacted(),
        row("event_msg", type="context_compacted"),
        row("event_msg", type="item_completed", item=item, started_at_ms=1000, completed_at_ms=1250),
    ]

    (found,) = only(write_rows(rows)).boundaries
    assert found.duration_ms == 250


def test_trigger_is_unknown_and_window_is_the_one_of_that_time(write_rows: Write) -> None:
    rows = [
        META,
        count(100, 100, 95_000),
        compacted(30),
        count(50, 150, 258_400),
        compacted(40),
    ]

    first, second = only(write_rows(rows)).boundaries
    assert (first.trigger, first.window_tokens, second.window_tokens) == (None, 95_000, 258_400)


def test_window_first_told_behind_the_boundary_is_its_window(write_rows: Write) -> None:
    rows = [META, compacted(), row("event_msg", type="task_started", model_context_window=95_000)]

    assert only(write_rows(rows)).boundaries[0].window_tokens == 95_000


def test_fork_keeps_its_own_id_when_its_parents_meta_row_follows(write_rows: Write) -> None:
    rows = [META, row("session_meta", id="t-0", cwd="/elsewhere"), count(100, 100)]

    thread = only(write_rows(rows))
    assert (thread.session_id, thread.cwd) == ("t-1", "/home/dev/demo")


def test_subagent_named_by_its_source_is_a_subagent(write_rows: Write) -> None:
    meta = row("session_meta", id="t-2", session_id="t-1", source={"subagent": "review"})

    thread = only(write_rows([meta, count(100, 100)]))
    assert (thread.agent, thread.session_id) == ("t-2", "t-1")


def test_copied_boundary_is_counted_as_a_copy(write_rows: Write) -> None:
    rows = [META, count(100, 100), compacted(), count(50, 150), count(100, 100), compacted(), count(50, 150)]
    transcript = read_transcript(write_rows(rows))

    assert (len(transcript.threads[0].boundaries), transcript.copied_boundaries) == (1, 1)
    assert transcript.threads[0].requests == 2


def test_boundary_without_session_or_response_id_has_no_id(write_rows: Write) -> None:
    assert only(write_rows([compacted()])).boundaries[0].row_id is None


def test_rollout_named_by_its_session_belongs_to_it(write_rows: Write) -> None:
    session = "01a22e22-0951-7f03-94d3-b937e1daaeee"
    path = write_rows([count(100, 100)], name=f"rollout-2026-11-30T20-25-12-{session}.jsonl")

    assert only(path).session_id == session


def test_model_is_the_one_of_the_turn(write_rows: Write) -> None:
    rows = [
        META,
        row("turn_context", model="gpt-5"),
        count(100, 100),
        compacted(),
        row("turn_context", model="gpt-6"),
    ]

    thread = only(write_rows([*rows, count(50, 150)]))
    (found,) = thread.boundaries
    assert (found.before and found.before.model, found.model, thread.model) == ("gpt-5", "gpt-6", "gpt-6")
