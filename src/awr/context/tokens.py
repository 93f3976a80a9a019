"""Exact o200k_base token counts, remembered by content so that text which was counted once is never encoded again.

Loading the vocabulary takes about half a second; a count that is known takes a hash. Counts are kept in the process
and in one small file that can be deleted at any time. Nothing of a text is in it: 16 bytes of its hash, and a number.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from pathlib import Path

__all__ = ["MAX_ENTRIES", "TOKENIZER", "TokenCounter"]

TOKENIZER = "o200k_base"
#: The file keeps the newest counts: 20 bytes each, so 320 KiB at the most.
MAX_ENTRIES = 16_384

_FILE = "o200k-counts"
_FORMAT = b"awr.tokens.v1\n"
_ENTRY = struct.Struct("<16sI")
_DIGEST_BYTES = 16
# Revisions and counts change while everything around them stands still. A digit run that follows "r" or "x" and is
# followed by punctuation is cut out and counted by rule: o200k_base splits digits into groups of three from the left,
# every group is one token, and no token joins a digit to anything else.
_NUMBER = re.compile(r"(?<=[ @][rx])[0-9]+(?=[\n ,.)\]]|\Z)")

#: What this process knows, whichever project asked.
_counted: dict[bytes, int] = {}


class TokenCounter:
    """Counts texts. `folder` is where the counts are kept between processes; None keeps them in this one only."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._stored: dict[bytes, int] | None = None
        self._new: dict[bytes, int] = {}

    def count(self, text: str) -> int:
        """Return how many o200k_base tokens a text has. Special tokens in it count as the text they are."""
        total = 0
        start = 0
        for number in _NUMBER.finditer(text):
            total += self._count(text[start : number.start()]) - (-len(number.group()) // 3)
            start = number.end()
        return total + self._count(text[start:])

    def save(self) -> None:
        """Keep the counts that had to be made. A folder that cannot be written costs the next process its time."""
        if not self._new or self._folder is None:
            return
        # Another process may have added its own in the meantime.
        kept = {**_read(self._folder), **self._new}
        for key in list(kept)[: max(0, len(kept) - MAX_ENTRIES)]:
            del kept[key]
        _write(self._folder, kept)
        self._stored = kept
        self._new = {}

    def _count(self, piece: str) -> int:
        if not piece:
            return 0
        key = hashlib.blake2b(piece.encode(), digest_size=_DIGEST_BYTES).digest()
        known = _counted.get(key)
        if known is None:
            if self._stored is None:
                self._stored = _read(self._folder) if self._folder is not None else {}
            known = self._stored.get(key)
            if known is None:
                known = self._new[key] = _encoded_count(piece)
            if len(_counted) >= MAX_ENTRIES:
                _counted.clear()
            _counted[key] = known
        return known


def _encoded_count(piece: str) -> int:
    import quicktok  # type: ignore[import-untyped]  # half a second for its vocabulary, paid only by text that was never counted

    return int(quicktok.get_encoding(TOKENIZER).count(piece))


def _read(folder: Path) -> dict[bytes, int]:
    """Return the stored counts, oldest first. A file that is missing or not exactly as written holds none."""
    if folder.is_symlink():
        return {}
    try:
        descriptor = os.open(folder / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_limit() + 1)
    except OSError:
        return {}
    head = len(_FORMAT) + _DIGEST_BYTES
    body = data[head:]
    if len(data) > _limit() or len(body) % _ENTRY.size or data[:head] != _FORMAT + _checksum(body):
        return {}
    return dict(_ENTRY.iter_unpack(body))


def _write(folder: Path, counts: dict[bytes, int]) -> None:
    import tempfile  # a call that finds every count writes nothing

    body = b"".join(_ENTRY.pack(key, number) for key, number in counts.items())
    name = None
    try:
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            return
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{_FILE}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(_FORMAT + _checksum(body) + body)
        # Not forced to the disk: half a file fails its checksum and is counted again.
        Path(name).replace(folder / _FILE)
    except OSError:
        if name is not None:
            Path(name).unlink(missing_ok=True)


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _limit() -> int:
    return len(_FORMAT) + _DIGEST_BYTES + MAX_ENTRIES * _ENTRY.size
