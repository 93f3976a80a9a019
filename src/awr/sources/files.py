"""Reading a source: where it may lie, how it is opened, and what its bytes are called.

Every step from the root to the file is opened relative to the step before it, without following links, so that
nothing between the check and the read can be replaced unseen.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from awr.errors import AwrError, InvalidInput, Io, RuleViolation, SourceConflict, SourceUnavailable, Unsupported

if TYPE_CHECKING:
    from awr.sources.manifest import SourceMapping

__all__ = [
    "MANIFEST_LIMIT",
    "MARKDOWN_LIMIT",
    "YAML_LIMIT",
    "Location",
    "SourceBytes",
    "decode_utf8",
    "fingerprint",
    "named_file",
    "read_location",
    "read_source",
    "relative_parts",
    "resolve_location",
]

MANIFEST_LIMIT = 64 * 1024
YAML_LIMIT = 4 * 1024 * 1024
MARKDOWN_LIMIT = 2 * 1024 * 1024

_MAX_LOCATION = 4096


class Location(msgspec.Struct, frozen=True):
    """One authorized place: a trusted folder, the steps below it, and the text that names it to people.

    `locator` is relative to the project root where that is possible and an absolute `file://` address otherwise.
    """

    base: Path
    parts: tuple[str, ...]
    locator: str

    @property
    def path(self) -> Path:
        return self.base.joinpath(*self.parts)


class SourceBytes(msgspec.Struct, frozen=True):
    """The bytes of a source as they were read once, with their fingerprint."""

    locator: str
    data: bytes
    fingerprint: str


def fingerprint(data: bytes) -> str:
    """Return `sha256:` and the hex digest of the bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def decode_utf8(data: bytes, *, locator: str) -> str:
    """Return the text of UTF-8 bytes; one byte order mark at the start is tolerated and left out.

    Raise InvalidInput with the place of the first byte that is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The codec counts from after the mark.
        offset = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
    line_start = data.rfind(b"\n", 0, offset) + 1
    column = len(data[line_start:offset].decode("utf-8", "replace")) + 1
    raise InvalidInput(
        "the source is not UTF-8 text",
        got=f"another encoding at byte {offset}",
        expected="UTF-8",
        next_step="save the file as UTF-8",
        location={
            "locator": locator,
            "pointer": "",
            "line": data.count(b"\n", 0, offset) + 1,
            "column": column,
        },
        rule="source.encoding",
        repair="save the file as UTF-8",
    )


def named_file(path: Path) -> Location:
    """Return the location of a file that a person named; the way to it is theirs, the file itself may be no link."""
    return Location(path.parent, (path.name,), str(path))


def resolve_location(location: str, *, root: Path, authorized_roots: tuple[str, ...] = ()) -> Location:
    """Return the place that a mapping names; whether a file is there is not asked.

    A location is a path relative to the root, or an absolute `file://` address under the root or under one of
    `authorized_roots`, which are relative to the root. Raise Unsupported for other schemes, RuleViolation for a
    place outside, InvalidInput for a text that names nothing.
    """
    _check_text(location)
    scheme, separator, rest = location.partition("://")
    if not separator:
        parts = relative_parts(location)
        return Location(root, parts, "/".join(parts))
    if scheme.lower() == "git":
        raise Unsupported(
            "a source in a git revision is not offered",
            got="a git:// locator",
            expected="a path relative to the project root, or an absolute file:// locator",
            next_step="map the file in the working tree instead",
        )
    if scheme.lower() != "file":
        raise Unsupported(
            "this kind of locator is not offered",
            got="a locator with another scheme",
            expected="a path relative to the project root, or an absolute file:// locator",
            next_step="map a local file",
        )
    return _inside(_file_address_path(rest), root=root, authorized_roots=authorized_roots)


def read_source(root: Path, mapping: SourceMapping, *, authorized_roots: tuple[str, ...] = ()) -> bytes:
    """Return the bytes of a mapped file. Raise what resolve_location and read_location raise."""
    location = resolve_location(mapping.location, root=root, authorized_roots=authorized_roots)
    limit = MARKDOWN_LIMIT if mapping.adapter.startswith("markdown-") else YAML_LIMIT
    return read_location(location, limit=limit).data


def read_location(location: Location, *, limit: int) -> SourceBytes:
    """Read a whole file of at most `limit` bytes, once.

    Raise SourceUnavailable if it is missing or unreadable, RuleViolation for a link on the way, InvalidInput for
    anything but a regular file or for too many bytes, SourceConflict if it changes while it is read.
    """
    try:
        descriptor = _open_below(location)
    except OSError as error:
        raise _refusal(error, locator=location.locator) from None
    try:
        data = _read_open(descriptor, limit=limit, locator=location.locator)
    except OSError as error:
        raise _refusal(error, locator=location.locator) from None
    finally:
        os.close(descriptor)
    return SourceBytes(location.locator, data, fingerprint(data))


def _check_text(location: str) -> None:
    size = len(location.encode("utf-8", "surrogatepass"))
    if not location.strip() or size > _MAX_LOCATION or not location.isprintable():
        raise InvalidInput(
            "a source location must name a file",
            got=f"{size} bytes" if location.strip() else "blank text",
            expected=f"1 to {_MAX_LOCATION} bytes without control characters",
            next_step="give a path relative to the project root",
        )


def relative_parts(path: str) -> tuple[str, ...]:
    """Return the steps of a path below the root. Raise RuleViolation for an absolute path or a `..` step."""
    if path.startswith("/"):
        raise RuleViolation(
            "a source path must stay inside the project",
            got="an absolute path",
            expected="a path relative to the project root",
            next_step="write the path relative to the root, or use an absolute file:// locator",
        )
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise _traversal()
    if not parts:
        raise InvalidInput(
            "a source location must name a file",
            got="the root itself",
            expected="a path relative to the project root",
            next_step="name a file below the project root",
        )
    return parts


def _file_address_path(rest: str) -> str:
    # Imported here because it costs more than the rest of this module, and few projects need it.
    from urllib.parse import unquote

    host, slash, path = rest.partition("/")
    decoded = unquote(slash + path, errors="surrogateescape")
    if host not in {"", "localhost"} or not slash or not decoded.isprintable():
        raise InvalidInput(
            "a file:// locator must be absolute and local",
            got="a locator with a host name or without an absolute path",
            expected="file:///absolute/path",
            next_step="write file:// followed by the absolute path",
        )
    if ".." in decoded.split("/"):
        raise _traversal()
    return decoded


def _inside(path: str, *, root: Path, authorized_roots: tuple[str, ...]) -> Location:
    # An address may name the root as it was typed or as it really lies.
    real_root = os.path.realpath(root)
    homes = dict.fromkeys((os.path.normpath(Path.cwd() / root), real_root))
    target = os.path.normpath(path)
    for home in homes:
        if (parts := _below(target, home)) is not None:
            return Location(root, parts, "/".join(parts))
    for extra in authorized_roots:
        real_base = os.path.normpath(Path(real_root) / extra)
        for home in homes:
            if (parts := _below(target, os.path.normpath(Path(home) / extra))) is not None:
                if os.path.realpath(real_base) != real_base:
                    raise _link("file://" + target)
                return Location(Path(real_base), parts, "file://" + target)
    raise RuleViolation(
        "a source must lie inside the project or an authorized root",
        got="a place outside of both",
        expected="a place under the project root or a listed authorized root",
        next_step="move the file, or add its folder to authorized_roots in the manifest",
    )


def _below(target: str, home: str) -> tuple[str, ...] | None:
    prefix = home.rstrip("/") + "/"
    if not target.startswith(prefix) or target == prefix:
        return None
    return tuple(target[len(prefix) :].split("/"))


def _traversal() -> RuleViolation:
    return RuleViolation(
        "a source location must not climb to a parent folder",
        got="a location with a '..' step",
        expected="a place under the project root or an authorized root",
        next_step="name the file without '..' steps",
    )


def _open_below(location: Location) -> int:
    """Open the file below its base step by step and return a descriptor of a regular file."""
    folder = os.open(location.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in location.parts[:-1]:
            if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _link(location.locator)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            following = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = following
        return _open_regular(location.parts[-1], folder=folder, locator=location.locator)
    finally:
        os.close(folder)


def _open_regular(name: str, *, folder: int, locator: str) -> int:
    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(seen.st_mode):
        raise _link(locator)
    if not stat.S_ISREG(seen.st_mode):
        raise InvalidInput(
            "a source must be a regular file",
            got=_kind(seen.st_mode),
            expected="a regular file",
            next_step="name the file itself",
            location={"locator": locator},
        )
    # O_NONBLOCK: whatever may have taken the file's place since the look must not make the open wait.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    opened = os.fstat(descriptor)
    if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino):
        os.close(descriptor)
        raise _changed(locator)
    return descriptor


def _read_open(descriptor: int, *, limit: int, locator: str) -> bytes:
    before = os.fstat(descriptor)
    if before.st_size > limit:
        raise _too_big(before.st_size, limit=limit, locator=locator)
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(descriptor, 1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise _too_big(size, limit=limit, locator=locator)
    after = os.fstat(descriptor)
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns) or size != after.st_size:
        raise _changed(locator)
    return b"".join(chunks)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _too_big(size: int, *, limit: int, locator: str) -> InvalidInput:
    return InvalidInput(
        "the source is too big",
        got=f"{size} bytes or more",
        expected=f"at most {limit} bytes",
        next_step="split the file or remove what is finished",
        location={"locator": locator},
        rule="source.size",
        repair="split the file or remove what is finished",
    )


def _link(locator: str) -> RuleViolation:
    return RuleViolation(
        "a source must not be reached through a symbolic link",
        got="a symbolic link",
        expected="a regular file in real folders",
        next_step="map the real place of the file",
        location={"locator": locator},
    )


def _changed(locator: str) -> SourceConflict:
    return SourceConflict(
        "the source changed while it was read",
        got="another file or other bytes than at the first look",
        expected="a file that stays the same",
        next_step="run the command again",
        location={"locator": locator},
    )


def _refusal(error: OSError, *, locator: str) -> AwrError:
    place = {"locator": locator}
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return SourceUnavailable(
            "the source is missing",
            got="no such file",
            expected="an existing file",
            next_step="create the file or correct the mapping",
            location=place,
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return SourceUnavailable(
            "the source cannot be read",
            got="permission denied",
            expected="a readable file",
            next_step="give this user read permission",
            location=place,
        )
    if error.errno == errno.ELOOP:
        return _link(locator)
    if error.errno == errno.ENAMETOOLONG:
        return InvalidInput(
            "the source location is too long for this system",
            got="a name that is too long",
            expected="a shorter path",
            next_step="correct the mapping",
            location=place,
        )
    return Io(
        "the system refused to read the source",
        got=errno.errorcode.get(error.errno or 0, "an unknown error"),
        expected="a readable file",
        next_step="check the disk and run the command again",
        location=place,
    )
