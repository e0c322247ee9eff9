"""Which refs and snapshots a table still keeps: the retention policy of the spec."""

from __future__ import annotations

from typing import Final, NamedTuple

from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.properties import number
from lakeplane.iceberg.snapshots import MAIN, Ref

_FOREVER: Final = 2**63 - 1
_DEFAULTS: Final = {
    "history.expire.min-snapshots-to-keep": 1,
    "history.expire.max-snapshot-age-ms": 5 * 24 * 60 * 60 * 1000,
    "history.expire.max-ref-age-ms": _FOREVER,
}


class Retained(NamedTuple):
    """What the policy keeps; everything else has expired."""

    refs: frozenset[str]
    snapshot_ids: frozenset[int]


def retained(metadata: TableMetadata, now_ms: int) -> Retained:
    """Follow the policy: refs by their age, then for each branch its newest and its young snapshots.

    A snapshot that no branch or tag reaches any more is kept while it is younger than the table's limit.
    """
    limits = {name: _number(metadata, name, default) for name, default in _DEFAULTS.items()}
    refs = {name: ref for name, ref in metadata.refs.items() if _is_kept(name, ref, metadata, limits, now_ms)}
    kept: set[int] = set()
    reachable: set[int] = set()
    for ref in refs.values():
        kept.add(ref.snapshot_id)
        if not ref.is_branch:
            continue
        least = ref.min_snapshots_to_keep or limits["history.expire.min-snapshots-to-keep"]
        max_age = ref.max_snapshot_age_ms or limits["history.expire.max-snapshot-age-ms"]
        keeping = True
        for position, snapshot in enumerate(metadata.ancestors(ref.snapshot_id)):
            reachable.add(snapshot.snapshot_id)
            keeping = keeping and (position < least or now_ms - snapshot.timestamp_ms <= max_age)
            if keeping:
                kept.add(snapshot.snapshot_id)
    for snapshot in metadata.snapshots:
        age = now_ms - snapshot.timestamp_ms
        if snapshot.snapshot_id not in reachable and age <= limits["history.expire.max-snapshot-age-ms"]:
            kept.add(snapshot.snapshot_id)
    return Retained(frozenset(refs), frozenset(kept))


def _is_kept(name: str, ref: Ref, metadata: TableMetadata, limits: dict[str, int], now_ms: int) -> bool:
    if name == MAIN:
        return True
    max_age = ref.max_ref_age_ms or limits["history.expire.max-ref-age-ms"]
    return now_ms - metadata.snapshot(ref.snapshot_id).timestamp_ms <= max_age


def _number(metadata: TableMetadata, name: str, default: int) -> int:
    found = number(metadata.properties.get(name))
    return default if found is None or found < 0 else found
