"""The schema, built in small named steps. Each step and its record are one transaction with the others."""

from __future__ import annotations

from collections.abc import Callable

from awr.journal.database import Database

__all__ = ["ACS_GUARDS", "GUARDS", "SCHEMA_VERSION", "migrate"]

Step = Callable[[Database], None]

#: The triggers that keep events as they are. INSERT OR REPLACE deletes without firing a delete trigger, unless the
#: connection asks for it, so it has a guard of its own.
GUARDS = {
    "events_refuse_update": "CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
    "events_refuse_delete": "CREATE TRIGGER events_refuse_delete BEFORE DELETE ON events "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
    "events_refuse_replace": "CREATE TRIGGER events_refuse_replace BEFORE INSERT ON events "
    "WHEN EXISTS (SELECT 1 FROM events WHERE position = NEW.position) "
    "OR EXISTS (SELECT 1 FROM events WHERE id = NEW.id) "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
}

_ACS_TABLES = (
    *("acs_entries", "acs_contents", "acs_provenance", "acs_archives"),
    *("acs_seen", "acs_subagents", "acs_folds", "acs_folded", "acs_endorsements", "acs_decisions"),
)
_ACS_REFUSAL = "BEGIN SELECT RAISE(ABORT, 'an ACS chain is append-only'); END"

#: The triggers that keep ACS chains as they are. A content may only leave for an archive.
ACS_GUARDS = {
    **{
        f"{table}_refuse_update": f"CREATE TRIGGER {table}_refuse_update BEFORE UPDATE ON {table} {_ACS_REFUSAL}"
        for table in _ACS_TABLES
    },
    **{
        f"{table}_refuse_delete": f"CREATE TRIGGER {table}_refuse_delete BEFORE DELETE ON {table} {_ACS_REFUSAL}"
        for table in ("acs_sessions", *_ACS_TABLES)
        if table != "acs_contents"
    },
    "acs_contents_refuse_delete": "CREATE TRIGGER acs_contents_refuse_delete BEFORE DELETE ON acs_contents "
    "WHEN NOT EXISTS (SELECT 1 FROM acs_archives WHERE session = OLD.session "
    f"AND OLD.position BETWEEN first_position AND last_position) {_ACS_REFUSAL}",
    # INSERT OR REPLACE deletes without firing a delete trigger, unless the connection asks for it.
    "acs_entries_refuse_replace": "CREATE TRIGGER acs_entries_refuse_replace BEFORE INSERT ON acs_entries "
    "WHEN EXISTS (SELECT 1 FROM acs_entries WHERE session = NEW.session AND position = NEW.position) "
    f"OR EXISTS (SELECT 1 FROM acs_entries WHERE session = NEW.session AND step_id = NEW.step_id) {_ACS_REFUSAL}",
    "acs_contents_refuse_replace": "CREATE TRIGGER acs_contents_refuse_replace BEFORE INSERT ON acs_contents "
    "WHEN EXISTS (SELECT 1 FROM acs_contents WHERE session = NEW.session AND position = NEW.position) "
    f"{_ACS_REFUSAL}",
    "acs_sessions_refuse_replace": "CREATE TRIGGER acs_sessions_refuse_replace BEFORE INSERT ON acs_sessions "
    f"WHEN EXISTS (SELECT 1 FROM acs_sessions WHERE session_id = NEW.session_id) {_ACS_REFUSAL}",
    "acs_sessions_refuse_update": "CREATE TRIGGER acs_sessions_refuse_update BEFORE UPDATE ON acs_sessions "
    "WHEN NEW.id IS NOT OLD.id OR NEW.session_id IS NOT OLD.session_id OR NEW.agent_id IS NOT OLD.agent_id "
    "OR NEW.key_id IS NOT OLD.key_id OR NEW.provenance_producer IS NOT OLD.provenance_producer "
    "OR NEW.server_hello IS NOT OLD.server_hello OR NEW.opened_at IS NOT OLD.opened_at "
    "OR NEW.entries < OLD.entries OR (OLD.intent IS NOT NULL AND NEW.intent IS NOT OLD.intent) "
    f"OR (OLD.sealed_at IS NOT NULL AND NEW.sealed_at IS NOT OLD.sealed_at) {_ACS_REFUSAL}",
}


