"""The full-text index: a cache beside the journal, with no revision and nothing that cannot be made again.

Titles, summaries and keys are indexed, never payloads and never the bodies of files. What comes from the sources is
indexed anew when a source changed; events are appended to the index as they are appended to the journal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from awr.chain import digest, journal_bytes
from awr.domain.evidence import Evidence
from awr.errors import Io, Storage
from awr.journal.database import Database, Row
from awr.journal.journal import Reader
from awr.journal.sources import live_sources

__all__ = ["POLICY_VERSION", "Document", "Found", "SearchIndex", "evidence_documents", "expression"]

#: Part of the index's state: what is indexed, and how texts are cut into terms.
POLICY_VERSION = 2
TITLE_CHARACTERS = 160
SUMMARY_CHARACTERS = 280

_SCHEMA = 2
#: How much a match counts in each column of the index: key, title, summary, terms.
_WEIGHTS = "8.0, 4.0, 1.0, 0.5"
_CJK = "぀-ヿㇰ-ㇿ㐀-䶿一-鿿가-힯豈-﫿ｦ-ﾟ\U00020000-\U0003ffff"
_CJK_RUN = re.compile(f"[{_CJK}]+")
_OTHER_RUN = re.compile(rf"[^\W{_CJK}]+")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be found. `terms` holds words that are searched and not shown."""

    kind: str
    id: str
    external_key: str | None
    title: str
    summary: str | None = None
    status: str | None = None
    work_item_key: str | None = None
    source_id: str | None = None
    source_ref: str | None = None
    session_id: str | None = None
    revision: int
    terms: str = ""


class Found(msgspec.Struct, frozen=True):
    """A document and how well it matches: the lower the rank, the better."""

    document: Document
    rank: float


_COLUMNS = tuple(name for name in Document.__struct_fields__ if name != "terms")


class SearchIndex:
    """One project's index, brought up to date with a view of its journal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    @contextmanager
    def open(cls, folder: Path | None) -> Iterator[SearchIndex]:
        """Open the index in a folder of caches. Where it cannot be kept, it lives in memory for this call."""
        database = (_kept(folder) if folder is not None else None) or _created(Path("search"), mode="memory")
        try:
            yield cls(database)
        finally:
            database.close()

    def refresh(self, reader: Reader, described: Iterable[Document]) -> None:
        """Bring the index up to date. `described` has everything but events; it is read only when that changed."""
        stamp = _stamp(reader)
        state = self._state()
        if state is not None and (state["stamp"], state["event_id"]) == (stamp, _newest(reader)["id"]):
            return
        with self._database.transaction("IMMEDIATE"):
            state = self._state()
            if state is None or not _is_past(reader, state):
                self._clear("1")
                state = None
            if state is None or state["stamp"] != stamp:
                self._clear("kind != 'event'")
                for document in described:
                    self._add(document)
            for document in _events(reader, after=state["position"] if state else 0):
                self._add(document)
            self._database.execute("DELETE FROM state")
            self._database.execute("INSERT INTO state VALUES (?, ?, ?)", (stamp, *tuple(_newest(reader))))

    def search(
        self,
        text: str | None,
        *,
        kind: str | None,
        status: str | None,
        work: str | None,
        limit: int,
        sessions: Collection[str] | None = None,
    ) -> list[Found]:
        """Return the best matches of all words, or without a text every document that the filters leave.

        `sessions` leaves out what belongs to any other session; None leaves out nothing.
        """
        filters = (
            "(:kind IS NULL OR d.kind = :kind) AND (:status IS NULL OR d.status = :status) "
            "AND (:work IS NULL OR d.work_item_key = :work) "
            "AND (:sessions IS NULL OR d.session_id IS NULL "
            "OR d.session_id IN (SELECT value FROM json_each(:sessions)))"
        )
        source, rank = "documents d", "0.0"
        values: dict[str, object] = {"kind": kind, "status": status, "work": work, "limit": limit}
        values["sessions"] = None if sessions is None else msgspec.json.encode(list(sessions)).decode()
        if text is not None:
            values["text"] = expression(text)
            if not values["text"]:
                return []
            source, rank = "words JOIN documents d ON d.number = words.rowid", f"bm25(words, {_WEIGHTS})"
            filters = f"words MATCH :text AND {filters}"
        shown = ", ".join(f"d.{name}" for name in _COLUMNS)
        rows = self._database.rows(
            f"SELECT {shown}, {rank} AS rank FROM {source} WHERE {filters} "
            "ORDER BY rank, d.kind, d.external_key, d.id LIMIT :limit",
            values,
        )
        return [_found(row) for row in rows]

    def _state(self) -> Row | None:
        return self._database.row("SELECT stamp, position, event_id FROM state")

    def _clear(self, condition: str) -> None:
        self._database.execute(f"DELETE FROM words WHERE rowid IN (SELECT number FROM documents WHERE {condition})")
        self._database.execute(f"DELETE FROM documents WHERE {condition}")

    def _add(self, document: Document) -> None:
        shown = msgspec.structs.replace(
            document,
            title=document.title[:TITLE_CHARACTERS],
            summary=document.summary[:SUMMARY_CHARACTERS] if document.summary else document.summary,
        )
        texts = (shown.external_key or "", shown.title, shown.summary or "")
        number = self._database.execute(
            f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})",
            [getattr(shown, name) for name in _COLUMNS],
        ).lastrowid
        terms = " ".join([shown.terms, *_pieces(" ".join((*texts, shown.terms)))])
        self._database.execute(
            "INSERT INTO words (rowid, key, title, summary, terms) VALUES (?, ?, ?, ?, ?)",
            (number, *(unicodedata.normalize("NFC", each) for each in (*texts, terms))),
        )


def expression(text: str) -> str:
    """Return the query for FTS5: every word quoted, all of them required; empty when nothing can be searched."""
    quoted: list[str] = []
    for word in unicodedata.normalize("NFC", text).split():
        runs = _CJK_RUN.findall(word)
        for run in runs:
            quoted += [run] if len(run) == 1 else _pairs(run)
        rest = _OTHER_RUN.findall(word) if runs else [word] if _OTHER_RUN.search(word) else []
        quoted += [each.replace('"', '""') for each in rest]
    return " AND ".join(f'"{each}"' for each in quoted)


def _pieces(text: str) -> list[str]:
    """Return what FTS5's own tokenizer does not see in CJK text: single characters, pairs, and what is between."""
    found: dict[str, None] = {}
    for word in unicodedata.normalize("NFC", text).split():
        runs = _CJK_RUN.findall(word)
        for run in runs:
            found |= dict.fromkeys([*run, *_pairs(run)])
        if runs:
            found |= dict.fromkeys(_OTHER_RUN.findall(word))
    return list(found)


