"""Files in S3, Google Cloud Storage, Azure and behind HTTP, through obstore.

The lower layer repeats requests on its own, and a conditional write that is repeated after a lost answer
loses against itself. So there are two clients: a patient one for what can be done twice, and a strict one,
which never repeats, for writes with a condition.

Each conditional write carries a token of its own in the file's user metadata. When its answer is lost, or is
"somebody was faster" (which it also is when a proxy delivered the request twice), the store is asked whose
file is there: if it has our token, it is ours, and the write is done.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeVar

from lakeplane.errors import (
    FileChanged,
    FileExists,
    FileMissing,
    InvalidInput,
    InvalidLocation,
    LakeplaneError,
    OutcomeUnknown,
    StoreCannot,
)
from lakeplane.model.location import Location
from lakeplane.model.parallel import in_parallel, try_all
from lakeplane.storage.clients import Clients, Refresh, make_clients
from lakeplane.storage.options import NONE, Options
from lakeplane.storage.recipe import Recipe, RecipePart
from lakeplane.storage.remote_errors import RANGE_BEYOND_END, Action, Collision, answer_in, translate
from lakeplane.storage.store import (
    READ_LIMIT,
    Range,
    Stat,
    check_conditions,
    check_file,
    check_inside,
    check_limit,
    slice_of,
)

T = TypeVar("T")

TOKEN: Final = "lakeplaneput"  # noqa: S105  # the name of the metadata; Azure takes letters and digits only
COLLISIONS: Final = 5
"""How often a write is sent again that met another one and was not applied."""

_MANY: Final = 1000
_FAMILY: Final = {"s3": "s3", "gcs": "gcs", "azure": "adls", "http": "http"}


class RemoteStore:
    """The files of a bucket, a container or a web server, below a root."""

    def __init__(self, root: Location, options: Options = NONE, refresh: Refresh | None = None) -> None:
        """Make a store of what is in ``root``; ``refresh`` gives newer credentials in time."""
        self.root = root
        self._options = options
        self._clients: Clients = make_clients(root, options, refresh)
        self._is_read_only = self._clients.platform == "http"

    @property
    def can_put_if_absent(self) -> bool:
        """Offered by S3, Google and Azure; some stores that speak S3's protocol ignore it."""
        return not self._is_read_only

    @property
    def can_put_if_match(self) -> bool:
        """Offered by S3, Google and Azure."""
        return not self._is_read_only

    def __repr__(self) -> str:
        return f"RemoteStore({self.root})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a store does not travel to another process", hint="Send its recipe()")

    def read(
        self, at: Location, *, start: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> bytes:
        """Read a file or a part of it."""
        key = self._key(at)
        if length == 0 or (start < 0 and self._clients.platform == "azure"):  # what requests cannot say
            size = self.stat(at).size
            if not length and length is not None:
                return b""
            start = max(0, size + start) if start < 0 else start
        options = {} if (part := _range(start, length)) is None else {"range": part}
        try:
            answer = self._clients.patient.get(key, options=options)
            begin, end = answer.range
            check_limit(at, end - begin, limit)
            return bytes(answer.bytes())[:length]
        except LakeplaneError:
            raise
        except Exception as failure:  # noqa: BLE001  # obstore's errors, some of them built-in ones
            if options and answer_in(failure).status == RANGE_BEYOND_END:
                return b""
            error = None if _ignores_ranges(failure) else translate(failure, at, "read")
        if error is not None:
            raise error
        whole = self.read(at, limit=limit)
        begin, end = slice_of(len(whole), start, length)
        return whole[begin:end]

    def read_many(self, ranges: Sequence[Range], *, limit: int = READ_LIMIT) -> list[bytes]:
        """Read many parts at once."""
        return in_parallel(
            lambda one: self.read(one.location, start=one.start, length=one.length, limit=limit), ranges
        )

    def stat(self, at: Location) -> Stat:
        """Tell about a file."""
        key = self._key(at)
        return self._stat_of(at, _call(lambda: self._clients.patient.head(key), at, "read"))

    def put(
        self, at: Location, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> str | None:
        """Write a file whole, if its condition holds."""
        key = self._key(at)
        check_conditions(at, if_absent=if_absent, if_match=if_match)
        if self._is_read_only:
            raise StoreCannot("a web server is only read from", source=at.text)
        if not if_absent and if_match is None:
            done = _call(lambda: self._clients.patient.put(key, data), at, "put")
            return self._etag(done)
        action: Action = "create" if if_absent else "update"
        mode = "create" if if_match is None else self._version(if_match)
        token = uuid.uuid4().hex
        for attempt in range(COLLISIONS + 1):
            try:
                done = self._clients.strict.put(
                    key, data, mode=mode, attributes={TOKEN: token}, use_multipart=False
                )
                return self._etag(done)
            except Exception as failure:  # noqa: BLE001  # obstore's errors, some of them built-in ones
                error = translate(failure, at, action)
            if not isinstance(error, Collision) or attempt == COLLISIONS:
                break
            time.sleep(random.uniform(0.02, 0.1) * 2**attempt)  # noqa: S311  # spreads writers, no secret
        return self._settle(at, token, action, error)

    def files(self, under: Location) -> Iterator[Stat]:
        """List the files below a place, sorted."""
        prefix = self._folder(under)
        depth = len(prefix) + 1 if prefix else 0
        pages = self._clients.patient.list(prefix or None, chunk_size=_MANY)
        for found in self._in_order(_pages(pages, under)):
            try:
                at = under / found["path"][depth:]
            except InvalidLocation:
                continue
            yield self._stat_of(at, found)

    def folders(self, under: Location) -> list[str]:
        """Name the folders directly in a place."""
        prefix = self._folder(under)
        found = _call(lambda: self._clients.patient.list_with_delimiter(prefix or None), under, "read")
        return sorted((path.rpartition("/")[2] for path in found["common_prefixes"]), key=str.encode)

    def delete(self, *at: Location) -> None:
        """Delete files by their exact names, concurrently."""
        for one in at:
            self._key(one)
        if self._is_read_only:
            raise StoreCannot("a web server is only read from", source=self.root.text)
        try_all(self._delete, at)

    def recipe(self, *, with_secrets: bool = False) -> Recipe:
        """Tell how to make this store elsewhere, where the chains of credentials are followed again."""
        family = _FAMILY[self._clients.platform]
        ours = (f"{family}.", "store.")
        plain = tuple((k, v) for k, v in sorted(self._options.plain.items()) if k.startswith(ours))
        secret = tuple(
            (k, v.reveal())
            for k, v in sorted(self._options.secret.items())
            if with_secrets and k.startswith(ours)
        )
        return Recipe((RecipePart(self.root.text, plain, secret),))

    def _key(self, at: Location) -> str:
        check_file(self.root, at)
        return self._addressable(at)

    def _folder(self, under: Location) -> str:
        check_inside(self.root, under)
        if self._is_read_only:
            raise StoreCannot("a web server does not list its files", source=under.text)
        return self._addressable(under)

    def _addressable(self, at: Location) -> str:
        if "" in at.segments:
            hint = "Write one '/' between names"
            raise InvalidLocation("empty names in a path are not supported", source=at.text, hint=hint)
        return "/".join(at.segments)

    def _delete(self, at: Location) -> None:
        try:
            _call(lambda: self._clients.patient.delete(self._key(at)), at, "read")
        except FileMissing:
            return

    def _settle(self, at: Location, token: str, action: Action, error: LakeplaneError) -> str | None:
        """After a write with a condition that did not succeed: is it our file that is there nevertheless?"""
        if not isinstance(error, OutcomeUnknown | FileExists | FileChanged):
            raise error
        whose, meta = self._writer_of(at)
        if whose == token:
            return self._etag(meta)
        if isinstance(error, OutcomeUnknown) and action == "create" and whose is not None:
            raise FileExists("somebody else's file is there", source=at.text)
        raise error

    def _writer_of(self, at: Location) -> tuple[str | None, Any]:
        """The token of the write that made a file; ``None`` if it cannot be told."""
        try:
            answer = self._clients.patient.get(self._key(at), options={"head": True})
            return dict(answer.attributes).get(TOKEN), answer.meta
        except Exception:  # noqa: BLE001  # the question is an extra: what was known before stays true
            return None, None

    def _etag(self, meta: Any) -> str | None:
        """What names a file's content: on Google the generation, which is what it compares."""
        value: str | None = meta.get("version" if self._clients.platform == "gcs" else "e_tag")
        return value

    def _version(self, etag: str) -> dict[str, str]:
        return {"version" if self._clients.platform == "gcs" else "e_tag": etag}

    def _stat_of(self, at: Location, meta: Any) -> Stat:
        modified_ms = int(meta["last_modified"].timestamp() * 1000)
        return Stat(at, meta["size"], modified_ms, self._etag(meta))

    def _in_order(self, found: Iterator[Any]) -> Iterator[Any]:
        """By name: as S3 and Google document to list; elsewhere it takes sorting."""
        lists_sorted = self._clients.platform == "gcs" or (
            self._clients.platform == "s3" and not self.root.authority.endswith("--x-s3")
        )
        return found if lists_sorted else iter(sorted(found, key=lambda meta: meta["path"].encode()))


def _call(do: Callable[[], T], at: Location, action: Action) -> T:
    """Do a request, and raise errors of ours, without a trace of what the client's said."""
    try:
        return do()
    except Exception as failure:  # noqa: BLE001  # obstore's errors, some of them built-in ones
        error = translate(failure, at, action)
    raise error


def _pages(pages: Iterator[Any], under: Location) -> Iterator[Any]:
    while True:
        page = _call(lambda: next(pages, None), under, "read")
        if page is None:
            return
        yield from page


def _range(start: int, length: int | None) -> Any:
    if length is not None and length < 0:
        raise InvalidInput(f"a length of {length} bytes cannot be read")
    if start < 0:
        return {"suffix": -start}
    if length is not None:
        return start, start + length
    return {"offset": start} if start else None


def _ignores_ranges(failure: Exception) -> bool:
    """Whether a server answered with the whole file where a part was asked for."""
    return "non-partial response" in str(failure) or type(failure).__name__ == "NotSupportedError"