def create_journal(database: Database) -> None:
    """Create the journal and the rules that keep it append-only, whatever a connection's settings are."""
    database.execute(
        """
        CREATE TABLE events (
            position INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            project_id TEXT NOT NULL,
            work_item_id TEXT,
            session_id TEXT,
            branch_id TEXT,
            event_type TEXT NOT NULL,
            importance TEXT NOT NULL,
            summary TEXT NOT NULL,
            payload TEXT NOT NULL,
            payload_sha256 TEXT NOT NULL,
            project_revision INTEGER NOT NULL CHECK (project_revision > 0),
            created_at INTEGER NOT NULL,
            link BLOB NOT NULL CHECK (length(link) = 32)
        ) STRICT
        """
    )
    database.execute("CREATE INDEX events_by_work ON events (work_item_id) WHERE work_item_id IS NOT NULL")
    database.execute("CREATE INDEX events_by_session ON events (session_id) WHERE session_id IS NOT NULL")
    for statement in GUARDS.values():
        database.execute(statement)


def create_sessions(database: Database) -> None:
    """Create the projections of sessions and claims."""
    database.execute(
        """
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY,
            project_id TEXT NOT NULL,
            work_item_id TEXT,
            branch_id TEXT,
            agent_id TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            status TEXT NOT NULL,
            started_at INTEGER NOT NULL,
            ended_at INTEGER,
            start_project_revision INTEGER NOT NULL,
            end_project_revision INTEGER,
            last_checkpoint_id TEXT,
            revision INTEGER NOT NULL,
            client TEXT,
            conversation TEXT
        ) STRICT
        """
    )
    database.execute("CREATE INDEX sessions_by_conversation ON sessions (client, conversation)")
    database.execute(
        """
        CREATE TABLE claims (
            id TEXT PRIMARY KEY,
            project_id TEXT NOT NULL,
            work_item_id TEXT NOT NULL,
            session_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            branch_id TEXT,
            status TEXT NOT NULL,
            acquired_at INTEGER NOT NULL,
            expires_at INTEGER,
            released_at INTEGER,
            revision INTEGER NOT NULL
        ) STRICT
        """
    )
    database.execute("CREATE UNIQUE INDEX one_active_claim ON claims (work_item_id) WHERE status = 'active'")
    database.execute("CREATE INDEX claims_by_session ON claims (session_id)")


def create_compactions(database: Database) -> None:
    """Create the index of observations; their content stays in the journal."""
    database.execute(
        """
        CREATE TABLE compactions (
            session_id TEXT NOT NULL,
            compaction_id TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            event_id TEXT NOT NULL UNIQUE,
            deferral_event_id TEXT,
            PRIMARY KEY (session_id, compaction_id)
        ) STRICT
        """
    )
    database.execute("CREATE UNIQUE INDEX compactions_in_order ON compactions (session_id, sequence)")


def create_sources(database: Database) -> None:
    """Create the projections of sources and of the ids that journal events gave to what the files describe."""
    database.execute(
        """
        CREATE TABLE sources (
            id TEXT PRIMARY KEY,
            domain TEXT NOT NULL,
            role TEXT NOT NULL,
            locator TEXT NOT NULL,
            adapter TEXT NOT NULL,
            config_sha256 TEXT NOT NULL,
            fingerprint TEXT,
            source_revision INTEGER NOT NULL,
            freshness TEXT NOT NULL,
            warnings INTEGER NOT NULL,
            retired INTEGER NOT NULL,
            UNIQUE (domain, locator)
        ) STRICT
        """
    )
    database.execute(
        """
        CREATE TABLE entities (
            kind TEXT NOT NULL,
            external_key TEXT NOT NULL,
            id TEXT NOT NULL UNIQUE,
            source_id TEXT NOT NULL,
            revision INTEGER NOT NULL,
            retired INTEGER NOT NULL,
            PRIMARY KEY (kind, external_key)
        ) STRICT
        """
    )


