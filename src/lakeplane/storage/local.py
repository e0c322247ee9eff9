"""Files of a file system, published so that neither a race nor a power cut can lose one.

This goes through ``os``, not through obstore: durability and exclusion are a matter of which system calls are
made in which order, and of what each one's failure means; obstore's local store does not sync, and encodes
some characters of names. Publishing is::

    write a temporary file beside the target, under a name of its own
    fsync it                          its bytes survive a power cut
    link it to the target             fails if there is one: this is put-if-absent
    (or rename it over the target     replaces whatever is there)
    fsync the directory               the name survives a power cut

Up to the link nothing has happened; after it, a failure to sync means that the outcome is unknown. There is
no put-if-match: files have no operation that compares and replaces at once, and a lock would bind only those
who take it. Where hard links do not exist, put-if-absent is refused, since nothing else is safe there.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from lakeplane.errors import (
    AccessDenied,
    FileExists,
    InvalidInput,
    InvalidLocation,
    LakeplaneError,
    NoSpace,
    OutcomeUnknown,
    StorageError,
    StoreCannot,
)
from lakeplane.model.location import Location
from lakeplane.model.parallel import in_parallel
from lakeplane.storage.local_walk import below, folder_names
from lakeplane.storage.recipe import Recipe, RecipePart
from lakeplane.storage.store import (
    READ_LIMIT,
    Range,
    Stat,
    check_conditions,
    check_file,
    check_inside,
    check_limit,
    missing,
    slice_of,
)

TEMPORARY: Final = ".lakeplane-"
"""How the names of temporary files begin. A writer that was killed leaves one behind; listings show it."""

_READERS: Final = 8
"""For network file systems; local disks gain little from more threads, and lose nothing by these."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_SYNC: Final = frozenset(
    {errno.EINVAL, errno.EBADF, errno.EROFS, errno.ENOTSUP, errno.EACCES, errno.EPERM}
)
"""A directory that cannot be opened or synced by us: one above those that we write to."""


