"""Put on record what a host's transcript proves, and list what it does not prove, row by row."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec

from awr.domain.card import Card
from awr.domain.compaction import DEFAULT_POLICY, Observation, Policy, State, validate_observation, validate_policy
from awr.domain.secrets import refuse_secrets
from awr.domain.session import Session
from awr.errors import InvalidInput, NotFound
from awr.hosts.discovery import read_transcript
from awr.hosts.observation import NotObservable, observation_of
from awr.hosts.transcript import Boundary, Host, Thread, Transcript
from awr.hosts.window import WindowSources
from awr.journal.compactions import latest_observations, recorded_observation
from awr.journal.journal import Writer
from awr.operations.compaction import assess_session, record_observation, work_bound_session
from awr.operations.fields import OptionalRevision, SessionId, described
from awr.project import Project

__all__ = ["ImportRequest", "ImportResult", "ImportedCompaction", "import_transcript"]

Outcome = Literal["recorded", "already_recorded", "out_of_order", "skipped"]


class ImportRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    session: SessionId
    transcript: Annotated[str, described("The host's transcript file.")]
    host: Annotated[
        Literal["auto", "claude-code", "codex"], described("Which host wrote it; auto tells by its rows.")
    ] = "auto"
    window: (
        Annotated[
            int,
            msgspec.Meta(ge=1, le=1_000_000_000, description="The tokens by which the host compacts, stated by you."),
        ]
        | None
    ) = None
    threshold: (
        Annotated[int, msgspec.Meta(ge=1, le=100, description="The policy's threshold in percent; 50 if left out.")]
        | None
    ) = None
    final: Annotated[
        bool, described("Also record a last compaction that no request followed; its measurement stays unknown.")
    ] = False
    expected_revision: OptionalRevision = None


class ImportedCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one boundary. `differences` gives, by field, what is recorded and what the transcript says."""

    agent: str
    row: int
    sequence: int
    compaction_id: str | None
    outcome: Outcome
    reason: str | None = None
    event_id: str | None = None
    differences: dict[str, dict[str, object]] = {}


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every boundary with its outcome, then where the session stands."""

    ok: Literal[True] = True
    version: Literal[1] = 1
    read_only: Literal[False] = False
    project_revision: int
    project_id: str
    freshness_basis: Literal["runtime_records_only"] = "runtime_records_only"
    session: str
    host: Host
    recorded: int
    compactions: tuple[ImportedCompaction, ...]
    state: State
    observation_event_id: str | None
    post_compaction_percent: float | None
    guidance: Card


def import_transcript(project: Project, request: ImportRequest) -> ImportResult:
    """Record a transcript's compactions as one commit. A subagent's are listed and never recorded here.

    Raise what reading a transcript and recording an observation raise.
    """
    policy = Policy(request.threshold) if request.threshold else DEFAULT_POLICY
    validate_policy(policy)
    transcript = read_transcript(request.transcript, host=None if request.host == "auto" else request.host)
    if not any(thread.boundaries for thread in transcript.threads):
        raise NotFound(
            "the transcript records no compaction",
            expected="at least one compaction",
            next_step="import it again after the session has compacted",
        )
    with project.journal.write() as writer:
        session = work_bound_session(writer, request.session)
        outcomes = tuple(_outcomes(writer, session, transcript, request=request, policy=policy))
        assessed = assess_session(writer, session, read_only=False)
        return ImportResult(
            project_revision=writer.project_revision,
            project_id=writer.project_id,
            session=session.id,
            host=transcript.host,
            recorded=sum(one.outcome == "recorded" for one in outcomes),
            compactions=outcomes,
            state=assessed.state,
            observation_event_id=assessed.observation_event_id,
            post_compaction_percent=assessed.post_compaction_percent,
            guidance=assessed.guidance,
        )


def _outcomes(
    writer: Writer, session: Session, transcript: Transcript, *, request: ImportRequest, policy: Policy
) -> list[ImportedCompaction]:
    windows = WindowSources(os.environ, user_tokens=request.window)
    found = []
    for thread in transcript.threads:
        for boundary in thread.boundaries:
            if thread.agent == "main":
                observation = _observation(thread, boundary, windows=windows, final=request.final)
                outcome = _recorded(writer, session, observation, request=request, policy=policy)
            else:
                outcome = ("skipped", "subagent", None, {})
            found.append(_imported(thread, boundary, *outcome))
    return found


def _observation(
    thread: Thread, boundary: Boundary, *, windows: WindowSources, final: bool
) -> Observation | NotObservable:
    window = windows.window(
        thread.host, row_tokens=boundary.window_tokens, cwd=thread.cwd, model=boundary.model or thread.model
    )
    return observation_of(boundary, host=thread.host, window=window, final=final)


_Outcome = tuple[Outcome, str | None, str | None, dict[str, dict[str, object]]]


def _recorded(
    writer: Writer,
    session: Session,
    observation: Observation | NotObservable,
    *,
    request: ImportRequest,
    policy: Policy,
) -> _Outcome:
    if isinstance(observation, NotObservable):
        return "skipped", observation.reason, None, {}
    recorded = recorded_observation(writer.database, session.id, observation.compaction_id)
    if recorded is not None:
        differences = _differences(recorded.observation, observation)
        if request.threshold is not None and recorded.policy != policy:
            differences["policy"] = {
                "recorded": recorded.policy.post_compaction_threshold_percent,
                "transcript": request.threshold,
            }
        return "already_recorded", None, recorded.event_id, differences
    try:
        refuse_secrets(msgspec.to_builtins(observation), what="the observation")
        validate_observation(observation, now=writer.now)
    except InvalidInput as error:
        return "skipped", f"out_of_bounds: {error.what}", None, {}
    latest = next(iter(latest_observations(writer.database, session.id)), None)
    if latest and not _follows(observation, latest.observation):
        return "out_of_order", "a later compaction is recorded", None, {}
    event_id, _ = record_observation(
        writer, session, observation, policy=policy, expected_revision=request.expected_revision
    )
    return "recorded", None, event_id, {}


def _follows(observation: Observation, latest: Observation) -> bool:
    return observation.sequence > latest.sequence and observation.observed_at >= latest.observed_at


def _differences(recorded: Observation, read: Observation) -> dict[str, dict[str, object]]:
    return {
        name: {"recorded": getattr(recorded, name), "transcript": getattr(read, name)}
        for name in Observation.__struct_fields__
        if getattr(recorded, name) != getattr(read, name)
    }


def _imported(
    thread: Thread,
    boundary: Boundary,
    outcome: Outcome,
    reason: str | None,
    event_id: str | None,
    differences: dict[str, dict[str, object]],
) -> ImportedCompaction:
    return ImportedCompaction(
        agent=thread.agent,
        row=boundary.row,
        sequence=boundary.sequence,
        compaction_id=boundary.row_id,
        outcome=outcome,
        reason=reason,
        event_id=event_id,
        differences=differences,
    )
