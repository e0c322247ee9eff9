"""Statistics files and encryption keys, as table metadata registers them."""

from __future__ import annotations

from typing import Any

from lakeplane.model.records import Int, Long, Record, Strings, read_all


class BlobMetadata(Record, frozen=True, kw_only=True):
    """One statistic inside a Puffin file."""

    type: str
    snapshot_id: Long
    sequence_number: Long
    fields: tuple[Int, ...]
    properties: Strings | None = None


class StatisticsFile(Record, frozen=True, kw_only=True):
    """A Puffin file with statistics of a snapshot."""

    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Long
    file_footer_size_in_bytes: Long
    key_metadata: str | None = None
    blob_metadata: tuple[BlobMetadata, ...]


class PartitionStatisticsFile(Record, frozen=True, kw_only=True):
    """A file with a row of statistics for each partition of a snapshot."""

    snapshot_id: Long
    statistics_path: str
    file_size_in_bytes: Long


class EncryptedKey(Record, frozen=True, kw_only=True):
    """A key of the table's encryption, itself encrypted."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: Strings | None = None


def read_keys(raw: Any, where: str) -> tuple[EncryptedKey, ...]:
    """Read encryption keys; an example in the spec's Appendix C calls the key itself ``key-metadata``."""
    if isinstance(raw, list):
        raw = [_with_full_name(each) for each in raw]
    return read_all(EncryptedKey, raw, where)


def _with_full_name(raw: Any) -> Any:
    if isinstance(raw, dict) and "key-metadata" in raw and "encrypted-key-metadata" not in raw:
        rest = {key: value for key, value in raw.items() if key != "key-metadata"}
        return {**rest, "encrypted-key-metadata": raw["key-metadata"]}
    return raw
