"""Where new data files lie: the places that Java's location providers would choose, under fresh names.

A reader never learns a partition from a path, so paths only have to be good ones: no two files at one place,
nothing that a file system or a client of an object store trips over, and spread over many prefixes where the
table asks for that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote_plus

from lakeplane.files.target import WriteTarget
from lakeplane.model.location import parse_location
from lakeplane.model.murmur import murmur3

DATA_PATH: Final = ("write.data.path", "write.object-storage.path", "write.folder-storage.path")
"""The properties that say where data lies, the newest first."""
OBJECT_STORAGE: Final = "write.object-storage.enabled"
PARTITIONED_PATHS: Final = "write.object-storage.partitioned-paths"

EXTENSIONS: Final = {"parquet": "parquet", "orc": "orc", "avro": "avro"}

_MAX_SEGMENT: Final = 200
"""File systems end at 255 bytes."""
_KEPT: Final = "*"
_TRICKS: Final = re.compile("%0[0-9A-F]|%1[0-9A-F]|%7F")
"""Characters that do not show: readers and our own locations refuse them, encoded, too."""
_HASH_BITS: Final = 20
_HASH_PARTS: Final = (0, 4, 8, 12, 20)


class Places:
    """Gives places to the files of one task; two tasks, or two attempts of one, never give the same."""

    def __init__(self, target: WriteTarget, *, partition: int = 0, task: str = "0") -> None:
        properties = target.properties
        self._location = target.location.rstrip("/")
        found = next((properties[name] for name in DATA_PATH if properties.get(name)), None)
        self._data = (found or f"{self._location}/data").rstrip("/")
        parse_location(self._data)
        self._hashed = _is_true(properties.get(OBJECT_STORAGE), default=False)
        self._partitioned = not hides_partitions(properties)
        self._prefix = f"{partition:05d}-{task}-{target.run_id}"
        self._ending = f".{EXTENSIONS[target.file_format]}"
        # A counter of the interpreter: files of several threads get different numbers, too.
        self._numbers = itertools.count(1)

    @property
    def data_location(self) -> str:
        """Where all data of the table lies."""
        return self._data

    def fresh(self, partition_path: str = "", *, ending: str | None = None) -> str:
        """A place for a new file of a partition, whose name may end otherwise than those of data files."""
        return self.place(f"{self._prefix}-{next(self._numbers):05d}{ending or self._ending}", partition_path)

    def place(self, name: str, partition_path: str = "") -> str:
        """The place of a file with a name that the caller has chosen."""
        if not self._hashed:
            return "/".join(filter(None, (self._data, partition_path, name)))
        within = name
        if self._partitioned and partition_path:
            within = f"{partition_path}/{name}"
        hashed = hash_path(within)
        if not f"{self._data}/".startswith(f"{self._location}/"):
            return f"{self._data}/{hashed}/{self._context()}/{within}"
        return f"{self._data}/{hashed}{'/' if self._partitioned else '-'}{within}"

    def _context(self) -> str:
        """The last two names of the table's location: who lists a shared bucket sees whose the files are."""
        return "/".join(parse_location(self._location).segments[-2:])


def hides_partitions(properties: Mapping[str, str]) -> bool:
    """Whether nothing of partitions may be seen in paths."""
    hashed = _is_true(properties.get(OBJECT_STORAGE), default=False)
    return hashed and not _is_true(properties.get(PARTITIONED_PATHS), default=True)


def hash_path(name: str) -> str:
    """Twenty bits of a name's hash as directories, as Java has them."""
    bits = f"{murmur3(name.encode()) & 0xFFFFFFFF | 0x80000000:032b}"[-_HASH_BITS:]
    return "/".join(bits[start:end] for start, end in itertools.pairwise(_HASH_PARTS))


def partition_path(names: Sequence[str], values: Sequence[str]) -> str:
    """The directories of a partition, from the names of its fields and the texts of its values."""
    return "/".join(f"{_segment(name)}={_segment(text)}" for name, text in zip(names, values, strict=True))


def _segment(text: str) -> str:
    """A text as Java encodes it for paths, without what does not show, and not too long."""
    encoded = quote_plus(text, safe=_KEPT, errors="replace").replace("~", "%7E")
    encoded = _TRICKS.sub(lambda found: f"%25{found[0][1:]}", encoded)
    if len(encoded) <= _MAX_SEGMENT:
        return encoded
    cut = encoded[: _MAX_SEGMENT - 9]
    # A cut must not leave half of an encoded character; which of two long values it is, the hash tells.
    cut = re.sub("%[0-9A-F]?$", "", cut)
    return f"{cut}_{murmur3(text.encode('utf-8', 'replace')) & 0xFFFFFFFF:08x}"


def _is_true(text: str | None, *, default: bool) -> bool:
    return default if text is None else text.strip().lower() == "true"
