"""Values that must not be seen: they print as ``***`` and do not travel.

A secret leaks where nobody thinks of it: in the repr of an options mapping, an error of a library that quotes
its request, a pickled Spark closure. So it is wrapped where it comes in, unwrapped where a client is made of
it, and cut out of every text that comes back.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final, NoReturn
from urllib.parse import quote, quote_plus

from lakeplane.errors import InvalidInput

MASK: Final = "***"
_SHORTEST: Final = 4
"""What is shorter would be cut out of harmless words."""


class Secret:
    """A text that only ``reveal()`` gives away."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """Give the text itself: to the client that needs it, to nobody else."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self.__value.encode(), other.reveal().encode()
        )

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        hint = "Send a store's recipe; with_secrets=True consents to sending its secrets along"
        raise InvalidInput("a secret does not travel to another process", hint=hint)


def mask(text: str, secrets: Iterable[Secret]) -> str:
    """Cut secrets out of a text, also where they are percent-encoded."""
    values = {value for secret in secrets if len(value := secret.reveal()) >= _SHORTEST}
    spellings = {
        way for value in values for way in (value, quote(value), quote(value, safe=""), quote_plus(value))
    }
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, MASK)
    return text
