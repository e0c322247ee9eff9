"""Where a file, directory or table lies: a value that knows what is the same place and what is inside.

Paths are the way into a lake: a poisoned one reads a foreign file, deletes a live one, or sends credentials
to a stranger. So a path becomes a ``Location`` before anything is done with it. Parsing refuses what no
honest writer produces; equality knows that ``s3``, ``s3a`` and ``s3n`` are one store and ``/x`` is
``file:///x``; containment goes by whole segments, so that ``warehouse/test2`` is not inside
``warehouse/test``. The text is kept as it was written: metadata is never rewritten in another spelling.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import Final

import msgspec

from lakeplane.errors import InvalidLocation

_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "wasbs": "wasb", "abfss": "abfs", "gcs": "gs"}
_COLLAPSING: Final = frozenset({"file", "hdfs"})
"""Stores in which a double separator is a single one; in object stores it is a different key."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ENCODED_TRICK: Final = re.compile(r"(?:\.|%2e)+|.*%00.*", re.IGNORECASE | re.DOTALL)
_NUMBER: Final = re.compile(r"0x[0-9a-f]{1,16}|[0-9]{1,16}", re.IGNORECASE)
_MAX_LENGTH: Final = 8192


class Location(msgspec.Struct, frozen=True, eq=False):
    """A place in a store: made by ``parse_location``, extended by ``/``."""

    text: str
    scheme: str
    authority: str
    segments: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._key == other._key

    def __ne__(self, other: object) -> bool:
        # msgspec's own would compare identities: Python derives it from __eq__ only where there is none.
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key)

    def __truediv__(self, relative: str) -> Location:
        """The place below this one; the relative path cannot climb out."""
        return parse_location(f"{self.text.rstrip('/')}/{relative}")

    @property
    def _key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.scheme, self.authority, self.segments

    @property
    def name(self) -> str:
        """The last segment."""
        return self.segments[-1] if self.segments else ""

    @property
    def parent(self) -> Location:
        """The place around this one."""
        if not self.segments:
            raise InvalidLocation("the root of a store has no parent", source=self.text)
        head = self.text.rstrip("/").removesuffix(self.name)
        return parse_location(head.rstrip("/") if self.authority or len(self.segments) > 1 else head)

    def contains(self, other: Location) -> bool:
        """Whether another place is this one or below it, by whole segments."""
        same_store = (self.scheme, self.authority) == (other.scheme, other.authority)
        return same_store and other.segments[: len(self.segments)] == self.segments


def parse_location(text: str) -> Location:
    """Read a path or URI; refuse what could point somewhere else than it seems."""
    if not text or len(text) > _MAX_LENGTH:
        raise InvalidLocation("a location must have 1 to 8192 characters", source=text[:80])
    shows = text.isascii() and text.isprintable()
    if text != text.strip() or (not shows and any(map(_hides, text))):
        raise InvalidLocation("blanks around it, or characters that do not show", source=ascii(text))
    if "\\" in text:
        raise InvalidLocation("a backslash is not a separator", source=text, hint="Use '/'")
    found = _SCHEME.fullmatch(text)
    scheme = found[1].lower() if found else "file"
    rest = found[2] if found else text
    if not rest.startswith("/"):
        hint = "Write scheme://store/path, or a path from the root"
        raise InvalidLocation("not an absolute location", source=text, hint=hint)
    authority, path = _split(rest)
    _check_authority(authority, text)
    if scheme == "file":
        authority = _local(authority, text)
    segments = tuple(path.split("/")) if path else ()
    if scheme in _COLLAPSING:
        segments = tuple(filter(None, segments))
    for segment in segments:
        _check_segment(segment, text)
    return Location(text, _ALIASES.get(scheme, scheme), authority, segments)


def spellings(at: Location) -> tuple[str, ...]:
    """How others may have written a place."""
    rest = f"//{at.authority}/{'/'.join(at.segments)}" if at.authority else f"/{'/'.join(at.segments)}"
    schemes = [at.scheme, *(alias for alias, name in _ALIASES.items() if name == at.scheme)]
    found = [at.text, *(f"{scheme}:{rest}" for scheme in schemes)]
    return (*found, rest, f"file://{rest}") if at.scheme == "file" else tuple(found)


def _hides(mark: str) -> bool:
    """Control characters, lone surrogates, and marks that turn the direction of the text around them."""
    turns = unicodedata.bidirectional(mark) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return turns or mark == "\ufeff" or unicodedata.category(mark) in ("Cc", "Cs", "Zl", "Zp")


def _split(rest: str) -> tuple[str, str]:
    """Part the authority from the path; separators at both ends of the path mean nothing."""
    if not rest.startswith("//"):
        return "", rest.removeprefix("/").rstrip("/")
    authority, _, path = rest[2:].partition("/")
    return authority, path.rstrip("/")


def _check_authority(authority: str, text: str) -> None:
    user, at, host = authority.rpartition("@")
    if at and ":" in user:
        raise InvalidLocation(
            "a location must not carry a password", source=f"...@{host}", hint="Give credentials as options"
        )
    name = re.sub(r":\d+$", "", host).strip("[]")
    # Resolvers turn full-width digits and dots into plain ones.
    if re.search(r"[%\s?#]", authority) or not authority.isascii():
        raise InvalidLocation("not a store's name", source=f"...@{host}" if at else text)
    address = _address(name)
    if address is not None and address.is_link_local:
        raise InvalidLocation("link-local addresses hold no tables", source=text)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is: in every spelling that resolvers accept, 0xa9fea9fe is 169.254.169.254."""
    try:
        found = ipaddress.IPv6Address(host)
    except ValueError:
        return _address_of_numbers(host.removesuffix(".").split("."))
    return found.ipv4_mapped or found.sixtofour or found


def _address_of_numbers(parts: list[str]) -> ipaddress.IPv4Address | None:
    """An address of one to four numbers, decimal, octal or hexadecimal; the last one fills what is left."""
    if len(parts) > 4 or not all(map(_NUMBER.fullmatch, parts)):  # noqa: PLR2004
        return None
    try:
        *head, last = (int(part, 8 if re.match("0[0-9]", part) else 0) for part in parts)
        value = int.from_bytes(bytes(head), "big") << 8 * (4 - len(head)) | last
        return ipaddress.IPv4Address(value) if last < 1 << 8 * (4 - len(head)) else None
    except ValueError:  # an octal 9, or a number over 255 at the front
        return None


def _local(authority: str, text: str) -> str:
    if authority.lower() not in ("", "localhost"):
        raise InvalidLocation("a file location cannot name another host", source=text)
    return ""


def _check_segment(segment: str, text: str) -> None:
    # A look-alike such as U+2024 (one dot leader) becomes a real dot in stores that normalise names.
    plain = segment if segment.isascii() else unicodedata.normalize("NFKC", segment)
    if _ENCODED_TRICK.fullmatch(plain) or ("/" in plain) or ("\\" in plain):
        raise InvalidLocation("'.' and '..', also encoded, are refused in a path", source=text)
