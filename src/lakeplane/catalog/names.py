"""Names of namespaces, tables and views.

A name reaches databases, directories and policies of cloud stores, so what could mean something else there
is refused at the door. Names that are only unwise are refused for new tables, and accepted for old ones.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, TypeAlias

import msgspec

from lakeplane.errors import InvalidInput

Namespace: TypeAlias = tuple[str, ...]

_MAX_BYTES: Final = 255
_FORBIDDEN: Final = frozenset('/\\*?<>|":%')
_PART: Final = re.compile(r"`(?:[^`]|``)+`|[^.`]+")


class Name(msgspec.Struct, frozen=True, order=True):
    """Where a table or view stands in its catalog."""

    namespace: Namespace
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts, from the outermost namespace to the name."""
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        return show(self.parts)


def show(parts: tuple[str, ...]) -> str:
    """Write a name as users type it, quoted where it must be."""
    return ".".join(part if re.fullmatch(r"\w+", part) else f"`{part.replace('`', '``')}`" for part in parts)


def parse_name(text: str | Name) -> Name:
    """Read ``shop.orders``; a part in backticks may hold anything that a name may."""
    if isinstance(text, Name):
        return text
    parts = parse_parts(text)
    if len(parts) < 2:  # noqa: PLR2004 - a namespace and a name
        raise InvalidInput("a table needs a namespace", source=text, hint="Write namespace.name")
    return Name(parts[:-1], parts[-1])


def parse_namespace(text: str | Namespace | None) -> Namespace:
    """Read the name of a namespace; nothing is the root."""
    if not text:
        return ()
    return text if isinstance(text, tuple) else parse_parts(text)


def parse_parts(text: str) -> tuple[str, ...]:
    """Split dotted text into checked parts."""
    parts: list[str] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            raise InvalidInput(
                "not a name", source=text, hint="Write namespace.name, with `...` around odd parts"
            )
        part = found[0]
        parts.append(part[1:-1].replace("``", "`") if part.startswith("`") else part)
        position = found.end()
        if position == len(text):
            break
        if text[position] != ".":
            raise InvalidInput("not a name", source=text, hint="Put backticks around the whole part")
        position += 1
    for part in parts:
        check_part(part)
    return tuple(parts)


def check_part(part: str) -> None:
    """Refuse a part of a name that could reach another table than it says, in some catalog."""
    problem = None
    if not part or len(part.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        problem = f"must have 1 to {_MAX_BYTES} bytes"
    elif part.strip() != part:
        problem = "has blanks around it"
    elif set(part) == {"."} or "." in part:
        problem = "holds a dot"
    elif bad := sorted(_FORBIDDEN.intersection(part)):
        problem = f"holds {' '.join(bad)}"
    elif any(unicodedata.category(mark) in ("Cc", "Cs", "Zl", "Zp") for mark in part):
        problem = "holds characters that do not show"
    if problem:
        raise InvalidInput(f"the name {part!r:.100} {problem}", hint="Use letters, digits and _")


def check_new(parts: tuple[str, ...]) -> None:
    """Refuse what a new table or namespace should not be called, though an old one may be."""
    for part in parts:
        check_part(part)
        plain = unicodedata.normalize("NFKC", part)
        if plain != part or any(unicodedata.category(mark) == "Cf" for mark in part):
            problem = f"the name {part!r} looks like {plain!r}, and is another one"
            raise InvalidInput(problem, hint="Use the plain form of its characters")
        if part.startswith((".", "_")):
            raise InvalidInput(f"the name {part!r} is hidden to many readers", hint="Start it with a letter")