class LocalStore:
    """The files below a directory, or, without a root, of the whole machine.

    With a root, nothing outside of it is touched: neither by a location, nor by a symbolic link.
    """

    def __init__(self, root: Location | None = None) -> None:
        """Make a store of what is in ``root``; it need not exist yet."""
        if root is not None and root.scheme != "file":
            raise InvalidLocation("not a place in a file system", source=root.text)
        self.root = root
        self._durable: dict[str, tuple[int, int]] = {}
        self._is_root_durable = False

    @property
    def can_put_if_absent(self) -> bool:
        """Offered; refused by ``put`` itself on file systems without hard links."""
        return True

    @property
    def can_put_if_match(self) -> bool:
        """Not possible with files."""
        return False

    def __repr__(self) -> str:
        return f"LocalStore({self.root or 'everything'})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a store does not travel to another process", hint="Send its recipe()")

    def read(
        self, at: Location, *, start: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> bytes:
        """Read a file or a part of it."""
        try:
            handle = os.open(self._existing(at), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                size = _regular(at, os.fstat(handle)).st_size
                begin, end = slice_of(size, start, length)
                check_limit(at, end - begin, limit)
                return _read(handle, begin, end)
            finally:
                os.close(handle)
        except OSError as failure:
            error = _translate(failure, at)
        raise error

    def read_many(self, ranges: Sequence[Range], *, limit: int = READ_LIMIT) -> list[bytes]:
        """Read many parts at once."""
        return in_parallel(
            lambda one: self.read(one.location, start=one.start, length=one.length, limit=limit),
            ranges,
            _READERS,
        )

    def stat(self, at: Location) -> Stat:
        """Tell about a file."""
        try:
            found = _regular(at, Path(self._existing(at)).stat())
        except OSError as failure:
            error = _translate(failure, at)
        else:
            return Stat(at, found.st_size, found.st_mtime_ns // 1_000_000, _etag(found))
        raise error

    def put(
        self, at: Location, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> str | None:
        """Write a file whole and durably, if its condition holds."""
        check_file(self.root, at)
        check_conditions(at, if_absent=if_absent, if_match=if_match)
        if if_match is not None:
            hint = "Publish under a new name with if_absent"
            raise StoreCannot("files cannot be compared and replaced at once", source=at.text, hint=hint)
        target = self._path(at)
        folder = os.path.dirname(target)  # noqa: PTH120  # as text: the bytes of names stay what they are
        self._check_contained(folder, at)
        try:
            self._make_durable(folder)
            temporary = f"{folder}/{TEMPORARY}{uuid.uuid4().hex}.tmp"
            return _publish(temporary, target, data, at, if_absent=if_absent)
        except OSError as failure:
            error = _translate(failure, at, writing=True)
        raise error

    def files(self, under: Location) -> Iterator[Stat]:
        """List the files below a place, sorted. Symbolic links to directories are not followed."""
        check_inside(self.root, under)
        top = self._path(under)
        self._check_contained(top, under)
        try:
            for relative, found in below(top):
                try:
                    at = under / relative
                except InvalidLocation:
                    continue
                yield Stat(at, found.st_size, found.st_mtime_ns // 1_000_000, _etag(found))
        except OSError as failure:
            error = _translate(failure, under)
        else:
            return
        raise error

    def folders(self, under: Location) -> list[str]:
        """Name the folders directly in a place, also empty ones."""
        check_inside(self.root, under)
        top = self._path(under)
        self._check_contained(top, under)
        try:
            return folder_names(top)
        except OSError as failure:
            error = _translate(failure, under)
        raise error

    def delete(self, *at: Location) -> None:
        """Delete files by their exact names, durably; directories stay."""
        for one in at:
            check_file(self.root, one)
        errors: list[LakeplaneError] = []
        changed: dict[str, Location] = {}
        for one in at:
            path = self._path(one)
            folder = os.path.dirname(path)  # noqa: PTH120
            try:
                self._check_contained(folder, one)
                os.unlink(path)  # noqa: PTH108
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as failure:
                errors.append(_translate(failure, one))
            else:
                changed[folder] = one
        for folder, one in changed.items():
            try:
                _sync_folder(folder, needed=False)
            except FileNotFoundError:
                continue  # the directory is gone, and its files with it
            except OSError as failure:
                errors.append(_translate(failure, one))
        if errors:
            raise errors[0]

    def recipe(self, *, with_secrets: bool = False) -> Recipe:
        """Tell how to make this store elsewhere: for processes that see the same files."""
        del with_secrets
        if self.root is None:
            return Recipe((RecipePart(None, schemes=("file",)),))
        return Recipe((RecipePart(self.root.text),))

    def _path(self, at: Location) -> str:
        if at.scheme != "file":
            raise InvalidLocation("not a place in a file system", source=at.text)
        return "/" + "/".join(at.segments)

    def _existing(self, at: Location) -> str:
        check_file(self.root, at)
        path = self._path(at)
        self._check_contained(path, at)
        return path

    def _check_contained(self, path: str, at: Location) -> None:
        """Refuse a path that leads out of the root by a symbolic link."""
        if self.root is None:
            return
        root = os.path.realpath(self._path(self.root))
        if os.path.commonpath((root, os.path.realpath(path))) != root:
            raise InvalidLocation("a symbolic link leads out of this store", source=at.text)

    def _make_durable(self, folder: str) -> None:
        """Make a directory, and see to it that a power cut cannot take it away with what is put into it.

        Another process may have made it a moment ago without having synced what is above it; so the names up
        to the root are synced once for each directory that is written to, and once those above the root.
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        found = Path(folder).stat()
        identity = (found.st_dev, found.st_ino)
        if self._durable.get(folder) == identity:
            return
        top = self._path(self.root) if self.root is not None and self._is_root_durable else "/"
        above = folder
        while above != "/" and above != os.path.dirname(top):  # noqa: PTH120
            above = os.path.dirname(above)  # noqa: PTH120
            _sync_folder(above, needed=False)
        self._durable[folder] = identity
        self._is_root_durable = True


def _publish(temporary: str, target: str, data: bytes, at: Location, *, if_absent: bool) -> str:
    """Write, sync and name a file; its temporary name is gone afterwards, whatever happens."""
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _write(handle, data)
        _sync(handle)
        ours = os.fstat(handle)
        try:
            if if_absent:
                os.link(temporary, target, follow_symlinks=False)
            else:
                os.replace(temporary, target)  # noqa: PTH105
        except OSError as failure:
            # Over a network the answer gets lost, the call is repeated, and it fails on its own success.
            if not _is_there(target, ours, at):
                raise _not_named(failure, at, if_absent=if_absent) from None
        try:
            _sync_folder(os.path.dirname(target), needed=True)  # noqa: PTH120
        except OSError as failure:
            problem = f"published, but the directory could not be synced: {failure.strerror}"
            raise OutcomeUnknown(problem, source=at.text, hint="It may not survive a power cut") from None
        return _etag(ours)
    finally:
        os.close(handle)
        _remove(temporary)


def _is_there(target: str, ours: os.stat_result, at: Location) -> bool:
    """Whether the target is our file, after an attempt to name it failed."""
    try:
        found = os.lstat(target)
    except OSError as failure:
        if failure.errno in (*_ABSENT, errno.ENAMETOOLONG):
            return False
        problem = f"neither published for certain nor not: {failure.strerror}"
        raise OutcomeUnknown(problem, source=at.text) from None
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)


def _not_named(failure: OSError, at: Location, *, if_absent: bool) -> LakeplaneError:
    """Why a whole file did not get its name."""
    if if_absent and failure.errno == errno.EEXIST:
        return FileExists("somebody else's file is there", source=at.text)
    if if_absent and failure.errno in _NO_LINKS:
        problem = "this file system has no hard links, so nothing can be published safely on it"
        return StoreCannot(problem, source=at.text, hint="Use another file system, or a SQL or REST catalog")
    return _translate(failure, at, writing=True)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _read(handle: int, begin: int, end: int) -> bytes:
    pieces = []
    while begin < end and (piece := os.pread(handle, end - begin, begin)):
        pieces.append(piece)
        begin += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _sync(handle: int) -> None:
    if sys.platform == "darwin":  # where fsync stops at the drive's cache
        import fcntl  # noqa: PLC0415

        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)


def _sync_folder(path: str, *, needed: bool) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as failure:
        if needed or failure.errno not in _NO_SYNC:
            raise


def _remove(temporary: str) -> None:
    try:
        os.unlink(temporary)  # noqa: PTH108
    except OSError:
        return  # renamed, or on a disk that fails: an orphan at worst


def _regular(at: Location, found: os.stat_result) -> os.stat_result:
    """Refuse what only looks like a file: a device never ends, a pipe never answers."""
    if stat.S_ISDIR(found.st_mode):
        raise missing(at)
    if not stat.S_ISREG(found.st_mode):
        raise StorageError("not a file", source=at.text)
    return found


def _etag(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def _translate(failure: OSError, at: Location, *, writing: bool = False) -> LakeplaneError:
    why = failure.strerror or type(failure).__name__
    if failure.errno in _ABSENT and not writing:
        return missing(at)
    if failure.errno in _FULL:
        return NoSpace(why, source=at.text, hint="Free some space; nothing was left behind")
    if failure.errno in _DENIED:
        return AccessDenied(why, source=at.text)
    return StorageError(why, source=at.text)
