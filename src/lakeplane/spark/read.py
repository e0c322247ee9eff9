"""From a plan to a DataFrame: the rows of a snapshot, read by Spark's own readers.

Files that can be read in the same way are one scan; the scans are put one below the other. Which files go
together is decided in ``scan_groups``, what is done to which columns in ``scan_columns`` and ``guards``, and
how files get to Spark in ``file_list``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql import types as s

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.files.deleted_positions import deleted_positions
from lakeplane.iceberg.fetch_windows import ReadRanges
from lakeplane.iceberg.metadata import TableMetadata
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.model.expressions.tree import TRUE, Opaque, leaves, references
from lakeplane.model.schema import Schema
from lakeplane.model.types import TIME, TIMESTAMP, TIMESTAMPTZ, Field, walk
from lakeplane.spark.arrow_rows import NUMBER, POSITION, Decoding, decoder
from lakeplane.spark.constants import ROW, constants_of, identity_name, join_constants
from lakeplane.spark.deleted_rows import at_positions
from lakeplane.spark.equality_deletes import Keys, constants_for, without_equal
from lakeplane.spark.file_list import FileList, HandOver, Loaded, Scratch, find_way, load
from lakeplane.spark.guards import History, history_of
from lakeplane.spark.metadata_columns import (
    FILE_NUMBER,
    NAMES,
    ROW_POSITION,
    is_metadata,
    metadata_field,
    metadata_recipe,
    needs_position,
    stored_fields,
)
from lakeplane.spark.parts import Part, numbered, parts_of
from lakeplane.spark.scan_columns import Recipe, by_id, by_name, opaque_name, quoted
from lakeplane.spark.scan_groups import ByArrow, ByIds, ByNames, Group, group_files
from lakeplane.spark.session import allow_time, is_case_sensitive, read_by_id, runs_in_utc, version_of
from lakeplane.spark.splits import brought_to, scanning_session
from lakeplane.spark.types import shown_type, to_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap64
    from pyspark.sql import Column, SparkSession


ROW_ALIAS: Final = "lakeplane_row"
"""What conditions may call the row that they are about, in sub-queries that have columns of the same name."""


class Access(NamedTuple):
    """How files come to Spark, and how their footers are read where that is needed."""

    read_ranges: ReadRanges | None = None
    """Reads parts of files on the driver; only some tables need it."""
    scratch: Scratch | None = None
    """Where the Spark driver finds lists of files that this process writes; a classic session needs none."""
    schemes: Mapping[str, str] | None = None
    """What schemes of paths are called in Spark, as in ``{"s3": "s3a"}``."""
    hand_over: HandOver | None = None
    """How lists of files get to Spark, if that shall not be found out."""


_DEFAULT: Final = Access()


def read_plan(
    session: SparkSession,
    plan: ReadPlan,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    access: Access = _DEFAULT,
    by_file: bool = False,
    placed: bool = False,
    without: Mapping[int, BitMap64] | None = None,
    only: Mapping[int, BitMap64] | None = None,
) -> DataFrame:
    """Make a DataFrame of the rows of a plan, with all columns of its schema or with some.

    ``where`` is the text that the plan was made with: what the plan could not decide is filtered by Spark.
    The plan must be made with the session's time zone and its sense of case (``session_zone`` and
    ``is_case_sensitive`` tell them).

    Rows that are deleted are left out, and so are those at further positions ``without``, by rows of
    ``plan.files``; of files that ``only`` names, nothing is read but the rows at those positions. With
    ``placed``, two more columns at the end tell where a row lies: ``FILE_NUMBER`` is the row of its file in
    ``plan.files``, and ``ROW_POSITION`` its position in the file. With ``by_file``, only the first is there.
    """
    _check(plan)
    filtered = where is not None and any(each != TRUE for each in plan.residuals)
    shown = chosen(session, plan.table, plan.schema, columns)
    read = _with_references(plan, shown, where) if filtered and where is not None else shown
    _prepare(session, read)
    more = (FILE_NUMBER, ROW_POSITION) if placed else (FILE_NUMBER,) if by_file else ()
    rows = _Rows(session, numbered(plan), access)
    parts = parts_of(rows.plan, _deleted(rows.plan, access, without or {}), only)
    frames = [frame for part in parts for frame in _part(rows, part, read, more)]
    if not frames:
        places = [s.StructField(each, s.LongType()) for each in more]
        frames = [session.createDataFrame([], s.StructType([*to_spark(Schema(tuple(read))), *places]))]
    frame: DataFrame = functools.reduce(DataFrame.unionAll, frames)
    if filtered and where is not None:
        frame = frame.alias(ROW_ALIAS).where(where)
    if len(read) != len(shown):
        frame = frame.select(*[F.col(quoted(each)) for each in (*[one.name for one in shown], *more)])
    return frame


class _Rows(NamedTuple):
    """A plan whose files have numbers, and how they are read."""

    session: SparkSession
    plan: ReadPlan
    access: Access


def _deleted(plan: ReadPlan, access: Access, without: Mapping[int, BitMap64]) -> dict[int, BitMap64]:
    """The deleted positions of files, by their rows in the plan."""
    found = dict(without)
    if not plan.deletes.num_rows:
        return found
    if access.read_ranges is None:
        problem = "delete files apply to the rows, and no store was given to read them from"
        raise NotSupported(problem, source=plan.deletes["file_path"][0].as_py())
    for row, positions in deleted_positions(plan.files, plan.deletes, access.read_ranges).items():
        found[row] = found[row] | positions if row in found else positions
    return found


def _part(rows: _Rows, part: Part, fields: list[Field], more: Sequence[str]) -> list[DataFrame]:
    """Read files to which the same deletes apply."""
    if not part.equalities:
        return _read_files(rows, part, fields, more)
    keys = Keys(rows.plan, part.equalities, stored_fields(fields))
    extra = constants_for(part.equalities)
    frames = _read_files(rows, part, [*fields, *keys.hidden], (*more, *extra))

    def read_deletes(files: pa.Table, wanted: Sequence[Field], constants: Sequence[str]) -> DataFrame:
        return functools.reduce(DataFrame.unionAll, _read_files(rows, Part(files), wanted, constants))

    frame: DataFrame = functools.reduce(DataFrame.unionAll, frames)
    frame = without_equal(frame, rows.plan, part.equalities, keys, read_deletes)
    return [frame.drop(*[each.name for each in keys.hidden], *extra)]


def _read_files(rows: _Rows, part: Part, fields: Sequence[Field], more: Sequence[str]) -> list[DataFrame]:
    """Read columns of files, each group in the way that it can be read; leave out deleted positions."""
    places = bool(part.positions) or ROW_POSITION in more
    groups = _groups(rows, rows.plan._replace(files=part.files), fields, places=places)
    return [_scan(rows, each, fields, more, part) for each in groups]


def _check(plan: ReadPlan) -> None:
    encrypted = plan.files.filter(pc.is_valid(plan.files["key_metadata"]))
    if encrypted.num_rows:
        raise NotSupported("the file is encrypted", source=encrypted["file_path"][0].as_py())


def chosen(
    session: SparkSession, table: TableMetadata, schema: Schema, columns: Sequence[str] | None
) -> list[Field]:
    """The columns that are asked for by their names, or all of a schema."""
    if columns is None:
        return list(schema.fields)
    if isinstance(columns, str):
        raise InvalidInput("columns must be a list of names", field="columns", hint=f"Write [{columns!r}]")
    found = [_column(session, table, schema, each) for each in columns]
    names = [each.name for each in found]
    if double := next((each for each in names if names.count(each) > 1), None):
        raise InvalidInput(f"the column {double!r} is asked for twice", field="columns")
    return found


def _column(session: SparkSession, table: TableMetadata, schema: Schema, name: str) -> Field:
    fields = schema.fields
    same = [each for each in fields if each.name == name]
    if not same and (found := metadata_field(name, table)) is not None:
        return found
    if not same and not is_case_sensitive(session):
        same = [each for each in fields if each.name.lower() == name.lower()]
    if len(same) != 1:
        known = ", ".join([each.name for each in fields[:20]] + list(NAMES))
        hint = f"Columns: {known}. Fields of structs can be selected from the DataFrame"
        problem = f"no column {name!r}" if not same else f"{name!r} fits more than one column"
        raise InvalidInput(problem, field="columns", hint=hint)
    return same[0]


def _with_references(plan: ReadPlan, shown: list[Field], where: str) -> list[Field]:
    """What must be read to show some columns and to filter.

    That is more than the predicate refers to: a part of the text that can never hold is no part of it.
    """
    known = {each.id for each in shown}
    if any(isinstance(each, Opaque) for each in leaves(plan.predicate)):
        # Only Spark understands it, so only Spark knows what it needs; it reads no more than that.
        needed = {each.id for each in plan.schema.fields}
    else:
        needed = {_top(plan.schema, field_id) for field_id in references(plan.predicate)}
        needed |= {each.id for each in plan.schema.fields if _is_named(each.name, where)}
    return shown + [each for each in plan.schema.fields if each.id in needed - known]


def _is_named(name: str, text: str) -> bool:
    """Whether a text of SQL may name a column."""
    spelt = re.escape(name.casefold().replace("`", "``"))
    return re.search(rf"(?<!\w){spelt}(?!\w)", text.casefold()) is not None


def _top(schema: Schema, field_id: int) -> int:
    while (parent := schema.parent_of(field_id)) is not None:
        field_id = parent.id
    return field_id


def _prepare(session: SparkSession, fields: list[Field]) -> None:
    """Tell a session what it must know to read columns, once."""
    read_by_id(session)
    times = [each.name for each in walk(tuple(fields)) if each.type is TIME]
    if times and not allow_time(session):
        hint = "Leave the column out: columns=[...]"
        raise NotSupported(f"Spark {session.version} has no type for time", field=times[0], hint=hint)


def _groups(rows: _Rows, plan: ReadPlan, fields: Sequence[Field], *, places: bool) -> list[Group]:
    if not plan.files.num_rows:
        return []
    session = rows.session
    stored = stored_fields(fields)
    # Spark tells no positions of rows of ORC files, and moves local times by the clock of its machine.
    has_orc = "ORC" in pc.unique(pc.utf8_upper(plan.files["file_format"])).to_pylist()
    has_local_times = any(each.type is TIMESTAMP for each in walk(tuple(stored)))
    orc_by_arrow = has_orc and (
        places
        or needs_position(fields)
        or (has_local_times and not runs_in_utc(session))
        or (version_of(session) < _READS_ORC_INSTANTS and _has_instants(plan))
    )
    return group_files(plan, stored, rows.access.read_ranges, orc_by_arrow=orc_by_arrow)


_READS_ORC_INSTANTS: Final = (4, 3)
"""Older releases cannot open an ORC file that has instants, whatever column is asked for."""


def _has_instants(plan: ReadPlan) -> bool:
    return any(each.type is TIMESTAMPTZ for schema in plan.table.schemas for each in walk(schema.fields))


def _scan(rows: _Rows, group: Group, fields: Sequence[Field], more: Sequence[str], part: Part) -> DataFrame:
    """Read one group of the files of a part."""
    table = rows.plan.table
    inner = {each.id: _in_files(each) for each in stored_fields(fields)}
    recipes = _recipes(group, list(inner.values()), history_of(table))
    identities = {each: inner[each] for each in group.way.partitions}
    for field_id, field in identities.items():
        recipes[field_id] = _from_partition(field, recipes[field_id])
    wanted = [
        metadata_recipe(each, recipes.get(each.id)) if is_metadata(each) else recipes[each.id]
        for each in fields
    ]
    placed = bool(part.positions) or ROW_POSITION in more or any(POSITION in each.needs for each in wanted)
    loaded = _load(rows, group, recipes, placed=placed)
    row = NUMBER if loaded.hand_over == "log" else ROW
    told = {FILE_NUMBER: row, ROW_POSITION: POSITION}
    needs = {told.get(each, each) for each in more}.union(*(each.needs for each in wanted))
    needs |= {row, POSITION} if part.positions else set()
    constants = constants_of(group.files, table, sorted(needs - {POSITION, NUMBER}), identities)
    frame = loaded.frame
    if not isinstance(group.way, ByArrow):
        extras = [loaded.file_key.alias(NUMBER)] if constants or NUMBER in needs else []
        extras += [_told(F.col(_ROW_INDEX)).alias(POSITION)] if POSITION in needs else []
        frame = frame.select("*", *extras) if extras else frame
    if constants:
        frame = join_constants(rows.session, frame, loaded.keys, constants)
    if part.positions:
        own = {number: part.positions[number] for number in group.files[ROW].to_pylist()}
        places = F.col(row), F.col(POSITION)
        frame = at_positions(rows.session, frame, own, *places, keep=part.keep)
    bare = not needs and not isinstance(group.way, ByArrow) and all(each.value is None for each in wanted)
    if bare:
        return frame
    return frame.select(*[each.shown for each in wanted], *[F.col(told.get(n, n)).alias(n) for n in more])


def _in_files(field: Field) -> Field:
    """A metadata column as it is looked for in files: under a name that cannot be that of another column."""
    return replace(field, name=opaque_name(field.id), required=False) if is_metadata(field) else field


def _recipes(group: Group, fields: list[Field], history: History) -> dict[int, Recipe]:
    match group.way:
        case ByIds(lacking=lacking, dates=dates):
            return {each.id: by_id(each, history, lacking, dates) for each in fields}
        case ByNames(file_format=file_format, columns=columns):
            orc = file_format == "ORC"
            found = zip(fields, columns, strict=True)
            return {each.id: by_name(each, there, orc=orc) for each, there in found}
        case ByArrow():
            return {each.id: Recipe(each, s.StructField(each.name, shown_type(each.type))) for each in fields}


def _from_partition(field: Field, recipe: Recipe) -> Recipe:
    """A column that files lack, since all of their rows have the value of the partition."""
    name = identity_name(field.id)
    value = F.col(name)
    if recipe.read is not None:
        value = F.coalesce(F.col(quoted(recipe.read.name)), value)
    return Recipe(field, recipe.read, value, frozenset({name}))


READER_OPTIONS: Final = {
    "PARQUET": {
        # Dates before 1582 are what they are in the Gregorian calendar, whatever a session says.
        "datetimeRebaseMode": "CORRECTED",
        "int96RebaseMode": "CORRECTED",
        "mergeSchema": "false",
    },
    "ORC": {"orc.proleptic.gregorian.default": "true", "mergeSchema": "false"},
}
"""What every scan of data files of a format is told, whatever a session says."""


_ROW_INDEX: Final = "_tmp_metadata_row_index"
"""The column of positions that Spark's Parquet reader makes. ``_metadata.row_index`` is a struct around it,
made for each row, which takes longer than anything else that deletes need."""


def _told(position: Column) -> Column:
    """A position, which would be null if a release of Spark called that column otherwise."""
    problem = "this release of Spark tells no positions of rows as those before it did"
    return F.coalesce(position, F.raise_error(F.lit(problem)).cast(s.LongType()))


def _load(rows: _Rows, group: Group, recipes: Mapping[int, Recipe], *, placed: bool) -> Loaded:
    session, access = rows.session, rows.access
    scanning = scanning_session(session, rows.plan.table.properties)
    paths, sizes = (group.files[name].to_pylist() for name in ("file_path", "file_size_in_bytes"))
    files = FileList(paths, sizes, group.files[ROW].to_pylist())
    read = [each.read for each in recipes.values() if each.read is not None]
    positions = [s.StructField(_ROW_INDEX, s.LongType())] if placed else []

    def scan(file_format: str, schema: s.StructType | None) -> Loaded:
        found = load(
            scanning,
            files,
            file_format,
            schema,
            options=READER_OPTIONS.get(file_format.upper()),
            scratch=access.scratch,
            schemes=access.schemes,
            hand_over=access.hand_over or find_way(session, access.scratch),
        )
        return found._replace(frame=brought_to(session, found.frame))

    match group.way:
        case ByArrow(file_format=file_format, mapping=mapping):
            loaded = scan("binaryFile", None)
            fields = tuple(each.field for each in recipes.values())
            decode = decoder(Decoding(fields, file_format, mapping))
            number = s.LongType() if loaded.hand_over == "log" else s.StringType()
            columns = [s.StructField(NUMBER, number), s.StructField(POSITION, s.LongType()), *read]
            files_as_bytes = loaded.frame.select(loaded.file_key.alias(NUMBER), "content")
            return loaded._replace(frame=files_as_bytes.mapInArrow(decode, s.StructType(columns)))
        case ByNames(file_format=file_format):
            return scan(file_format.lower(), s.StructType([*read, *positions]))
        case ByIds():
            return scan("parquet", s.StructType([*read, *positions]))
