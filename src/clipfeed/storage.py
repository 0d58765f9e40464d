"""Every file access of the package: list, stat, open, fingerprint.

A file is a root plus a relative POSIX key, never a bare path, so that roots other than local folders can be added
here and nowhere else. Nothing here knows what a video is, opens a FIFO or a device, or changes a file. It stands under
every step of the journey; `find` asks it first.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from clipfeed._types import StrPath

__all__ = [
    "FINGERPRINT_BYTES",
    "Entry",
    "FileStat",
    "fingerprint_file",
    "list_files",
    "local_path",
    "open_file",
    "stat_file",
]

EntryKind: TypeAlias = Literal["file", "dir", "link", "unreadable", "other"]

FINGERPRINT_BYTES = 16
FINGERPRINT_BLOCKS = 4
FINGERPRINT_BLOCK_BYTES = 1024

_MAX_NS = 2**63 - 1  # file systems keep times far beyond the year 2262, where 64 bits of nanoseconds end


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name below a root.

    Attributes:
        key: Relative POSIX path below the root.
        kind: "file" (regular), "dir" (a folder that was read), "link" (a link to a folder that was not followed),
            "unreadable" (a folder that could not be read), "other" (FIFO, socket, device, broken link).
        size_bytes: Size of a regular file; 0 for everything else.
        mtime_ns: Time of last change of a regular file, nanoseconds since the epoch; 0 for everything else.
        note: For "link", "unreadable" and "other": what it is, such as "a FIFO" or "Permission denied"; else "".
    """

    key: str
    kind: EntryKind
    size_bytes: int = 0
    mtime_ns: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """What the file system says of one file.

    Attributes:
        size_bytes: Size.
        mtime_ns: Time of last change, nanoseconds since the epoch.
        is_regular: False for folders, FIFOs, sockets and devices.
    """

    size_bytes: int
    mtime_ns: int
    is_regular: bool


def local_path(root: StrPath, key: str) -> str:
    """Give the absolute path of a file, for libraries that open files themselves.

    Absolute, because FFmpeg reads a bare "file:x.mp4" or "-x.mp4" as something else. ".." is left as it stands: after
    a link, only the file system knows where it leads.
    """
    path = f"{os.fspath(root) or '.'}/{key}"
    return path if path.startswith("/") else f"{Path.cwd()}/{path}"


def stat_file(root: StrPath, key: str) -> FileStat:
    """Ask for the size and time of one file; links are followed.

    Raises:
        OSError: The file is not there or may not be looked at.
    """
    found = os.stat(local_path(root, key))  # noqa: PTH116  # called for each clip: no Path object for it
    return FileStat(size_bytes=found.st_size, mtime_ns=_time_of(found), is_regular=stat.S_ISREG(found.st_mode))


def open_file(root: StrPath, key: str) -> BinaryIO:
    """Open one regular file for reading bytes.

    Raises:
        OSError: The file is not there, may not be read, or is no regular file (opening a FIFO would wait forever).
    """
    return os.fdopen(_open_regular(local_path(root, key)), "rb")


