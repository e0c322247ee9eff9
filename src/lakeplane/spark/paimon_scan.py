"""Data files of Paimon as scans of Spark: columns by the names that they have in the schema of each file.

Files of one schema and format are a scan. A column that was renamed, or cast, is read as the file has it, and
brought to what it is now; what was added later is null. The values of partition keys are those of metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.errors import NotSupported
from lakeplane.model.expressions.physical import plain
from lakeplane.model.name_mapping import MappedField, NameMapping
from lakeplane.model.types import (
    INT,
    LONG,
    NANOS,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Decimal,
    Field,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    children,
    walk,
)
from lakeplane.paimon.plan import ReadPlan
from lakeplane.paimon.schema import TableSchema
from lakeplane.paimon.types import Array, DataType, Multiset, Row, Simple, Sized, Time, Timestamp
from lakeplane.paimon.types import Map as PaimonMap
from lakeplane.spark.arrow_rows import NUMBER, POSITION, Decoding, decoder, shown_arrow
from lakeplane.spark.constants import ROW, Constant, identity_name, join_constants, shown_constants
from lakeplane.spark.deleted_rows import at_positions
from lakeplane.spark.file_list import FileList, Loaded, find_way, load
from lakeplane.spark.file_schemas import Stored
from lakeplane.spark.literals import literal
from lakeplane.spark.merge_engines import KIND, SECTION, SEQUENCE
from lakeplane.spark.read import READER_OPTIONS, Access
from lakeplane.spark.scan_columns import Recipe, by_name, clock, quoted
from lakeplane.spark.types import shown_type

if TYPE_CHECKING:
    from pyroaring import BitMap64
    from pyspark.sql import Column, DataFrame, SparkSession

_KIND_FIELD: Final = Field(2147483645, "_VALUE_KIND", INT)
_SEQUENCE_FIELD: Final = Field(2147483646, "_SEQUENCE_NUMBER", LONG)
_FORMATS: Final = frozenset({"parquet", "orc", "avro"})


class Source(NamedTuple):
    """A plan, where its files lie, and who reads them."""

    session: SparkSession
    plan: ReadPlan
    """Its files tell their rows (``constants.ROW``), and whole paths."""
    access: Access
    deleted: Mapping[int, BitMap64]
    """The deleted positions of files, by their rows."""


class _Group(NamedTuple):
    files: pa.Table
    schema: TableSchema
    file_format: str
    deleted: bool


def scans(source: Source, files: pa.Table, fields: Sequence[Field], more: Sequence[str]) -> list[DataFrame]:
    """Read columns of files, each kind of files in a scan of its own.

    ``more`` are columns beside those of the table: ``KIND``, ``SEQUENCE`` and ``SECTION``.
    """
    return [_scan(source, each, fields, more) for each in _groups(source, files)]


def _groups(source: Source, files: pa.Table) -> list[_Group]:
    if not files.num_rows:
        return []
    endings = [name.rpartition(".")[2].lower() for name in files["file_name"].to_pylist()]
    marked = [bool(source.deleted.get(row)) for row in files[ROW].to_pylist()]
    kinds: dict[tuple[int, str, bool], list[int]] = {}
    for row, kind in enumerate(zip(files["schema_id"].to_pylist(), endings, marked, strict=True)):
        kinds.setdefault(kind, []).append(row)
    for _, ending, _ in kinds:
        if ending not in _FORMATS:
            place = files["path"][endings.index(ending)].as_py()
            raise NotSupported(f"data files of the format {ending!r:.40}", source=place, field="file.format")
    return [
        _Group(
            files if len(kinds) == 1 else files.take(pa.array(rows)), source.plan.schemas[schema], ending, has
        )
        for (schema, ending, has), rows in kinds.items()
    ]


def _scan(source: Source, group: _Group, fields: Sequence[Field], more: Sequence[str]) -> DataFrame:
    keys = {source.plan.schema.field(name).id for name in source.plan.schema.partition_keys}
    own = [each for each in fields if each.id not in keys]
    system = [each for name, each in ((KIND, _KIND_FIELD), (SEQUENCE, _SEQUENCE_FIELD)) if name in more]
    by_arrow = _needs_arrow(group, own)
    make = _arrow_recipe if by_arrow else _recipe
    recipes = [make(source, group, each) for each in own]
    recipes += [_system_recipe(group, each, by_arrow=by_arrow) for each in system]
    loaded = _load(source, group, recipes, by_arrow=by_arrow)
    constants = _constants(source, group, [each for each in fields if each.id in keys], more)
    row = NUMBER if loaded.hand_over == "log" else ROW
    if group.deleted and row == ROW:
        constants[ROW] = Constant(s.LongType(), plain(group.files[ROW]))
    frame = loaded.frame
    if not by_arrow:
        extras = [loaded.file_key.alias(NUMBER)] if constants or group.deleted else []
        extras += [F.col("_metadata.row_index").alias(POSITION)] if group.deleted else []
        frame = frame.select("*", *extras) if extras else frame
    if constants:
        frame = join_constants(source.session, frame, loaded.keys, constants)
    if group.deleted:
        mine = {number: source.deleted[number] for number in group.files[ROW].to_pylist()}
        places = F.col(row), F.col(POSITION)
        frame = at_positions(source.session, frame, mine, *places, keep=False)
    shown = {each.field.id: each.shown for each in recipes}
    columns = [
        F.col(identity_name(each.id)).alias(each.name) if each.id in keys else shown[each.id]
        for each in fields
    ]
    told = {
        KIND: lambda: _insist(shown[_KIND_FIELD.id], _KIND_FIELD),
        SEQUENCE: lambda: _insist(shown[_SEQUENCE_FIELD.id], _SEQUENCE_FIELD),
        SECTION: _section,
    }
    return frame.select(*columns, *[told[name]().alias(name) for name in more])


def _section() -> Column:
    """Rows whose file is not known would be merged with those of other partitions."""
    problem = "Spark names a file in another way than it was told, so that its partition is not known"
    return F.coalesce(F.col(SECTION), F.raise_error(F.lit(problem)).cast(s.LongType()))


def _insist(column: Column, field: Field) -> Column:
    """What tells rows apart that are there from those that are not must be in the file."""
    problem = f"a data file of a table with a primary key lacks {field.name}"
    return F.coalesce(column, F.raise_error(F.lit(problem)).cast(shown_type(field.type)))


def _constants(
    source: Source, group: _Group, keys: Sequence[Field], more: Sequence[str]
) -> dict[str, Constant]:
    """What is the same in all rows of a file: the values of its partition, and its section."""
    found: dict[str, Constant] = {}
    codes = plain(group.files["partition_code"])
    for each in keys:
        values = plain(source.plan.partitions[each.name]).take(codes)
        found[identity_name(each.id)] = partition_constant(each, values)
    if SECTION in more:
        found[SECTION] = Constant(s.LongType(), plain(group.files["section"]).cast(pa.int64()))
    return found


def partition_constant(field: Field, values: pa.Array) -> Constant:
    """Values of a partition key as Spark shows them."""
    return Constant(shown_type(field.type), shown_constants(values, field.type, shown_arrow(field.type)))


# Columns.


def _needs_arrow(group: _Group, fields: Sequence[Field]) -> bool:
    """Whether Spark's own reader cannot tell what is in these files, or where in them."""
    if group.file_format == "avro":
        return True
    there = [each for each in fields if each.id in group.schema.by_id]
    stored = [group.schema.model.field(each.id) for each in there]
    everything = list(walk((*there, *stored)))
    if group.file_format == "orc":
        if zoned := next((each for each in everything if each.type is TIMESTAMPTZ), None):
            problem = "moments in ORC files, which do not tell whose time zone they are in"
            raise NotSupported(problem, field=zoned.name, hint="Leave the column out: columns=[...]")
        if group.deleted or any(each.type is TIMESTAMP for each in everything):
            return True
    inner = [each for one in stored for each in walk(children(one.type))]
    return any(each.type in NANOS for each in everything) or any(each.type is TIME for each in inner)


