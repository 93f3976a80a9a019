"""The one place where a boundary of a transcript becomes an observation of the compaction contract."""

from __future__ import annotations

from typing import Literal

import msgspec

from awr.domain.compaction import Observation
from awr.hosts.transcript import Boundary, Host
from awr.hosts.window import Window

__all__ = ["NotObservable", "Reason", "observation_of"]

Reason = Literal["row_id_missing", "time_missing", "trigger_unknown", "model_unknown", "measurement_pending"]

_MAX_MODEL_BYTES = 128


class NotObservable(msgspec.Struct, frozen=True):
    """Why a boundary makes no observation. `reason` is stable; nothing was guessed to avoid it."""

    reason: Reason


def observation_of(
    boundary: Boundary, *, host: Host, window: Window, final: bool = False
) -> Observation | NotObservable:
    """Return what the transcript proves about a boundary, in the contract's terms.

    The window enters only when the host or the user stated it; `source` then names where it came from. A boundary
    whose first request is still to come is pending; `final` makes it an observation without a measurement.
    """
    row_id, observed_at, trigger, model = boundary.row_id, boundary.observed_at, boundary.trigger, boundary.model
    if row_id is None:
        return NotObservable("row_id_missing")
    if observed_at is None:
        return NotObservable("time_missing")
    if trigger is None:
        return NotObservable("trigger_unknown")
    if model is None or len(model.encode()) > _MAX_MODEL_BYTES:
        return NotObservable("model_unknown")
    if not boundary.settled and not final:
        return NotObservable("measurement_pending")
    measured = boundary.after is not None
    tokens = window.measured
    return Observation(
        compaction_id=row_id,
        sequence=boundary.sequence,
        observed_at=observed_at,
        trigger=trigger,
        model=model,
        source=f"{host}:{row_id}" if tokens is None else f"{host}:{row_id};window={window.source}",
        measurement_scope="full_request" if measured else "unknown",
        measurement_basis="host_reported" if measured else "unknown",
        before_tokens=None if boundary.before is None else boundary.before.tokens,
        after_tokens=None if boundary.after is None else boundary.after.tokens,
        context_window_tokens=tokens,
        duration_ms=boundary.duration_ms,
    )
