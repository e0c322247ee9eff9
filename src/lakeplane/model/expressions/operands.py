"""The two sides of a comparison: columns, literals, and the functions of them that are understood.

A reader returns None for tokens of any other shape.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

from lakeplane.model.expressions.literals import (
    NULL,
    Literal,
    Zone,
    float_literal,
    integer_text,
    negative,
    read_date,
    read_number,
    read_time,
    read_timestamp,
    timestamp_literal,
    to_single,
    unquote,
)
from lakeplane.model.expressions.opaque import Names
from lakeplane.model.expressions.steps import TRUNCATING_UNITS, Source
from lakeplane.model.expressions.tokens import Text
from lakeplane.model.expressions.tree import (
    Term,
)
from lakeplane.model.transforms import MAX_PARAMETER, Bucket, Transform, Truncate, accepts
from lakeplane.model.types import DATE, TIMESTAMPS, ZONED

Operand: TypeAlias = Source | Literal

CONSTANTS: Final = {"TRUE": Literal("boolean", True), "FALSE": Literal("boolean", False), "NULL": NULL}  # noqa: FBT003
_TYPED: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "X"})
_CASTS: Final = frozenset({"DATE", "TIMESTAMP", "DOUBLE", "FLOAT", "INT", "BIGINT", "STRING"})
_INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64, "LONG": 64}
_HEX: Final = re.compile(r"[0-9a-fA-F]*")


class Found(NamedTuple):
    """An operand, and the first token after it."""

    operand: Operand
    after: int


def is_word(text: Text, position: int, word: str) -> bool:
    """Whether a token is an unquoted word."""
    return text.tokens[position].word == word


class OperandReader:
    """Reads the operands of one text, for one schema and session time zone."""

    def __init__(self, text: Text, names: Names, zone: Zone) -> None:
        self.text = text
        self.names = names
        self.zone = zone

    def arguments(self, opening: int) -> list[Operand] | None:
        """The operands between two brackets; None if one of them is not understood."""
        closing = self.text.partners[opening]
        operands: list[Operand] = []
        position = opening + 1
        while position < closing:
            found = self.read(position, closing)
            if found is None or (found.after != closing and self.text.tokens[found.after].text != ","):
                return None
            operands.append(found.operand)
            position = found.after + 1
        return operands

    def read(self, position: int, after: int) -> Found | None:
        """A column, a literal, or a function of one that is understood."""
        minus, start = False, position
        while position < after and self.text.tokens[position].text in ("-", "+"):
            minus ^= self.text.tokens[position].text == "-"
            position += 1
        found = self._unsigned(position, after)
        if found is None or position == start:
            return found
        opposite = negative(found.operand) if isinstance(found.operand, Literal) else None
        return None if opposite is None else Found(opposite if minus else found.operand, found.after)

    def _unsigned(self, position: int, after: int) -> Found | None:
        if position >= after:
            return None
        token, following = self.text.tokens[position], self.text.tokens[position + 1]
        literal: Literal | None = None
        match token.kind:
            case "number":
                literal = read_number(token.text)
            case "string":
                literal = self._string(position)
            case "op":
                return self._bracketed(position, after)
            case "word" if token.word in _TYPED and following.kind == "string":
                literal = self._typed(token.word, position + 1)
                return None if literal is None else Found(literal, position + 2)
            case "word" if token.word in CONSTANTS and following.text not in ("(", "."):
                literal = CONSTANTS[token.word]
            case _:
                return self._named(position, after)
        return None if literal is None else Found(literal, position + 1)

    def _string(self, position: int) -> Literal | None:
        # Neighbouring strings are joined by Spark.
        if self.text.tokens[position + 1].kind == "string":
            return None
        value = unquote(self.text.tokens[position].text)
        return None if value is None else Literal("string", value)

    def _bracketed(self, position: int, after: int) -> Found | None:
        closing = self.text.partners.get(position)
        if self.text.tokens[position].text != "(" or closing is None or closing >= after:
            return None
        found = self.read(position + 1, closing)
        return None if found is None or found.after != closing else Found(found.operand, closing + 1)

    def _typed(self, word: str, position: int) -> Literal | None:
        literal = self._string(position)
        if literal is None:
            return None
        if word == "X":
            digits = literal.value if _HEX.fullmatch(literal.value) else None
            return (
                None if digits is None else Literal("binary", bytes.fromhex("0" * (len(digits) % 2) + digits))
            )
        return self._cast(literal, word)

    def _named(self, position: int, after: int) -> Found | None:
        """A column, or a call of a function."""
        parts: list[str] = []
        while position < after and self.text.tokens[position].kind in ("word", "quoted"):
            token = self.text.tokens[position]
            parts.append(token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text)
            position += 1
            if self.text.tokens[position].text != ".":
                break
            position += 1
        if not parts:
            return None
        if self.text.tokens[position].text == "(":
            closing = self.text.partners[position]
            operand = self._call(parts, position)
            return None if operand is None or closing >= after else Found(operand, closing + 1)
        field = self.names.find(parts)
        return None if field is None else Found(Source(Term(field.id, field.type)), position)

    def _call(self, path: list[str], opening: int) -> Operand | None:
        """A function: of Iceberg (perhaps with the name of a catalog), or of Spark."""
        name = path[-1].lower()
        if name in ("cast", "try_cast") and len(path) == 1:
            return self._cast_call(opening)
        arguments = self.arguments(opening)
        if arguments is None or (len(path) > 1 and path[-2].lower() != "system"):
            return None
        return self._of_iceberg(name, arguments) or (
            self._of_spark(name, arguments) if len(path) == 1 else None
        )

    def _of_iceberg(self, name: str, arguments: list[Operand]) -> Source | None:
        match name, arguments:
            case "years" | "months" | "days" | "hours", [Source() as source]:
                # Iceberg counts in UTC, whatever the session's zone is.
                return self._view(source, name, zone_matters=False)
            case "bucket", [Literal(kind="integer", value=n), Source() as source]:
                return _transformed(source, Bucket, n)
            case "truncate", [Literal(kind="integer", value=width), Source() as source]:
                return _transformed(source, Truncate, width)
            case "truncate", [Source() as source, Literal(kind="integer", value=width)]:
                return _transformed(source, Truncate, width)
            case _:
                return None

    def _of_spark(self, name: str, arguments: list[Operand]) -> Operand | None:
        match name, arguments:
            case "date" | "to_date", [Source() as source]:
                return self._view(source, "date")
            case "year", [Source() as source]:
                return self._view(source, "year")
            case "date_trunc", [Literal(kind="string", value=unit), Source() as source]:
                return self._truncated(source, unit.lower())
            case _, [Literal() as literal] if name.upper() in _CASTS:
                return self._cast(literal, name.upper())
            case _:
                return None

    def _view(self, source: Source, view: str, *, zone_matters: bool = True) -> Source | None:
        type_ = source.term.type
        if source.view or not source.term.is_plain or not (type_ is DATE or type_ in TIMESTAMPS):
            return None
        if type_ is DATE and view in ("date", "days"):
            return source
        if type_ is DATE and view == "hours":
            return None
        if zone_matters and type_ in ZONED and not self.zone.is_utc:
            return None
        return Source(source.term, view)

    def _truncated(self, source: Source, unit: str) -> Source | None:
        # Spark casts local times to instants for date_trunc, so that the zone matters for them too.
        known = unit in TRUNCATING_UNITS and self.zone.is_utc and not source.view
        if not known or not source.term.is_plain or source.term.type not in TIMESTAMPS:
            return None
        return Source(source.term, f"trunc:{unit}")

    def _cast_call(self, opening: int) -> Operand | None:
        closing = self.text.partners[opening]
        found = self.read(opening + 1, closing)
        if found is None or not is_word(self.text, found.after, "AS") or found.after + 2 != closing:
            return None
        target = self.text.tokens[closing - 1].word
        if isinstance(found.operand, Literal):
            return self._cast(found.operand, target)
        return self._view(found.operand, "date") if target == "DATE" else None

    def _cast(self, literal: Literal, target: str) -> Literal | None:
        """A literal of another type, where the cast is exact."""
        value = literal.value
        if literal.kind == "integer" and target in _INTEGER_BITS:
            half = 1 << (_INTEGER_BITS[target] - 1)
            return literal if -half <= value < half else None
        if literal.kind in ("integer", "decimal") and target in ("DOUBLE", "FLOAT"):
            number = float(value)
            narrow = to_single(number)
            if target == "FLOAT":
                return Literal("float", narrow) if narrow == number else None
            return Literal("double", number)
        return self._cast_string(str(value), target) if literal.kind == "string" else None

    def _cast_string(self, value: str, target: str) -> Literal | None:
        if target in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return timestamp_literal(value, self.zone)
        if target in ("DOUBLE", "FLOAT"):
            return float_literal(value.strip(" \t\r\n"), single=target == "FLOAT")
        result: tuple[str, object] | None = None
        match target:
            case "DATE":
                result = "date", read_date(value)
            case "TIME":
                result = "time", read_time(value)
            case "TIMESTAMP_NTZ":
                read = read_timestamp(value)
                # Spark ignores an offset here.
                result = "timestamp_ntz", None if read is None or read[1] is not None else read[0]
            case "STRING":
                result = "string", value
            case _ if target in _INTEGER_BITS:
                integer = integer_text(value)
                half = 1 << (_INTEGER_BITS[target] - 1)
                result = "integer", integer if integer is not None and -half <= integer < half else None
        return None if result is None or result[1] is None else Literal(*result)


def _transformed(source: Source, kind: type[Bucket | Truncate], parameter: int) -> Source | None:
    if source.view or not source.term.is_plain or not 0 < parameter <= MAX_PARAMETER:
        return None
    transform: Transform = kind(parameter)
    term = source.term
    return Source(Term(term.field_id, term.type, transform)) if accepts(transform, term.type) else None