def _pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)]


def _found(row: Row) -> Found:
    values = tuple(row)
    return Found(Document(**dict(zip(_COLUMNS, values, strict=False))), values[-1])


def _stamp(reader: Reader) -> str:
    """Return a value that changes whenever anything but events would be indexed differently."""
    evidence = reader.database.row("SELECT count(*), coalesce(max(revision), 0) FROM evidence")
    assert evidence is not None
    sources = [(row.id, row.source_revision, row.config_sha256) for row in live_sources(reader.database)]
    return digest(journal_bytes([POLICY_VERSION, reader.project_id, sources, tuple(evidence)]))


def _newest(reader: Reader) -> Row:
    newest = reader.database.row("SELECT position, id FROM events ORDER BY position DESC LIMIT 1")
    assert newest is not None, "a project begins with an event"
    return newest


def _is_past(reader: Reader, state: Row) -> bool:
    """Tell whether the index was made of this very journal, which may have been restored since."""
    event = reader.database.row("SELECT id FROM events WHERE position = ?", (state["position"],))
    return event is not None and event["id"] == state["event_id"]


def evidence_documents(reader: Reader) -> Iterator[Document]:
    """Yield what can be found of the recorded evidence; the bytes of a report are not read."""
    rows = reader.database.execute(
        "SELECT v.body, n.external_key FROM evidence v LEFT JOIN entities n ON n.id = v.work_item_id "
        "ORDER BY v.revision, v.id"
    )
    for body, work in rows:
        evidence = _evidence_decoder.decode(body)
        yield Document(
            kind="evidence",
            id=evidence.id,
            external_key=evidence.external_key,
            title=evidence.evidence_type,
            summary=evidence.summary,
            work_item_key=work,
            revision=evidence.revision,
            terms=evidence.level,
        )


def _events(reader: Reader, *, after: int) -> Iterator[Document]:
    rows = reader.database.execute(
        "SELECT e.id, e.event_type, e.summary, e.project_revision, e.session_id, n.external_key FROM events e "
        "LEFT JOIN entities n ON n.id = e.work_item_id "
        "WHERE e.position > ? AND e.event_type NOT LIKE 'mcp.operation_%' ORDER BY e.position",
        (after,),
    )
    for identifier, event_type, summary, revision, session, work in rows:
        yield Document(
            kind="event",
            id=identifier,
            external_key=None,
            title=event_type,
            summary=summary,
            work_item_key=work,
            session_id=session,
            revision=revision,
        )


def _kept(folder: Path) -> Database | None:
    """Open the kept index, making it anew where it is damaged or another version's; None where none can be kept."""
    path = folder / "search.db"
    if folder.is_symlink() or path.is_symlink():
        return None
    with suppress(OSError, Io, Storage):
        folder.mkdir(exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        if path.is_file():
            with suppress(Storage):
                database = Database(path, mode="write", schema_version=_SCHEMA)
                if _is_whole(database):
                    return database
                database.close()
        for each in (path, path.with_name("search.db-wal"), path.with_name("search.db-shm")):
            each.unlink(missing_ok=True)
        return _created(path)
    return None


def _is_whole(database: Database) -> bool:
    try:
        return database.schema_version() == _SCHEMA and database.row("SELECT count(*) FROM state") is not None
    except Storage:
        return False


def _created(path: Path, *, mode: Literal["create", "memory"] = "create") -> Database:
    database = Database(path, mode=mode, schema_version=_SCHEMA)
    try:
        if database.is_empty():
            database.claim_new_file()
            with database.transaction("IMMEDIATE"):
                columns = ", ".join(f"{name} {'INTEGER' if name == 'revision' else 'TEXT'}" for name in _COLUMNS)
                database.execute(f"CREATE TABLE documents (number INTEGER PRIMARY KEY, {columns}) STRICT")
                database.execute("CREATE VIRTUAL TABLE words USING fts5 (key, title, summary, terms)")
                database.execute("CREATE TABLE state (stamp TEXT, position INTEGER, event_id TEXT) STRICT")
                database.execute(f"PRAGMA user_version = {_SCHEMA}")
    except BaseException:
        database.close()
        raise
    return database


_evidence_decoder = msgspec.json.Decoder(Evidence)
