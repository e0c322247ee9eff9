"""Properties of tables and views: texts that anybody may have written, and names that are not properties."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lakeplane.errors import InvalidInput

FORMAT_VERSION: Final = "format-version"
"""Given as a property, and never stored as one."""

_RESERVED: Final = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)

_NUMBER: Final = re.compile(r"\s*(-?[0-9]{1,18})\s*")


def number(text: str | None) -> int | None:
    """The number that a property holds; None when it is absent or holds something else."""
    found = None if text is None else _NUMBER.fullmatch(text)
    return None if found is None else int(found[1])


def check_names(names: Iterable[str]) -> None:
    """Refuse names under which other tools show what a table is; as properties they would only mislead."""
    reserved = sorted(_RESERVED.intersection(names))
    if reserved:
        raise InvalidInput("the name is reserved, it cannot be set", field=f"property {reserved[0]!r}")