def _recipe(source: Source, group: _Group, field: Field) -> Recipe:
    if field.id not in group.schema.by_id:
        return Recipe(field, None, literal(field.type, None))
    old = group.schema.model.field(field.id)
    orc = group.file_format == "orc"
    stored, casts = _stored(old), _casts(source, group, field, old)
    if old.type is TIME and field.type is TIME:
        # Milliseconds of 32 bits, which Spark has no reader for.
        read = s.StructField(old.name, s.IntegerType())
        return Recipe(field, read, clock(F.col(quoted(old.name)).cast(s.LongType()) * 1000))
    if not casts:
        return by_name(_bare(field), stored, orc=orc)
    found = by_name(_bare(old), stored, orc=orc)
    value = F.col(quoted(old.name)) if found.value is None else found.value
    return Recipe(field, found.read, value.cast(shown_type(field.type)))


def _bare(field: Field) -> Field:
    """A column that may be null, whatever the table says: what is missing in a file is null."""
    return Field(field.id, field.name, field.type, doc=field.doc)


def _arrow_recipe(source: Source, group: _Group, field: Field) -> Recipe:
    if field.id in group.schema.by_id:
        _casts(source, group, field, group.schema.model.field(field.id))
    return Recipe(field, s.StructField(field.name, shown_type(field.type)))


