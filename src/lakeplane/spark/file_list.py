"""How a list of files becomes a scan of Spark, without one call per file.

Spark's own streaming sink leaves a log of the files that it has written, and Spark's file sources take their
files from such a log instead of listing a directory. So a log is written with the files of a plan, with
their sizes, and the directory of that log is loaded. The time that the log tells of a file is ours to choose:
it is the file's position in the plan, and queries see it as the file's modification time.

That is a contract inside of Spark. Whether a session keeps it is tried once with a file that is not there;
if it does not, the paths are given to Spark one by one, and it looks at each.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType

from lakeplane.errors import InvalidInput, InvalidMetadata, NotSupported
from lakeplane.model.location import parse_location
from lakeplane.spark.session import is_connect, version_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HandOver = Literal["log", "paths"]
"""How files are handed to Spark."""

LISTED_ONE_BY_ONE: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_NEVER_PARALLEL: Final = "2147483647"
_LOG: Final = "_spark_metadata"

# What needs no encoding in a URI, and climbs nowhere: most paths, so that few are looked at one by one.
_STORE: Final = r"(?:(?!file:)[a-z][a-z0-9+.-]*://[\w.-]+|file://)?"
_PLAIN: Final = re.compile(_STORE + r"(?:/\.*[\w=,+~-][\w.=,+~-]*)+", re.ASCII)
_SAFE: Final = "/_-.~=,+!$'()@:;&"


class FileList(NamedTuple):
    """Files that are read in the same way, and what each of them is called in a query."""

    paths: Sequence[str]
    """As metadata names them."""
    sizes: Sequence[int]
    numbers: Sequence[int]
    """What the log says instead of a time: the positions of the files in a plan."""


class Scratch(NamedTuple):
    """A folder for logs that the Spark driver can read: where it is for the driver, and for this process."""

    location: str
    folder: str

    @staticmethod
    def at(folder: str | os.PathLike[str]) -> Scratch:
        """A folder that both see under the same path."""
        place = str(Path(folder).absolute())
        return Scratch(to_uri(place), place)


class Loaded(NamedTuple):
    """A scan, and how its rows tell which file they are from."""

    frame: DataFrame
    hand_over: HandOver
    file_key: Column
    """In each row, which file it is from: its number, or its path in Spark's spelling."""
    keys: Sequence[int] | Sequence[str]
    """The same for each file."""


def to_uri(path: str) -> str:
    """The URI by which Spark finds a file: what is not allowed in a URI is encoded, once."""
    if _PLAIN.fullmatch(path):
        return path if "://" in path else f"file://{path}"
    place = parse_location(path)
    if place.scheme == "file":
        return "file:///" + quote("/".join(place.segments), safe=_SAFE)
    start = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*", path)
    if start is None:
        raise InvalidInput("Spark cannot open it without the name of a store", source=path)
    return start[0] + quote(path[start.end() :], safe=_SAFE)


def to_path(path: str) -> str:
    """The path by which Spark finds a file that is given to it by itself: nothing in it is encoded."""
    place = parse_location(path)
    return "file:///" + "/".join(place.segments) if place.scheme == "file" else path


_STORE_START: Final = re.compile("^[A-Za-z][A-Za-z0-9+.-]*:/+")
_UNQUOTED: Final = "/_-!.~'()*,;:$&+=@"
"""What Java leaves as it is in the path of a URI, beside letters, digits, and what is not ASCII."""


def _spelling(path: str) -> str:
    """How Spark's ``_metadata`` spells a path, but for how it begins, which varies."""
    rest = _STORE_START.sub("", path)
    return "".join(quote(each, safe=_UNQUOTED) if each.isascii() else each for each in rest)


def load(
    session: SparkSession,
    files: FileList,
    file_format: str,
    schema: StructType | None,
    *,
    options: Mapping[str, str] | None = None,
    scratch: Scratch | None = None,
    schemes: Mapping[str, str] | None = None,
    hand_over: HandOver | None = None,
) -> Loaded:
    """Make a scan of some files.

    ``scratch`` is where the log goes; a classic session needs none. ``schemes`` says what schemes of paths
    are called in Spark, as in ``{"s3": "s3a"}``.
    """
    _check_files(session, files)
    way = hand_over or find_way(session, scratch)
    reader = session.read.format(file_format).options(**_OPTIONS).options(**(options or {}))
    if schema is not None:
        reader = reader.schema(schema)
    if way == "paths":
        paths = [_renamed(to_path(path), schemes) for path in files.paths]
        key = F.regexp_replace(F.col("_metadata.file_path"), _STORE_START.pattern, "")
        return Loaded(_load_paths(session, reader, paths), way, key, list(map(_spelling, paths)))
    uris = [_renamed(to_uri(path), schemes) for path in files.paths]
    log = _write_log(uris, files, scratch)
    try:
        frame = reader.load(log.location)
        if is_connect(session):
            # The server reads the log when the query runs, for each query that is made of the frame.
            frame.schema  # noqa: B018 - what is wrong with the log is said here
    except BaseException:
        shutil.rmtree(log.folder, ignore_errors=True)
        raise
    _forget(session, frame, log.folder)
    return Loaded(frame, way, F.unix_millis(F.col("_metadata.file_modification_time")), files.numbers)


