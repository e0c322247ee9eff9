"""The union of two schemas by name: a table's schema, widened until the rows of another one fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakeplane.errors import InvalidChange
from lakeplane.model.evolution import AddColumn, EvolutionRules, SchemaChange, UpdateColumn, evolve
from lakeplane.model.promotion import can_promote
from lakeplane.model.schema import Schema
from lakeplane.model.schema_paths import called, path_text
from lakeplane.model.types import UNKNOWN, Field, List, Map, Struct, Type, children


def union_by_name(
    schema: Schema, incoming: Schema, rules: EvolutionRules, *, relax_required: bool = False
) -> tuple[Schema, int]:
    """Widen a schema so that rows of another one fit, at any depth; give it with the new last column id.

    Missing columns are added as optional, types become wider, nothing becomes narrower. A required column
    stays required, unless ``relax_required`` lets it follow an optional incoming one.
    """
    union = _Union(rules, relax_required)
    return evolve(schema, tuple(union.structs(schema.fields, incoming.fields, ())), rules)


class _Union(NamedTuple):
    """The changes that make one schema hold another."""

    rules: EvolutionRules
    relax_required: bool

    def structs(
        self, mine: tuple[Field, ...], theirs: tuple[Field, ...], path: tuple[str, ...]
    ) -> Iterator[SchemaChange]:
        missing = []
        # What is inside comes first, which gives new fields the same ids as the reference implementation.
        for field in theirs:
            found = called(field.name, mine, case_sensitive=self.rules.case_sensitive)
            if len(found) > 1:
                problem = "the name fits more than one column"
                raise InvalidChange(problem, field=path_text((*path, field.name)))
            if found:
                yield from self.fields(found[0], field, (*path, found[0].name))
            else:
                missing.append(field)
        for field in missing:
            inner = (*path, field.name)
            yield AddColumn(inner, field.type, doc=field.doc, default=field.initial_default)
            if field.write_default != field.initial_default:
                yield UpdateColumn(inner, write_default=field.write_default)

    def fields(self, mine: Field, theirs: Field, path: tuple[str, ...]) -> Iterator[SchemaChange]:
        if self.relax_required and mine.required and not theirs.required:
            yield UpdateColumn(path, required=False)
        match mine.type, theirs.type:
            case Struct(), Struct():
                yield from self.structs(children(mine.type), children(theirs.type), path)
            case (List(), List()) | (Map(), Map()):
                for ours, other in zip(children(mine.type), children(theirs.type), strict=True):
                    yield from self.fields(ours, other, (*path, ours.name))
            case _ if not self.fits(theirs.type, mine.type):
                yield UpdateColumn(path, type=theirs.type)

    def fits(self, narrow: Type, wide: Type) -> bool:
        # A column of nulls fits everywhere, also where the format has no name for its type.
        return narrow in (wide, UNKNOWN) or can_promote(narrow, wide, self.rules.format_version)