def fingerprint_file(root: StrPath, key: str) -> str:
    """Give a text that tells two contents apart without reading whole files.

        size | block at the start | at 1/3 | at 2/3 | block at the end   ->   32 hexadecimal digits

    A file of at most 4 KiB is hashed whole. A change between the sampled blocks that keeps the size is not noticed:
    the size, the header and the sample table of a video change with nearly every edit, and mtime is compared first.

    Returns:
        32 hexadecimal digits, the same on every machine, whatever the file is called.

    Raises:
        OSError: As for `open_file`.
    """
    descriptor = _open_regular(local_path(root, key))
    try:
        size = os.fstat(descriptor).st_size
        digest = hashlib.blake2b(b"clipfeed fingerprint 1\n%d\n" % size, digest_size=FINGERPRINT_BYTES)
        for start, length in _sampled_blocks(size):
            digest.update(os.pread(descriptor, length, start))
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def _open_regular(path: str) -> int:
    """Open a regular file, and give its descriptor; what is none is refused, and no opening ever waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, f"not a regular file but {_kind_of_mode(mode)}", path)


def _sampled_blocks(size_bytes: int) -> list[tuple[int, int]]:
    """Give (start, length) in bytes of what a fingerprint reads."""
    if size_bytes <= FINGERPRINT_BLOCKS * FINGERPRINT_BLOCK_BYTES:
        return [(0, size_bytes)]
    last = size_bytes - FINGERPRINT_BLOCK_BYTES
    return [(last * i // (FINGERPRINT_BLOCKS - 1), FINGERPRINT_BLOCK_BYTES) for i in range(FINGERPRINT_BLOCKS)]


def _keep_all(name: str) -> bool:
    """Leave out no name."""
    return False


def list_files(root: StrPath, *, follow_links: bool = False, ignore: Callable[[str], bool] = _keep_all) -> list[Entry]:
    """List everything below a folder, in an order that no machine changes.

    Entries are sorted by the tuple of their key's parts, code point by code point: "a/x" stands before "a.mp4", because
    "a" stands before "a.mp4". A folder stands right before what it holds. Names keep undecodable bytes
    (surrogateescape). A link to a FILE is listed as that file, as `os.walk` does. A link to a FOLDER is followed on
    request only, each at most once, and never back into a folder that it lies in: loops end.

    Args:
        root: The folder; it may itself be a link.
        follow_links: Whether links to folders are followed.
        ignore: Says of a bare name (not a key) that it is neither listed nor entered.

    Returns:
        Entries of all kinds. What cannot be read is an entry too, never an error.

    Raises:
        OSError: The root itself is missing, no folder, or unreadable.
    """
    return _Walk(follow_links=follow_links, ignore=ignore, followed=set()).entries(os.fspath(root))


FileId: TypeAlias = tuple[int, int]
"""(device, inode)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A folder to be read: path, key, and the identities of itself (last) and of all above it."""

    path: str
    key: str
    line: tuple[FileId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """One listing in progress; `followed` holds the links that were entered so far."""

    follow_links: bool
    ignore: Callable[[str], bool]
    followed: set[FileId]

    def entries(self, root: str) -> list[Entry]:
        """Walk depth first with an own stack: folders may be nested deeper than Python's recursion limit."""
        top = _Folder(path=root, key="", line=(_identity(Path(root).stat()),))
        stack = self._read(top)[::-1]
        done: list[Entry] = []
        while stack:
            item = stack.pop()
            if isinstance(item, Entry):
                done.append(item)
                continue
            try:
                inside = self._read(item)
            except OSError as error:
                done.append(Entry(key=item.key, kind="unreadable", note=error.strerror or str(error)))
            else:
                done.append(Entry(key=item.key, kind="dir"))
                stack.extend(reversed(inside))
        return done

    def _read(self, folder: _Folder) -> list[Entry | _Folder]:
        with os.scandir(folder.path) as names:
            found = sorted((entry for entry in names if not self.ignore(entry.name)), key=lambda entry: entry.name)
        prefix = f"{folder.key}/" if folder.key else ""
        return [self._look(entry, prefix + entry.name, folder) for entry in found]

    def _look(self, entry: os.DirEntry[str], key: str, folder: _Folder) -> Entry | _Folder:
        try:
            if entry.is_dir(follow_symlinks=False):
                return _Folder(path=entry.path, key=key, line=self._line(folder, entry))
            found = entry.stat()
        except OSError as error:
            nothing = entry.is_symlink() and error.errno == errno.ENOENT
            return Entry(key=key, kind="other", note="a link to nothing" if nothing else error.strerror or str(error))
        if stat.S_ISREG(found.st_mode):
            return Entry(key=key, kind="file", size_bytes=found.st_size, mtime_ns=_time_of(found))
        if stat.S_ISDIR(found.st_mode):
            return self._look_behind(entry, key, folder)
        return Entry(key=key, kind="other", note=_kind_of_mode(found.st_mode))

    def _look_behind(self, link: os.DirEntry[str], key: str, folder: _Folder) -> Entry | _Folder:
        """Decide about a link to a folder."""
        if not self.follow_links:
            return Entry(key=key, kind="link", note="a link to a folder; follow_links=True follows it")
        line = self._line(folder, link)
        if line[-1] in folder.line:
            return Entry(key=key, kind="link", note="a link back to a folder that it lies in")
        # Without this rule n folders that link to each other would be listed in n! ways.
        itself = (folder.line[-1][0], link.inode())
        if itself in self.followed:
            return Entry(key=key, kind="link", note="a link that was followed before, by another way")
        self.followed.add(itself)
        return _Folder(path=link.path, key=key, line=line)

    def _line(self, above: _Folder, entry: os.DirEntry[str]) -> tuple[FileId, ...]:
        """Identities down to a folder; they cost a stat per folder, and only links can make a loop."""
        return (*above.line, _identity(entry.stat())) if self.follow_links else ()


def _time_of(found: os.stat_result) -> int:
    """Give the time of last change in nanoseconds, held inside 64 bits."""
    return max(-_MAX_NS, min(found.st_mtime_ns, _MAX_NS))


def _identity(found: os.stat_result) -> FileId:
    return (found.st_dev, found.st_ino)


def _kind_of_mode(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "an unknown kind of file")
