"""What stands before every other advice: a session that is over, an unknown outcome, a user who was asked."""

from __future__ import annotations

from awr.domain.card import Card, inactive_session_card, uncertain_execution_card, waiting_card
from awr.domain.execution import is_uncertain
from awr.domain.session import Session
from awr.journal.checkpoints import open_waits
from awr.journal.executions import executions_of_work
from awr.journal.journal import Reader

__all__ = ["session_guard"]


def session_guard(reader: Reader, session: Session) -> Card | None:
    """Return the card that comes before all others for this session, or None. The first that holds counts."""
    if session.status != "active":
        return inactive_session_card(session.status)
    if session.work_item_id is not None:
        uncertain = sum(is_uncertain(one) for one in executions_of_work(reader.database, session.work_item_id))
        if uncertain:
            return uncertain_execution_card(uncertain)
    if open_waits(reader.database, session.id):
        return waiting_card()
    return None