def _system_recipe(group: _Group, field: Field, *, by_arrow: bool) -> Recipe:
    if by_arrow:
        return Recipe(field, s.StructField(field.name, shown_type(field.type)))
    return by_name(field, Stored(field.name, field.id, None), orc=group.file_format == "orc")


def _stored(field: Field) -> Stored:
    return Stored(field.name, field.id, None, tuple(map(_stored, children(field.type))))


def _casts(source: Source, group: _Group, field: Field, old: Field) -> bool:
    """Whether a column of a file has to be cast; refuse what Spark would cast in another way than Paimon."""
    now, before = source.plan.schema.by_id[field.id].type, group.schema.by_id[field.id].type
    if not _holds(now, before):
        problem = f"files have it as {before}, and the table as {now}, which holds less"
        raise NotSupported(problem, field=field.name, hint="Leave the column out: columns=[...]")
    if field.type == old.type or _same_inside(field.type, old.type):
        return False
    if not _widens(old.type, field.type):
        problem = f"files have it as {old.type}, and the table as {field.type}"
        raise NotSupported(problem, field=field.name, hint="Leave the column out: columns=[...]")
    return True


_INTEGERS: Final = (Simple.TINYINT, Simple.SMALLINT, Simple.INT, Simple.BIGINT)


def _holds(new: DataType, old: DataType) -> bool:
    """Whether no value of an older type has to be cut, of those that look the same to Spark."""
    match new.kind, old.kind:
        case Simple() as wide, Simple() as narrow if wide in _INTEGERS and narrow in _INTEGERS:
            return _INTEGERS.index(wide) >= _INTEGERS.index(narrow)
        case Sized(kind=kind, length=length), Sized(kind=before, length=shorter):
            return kind == before and (length == shorter if "VAR" not in kind else length >= shorter)
        case Sized(), _:
            return False
        case Timestamp(precision=digits), Timestamp(precision=fewer):
            return digits >= fewer
        case Time(precision=digits), Time(precision=fewer):
            return digits >= fewer
        case Row(fields=fields), Row(fields=olds):
            found = {each.id: each for each in olds}
            return all(_holds(each.type, found[each.id].type) for each in fields if each.id in found)
        case Array(element=one), Array(element=other):
            return _holds(one, other)
        case Multiset(element=one), Multiset(element=other):
            return _holds(one, other)
        case PaimonMap(key=key, value=value), PaimonMap(key=old_key, value=old_value):
            return _holds(key, old_key) and _holds(value, old_value)
        case _:
            return True


