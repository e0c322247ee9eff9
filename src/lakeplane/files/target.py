"""What the writer of data files has to know: a value that travels to wherever rows are."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from lakeplane.errors import InvalidInput
from lakeplane.files.known_properties import check_table, is_followed, unknown_option
from lakeplane.files.write_settings import TARGET_SIZE, whole_number
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.metrics_modes import MetricsMode, column_modes
from lakeplane.model.frozen import FrozenDict
from lakeplane.model.partitioning import PartitionSpec
from lakeplane.model.schema import Schema
from lakeplane.model.sorting import UNSORTED, SortOrder

FileFormat: TypeAlias = Literal["parquet", "orc", "avro"]

FILE_FORMATS: Final[tuple[FileFormat, ...]] = get_args(FileFormat)
DEFAULT_FORMAT: Final = "write.format.default"

_KEPT: Final = "write."
_DEFAULT_TARGET_BYTES: Final = 512 << 20
_OF_DELETES: Final = "write.delete."
_DELETE_TARGET_BYTES: Final = 64 << 20
_OPTIONS: Final = {
    "write-format": DEFAULT_FORMAT,
    "target-file-size-bytes": TARGET_SIZE,
    "distribution-mode": "write.distribution-mode",
}
"""Options of single writes, named as Iceberg's Spark names them, and the properties that they stand for."""
_CODEC_OPTIONS: Final = ("compression-codec", "compression-level", "compression-strategy")


class WriteTarget(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """Where and how new data files of a table are written.

    It holds no secrets and no state, and can be pickled: a task of a cluster needs it and a way to put files.

    Attributes:
        schema: The schema that rows are written with.
        spec: The partition spec of the files.
        sort_order: The order of the rows within each file.
        properties: The ``write.*`` properties of the table, with the options of this write applied.
        format_version: The format version of the table.
        location: Where the table lies.
        file_format: The format of the files.
        run_id: What tells the files of this write from those of all others.
    """

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: FrozenDict[str, str]
    format_version: int
    location: str
    file_format: FileFormat
    run_id: str

    @property
    def target_bytes(self) -> int:
        """The size that files should have."""
        return whole_number(self.properties, TARGET_SIZE, _DEFAULT_TARGET_BYTES)

    @property
    def metrics_modes(self) -> dict[int, MetricsMode]:
        """How much manifests tell of each column."""
        return column_modes(self.properties, self.schema, self.sort_order)


def write_target(
    table: TableMetadata,
    *,
    schema: Schema | None = None,
    spec_id: int | None = None,
    file_format: str | None = None,
    options: Mapping[str, str] | None = None,
    run_id: str | None = None,
) -> WriteTarget:
    """Make the target of a write to a table.

    Args:
        table: The table as it is.
        schema: Another schema than the current one: that of a write which also changes it.
        spec_id: Another partition spec than that of new files.
        file_format: Another format than ``write.format.default``.
        options: Properties for this write only: those of tables that shape files, or the options of
            Iceberg's Spark: ``write-format``, ``target-file-size-bytes``, ``distribution-mode``,
            ``compression-codec``, ``compression-level``, ``compression-strategy``.
        run_id: What tells the files of this write from all others; a new UUID.
    """
    check_table(table.properties)
    specs = {spec.spec_id: spec for spec in table.partition_specs}
    spec = table.partition_spec if spec_id is None else specs.get(spec_id)
    if spec is None:
        hint = f"The table has {', '.join(map(str, specs))}"
        raise InvalidInput(f"the table has no partition spec {spec_id}", hint=hint)
    properties = {name: text for name, text in table.properties.items() if name.startswith(_KEPT)}
    given = dict(options or {})
    chosen = file_format or given.get("write-format") or given.get(DEFAULT_FORMAT)
    format_ = _file_format(chosen or properties.get(DEFAULT_FORMAT, "parquet"))
    for name, text in given.items():
        properties[_property(name, format_)] = str(text)
    return WriteTarget(
        schema=table.schema if schema is None else schema,
        spec=spec,
        sort_order=table.sort_order,
        properties=FrozenDict(properties),
        format_version=table.format_version,
        location=table.location,
        file_format=format_,
        run_id=run_id or str(uuid.uuid4()),
    )


def delete_target(
    table: TableMetadata,
    schema: Schema,
    *,
    spec_id: int,
    options: Mapping[str, str] | None = None,
    run_id: str | None = None,
) -> WriteTarget:
    """Make the target of a write of delete files, as the ``write.delete.*`` properties of the table ask.

    What they do not say is as for data files, but for the size, and for what is said of single columns.
    """
    target = write_target(table, schema=schema, spec_id=spec_id, options=options, run_id=run_id)
    properties = {name: text for name, text in target.properties.items() if ".column." not in name}
    properties[TARGET_SIZE] = str(_DELETE_TARGET_BYTES)
    for name, text in target.properties.items():
        if name.startswith(_OF_DELETES):
            properties[f"{_KEPT}{name.removeprefix(_OF_DELETES)}"] = text
    format_ = _file_format(properties.get(DEFAULT_FORMAT, target.file_format))
    return msgspec.structs.replace(
        target, properties=FrozenDict(properties), file_format=format_, sort_order=UNSORTED
    )


def _file_format(text: str) -> FileFormat:
    found = next((each for each in FILE_FORMATS if each == text.strip().lower()), None)
    if found is None:
        hint = f"It is one of {', '.join(FILE_FORMATS)}"
        raise InvalidInput(f"{text!r:.80} is no format of data files", field=DEFAULT_FORMAT, hint=hint)
    return found


def _property(name: str, file_format: FileFormat) -> str:
    if is_followed(name):
        return name
    if name in _CODEC_OPTIONS:
        return f"write.{file_format}.{name}"
    if name not in _OPTIONS:
        raise unknown_option(name, (*_OPTIONS, *_CODEC_OPTIONS))
    return _OPTIONS[name]
