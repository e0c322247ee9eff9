"""A decoder for one schema and one selection, as the text of a WebAssembly module.

WebAssembly is a small instruction set for a sandbox. A module has functions and one flat memory of bytes,
numbered from 0, and can touch nothing else: whatever hostile bytes make it do, it stays in there. Its text
is written in brackets, the operation first: ``(i32.add (local.get $p) (i32.const 1))`` is p + 1. ``i32``
and ``i64`` are integers of 32 and 64 bits; addresses are ``i32``. ``(unreachable)`` ends the call with an
error.

The generated functions walk over rows. ``$p`` is the place in the input, ``$e`` the end of what may be
read, ``$i`` the number of the value in its column. A value that is wanted is stored in a *slot*, an array
in memory with one element of a fixed width per value; the caller makes room for the slots and writes their
addresses into the table at the start of the memory. What a value needs more than a fixed width for is
stored as where it is:

- texts and bytes as start and length, which ``gather`` then collects,
- arrays and maps as start and number of items. The items are a *level* of their own, with slots of their
  own and a function that decodes them; when it runs, the number of all items is known, and the room made
  for them is exact.

The functions take no arguments: they find them in the first words of the memory, as a call with arguments
costs more than some small files. Slots start as zeros. A value that may be null has a slot of flags, so
null and absent values store nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from lakeplane.avro.limits import Limits
from lakeplane.avro.schema import LENGTHS, TEXT, Array, Choice, Map, Node, Optional, Record, Scalar, is_empty
from lakeplane.avro.selection import Inside, Keyed, Selection, Target, Whole
from lakeplane.avro.wasm_prelude import (
    ARGUMENTS,
    BOOLEAN,
    BRANCH,
    COUNT,
    CUT,
    NULL_ROW,
    PRELUDE,
    RANGE,
    REST,
    WORD,
    argument,
)


class Values(NamedTuple):
    """Where a scalar is: flags, if it may be null, and one slot, or two for start and length."""

    node: Scalar
    valid: int | None
    at: int


class Parts(NamedTuple):
    """Where a record is."""

    valid: int | None
    children: tuple[Layout, ...]


class Items(NamedTuple):
    """Where an array or map is: the slots of start and number, and the level of its items."""

    valid: int | None
    at: int
    level: Level


Layout: TypeAlias = Values | Parts | Items


class Level(NamedTuple):
    """What is decoded by one function, with one count of values."""

    function: str
    slots: tuple[int, ...]
    layouts: tuple[Layout, ...]
    """The columns of the rows; for the items of an array one, for those of a map two."""


class Code(NamedTuple):
    """A module, and how to read what it leaves in memory."""

    text: str
    widths: tuple[int, ...]
    """Bytes per value in each slot."""
    rows: Level


def spans(layouts: Iterable[Layout]) -> Iterator[Values]:
    """The values of one level that ``gather`` collects."""
    for layout in layouts:
        match layout:
            case Values(node=node) if is_spans(node):
                yield layout
            case Parts(children=children):
                yield from spans(children)


def is_spans(node: Scalar) -> bool:
    """Whether values are stored as start and length."""
    return node.kind in {"bytes", "string"}


def generate(selection: Selection, limits: Limits) -> Code:
    """Write the decoder of a selection."""
    module = _Module(limits)
    rows = module.rows(selection)
    text = "\n".join([PRELUDE, *module.functions, ")"])
    return Code(text, tuple(module.widths), rows)


_P: Final = "(local.get $p)"
_V: Final = "(local.get $v)"
_LEFT: Final = "(i64.extend_i32_u (i32.sub (local.get $e) (local.get $p)))"
_NEXT: Final = "(local.set $i (i32.add (local.get $i) (i32.const 1)))"
_IN_BOUNDS: Final = f"(if (i32.gt_u {_P} (local.get $e)) (then (call $fail (i32.const {CUT}))))"

_READ_LONG: Final = f"""(local.set $v (i64.load8_u {_P}))
(if (i64.lt_u {_V} (i64.const 128))
  (then (local.set $p (i32.add {_P} (i32.const 1)))
    (local.set $v (i64.xor (i64.shr_u {_V} (i64.const 1))
      (i64.sub (i64.const 0) (i64.and {_V} (i64.const 1))))))
  (else (call $long {_P}) (local.set $p) (local.set $v)))"""

_SKIP_LONG: Final = f"""(loop $skip
(local.set $c (i32.load8_u {_P}))
(local.set $p (i32.add {_P} (i32.const 1)))
(br_if $skip (i32.ge_u (local.get $c) (i32.const 128))))"""

_SKIP_BYTES: Final = f"""(if (i64.gt_u {_V} {_LEFT}) (then (call $fail (i32.const {CUT}))))
(local.set $p (i32.add {_P} (i32.wrap_i64 {_V})))"""
"""Go on by $v bytes; a negative length is a huge one."""


def _fail_if(condition: str, code: int) -> str:
    return f"(if {condition} (then (call $fail (i32.const {code}))))"


class _Module:
    """Collects slots and functions."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.widths: list[int] = []
        self.functions: list[str] = []
        self.levels = 0

    def rows(self, selection: Selection) -> Level:
        """The function of the rows: it gets a pair for each block, its end and its number of rows."""
        function = _Function(self)
        layouts: list[Layout | None] = [None] * len(selection.columns)
        row = function.inside(selection.record, selection.inside, layouts, nullable=False)
        if selection.null_at is not None:
            is_null = f"(i64.ne {_V} (i64.const {1 - selection.null_at}))"
            row = f"{_READ_LONG}\n{_fail_if(is_null, NULL_ROW)}\n{row}"
        self.functions.append(f"""
(func (export "rows")
  (local $table i32) (local $blocks i32) (local $p i32) (local $e i32) (local $n i32) (local $i i32)
  {function.locals()}
  (local.set $table {argument(0)})
  (local.set $blocks {argument(1)})
  (local.set $p {argument(2)})
  (global.set $block (i32.const 0))
  (block $done (loop $next
    (br_if $done (i32.eq (global.get $block) (local.get $blocks)))
    (local.set $e (i32.load (local.get $table)))
    (local.set $n (i32.load offset=4 (local.get $table)))
    (block $end (loop $row
      (br_if $end (i32.eqz (local.get $n)))
{row}
      {_IN_BOUNDS}
      {_NEXT}
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $row)))
    {_fail_if(f"(i32.ne {_P} (local.get $e))", REST)}
    (local.set $table (i32.add (local.get $table) (i32.const 8)))
    (global.set $block (i32.add (global.get $block) (i32.const 1)))
    (br $next))))""")
        found = tuple(layout for layout in layouts if layout is not None)
        assert len(found) == len(layouts)
        return Level("rows", tuple(function.slots), found)

    def items(self, node: Array | Map) -> Level:
        """The function of the items of arrays or maps: it gets where each starts, and its number of items."""
        function = _Function(self)
        self.levels += 1
        name = f"items{self.levels}"
        layouts: list[Layout] = []
        item = ""
        for part in _item_types(node):
            code, layout = function.store(part, nullable=False)
            item += code
            layouts.append(layout)
        self.functions.append(
            f"""
(func (export "{name}")
  (local $starts i32) (local $counts i32) (local $n i32) (local $e i32) (local $p i32) (local $i i32)
  {{locals}}
  (local.set $starts {argument(0)})
  (local.set $counts {argument(1)})
  (local.set $n {argument(2)})
  (local.set $e {argument(3)})
  (block $end (loop $row
    (br_if $end (i32.eqz (local.get $n)))
    (if (i32.ne (i32.load (local.get $counts)) (i32.const 0)) (then
      (local.set $p (i32.load (local.get $starts)))
{function.blocks(item + _NEXT, empty=_takes_nothing(node))}))
    (local.set $starts (i32.add (local.get $starts) (i32.const 4)))
    (local.set $counts (i32.add (local.get $counts) (i32.const 4)))
    (local.set $n (i32.sub (local.get $n) (i32.const 1)))
    (br $row))))""".replace("{locals}", function.locals())
        )
        return Level(name, tuple(function.slots), tuple(layouts))