def _same_inside(new: Type, old: Type) -> bool:
    """Whether nested types differ in names, order and missing fields alone."""
    match new, old:
        case Struct(), Struct():
            before = {each.id: each for each in old.fields}
            return all(
                each.id not in before or _same_inside(each.type, before[each.id].type) for each in new.fields
            )
        case List(), List():
            return _same_inside(new.element, old.element)
        case Map(), Map():
            return _same_inside(new.key, old.key) and _same_inside(new.value, old.value)
        case _:
            return new == old


_WIDER: Final[Mapping[Type, frozenset[Type]]] = {
    Primitive.INT: frozenset({Primitive.LONG, Primitive.DOUBLE, Primitive.STRING}),
    Primitive.LONG: frozenset({Primitive.STRING}),
    Primitive.FLOAT: frozenset({Primitive.DOUBLE}),
}


def _widens(old: Type, new: Type) -> bool:
    match old, new:
        case Decimal(), Decimal():
            return new.scale == old.scale and new.precision >= old.precision
        case _:
            return new in _WIDER.get(old, ())


def _mapping(group: _Group, more: Sequence[Field]) -> NameMapping:
    """The ids of the columns of files, by the names that they have there."""
    return NameMapping(tuple(_mapped(each) for each in (*group.schema.model.fields, *more)))


def _mapped(field: Field) -> MappedField:
    return MappedField(field.id, (field.name,), tuple(map(_mapped, children(field.type))))


# Files.


def _load(source: Source, group: _Group, recipes: Sequence[Recipe], *, by_arrow: bool) -> Loaded:
    session, access, files = source.session, source.access, group.files
    columns = (files[name].to_pylist() for name in ("path", "file_size", ROW))
    listed = FileList(*columns)
    read = {each.read.name: each.read for each in recipes if each.read is not None}

    def scan(file_format: str, schema: s.StructType | None) -> Loaded:
        return load(
            session,
            listed,
            file_format,
            schema,
            options=READER_OPTIONS.get(file_format.upper()),
            scratch=access.scratch,
            schemes=access.schemes,
            hand_over=access.hand_over or find_way(session, access.scratch),
        )

    if not by_arrow:
        return scan(group.file_format, s.StructType(list(read.values())))
    loaded = scan("binaryFile", None)
    fields = tuple(each.field for each in recipes)
    decode = decoder(
        Decoding(
            fields,
            group.file_format.upper(),
            _mapping(group, (_KIND_FIELD, _SEQUENCE_FIELD)),
            by_names=True,
        )
    )
    number = s.LongType() if loaded.hand_over == "log" else s.StringType()
    rows = s.StructType(
        [s.StructField(NUMBER, number), s.StructField(POSITION, s.LongType()), *read.values()]
    )
    files_as_bytes = loaded.frame.select(loaded.file_key.alias(NUMBER), "content")
    return loaded._replace(frame=files_as_bytes.mapInArrow(decode, rows))


def whole_paths(plan: ReadPlan, location: str) -> ReadPlan:
    """A plan whose files have numbers and whole paths, and so have their deletion vectors."""
    files = plan.files
    root = pa.scalar(location.rstrip("/") + "/")
    for name in ("path", "vector_path"):
        column = plain(files[name])
        is_whole = pc.match_substring_regex(pc.fill_null(column, ""), "^([A-Za-z][A-Za-z0-9+.-]*:/|/)")
        full = pc.if_else(is_whole, column, pc.binary_join_element_wise(root, column, ""))
        files = files.set_column(files.schema.get_field_index(name), name, full)
    return plan._replace(files=files.append_column(ROW, pa.array(np.arange(files.num_rows))))
