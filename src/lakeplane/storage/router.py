"""Several stores behind one face: each place has the store, and the credentials, that it was given."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, Protocol

from lakeplane.errors import InvalidInput, InvalidLocation, LakeplaneError
from lakeplane.model.location import Location
from lakeplane.model.parallel import in_parallel
from lakeplane.storage.recipe import Recipe, RecipePart
from lakeplane.storage.store import READ_LIMIT, Range, Stat, Store


class Elsewhere(Protocol):
    """What opens stores for places that have no route."""

    def open(self, at: Location) -> Store | None:
        """Make a store that holds a place, and its whole bucket; ``None`` if that place is not allowed."""
        ...

    def part(self, *, with_secrets: bool) -> RecipePart:
        """Tell how to make this in another process."""
        ...


class Router:
    """A store made of others: the longest route that contains a place decides, by whole segments.

    So a table's vended credentials serve the table's files and nothing beside them. A listing belongs to the
    store of the place that is listed, also where longer routes lead into it.
    """

    def __init__(self, routes: Mapping[Location, Store], elsewhere: Elsewhere | None = None) -> None:
        """Make a store of routes, and of what ``elsewhere`` opens when it is asked for."""
        self._routes = sorted(routes.items(), key=lambda route: len(route[0].segments), reverse=True)
        self._elsewhere = elsewhere
        self._opened: dict[tuple[str, str], Store] = {}
        self._lock = threading.Lock()

    def store_at(self, at: Location) -> Store:
        """The store that holds a place."""
        for root, store in self._routes:
            if root.contains(at):
                return store
        found = self._open(at)
        if found is None:
            roots = ", ".join(root.text for root, _ in self._routes) or "nothing"
            problem = "no storage is configured for this place"
            raise InvalidLocation(problem, source=at.text, hint=f"There is storage for {roots}")
        return found

    @property
    def can_put_if_absent(self) -> bool:
        """Whether all of the routes offer it; ``store_at`` tells about one place."""
        return all(store.can_put_if_absent for _, store in self._routes)

    @property
    def can_put_if_match(self) -> bool:
        """Whether all of the routes offer it; ``store_at`` tells about one place."""
        return all(store.can_put_if_match for _, store in self._routes)

    def __repr__(self) -> str:
        return f"Router({', '.join(str(root) for root, _ in self._routes)})"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a store does not travel to another process", hint="Send its recipe()")

    def read(
        self, at: Location, *, start: int = 0, length: int | None = None, limit: int = READ_LIMIT
    ) -> bytes:
        """Read a file or a part of it."""
        return self.store_at(at).read(at, start=start, length=length, limit=limit)

    def read_many(self, ranges: Sequence[Range], *, limit: int = READ_LIMIT) -> list[bytes]:
        """Read many parts at once."""
        stores = [self.store_at(one.location) for one in ranges]
        if ranges and all(store is stores[0] for store in stores):
            return stores[0].read_many(ranges, limit=limit)
        return in_parallel(
            lambda one: self.read(one.location, start=one.start, length=one.length, limit=limit), ranges
        )

    def stat(self, at: Location) -> Stat:
        """Tell about a file."""
        return self.store_at(at).stat(at)

    def put(
        self, at: Location, data: bytes, *, if_absent: bool = False, if_match: str | None = None
    ) -> str | None:
        """Write a file whole, if its condition holds."""
        return self.store_at(at).put(at, data, if_absent=if_absent, if_match=if_match)

    def files(self, under: Location) -> Iterator[Stat]:
        """List the files below a place, sorted."""
        return self.store_at(under).files(under)

    def folders(self, under: Location) -> list[str]:
        """Name the folders directly in a place."""
        return self.store_at(under).folders(under)

    def delete(self, *at: Location) -> None:
        """Delete files by their exact names."""
        groups: dict[int, tuple[Store, list[Location]]] = {}
        for one in at:
            store = self.store_at(one)
            groups.setdefault(id(store), (store, []))[1].append(one)
        errors: list[LakeplaneError] = []
        for store, places in groups.values():
            try:
                store.delete(*places)
            except LakeplaneError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def recipe(self, *, with_secrets: bool = False) -> Recipe:
        """Tell how to make this store elsewhere."""
        parts: list[RecipePart] = []
        for root, store in self._routes:
            (part,) = store.recipe(with_secrets=with_secrets).parts
            parts.append(RecipePart(root.text, part.options, part.secrets))
        if self._elsewhere is not None:
            parts.append(self._elsewhere.part(with_secrets=with_secrets))
        return Recipe(tuple(parts))

    def _open(self, at: Location) -> Store | None:
        if self._elsewhere is None:
            return None
        with self._lock:
            key = (at.scheme, at.authority)
            if key not in self._opened:
                found = self._elsewhere.open(at)
                if found is None:
                    return None
                self._opened[key] = found
            return self._opened[key]