def _item_types(node: Array | Map) -> Sequence[Node]:
    match node:
        case Array(items=Record(fields=(key, value)), is_map=True):
            return (key.type, value.type)
        case Array(items=items):
            return (items,)
        case Map(values=values):
            return (TEXT, values)


def _takes_nothing(node: Array | Map) -> bool:
    return isinstance(node, Array) and is_empty(node.items)


class _Function:
    """The code of one level: what is wanted is stored, the rest is skipped."""

    def __init__(self, module: _Module) -> None:
        self.module = module
        self.slots: list[int] = []
        self.variables = 0
        self.labels = 0

    def locals(self) -> str:
        numbered = " ".join(f"(local $x{each} i64)" for each in range(self.variables))
        return f"(local $v i64) (local $c i32) {numbered}"

    def local(self) -> str:
        """A variable that nothing else uses."""
        self.variables += 1
        return f"$x{self.variables - 1}"

    def label(self) -> str:
        """The name of a block or loop."""
        self.labels += 1
        return f"$to{self.labels}"

    def slot(self, width: int) -> int:
        self.module.widths.append(width)
        self.slots.append(len(self.module.widths) - 1)
        return self.slots[-1]

    # Records

    def inside(self, record: Record, inside: Inside, layouts: list[Layout | None], *, nullable: bool) -> str:
        """The fields of a record on the way to columns."""
        code = []
        for position, field in enumerate(record.fields):
            targets = inside.fields.get(position, ())
            if not targets:
                code.append(self.skip(field.type))
            for number, target in enumerate(targets):
                if number < len(targets) - 1:  # the next one reads the same once more
                    back = self.local()
                    code.append(f"(local.set {back} (i64.extend_i32_u {_P}))")
                    code.append(self.target(field.type, target, layouts, nullable=nullable))
                    code.append(f"(local.set $p (i32.wrap_i64 (local.get {back})))")
                else:
                    code.append(self.target(field.type, target, layouts, nullable=nullable))
        return "\n".join(code)

    def target(self, node: Node, target: Target, layouts: list[Layout | None], *, nullable: bool) -> str:
        match target:
            case Whole(column=column):
                code, layouts[column] = self.store(node, nullable=nullable)
                return code
            case Keyed():
                return self.keyed(node, target, layouts)
            case Inside():
                return self.descend(node, target, layouts, nullable=nullable)

    def descend(self, node: Node, inside: Inside, layouts: list[Layout | None], *, nullable: bool) -> str:
        match node:
            case Record():
                return self.inside(node, inside, layouts, nullable=nullable)
            case Optional(value=value, null_at=null_at):
                return self.unless_null(null_at, self.descend(value, inside, layouts, nullable=True))
            case Choice(branches=(branch,)):
                return self.only_branch() + self.descend(branch, inside, layouts, nullable=nullable)
            case _:
                raise AssertionError(node)

    def unless_null(self, null_at: int, code: str) -> str:
        return f"""{_READ_LONG}
(if (i64.eq {_V} (i64.const {1 - null_at})) (then
{code})
  (else {_fail_if(f"(i64.ne {_V} (i64.const {null_at}))", BRANCH)}))"""

    def only_branch(self) -> str:
        return f"{_READ_LONG}\n{_fail_if(f'(i64.ne {_V} (i64.const 0))', BRANCH)}\n"

    # Storing

    def store(self, node: Node, *, nullable: bool) -> tuple[str, Layout]:
        """Code that stores a value, and where it will be."""
        match node:
            case Optional(value=value, null_at=null_at):
                code, layout = self.store(value, nullable=True)
                return self.unless_null(null_at, code), layout
            case Choice(branches=(branch,)):
                code, layout = self.store(branch, nullable=nullable)
                return self.only_branch() + code, layout
            case Scalar():
                values = self.values(node, nullable=nullable)
                return self.store_scalar(values), values
            case Record(fields=fields):
                valid = self.slot(1) if nullable else None
                parts = [self.store(field.type, nullable=nullable) for field in fields]
                code = self.mark(valid) + "\n".join(code for code, _ in parts)
                return code, Parts(valid, tuple(layout for _, layout in parts))
            case Array() | Map():
                return self.store_items(node, nullable=nullable)
            case _:
                raise AssertionError(node)

    def values(self, node: Scalar, *, nullable: bool) -> Values:
        valid = self.slot(1) if nullable else None
        if is_spans(node):
            first, _ = self.slot(4), self.slot(4)
            return Values(node, valid, first)
        return Values(node, valid, self.slot(_width(node)))

    def address(self, slot: int, further: str = "(i32.const 0)") -> str:
        """Where the value of this row is in a slot, or in one ``further`` bytes on in the table."""
        table = f"(i32.load offset={WORD * (ARGUMENTS + slot)} {further})"
        return f"(i32.add {table} (i32.mul (local.get $i) (i32.const {self.module.widths[slot]})))"

    def mark(self, valid: int | None, further: str = "(i32.const 0)") -> str:
        return "" if valid is None else f"(i32.store8 {self.address(valid, further)} (i32.const 1))\n"

    def store_scalar(self, values: Values, further: str = "(i32.const 0)") -> str:
        node, to = values.node, self.address(values.at, further)
        mark = self.mark(values.valid, further)
        match node.kind:
            case "null":
                return mark
            case "int":
                narrow = f"(i64.ne {_V} (i64.extend32_s {_V}))"
                return f"{mark}{_READ_LONG}\n{_fail_if(narrow, RANGE)}\n(i64.store32 {to} {_V})"
            case "enum":
                beyond = f"(i64.ge_u {_V} (i64.const {len(node.symbols)}))"
                return f"{mark}{_READ_LONG}\n{_fail_if(beyond, RANGE)}\n(i64.store32 {to} {_V})"
            case "long":
                return f"{mark}{_READ_LONG}\n(i64.store {to} {_V})"
            case "boolean":
                neither = f"(i32.gt_u (i32.load8_u {_P}) (i32.const 1))"
                store = f"(i32.store8 {to} (i32.load8_u {_P}))"
                return f"{mark}{_fail_if(neither, BOOLEAN)}\n{store}\n{_advance(1)}"
            case "float":
                return f"{mark}(i32.store {to} (i32.load {_P}))\n{_advance(4)}"
            case "double":
                return f"{mark}(i64.store {to} (i64.load {_P}))\n{_advance(8)}"
            case "fixed":
                enough = _fail_if(f"(i64.gt_u (i64.const {node.size}) {_LEFT})", CUT)
                copy = f"(memory.copy {to} {_P} (i32.const {node.size}))"
                return f"{mark}{enough}\n{copy}\n{_advance(node.size)}"
            case "bytes" | "string":
                length = self.address(values.at + 1, further)
                return (
                    f"{mark}{_READ_LONG}\n(i32.store {to} {_P})\n(i64.store32 {length} {_V})\n{_SKIP_BYTES}"
                )

    def store_items(self, node: Array | Map, *, nullable: bool) -> tuple[str, Items]:
        """Store where the items start and how many they are; skip them meanwhile."""
        valid = self.slot(1) if nullable else None
        start, number = self.slot(4), self.slot(4)
        total = self.local()
        empty = _takes_nothing(node)
        skip = "" if empty else "".join(self.skip(part) for part in _item_types(node))
        too_many = _fail_if(f"(i64.gt_u (local.get {total}) (i64.const {self.most(empty=empty)}))", COUNT)

        def add(count: str) -> str:
            return f"(local.set {total} (i64.add (local.get {total}) (local.get {count})))\n{too_many}"

        code = f"""{self.mark(valid)}(i32.store {self.address(start)} {_P})
(local.set {total} (i64.const 0))
{self.blocks(skip, empty=empty, each_block=add)}
(i64.store32 {self.address(number)} (local.get {total}))"""
        return code, Items(valid, start, self.module.items(node))

    def keyed(self, node: Node, target: Keyed, layouts: list[Layout | None]) -> str:
        """The values of some keys in an array of key and value, each in slots of its own."""
        match node:
            case Optional(value=value, null_at=null_at):
                return self.unless_null(null_at, self.keyed(value, target, layouts))
            case Choice(branches=(branch,)):
                return self.only_branch() + self.keyed(branch, target, layouts)
            case Array(items=Record(fields=(key, value))):
                pass
            case _:
                raise AssertionError(node)
        scalar, skip_value = _scalar_in(value.type), self.skip(value.type)
        first = None
        for offset in range(len(target.keys)):
            values = self.values(scalar, nullable=True)
            layouts[target.first + offset] = values
            first = first or values
        assert first is not None
        slots_of_key = 3 if is_spans(scalar) else 2
        which = self.local()
        further = f"(i32.mul (i32.wrap_i64 (local.get {which})) (i32.const {WORD * slots_of_key}))"
        store_value = self.store_scalar(first, further)
        if isinstance(value.type, Optional):
            store_value = self.unless_null(value.type.null_at, store_value)
        elif isinstance(value.type, Choice):
            store_value = self.only_branch() + store_value
        by_key = sorted((number, offset) for offset, number in enumerate(target.keys))
        assert isinstance(key.type, Scalar)
        item = f"""{_READ_LONG}
(local.set {which} {_search(by_key)})
(if (i64.ge_s (local.get {which}) (i64.const 0)) (then
{store_value})
(else
{skip_value}))"""
        return self.blocks(item, empty=False)

    # Skipping

    def skip(self, node: Node) -> str:
        """Code that goes past a value."""
        match node:
            case Scalar(kind="null"):
                return ""
            case Scalar(kind="int" | "long" | "enum"):
                return _SKIP_LONG + "\n"
            case Scalar(kind="bytes" | "string"):
                return f"{_READ_LONG}\n{_SKIP_BYTES}\n"
            case Scalar(kind="fixed", size=size):
                return f"(local.set $v (i64.const {size}))\n{_SKIP_BYTES}\n"
            case Scalar(kind=kind):
                return _advance(LENGTHS[kind]) + "\n"
            case Record(fields=fields):
                return "".join(self.skip(field.type) for field in fields)
            case Optional(value=value, null_at=null_at):
                return self.unless_null(null_at, self.skip(value))
            case Choice(branches=branches):
                return self.skip_choice(branches)
            case Array() | Map():
                empty = _takes_nothing(node)
                item = "" if empty else "".join(self.skip(part) for part in _item_types(node))
                return self.blocks(item, empty=empty)

    def skip_choice(self, branches: Iterable[Node]) -> str:
        which = self.local()
        code = f"(call $fail (i32.const {BRANCH}))"
        for number, branch in reversed(list(enumerate(branches))):
            found = f"(i64.eq (local.get {which}) (i64.const {number}))"
            code = f"(if {found} (then {self.skip(branch)}) (else {code}))"
        return f"{_READ_LONG}\n(local.set {which} {_V})\n{code}\n"

    # Arrays

    def most(self, *, empty: bool) -> int:
        """How many items of an array are accepted: empty ones take no bytes, so bytes do not limit them."""
        return self.module.limits.empty_items if empty else 2**31 - 1

    def blocks(self, item: str, *, empty: bool, each_block: Callable[[str], str] = lambda _: "") -> str:
        """Go through an array: blocks of a count and so many items, and a count of zero at the end.

        A negative count is followed by the bytes that its block takes. ``item`` is the code of one item, or
        nothing if there is nothing to do for each of them.
        """
        left, done, following, again = self.local(), self.label(), self.label(), self.label()
        most = f"(i64.const {self.most(empty=True)})" if empty else _LEFT
        items = (
            f"""(loop {again}
{item}
{_IN_BOUNDS}
(local.set {left} (i64.sub (local.get {left}) (i64.const 1)))
(br_if {again} (i64.ne (local.get {left}) (i64.const 0))))"""
            if item
            else ""
        )
        return f"""(block {done} (loop {following}
{_READ_LONG}
(br_if {done} (i64.eqz {_V}))
(local.set {left} {_V})
(if (i64.lt_s (local.get {left}) (i64.const 0)) (then
  (local.set {left} (i64.sub (i64.const 0) (local.get {left})))
  {_SKIP_LONG}))
{_fail_if(f"(i64.gt_u (local.get {left}) {most})", COUNT)}
{each_block(left)}
{items}
{_IN_BOUNDS}
(br {following})))
"""


def _advance(size: int) -> str:
    return f"(local.set $p (i32.add {_P} (i32.const {size})))"


def _width(node: Scalar) -> int:
    match node.kind:
        case "int" | "enum":
            return 4
        case "long":
            return 8
        case "fixed":
            return node.size
        case "null":
            return 0
        case kind:
            return LENGTHS[kind]


def _scalar_in(node: Node) -> Scalar:
    match node:
        case Optional(value=value) | Choice(branches=(value,)):
            return _scalar_in(value)
        case Scalar():
            return node
        case _:
            raise AssertionError(node)


def _search(by_key: Sequence[tuple[int, int]]) -> str:
    """Which of some keys $v is, by halving; -1 if none of them."""
    if len(by_key) == 1:
        [(key, offset)] = by_key
        return f"(select (i64.const {offset}) (i64.const -1) (i64.eq {_V} (i64.const {key})))"
    middle = len(by_key) // 2
    smaller = f"(i64.lt_s {_V} (i64.const {by_key[middle][0]}))"
    return f"(if (result i64) {smaller} (then {_search(by_key[:middle])}) (else {_search(by_key[middle:])}))"
