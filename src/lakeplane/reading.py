"""From a store to what plans read with: manifests by their paths, and what they held kept."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lakeplane.iceberg.manifest_cache import ManifestCache
from lakeplane.iceberg.manifest_scan import Reading
from lakeplane.model.location import parse_location
from lakeplane.storage.store import Range, Store


def reading_of(store: Store, cache: ManifestCache) -> Reading:
    """How the files that metadata names are read from a store."""

    def read_many(paths: Sequence[str]) -> list[bytes]:
        return store.read_many([Range(parse_location(path)) for path in paths])

    return Reading(read_many, cache, os.cpu_count() or 1)