def create_contents(database: Database) -> None:
    """Create what is parsed from the files: re-indexed from them, never from the journal."""
    database.execute(
        """
        CREATE TABLE contents (
            entity_id TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            external_key TEXT NOT NULL,
            source_id TEXT NOT NULL,
            status TEXT NOT NULL,
            place INTEGER NOT NULL,
            body TEXT NOT NULL
        ) STRICT
        """
    )
    database.execute("CREATE UNIQUE INDEX contents_by_key ON contents (kind, external_key)")
    database.execute("CREATE INDEX contents_by_source ON contents (source_id)")


def link_sessions(database: Database) -> None:
    """Let a session name the one it continues and the one that continues it."""
    database.execute("ALTER TABLE sessions ADD COLUMN resumed_from TEXT")
    database.execute("ALTER TABLE sessions ADD COLUMN resumed_to TEXT")


def create_checkpoints(database: Database) -> None:
    """Create the projections of checkpoints, of the attempts to save them, and of waits for a user's reply."""
    database.execute(
        """
        CREATE TABLE checkpoints (
            id TEXT PRIMARY KEY,
            session_id TEXT NOT NULL,
            project_revision INTEGER NOT NULL,
            context_hash TEXT NOT NULL,
            digest TEXT NOT NULL,
            next_action TEXT NOT NULL,
            open_loops TEXT NOT NULL,
            changed_entities TEXT NOT NULL,
            revision INTEGER NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT
        """
    )
    database.execute("CREATE INDEX checkpoints_by_session ON checkpoints (session_id, revision)")
    database.execute(
        """
        CREATE TABLE checkpoint_attempts (
            id TEXT PRIMARY KEY,
            session_id TEXT NOT NULL,
            base_project_revision INTEGER NOT NULL,
            state TEXT NOT NULL,
            started_at INTEGER NOT NULL
        ) STRICT
        """
    )
    database.execute(
        """
        CREATE TABLE waits (
            id TEXT PRIMARY KEY,
            client TEXT NOT NULL,
            session_id TEXT NOT NULL,
            checkpoint_id TEXT NOT NULL,
            question TEXT NOT NULL,
            status TEXT NOT NULL,
            reply TEXT,
            created_at INTEGER NOT NULL,
            revision INTEGER NOT NULL
        ) STRICT
        """
    )
    database.execute("CREATE UNIQUE INDEX one_open_wait ON waits (session_id) WHERE status = 'waiting_user'")


def create_executions(database: Database) -> None:
    """Create the projections of executions and of what hosts reported about them."""
    database.execute(
        """
        CREATE TABLE executions (
            id TEXT PRIMARY KEY,
            project_id TEXT NOT NULL,
            work_item_id TEXT NOT NULL,
            session_id TEXT NOT NULL,
            branch_id TEXT,
            revision INTEGER NOT NULL,
            operation_key TEXT NOT NULL UNIQUE,
            intent TEXT NOT NULL,
            state TEXT NOT NULL,
            registered_at INTEGER NOT NULL,
            started_at INTEGER,
            finished_at INTEGER,
            latest_phase TEXT
        ) STRICT
        """
    )
    database.execute("CREATE INDEX executions_by_work ON executions (work_item_id)")
    database.execute(
        """
        CREATE TABLE execution_reports (
            request_key TEXT PRIMARY KEY,
            execution_id TEXT NOT NULL,
            event_id TEXT NOT NULL,
            body TEXT NOT NULL
        ) STRICT
        """
    )


def create_management(database: Database) -> None:
    """Create the projection of management assessments: the latest of each work item, and each request's own."""
    database.execute(
        """
        CREATE TABLE management_records (
            request_key TEXT PRIMARY KEY,
            work_item_id TEXT NOT NULL,
            event_id TEXT NOT NULL,
            mode TEXT NOT NULL,
            contract_fingerprint TEXT NOT NULL,
            revision INTEGER NOT NULL
        ) STRICT
        """
    )
    database.execute("CREATE INDEX management_by_work ON management_records (work_item_id, revision)")


