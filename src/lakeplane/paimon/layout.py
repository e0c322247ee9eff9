"""Where the files of a table lie, as paths from its directory on.

Data files are not named by their place: it follows from their partition, their bucket and their name. The
texts of partition values are those of Java, and only name directories: which value they stand for is never
read from them, as null, the empty text and blanks share a name.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.model.types import Decimal
from lakeplane.paimon.options import POSTPONE, TableOptions
from lakeplane.paimon.snapshots import check_ref_name
from lakeplane.paimon.types import (
    MICRO_DIGITS,
    DataType,
    Kind,
    Simple,
    Time,
    Timestamp,
    is_text,
)

MAIN: Final = "main"
LATEST: Final = "LATEST"
EARLIEST: Final = "EARLIEST"

_SNAPSHOT: Final = "snapshot-"
_SCHEMA: Final = "schema-"
_TAG: Final = "tag-"
_BRANCH: Final = "branch-"
_CONSUMER: Final = "consumer-"
_CHANGELOG: Final = "changelog-"


def branch_root(branch: str = MAIN) -> str:
    """The directory of a branch, with a separator at its end; that of the table itself is empty."""
    return "" if branch == MAIN else f"branch/{_BRANCH}{check_ref_name(branch, 'branch')}/"


def schema_folder(branch: str = MAIN) -> str:
    """Where schemas lie."""
    return f"{branch_root(branch)}schema"


def schema_path(schema_id: int, branch: str = MAIN) -> str:
    """The file of a schema."""
    return f"{schema_folder(branch)}/{_SCHEMA}{schema_id}"


def snapshot_folder(branch: str = MAIN) -> str:
    """Where snapshots and their hints lie."""
    return f"{branch_root(branch)}snapshot"


def snapshot_path(snapshot_id: int, branch: str = MAIN) -> str:
    """The file of a snapshot."""
    return f"{snapshot_folder(branch)}/{_SNAPSHOT}{snapshot_id}"


def changelog_folder(branch: str = MAIN) -> str:
    """Where what is left of expired snapshots lies, if their changes are kept for longer."""
    return f"{branch_root(branch)}changelog"


def changelog_path(snapshot_id: int, branch: str = MAIN) -> str:
    """The file with what is left of an expired snapshot."""
    return f"{changelog_folder(branch)}/{_CHANGELOG}{snapshot_id}"


def tag_folder(branch: str = MAIN) -> str:
    """Where tags lie."""
    return f"{branch_root(branch)}tag"


def tag_path(name: str, branch: str = MAIN) -> str:
    """The file of a tag."""
    return f"{tag_folder(branch)}/{_TAG}{check_ref_name(name, 'tag')}"


def consumer_folder(branch: str = MAIN) -> str:
    """Where consumers lie."""
    return f"{branch_root(branch)}consumer"


def consumer_path(name: str, branch: str = MAIN) -> str:
    """The file of a consumer."""
    return f"{consumer_folder(branch)}/{_CONSUMER}{check_ref_name(name, 'consumer')}"


def manifest_path(name: str) -> str:
    """The file of a manifest, a manifest list or an index manifest: those of branches lie there, too."""
    return f"manifest/{name}"


def index_path(name: str, external: str | None = None, bucket: str | None = None) -> str:
    """An index file; with ``index-file-in-data-file-dir`` it lies in the directory of its bucket."""
    if external is not None:
        return external
    return f"{bucket}/{name}" if bucket is not None else f"index/{name}"


def numbers_in(names: Sequence[str], prefix: str) -> list[int]:
    """The numbers of files such as ``snapshot-7``, ascending; other files are passed over."""
    shape = re.compile(re.escape(prefix) + r"([0-9]{1,18})")
    return sorted(int(found[1]) for name in names if (found := shape.fullmatch(name)))


def snapshot_ids(names: Sequence[str]) -> list[int]:
    """The snapshots among the names of files."""
    return numbers_in(names, _SNAPSHOT)


def schema_ids(names: Sequence[str]) -> list[int]:
    """The schemas among the names of files."""
    return numbers_in(names, _SCHEMA)


def names_after(names: Sequence[str], prefix: str) -> list[str]:
    """What follows a prefix in the names that have it, sorted."""
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix) and name != prefix)


def tag_names(names: Sequence[str]) -> list[str]:
    """The tags among the names of files."""
    return names_after(names, _TAG)


def branch_names(names: Sequence[str]) -> list[str]:
    """The branches among the names of directories."""
    return names_after(names, _BRANCH)


def consumer_names(names: Sequence[str]) -> list[str]:
    """The consumers among the names of files."""
    return names_after(names, _CONSUMER)


# Data files.


def bucket_folder(options: TableOptions, names: Sequence[str], texts: Sequence[str], bucket: int) -> str:
    """The directory of a bucket, from the texts of its partition values."""
    parts = [f"{escaped(name)}={escaped(text)}" for name, text in zip(names, texts, strict=True)]
    parts.append("bucket-postpone" if bucket == POSTPONE else f"bucket-{bucket}")
    if options.data_file_directory:
        parts.insert(0, options.data_file_directory.strip("/"))
    return "/".join(parts)


_ESCAPED: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")


def escaped(text: str) -> str:
    """A name or value as part of a path."""
    return _ESCAPED.sub(lambda mark: f"%{ord(mark[0]):02X}", text)


def partition_text(type_: DataType, value: Any, options: TableOptions) -> str:
    """The text that stands for a partition value in paths."""
    if value is None:
        return options.partition_default_name
    text = (_legacy if options.partition_legacy_name else _plain)(type_.kind, value)
    # What Java calls whitespace.
    return text if text.strip(_JAVA_BLANKS) else options.partition_default_name


_JAVA_BLANKS: Final = (
    "".join(
        chr(code)
        for code in (*range(9, 14), *range(28, 33), 0x1680, *range(0x2000, 0x2007), *range(0x2008, 0x200B))
    )
    + "\u2028\u2029\u205f\u3000"
)


def _legacy(kind: Kind, value: Any) -> str:
    """A value as it is inside of Paimon, as text."""
    match kind:
        case Simple.DATE:
            return str(value)
        case Time():
            return str(value // 1000)
        case Timestamp(precision=precision):
            moment, nanos = _moment(value, precision)
            return _iso(moment, nanos)
        case _:
            return _either(kind, value)


def _plain(kind: Kind, value: Any) -> str:
    """A value as SQL casts it to text."""
    match kind:
        case Simple.DATE:
            return (dt.date(1970, 1, 1) + _days(value)).isoformat()
        case Time(precision=precision):
            millis = value // 1000
            clock = f"{millis // 3_600_000:02}:{millis // 60_000 % 60:02}:{millis // 1000 % 60:02}"
            fraction = f"{millis % 1000:03}"[:precision]
            # One digit is always there, and then none that is zero to the end.
            return f"{clock}.{fraction[0]}{fraction[1:].rstrip('0')}" if fraction else clock
        case Timestamp(zoned=True):
            problem = "partitions by local time zone are named in the time zone of their writer"
            raise NotSupported(problem, field="options.partition.legacy-name")
        case Timestamp(precision=precision):
            moment, nanos = _moment(value, precision)
            fraction = f"{nanos:09}"
            while len(fraction) > precision and fraction.endswith("0"):
                fraction = fraction[:-1]
            return f"{moment:%Y-%m-%d %H:%M:%S}{'.' * bool(fraction)}{fraction}"
        case _:
            return _either(kind, value)


def _either(kind: Kind, value: Any) -> str:
    match kind:
        case Simple.BOOLEAN:
            return "true" if value else "false"
        case Simple.FLOAT:
            return java_float(str(np.float32(value)))
        case Simple.DOUBLE:
            return java_float(repr(value))
        case Decimal():
            return f"{value:f}"
        case _ if is_text(kind) or isinstance(value, int):
            return str(value)
        case _:
            raise NotSupported(f"partitions by {kind} have no names that can be told")


def _days(value: int) -> dt.timedelta:
    return dt.timedelta(days=value)


def _moment(value: int, precision: int) -> tuple[dt.datetime, int]:
    """A time without its fraction of a second, and that in nanoseconds."""
    per_second = 10**9 if precision > MICRO_DIGITS else 10**6
    seconds, rest = divmod(value, per_second)
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)  # noqa: DTZ001  # of no time zone
    except OverflowError:
        raise InvalidInput("a partition of a time outside of the years 1 to 9999") from None
    return moment, rest * (10**9 // per_second)


def _iso(moment: dt.datetime, nanos: int) -> str:
    """As Java's LocalDateTime: seconds are left out if they are zero, fractions have 3, 6 or 9 digits."""
    text = f"{moment:%H:%M}"
    if moment.second or nanos:
        text += f":{moment.second:02}"
    if nanos:
        digits = f"{nanos:09}"
        text += "." + (digits[:3] if not nanos % 10**6 else digits[:6] if not nanos % 10**3 else digits)
    return f"{moment.year:04}-{moment:%m-%d}T{text}"


_LEAST_PLAIN_EXPONENT: Final = -3
_MOST_PLAIN_EXPONENT: Final = 7


def java_float(text: str) -> str:
    """A floating point number as Java shows it, from the shortest text of Python."""
    lowered = text.lower()
    if "nan" in lowered:
        return "NaN"
    if "inf" in lowered:
        return "-Infinity" if lowered.startswith("-") else "Infinity"
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = lowered.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The number is 0.<digits> times ten to the power of this.
    power = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if _LEAST_PLAIN_EXPONENT < power <= _MOST_PLAIN_EXPONENT:
        shown = "0" * (1 - power) + digits + "0" * (power - len(digits))
        point = max(power, 1)
        return f"{sign}{shown[:point]}.{shown[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power - 1}"
