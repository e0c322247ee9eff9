"""CALL: a procedure by its name, with values by position or by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from lakeplane.errors import InvalidInput, NotSupported
from lakeplane.sql.procedures import PROCEDURES, Arguments, Procedure
from lakeplane.sql.query import Span
from lakeplane.sql.statement import Run
from lakeplane.sql.words import Parts, Words

if TYPE_CHECKING:
    from lakeplane.spark.frames import DataFrame


class Argument(NamedTuple):
    """A value, with the name of its parameter if that was written."""

    name: str | None
    value: Span


class Call(NamedTuple):
    """``CALL``."""

    name: Parts
    arguments: tuple[Argument, ...]

    def run(self, run: Run) -> DataFrame:
        """Run the procedure."""
        if not _is_system(self.name, run.lake.name):
            return run.to_spark()
        procedure = _find(self.name[-1])
        given = self._values(run, procedure)
        return run.answer(procedure.columns, procedure.run(run, given))

    def _values(self, run: Run, procedure: Procedure) -> Arguments:
        place, known = f"CALL {self.name[-1]}", {each.name: each for each in procedure.parameters}
        names: dict[str, Span] = {}
        for position, argument in enumerate(self.arguments):
            if argument.name is None and position >= len(known):
                hint = f"It has {', '.join(known)}"
                raise InvalidInput(f"{len(self.arguments)} values are too many", source=place, hint=hint)
            name = list(known)[position] if argument.name is None else argument.name.lower()
            if name not in known:
                hint = f"It has {', '.join(known)}"
                raise InvalidInput(f"there is no parameter {argument.name!r}", source=place, hint=hint)
            if name in names:
                raise InvalidInput(f"{name} is given twice", source=place)
            names[name] = argument.value
        values = {}
        for name, span in names.items():
            value = _evaluate(run, run.words.between(*span), known[name].type, name)
            if value is not None:
                values[name] = value
        missing = [name for name, each in known.items() if each.required and name not in values]
        if missing:
            raise InvalidInput(
                f"{', '.join(missing)} must be given", source=place, hint=f"It has {', '.join(known)}"
            )
        return values


def _evaluate(run: Run, text: str, type_: str, name: str) -> object:
    from lakeplane.spark.statements import evaluate, evaluate_time  # noqa: PLC0415 - brings pyspark

    if type_ == "TIMESTAMP":
        return evaluate_time(run.session, text, name)
    value: object = evaluate(run.session, text, type_, name)
    return value


def _is_system(name: Parts, catalog: str) -> bool:
    if len(name) < 2 or name[-2].lower() != "system":  # noqa: PLR2004 - system and a procedure
        return False
    if name[:-2] not in ((), (catalog,)):
        hint = f"This lake is called {catalog}; connect(..., name={name[0]!r}) gives it another name"
        raise InvalidInput(f"there is no lake {'.'.join(name[:-2])}", source="CALL", hint=hint)
    return True


def _find(name: str) -> Procedure:
    found = PROCEDURES.get(name.lower())
    if found is None:
        close = difflib.get_close_matches(name.lower(), PROCEDURES, n=2)
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        raise NotSupported(
            f"there is no procedure {name}", source="CALL", hint=f"{hint}There is {', '.join(PROCEDURES)}"
        )
    return found


def call(words: Words) -> Call:
    """Read what follows ``CALL``."""
    name = words.parts("a procedure, as in system.rollback_to_snapshot")
    if not words.sees("("):
        words.refuse("expected '('", "Write CALL system.ancestors_of(table => 'shop.orders')")
    first, after = words.at + 1, words.text.partners[words.at]
    words.at = after + 1
    words.end()
    found: list[Argument] = []
    for start, end in words.split(first, after):
        words.at = start
        named = words.peek().text == "=>"
        parameter = words.name() if named else None
        words.at += named
        if words.at >= end:
            words.refuse("expected a value")
        if parameter is None and found and found[-1].name is not None:
            words.refuse("a value without a name behind one that has one", "Name them all")
        found.append(Argument(parameter, (words.at, end)))
    return Call(name, tuple(found))