def create_evidence(database: Database) -> None:
    """Create the projections of evidence and of proposals to write to a source."""
    database.execute(
        """
        CREATE TABLE evidence (
            id TEXT PRIMARY KEY,
            external_key TEXT NOT NULL UNIQUE,
            work_item_id TEXT,
            level TEXT NOT NULL,
            body TEXT NOT NULL,
            event_id TEXT NOT NULL,
            revision INTEGER NOT NULL
        ) STRICT
        """
    )
    database.execute("CREATE INDEX evidence_by_work ON evidence (work_item_id)")
    database.execute(
        """
        CREATE TABLE proposals (
            id TEXT PRIMARY KEY,
            work_item_id TEXT NOT NULL,
            source_id TEXT NOT NULL,
            session_id TEXT,
            mutation_type TEXT NOT NULL,
            status TEXT NOT NULL,
            base_fingerprint TEXT NOT NULL,
            after_fingerprint TEXT,
            expected_revision INTEGER NOT NULL,
            patch TEXT NOT NULL,
            attempt_event_id TEXT,
            revision INTEGER NOT NULL
        ) STRICT
        """
    )


def create_operations(database: Database) -> None:
    """Create the projection of identified operations: who asked for what, and which event has the answer."""
    database.execute(
        """
        CREATE TABLE operations (
            id TEXT PRIMARY KEY,
            client TEXT NOT NULL,
            request_id TEXT NOT NULL,
            tool TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            status TEXT NOT NULL,
            started_revision INTEGER NOT NULL,
            started_at INTEGER NOT NULL,
            finished_revision INTEGER,
            answer_event_id TEXT,
            UNIQUE (client, request_id)
        ) STRICT
        """
    )


def create_client_bindings(database: Database) -> None:
    """Create the projection of hosts' conversations and the sessions they are bound to."""
    database.execute(
        """
        CREATE TABLE client_bindings (
            client TEXT NOT NULL,
            external_session TEXT NOT NULL,
            session_id TEXT NOT NULL,
            revision INTEGER NOT NULL,
            digest TEXT,
            next_action TEXT,
            open_loops TEXT NOT NULL,
            context_hash TEXT,
            context_revision INTEGER,
            progress_revision INTEGER,
            last_delivery_key TEXT,
            last_hook_event TEXT,
            checkpoint_id TEXT,
            observed_at INTEGER NOT NULL,
            PRIMARY KEY (client, external_session)
        ) STRICT
        """
    )


