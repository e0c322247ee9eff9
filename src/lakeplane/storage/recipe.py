"""What another process needs to make a store of its own: places and options, no secrets without consent."""

from __future__ import annotations

import msgspec

from lakeplane.storage.secret import MASK


class RecipePart(msgspec.Struct, frozen=True):
    """One place and its options; ``location`` is ``None`` for every other place of the ``schemes``."""

    location: str | None
    options: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    """There only by consent, and never shown."""
    schemes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        secrets = ", ".join(f"{name}={MASK}" for name, _ in self.secrets)
        options = ", ".join(f"{name}={value}" for name, value in self.options)
        where = self.location or f"other places of {'/'.join(self.schemes)}"
        return f"RecipePart({'; '.join(filter(None, (where, options, secrets)))})"

    __str__ = __repr__


class Recipe(msgspec.Struct, frozen=True):
    """How to make a store: for ``open_recipe``, in this process or another one."""

    parts: tuple[RecipePart, ...]

    @property
    def has_secrets(self) -> bool:
        """Whether somebody consented to secrets in it."""
        return any(part.secrets for part in self.parts)
