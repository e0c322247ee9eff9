"""The hash of ``bucket`` as SQL that Spark compiles: Murmur3, 32 bits, seed 0, of Iceberg's bytes.

Spark's own ``hash`` is Murmur3 with the seed 42, and a hash is the seed of the next one: the number ``_ZERO``
hashes to 0, so that ``hash(_ZERO, x)`` is the hash of ``x`` with the seed 0. For whole words it is the very
hash that is wanted. Bytes that are not a multiple of four are filled up with zeros first; then the last steps
of Murmur3 are undone and done again with the right length, for the filled word is mixed in as in Murmur3's
tail, but for one rotation and its length.
"""

from __future__ import annotations

from typing import Final

_ZERO: Final = -1693959553
_MASK: Final = 0xFFFFFFFF
_FIRST, _SECOND = 0x85EBCA6B, 0xC2B2AE35
_ROUND: Final = 0xE6546B64
_WORD: Final = 4


class Steps:
    """SQL expressions that are given names, since each is used several times by the next one."""

    def __init__(self, prefix: str) -> None:
        """Start with none; names begin with the prefix, which no other column has."""
        self.prefix = prefix
        self.named: list[tuple[str, str]] = []

    def add(self, sql: str) -> str:
        """Name one more expression, and give its name."""
        name = f"{self.prefix}{len(self.named)}"
        self.named.append((name, sql))
        return name


def hash_long(source: str) -> str:
    """The hash of a bigint, or of what Spark keeps as one: timestamps of both kinds."""
    return f"hash({_ZERO}, {source})"


def hash_words(source: str) -> str:
    """The hash of a binary whose length is a multiple of four."""
    return f"hash({_ZERO}, {source})"


def hash_bytes(source: str, steps: Steps) -> str:
    """The hash of a binary of any length, as a bigint from 0 to 2^32 - 1."""
    data = steps.add(source)
    length = steps.add(f"CAST(octet_length({data}) AS BIGINT)")
    filled = steps.add(f"({length} + 3L) & -4L")
    zeros = f"substring(X'000000', 1, CAST({filled} - {length} AS INT))"
    full = steps.add(_unsigned(f"hash({_ZERO}, concat({data}, {zeros}))"))
    return _shorter(full, length, filled, steps)


def hash_unscaled(source: str, steps: Steps) -> str:
    """The hash of a decimal, given its digits as a bigint: that of its shortest big-endian bytes."""
    number = steps.add(source)
    size = steps.add(f"IF({number} < 0L, -1L - {number}, {number})")
    cases = " ".join(f"WHEN {size} < {1 << (8 * count - 1)}L THEN {count}" for count in range(1, 8))
    length = steps.add(f"CASE {cases} ELSE 8 END")
    # The bytes, left aligned and filled up with zeros, in the order of a little-endian word.
    word = steps.add(f"shiftleft({number}, 8 * (8 - {length}))")
    for bits, mask in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF)):
        upper = f"(shiftrightunsigned({word}, {bits}) & {mask}L)"
        word = steps.add(f"{upper} | shiftleft({word} & {mask}L, {bits})")
    word = steps.add(f"shiftrightunsigned({word}, 32) | shiftleft({word}, 32)")
    half = f"CAST(IF({word} < 2147483648L, {word}, {word} - 4294967296L) AS INT)"
    # What does not fit into an int is not cast to one, also where casts check their range.
    short = f"hash({_ZERO}, {half})"
    full = steps.add(_unsigned(f"IF({length} <= {_WORD}, {short}, hash({_ZERO}, {word}))"))
    filled = steps.add(f"IF({length} <= {_WORD}, 4L, 8L)")
    return _shorter(full, f"CAST({length} AS BIGINT)", filled, steps)


def _shorter(full: str, length: str, filled: str, steps: Steps) -> str:
    """From the hash of bytes with zeros behind them to that of the bytes alone."""
    state = steps.add(f"{full} ^ shiftright({full}, 16)")
    state = steps.add(_times(state, pow(_SECOND, -1, 1 << 32)))
    state = steps.add(f"{state} ^ shiftright({state}, 13) ^ shiftright({state}, 26)")
    state = steps.add(_times(state, pow(_FIRST, -1, 1 << 32)))
    state = steps.add(f"({state} ^ shiftright({state}, 16)) ^ {filled}")
    # One round back: the tail of Murmur3 is mixed in, and that is all.
    state = steps.add(f"({state} + {(1 << 32) - _ROUND}L) & {_MASK}L")
    state = steps.add(_times(state, pow(5, -1, 1 << 32)))
    state = steps.add(f"shiftright({state}, 13) | (shiftleft({state}, 19) & {_MASK}L)")
    state = steps.add(f"{state} ^ {length}")
    state = steps.add(f"{state} ^ shiftright({state}, 16)")
    state = steps.add(_times(state, _FIRST))
    state = steps.add(f"{state} ^ shiftright({state}, 13)")
    state = steps.add(_times(state, _SECOND))
    return steps.add(f"IF({length} = {filled}, {full}, {state} ^ shiftright({state}, 16))")


def _unsigned(hashed: str) -> str:
    return f"CAST({hashed} AS BIGINT) & {_MASK}L"


def _times(state: str, factor: int) -> str:
    """The lower 32 bits of a product, of which no part needs more than 63 bits."""
    high, low = factor >> 16, factor & 0xFFFF
    upper = f"shiftleft(({state} * {high}L) & 65535L, 16)"
    return f"({state} * {low}L + {upper}) & {_MASK}L"