def create_acs(database: Database) -> None:
    """Create the chains of the Agent Control Standard. They have heads of their own and no project revision."""
    database.execute(
        """
        CREATE TABLE acs_sessions (
            id INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL UNIQUE,
            agent_id TEXT NOT NULL,
            key_id TEXT NOT NULL,
            provenance_producer TEXT NOT NULL,
            server_hello TEXT NOT NULL,
            opened_at INTEGER NOT NULL,
            entries INTEGER NOT NULL DEFAULT 0,
            head BLOB CHECK (length(head) = 32),
            summary TEXT NOT NULL DEFAULT '{}',
            intent TEXT,
            sealed_at INTEGER,
            deferrals INTEGER NOT NULL DEFAULT 0,
            kept_bytes INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """
    )
    database.execute(
        """
        CREATE TABLE acs_entries (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            position INTEGER NOT NULL CHECK (position > 0),
            step_id BLOB NOT NULL CHECK (length(step_id) = 16),
            step_type TEXT NOT NULL,
            link BLOB NOT NULL CHECK (length(link) = 32),
            decision TEXT NOT NULL,
            reason_codes TEXT NOT NULL,
            findings TEXT NOT NULL,
            received_at INTEGER NOT NULL,
            PRIMARY KEY (session, position),
            UNIQUE (step_id, session)
        ) STRICT, WITHOUT ROWID
        """
    )
    # `entry` is the canonical form that the link commits to. When there are many, they move to an archive.
    database.execute(
        """
        CREATE TABLE acs_contents (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            position INTEGER NOT NULL,
            entry BLOB NOT NULL,
            facts TEXT NOT NULL,
            PRIMARY KEY (session, position)
        ) STRICT, WITHOUT ROWID
        """
    )
    database.execute(
        """
        CREATE TABLE acs_provenance (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            provenance_id TEXT NOT NULL,
            position INTEGER NOT NULL,
            origin TEXT NOT NULL,
            source_id TEXT,
            derived_from TEXT NOT NULL,
            depth INTEGER,
            PRIMARY KEY (session, provenance_id, position)
        ) STRICT, WITHOUT ROWID
        """
    )
    database.execute("CREATE INDEX acs_provenance_by_entry ON acs_provenance (session, position)")
    database.execute(
        """
        CREATE TABLE acs_archives (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            first_position INTEGER NOT NULL,
            last_position INTEGER NOT NULL,
            content BLOB NOT NULL,
            PRIMARY KEY (session, first_position)
        ) STRICT
        """
    )
    # What a session has seen, for as long as its record exists: request ids and nonces, of refused requests too.
    database.execute(
        """
        CREATE TABLE acs_seen (
            session_id TEXT NOT NULL,
            mark BLOB NOT NULL,
            PRIMARY KEY (session_id, mark)
        ) STRICT, WITHOUT ROWID
        """
    )
    database.execute(
        """
        CREATE TABLE acs_subagents (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            position INTEGER NOT NULL,
            child_session_id TEXT NOT NULL,
            intent_derivation TEXT NOT NULL,
            PRIMARY KEY (session, position)
        ) STRICT
        """
    )
    database.execute("CREATE INDEX acs_subagents_by_child ON acs_subagents (child_session_id)")
    # A fold is an entry of steps/postCompact. `decided_at` is the question that it was decided by, if there was one.
    database.execute(
        """
        CREATE TABLE acs_folds (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            position INTEGER NOT NULL,
            decided_at INTEGER,
            summary_id TEXT NOT NULL,
            entries INTEGER NOT NULL,
            PRIMARY KEY (session, position)
        ) STRICT, WITHOUT ROWID
        """
    )
    database.execute(
        """
        CREATE TABLE acs_folded (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            fold INTEGER NOT NULL,
            step_id BLOB NOT NULL CHECK (length(step_id) = 16),
            PRIMARY KEY (session, fold, step_id)
        ) STRICT, WITHOUT ROWID
        """
    )
    # What was decided about a fold, and whatever was not allowed: the rules, and the facts that they were given.
    database.execute(
        """
        CREATE TABLE acs_decisions (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            position INTEGER NOT NULL,
            verdict TEXT NOT NULL,
            about TEXT,
            PRIMARY KEY (session, position)
        ) STRICT, WITHOUT ROWID
        """
    )
    database.execute(
        """
        CREATE TABLE acs_endorsements (
            session INTEGER NOT NULL REFERENCES acs_sessions (id),
            number INTEGER NOT NULL,
            after_position INTEGER NOT NULL,
            endorsement TEXT NOT NULL,
            confirmed_by TEXT NOT NULL,
            recorded_at INTEGER NOT NULL,
            PRIMARY KEY (session, number)
        ) STRICT, WITHOUT ROWID
        """
    )
    for statement in ACS_GUARDS.values():
        database.execute(statement)


#: One list of steps per schema version, oldest first.
_VERSIONS: tuple[tuple[Step, ...], ...] = (
    (create_journal, create_sessions, create_compactions, create_sources, create_contents),
    (link_sessions, create_checkpoints, create_executions, create_management, create_evidence),
    (create_operations, create_client_bindings),
    (create_acs,),
)
SCHEMA_VERSION = len(_VERSIONS)


def migrate(database: Database, *, now: int) -> None:
    """Bring the schema up to date in one transaction: all missing steps and their records, or nothing."""
    if database.schema_version() == SCHEMA_VERSION:
        return
    with database.transaction("IMMEDIATE"):
        database.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations "
            "(name TEXT PRIMARY KEY, version INTEGER NOT NULL, applied_at INTEGER NOT NULL) STRICT"
        )
        # Read again inside the transaction: another process may have been faster.
        for version, steps in enumerate(_VERSIONS, start=1):
            if version <= database.schema_version():
                continue
            for step in steps:
                step(database)
                database.execute("INSERT INTO schema_migrations VALUES (?, ?, ?)", (step.__name__, version, now))
            database.execute(f"PRAGMA user_version = {version}")
