"""Numbers in the properties of tables and views: texts that anybody may have written."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"\s*(-?[0-9]{1,18})\s*")


def number(text: str | None) -> int | None:
    """The number that a property holds; None when it is absent or holds something else."""
    found = None if text is None else _NUMBER.fullmatch(text)
    return None if found is None else int(found[1])
