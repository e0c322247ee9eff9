"""Rows that are deleted by values: which files such deletes apply to, and how their rows are taken out.

Delete files are read as data files are, by Spark, and by the same rules: columns by their ids, in the types
that they have by now. Files to which deletes with the same key columns apply are a part of the plan, and lose
the rows whose keys are in those deletes by an anti-join. Null equals null here. That is twice as slow as a
plain comparison, so deletes whose keys have no null are compared plainly, and those with nulls, mostly none,
once more.

Where each delete of a part applies to each of its files, nothing else is asked. Otherwise a delete must be
newer than the file, and of its partition or of all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeplane.errors import InvalidMetadata, NotSupported
from lakeplane.iceberg.delete_index import partition_codes
from lakeplane.iceberg.manifest_schema import EQUALITY_DELETES
from lakeplane.iceberg.plan import ReadPlan
from lakeplane.model.schema import Schema
from lakeplane.model.types import DOUBLE, FLOAT, Field, List, Map, Struct
from lakeplane.spark.constants import ROW, SCOPE, SEQUENCE
from lakeplane.spark.scan_columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Rows: TypeAlias = npt.NDArray[np.int64]
ReadFiles: TypeAlias = "Callable[[pa.Table, Sequence[Field], Sequence[str]], DataFrame]"
"""Reads columns of files, and constants of theirs."""

_MOST_SETS: Final = 8
"""With so many different sets of deletes, or fewer, the files of each set are read by themselves."""
_BROADCAST_ROWS: Final = 2_000_000
_DELETE_SEQUENCE: Final = "__lakeplane_delete_sequence"
_DELETE_SCOPE: Final = "__lakeplane_delete_scope"


class Equality(NamedTuple):
    """Deletes by the same key columns that apply to files of one part of a plan."""

    ids: tuple[int, ...]
    rows: tuple[int, ...]
    """In the deletes of the plan."""
    to_all: bool
    """Whether each of them applies to each of the files."""


class Key(NamedTuple):
    """A column of keys: its path from the top of a schema."""

    path: tuple[Field, ...]

    @property
    def leaf(self) -> Field:
        """The column itself."""
        return self.path[-1]

    def of(self, top: str) -> Column:
        """Its values, from the column at the top under some name."""
        return functools.reduce(lambda column, each: column.getField(each.name), self.path[1:], F.col(top))


# Which deletes apply to which files


def with_scopes(plan: ReadPlan) -> ReadPlan:
    """Number the partitions of files, and of those deletes that do not apply to all partitions."""
    files, deletes = partition_codes(plan.files, plan.deletes)
    specs = {each.spec_id for each in plan.table.partition_specs if each.is_unpartitioned}
    everywhere = np.isin(plan.deletes["spec_id"].to_numpy(), list(specs))
    return plan._replace(
        files=plan.files.append_column(SCOPE, pa.array(files)),
        deletes=plan.deletes.append_column(SCOPE, pa.array(deletes, mask=everywhere)),
    )


def equalities_of(plan: ReadPlan) -> list[tuple[Equality, ...]]:
    """The equality deletes of each file; files with equal ones are read together."""
    lists = [tuple(sorted(each)) for each in plan.files["equality_deletes"].to_pylist()]
    sets = set(lists) - {()}
    if not sets:
        return [()] * len(lists)
    ids = _ids(plan)
    if len(sets) <= _MOST_SETS:
        made = {each: _equalities(each, ids, lambda _: True) for each in {*sets, ()}}
        return [made[each] for each in lists]
    # Too many scans: files with the same key columns are read together, and each row is looked at.
    kinds = {each: frozenset(ids[row] for row in each) for each in sets}
    together: dict[frozenset[tuple[int, ...]], set[int]] = {}
    for each, kind in kinds.items():
        together.setdefault(kind, set()).update(each)
    of_kind = {
        kind: _equalities(sorted(rows), ids, _applying_to_all(rows, [e for e in sets if kinds[e] == kind]))
        for kind, rows in together.items()
    }
    return [of_kind[kinds[each]] if each else () for each in lists]


def _applying_to_all(rows: Iterable[int], sets: Sequence[tuple[int, ...]]) -> Callable[[int], bool]:
    common = set(rows).intersection(*sets)
    return lambda row: row in common


def _ids(plan: ReadPlan) -> dict[int, tuple[int, ...]]:
    """The key columns of each equality delete file."""
    is_equality = pc.equal(plan.deletes["content"], EQUALITY_DELETES).to_numpy()
    rows = np.flatnonzero(is_equality)
    told = plan.deletes.select(["file_path", "equality_ids", "key_metadata"]).take(pa.array(rows)).to_pylist()
    for each in told:
        if each["key_metadata"] is not None:
            raise NotSupported("the delete file is encrypted", source=each["file_path"])
        if not each["equality_ids"]:
            problem = "an equality delete file without columns to compare"
            raise InvalidMetadata(problem, source=each["file_path"], field="equality_ids")
    return {row: tuple(sorted(each["equality_ids"])) for row, each in zip(rows.tolist(), told, strict=True)}


def _equalities(
    rows: Iterable[int], ids: Mapping[int, tuple[int, ...]], to_all: Callable[[int], bool]
) -> tuple[Equality, ...]:
    by_ids: dict[tuple[int, ...], list[int]] = {}
    for row in rows:
        by_ids.setdefault(ids[row], []).append(row)
    return tuple(Equality(key, tuple(own), all(map(to_all, own))) for key, own in sorted(by_ids.items()))


# Which columns are compared


class Keys:
    """The key columns of some deletes, and what must be read of data files to have them."""

    def __init__(self, plan: ReadPlan, equalities: Sequence[Equality], shown: Sequence[Field]) -> None:
        self._keys = {
            field_id: _key(plan, field_id, plan.deletes["file_path"][each.rows[0]].as_py())
            for each in equalities
            for field_id in each.ids
        }
        self._shown = {each.id: each for each in shown}
        own = [each for each in self._keys.values() if each.path[0].id not in self._shown]
        self.hidden = _tops(own, "__lakeplane_key_")
        """Columns of data files that must be read for these deletes only."""
        for each in self._keys.values():
            if (top := self._shown.get(each.path[0].id)) is not None:
                _check_within(each, top)

    def of_data(self, field_id: int) -> Column:
        """A key of a row of a data file."""
        key = self._keys[field_id]
        top = self._shown.get(key.path[0].id)
        return key.of(quoted(_hidden(key, "__lakeplane_key_") if top is None else top.name))

    def of_deletes(self, ids: Sequence[int]) -> tuple[tuple[Field, ...], list[Column]]:
        """What to read of delete files, and the keys that become of it."""
        keys = [self._keys[each] for each in ids]
        prefix = "__lakeplane_deleted_"
        return _tops(keys, prefix), [
            key.of(quoted(_hidden(key, prefix))).alias(_delete_key(key.leaf.id)) for key in keys
        ]

    def may_be_null(self, ids: Sequence[int]) -> bool:
        """Whether a key of a row that is not deleted may have nulls."""
        return not all(field.required for each in ids for field in self._keys[each].path)


def _hidden(key: Key, prefix: str) -> str:
    return f"{prefix}{key.path[0].id}"


def _delete_key(field_id: int) -> str:
    return f"__lakeplane_equal_{field_id}"


def _key(plan: ReadPlan, field_id: int, source: str) -> Key:
    """Find a key column: in the schema that is read, or in the newest that has had it."""
    schemas = (plan.schema, *sorted(plan.table.schemas, key=lambda each: each.schema_id, reverse=True))
    schema = next((each for each in schemas if each.has(field_id)), None)
    if schema is None:
        problem = f"it deletes by column {field_id}, which no schema of the table has"
        raise InvalidMetadata(problem, source=source, field="equality_ids")
    key = Key(_path(schema, field_id))
    kinds = [type(each.type) for each in key.path[:-1]]
    leaf = key.leaf.type
    if isinstance(leaf, Struct | List | Map) or leaf in (FLOAT, DOUBLE) or List in kinds or Map in kinds:
        problem = f"it deletes by {schema.name_of(field_id)}, a column of {leaf}, which the spec rules out"
        raise InvalidMetadata(problem, source=source, field="equality_ids")
    return key


def _path(schema: Schema, field_id: int) -> tuple[Field, ...]:
    path = [schema.field(field_id)]
    while (parent := schema.parent_of(path[0].id)) is not None:
        path.insert(0, parent)
    return tuple(path)


def _tops(keys: Sequence[Key], prefix: str) -> tuple[Field, ...]:
    """The columns at the top, with the keys inside alone, under names that cannot be those of others."""
    inside: dict[int, list[tuple[Field, ...]]] = {}
    for key in keys:
        inside.setdefault(key.path[0].id, []).append(key.path)
    # A file without a key column is no error here: it has nulls, or the column's default.
    return tuple(
        replace(_only(paths), name=f"{prefix}{top}", required=False) for top, paths in sorted(inside.items())
    )


def _only(paths: Sequence[tuple[Field, ...]]) -> Field:
    """A column without fields that lead to no key."""
    first = paths[0][0]
    if len(paths[0]) == 1:
        return first
    inside: dict[int, list[tuple[Field, ...]]] = {}
    for path in paths:
        inside.setdefault(path[1].id, []).append(path[1:])
    return replace(first, type=Struct(tuple(_only(each) for each in inside.values())))


def _check_within(key: Key, top: Field) -> None:
    """A field that was dropped is not in the column that a user reads, and no column is read twice."""
    type_: Any = top.type
    for field in key.path[1:]:
        found = next((each for each in type_.fields if each.id == field.id), None)
        if found is None:
            problem = f"rows are deleted by the field {field.name}, which was dropped from {top.name}"
            hint = "Leave the column out: columns=[...]; or rewrite the data files without deletes"
            raise NotSupported(problem, field=top.name, hint=hint)
        type_ = found.type


# Taking rows out


def constants_for(equalities: Sequence[Equality]) -> tuple[str, ...]:
    """What must be known of data files."""
    return () if all(each.to_all for each in equalities) else (SEQUENCE, SCOPE)


def without_equal(
    frame: DataFrame, plan: ReadPlan, equalities: Sequence[Equality], keys: Keys, read_files: ReadFiles
) -> DataFrame:
    """Leave out the rows of a part whose keys are among those of its deletes."""
    for each in equalities:
        deletes = plan.deletes.take(pa.array(each.rows))
        fields, columns = keys.of_deletes(each.ids)
        constants = () if each.to_all else (SEQUENCE, SCOPE)
        found = read_files(_as_data(deletes), fields, constants)
        found = found.select(*columns, *[F.col(one).alias(_OF_DELETES[one]) for one in constants])
        names = [_delete_key(one) for one in each.ids]
        whole = functools.reduce(lambda a, b: a & b, [F.col(name).isNotNull() for name in names])
        small = sum(deletes["record_count"].to_pylist()) <= _BROADCAST_ROWS
        ways = [(found.where(whole), False)]
        if keys.may_be_null(each.ids):
            ways.append((found.where(~whole), True))
        for some, null_safe in ways:
            frame = frame.join(
                F.broadcast(some) if small else some,
                _condition(each, keys, null_safe=null_safe),
                "left_anti",
            )
    return frame


_OF_DELETES: Final = {SEQUENCE: _DELETE_SEQUENCE, SCOPE: _DELETE_SCOPE}


def _condition(equality: Equality, keys: Keys, *, null_safe: bool) -> Column:
    pairs = [(keys.of_data(each), F.col(_delete_key(each))) for each in equality.ids]
    found = [ours.eqNullSafe(theirs) if null_safe else ours == theirs for ours, theirs in pairs]
    if not equality.to_all:
        scope = F.col(_DELETE_SCOPE)
        found += [F.col(SEQUENCE) < F.col(_DELETE_SEQUENCE), scope.isNull() | (scope == F.col(SCOPE))]
    return functools.reduce(lambda a, b: a & b, found)


def _as_data(deletes: pa.Table) -> pa.Table:
    """Delete files as the files of a plan are told of."""
    count = deletes.num_rows
    rows = pa.array(np.arange(count))
    return deletes.append_column("first_row_id", pa.nulls(count, pa.int64())).append_column(ROW, rows)