_OPTIONS: Final = {
    # Without it, names of directories as in "k=5" would become columns.
    "recursiveFileLookup": "true",
    # A file that is gone or broken is an error here, whatever a session says: rows would be missing.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    # From 4.3 on, this reads files whose names begin with a dot or an underscore; before, see _check_files.
    "ignoredPathSegmentRegex": "",
}

_READS_HIDDEN: Final = (4, 3)


def _check_files(session: SparkSession, files: FileList) -> None:
    """Refuse files that Spark would pass over without a word."""
    for path, size in zip(files.paths, files.sizes, strict=True):
        if size <= 0:
            problem = f"its size is said to be {size}, and Spark would not read it"
            raise InvalidMetadata(problem, source=path)
        if path.rpartition("/")[2][:1] in "._" and version_of(session) < _READS_HIDDEN:
            problem = f"Spark {session.version} reads no file whose name begins with '.' or '_'"
            raise NotSupported(problem, source=path, hint="Use Spark 4.3 or newer, or rename the file")


def _renamed(uri: str, schemes: Mapping[str, str] | None) -> str:
    if not schemes:
        return uri
    scheme, colon, rest = uri.partition(":")
    return schemes.get(scheme.lower(), scheme) + colon + rest


def _write_log(uris: Sequence[str], files: FileList, scratch: Scratch | None) -> Scratch:
    folder = tempfile.mkdtemp(prefix="lakeplane-scan-", dir=None if scratch is None else scratch.folder)
    Path(folder, _LOG).mkdir()
    rows = [
        f'{{"path":"{uri}","size":{size},"isDir":false,"modificationTime":{number},'
        '"blockReplication":1,"blockSize":134217728,"action":"add"}'
        for uri, size, number in zip(uris, files.sizes, files.numbers, strict=True)
    ]
    Path(folder, _LOG, "0").write_text("v1\n" + "\n".join(rows), encoding="ascii")
    if scratch is None:
        return Scratch.at(folder)
    # Only the server must see the folder under the name that is given to it.
    Path(folder).chmod(0o755)
    return Scratch(f"{scratch.location.rstrip('/')}/{Path(folder).name}", folder)


def _forget(session: SparkSession, frame: DataFrame, folder: str) -> None:
    """Delete a log when nobody reads it any more."""
    if not is_connect(session):
        # Spark has read it by now, and keeps what it says.
        shutil.rmtree(folder, ignore_errors=True)
        return
    plan: Any = getattr(frame, "_plan", None)
    # Whatever is made of the frame holds its plan.
    weakref.finalize(frame if plan is None else plan, shutil.rmtree, folder, ignore_errors=True)


def _load_paths(session: SparkSession, reader: Any, paths: Sequence[str]) -> DataFrame:
    # These are file names, not patterns.
    reader = reader.option("__globPaths__", "false")
    before = session.conf.get(LISTED_ONE_BY_ONE)
    # With more paths than this, Spark would start a job to look at them, which takes far longer.
    session.conf.set(LISTED_ONE_BY_ONE, _NEVER_PARALLEL)
    try:
        frame: DataFrame = reader.load([*paths])
        frame.schema  # noqa: B018 - a Connect server looks at the paths now, and keeps what it saw
    finally:
        session.conf.set(LISTED_ONE_BY_ONE, str(before))
    return frame


# Which way a session knows

_KNOWN: Final[weakref.WeakKeyDictionary[Any, dict[Scratch | None, HandOver]]] = weakref.WeakKeyDictionary()


def find_way(session: SparkSession, scratch: Scratch | None = None) -> HandOver:
    """How files are handed to a session: tried once, and remembered as long as the session lives."""
    if scratch is None and is_connect(session):
        return "paths"
    known = _KNOWN.setdefault(session, {})
    if scratch not in known:
        known[scratch] = "log" if takes_files_from_logs(session, scratch) else "paths"
    return known[scratch]


def takes_files_from_logs(
    session: SparkSession, scratch: Scratch | None = None, load: Callable[..., Loaded] = load
) -> bool:
    """Whether Spark reads a log instead of listing a directory: it then names a file that is not there."""
    nowhere = "file:///lakeplane/no such file.parquet"
    files = FileList([nowhere], [1], [0])
    try:
        schema = StructType([StructField("x", LongType())])
        found = load(session, files, "parquet", schema, scratch=scratch, hand_over="log")
        named = found.frame.inputFiles()
    except PySparkException:
        return False
    return [re.sub("^file:/+", "file:///", each) for each in named] == [to_uri(nowhere)]
