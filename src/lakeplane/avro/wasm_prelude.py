"""What is the same in all generated decoders: memory, failures, reading numbers, collecting texts.

See ``wasm_text`` for how to read this.
"""

from __future__ import annotations

from typing import Final

WORD: Final = 4
ARGUMENTS: Final = 4
"""How many words at the start of the memory are for arguments. The addresses of the slots follow."""

GATHER_WORDS: Final = 5
"""What ``gather`` needs for a column: where starts and lengths are, how many, and where to write to."""

FAILURES: Final = (
    "",
    "ends within a row",
    "has a union with a branch that there is not",
    "holds a number that is too large for its type",
    "counts more items than it can hold",
    "has a number of more than ten bytes",
    "holds what is neither true nor false",
    "holds a row that is null",
    "goes on after its last row",
)
"""Why a decoder stopped, by the number that it leaves in ``why``."""
CUT, BRANCH, RANGE, COUNT, LONG, BOOLEAN, NULL_ROW, REST = range(1, len(FAILURES))


def argument(number: int) -> str:
    """One of the words for arguments."""
    return f"(i32.load (i32.const {WORD * number}))"


# What is the same in all modules. The fast way to read a number takes eight bytes at once: the highest bit
# of each byte tells whether another one follows, so the first of them that is clear is where the number
# ends.

PRELUDE: Final = f"""(module
(memory (export "memory") 1)
(global $why (export "why") (mut i32) (i32.const 0))
(global $block (export "block") (mut i32) (i32.const 0))

(func $fail (param $code i32)
  (global.set $why (local.get $code))
  (unreachable))

;; A number that starts at $p: the number, and where it ends.
(func $long (param $p i32) (result i64 i32)
  (local $w i64) (local $stop i64) (local $shift i64) (local $byte i64)
  (local.set $w (i64.load (local.get $p)))
  (local.set $stop (i64.and (i64.xor (local.get $w) (i64.const -1)) (i64.const 0x8080808080808080)))
  (if (i64.ne (local.get $stop) (i64.const 0)) (then
    ;; Keep the bytes up to the one that ends it, and push their groups of seven bits together.
    (local.set $stop (i64.ctz (local.get $stop)))
    (local.set $w (i64.and (local.get $w) (i64.shr_u (i64.const 0x7f7f7f7f7f7f7f7f)
      (i64.sub (i64.const 63) (local.get $stop)))))
    (local.set $w (i64.or (i64.and (local.get $w) (i64.const 0x007f007f007f007f))
      (i64.shr_u (i64.and (local.get $w) (i64.const 0x7f007f007f007f00)) (i64.const 1))))
    (local.set $w (i64.or (i64.and (local.get $w) (i64.const 0x00003fff00003fff))
      (i64.shr_u (i64.and (local.get $w) (i64.const 0x3fff00003fff0000)) (i64.const 2))))
    (local.set $w (i64.or (i64.and (local.get $w) (i64.const 0x000000000fffffff))
      (i64.shr_u (i64.and (local.get $w) (i64.const 0x0fffffff00000000)) (i64.const 4))))
    (local.set $p (i32.add (local.get $p)
      (i32.add (i32.const 1) (i32.wrap_i64 (i64.shr_u (local.get $stop) (i64.const 3)))))))
  (else
    (local.set $w (i64.const 0))
    (loop $more
      (local.set $byte (i64.load8_u (local.get $p)))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (local.set $w (i64.or (local.get $w)
        (i64.shl (i64.and (local.get $byte) (i64.const 127)) (local.get $shift))))
      (local.set $shift (i64.add (local.get $shift) (i64.const 7)))
      (if (i64.ge_u (local.get $byte) (i64.const 128)) (then
        (if (i64.gt_u (local.get $shift) (i64.const 63)) (then (call $fail (i32.const {LONG}))))
        (br $more))))))
  ;; The sign is the lowest bit.
  (i64.xor (i64.shr_u (local.get $w) (i64.const 1))
    (i64.sub (i64.const 0) (i64.and (local.get $w) (i64.const 1))))
  (local.get $p))

;; Collect values one after the other, with their offsets. It copies eight bytes at a time, and so up to
;; seven too many: the next value overwrites them, and the caller leaves room after the last one.
(func $gather
  (param $starts i32) (param $lengths i32) (param $n i32) (param $offsets i32) (param $to i32)
  (local $from i32) (local $end i32) (local $begin i32)
  (local.set $begin (local.get $to))
  (i32.store (local.get $offsets) (i32.const 0))
  (block $done (loop $next
    (br_if $done (i32.eqz (local.get $n)))
    (local.set $from (i32.load (local.get $starts)))
    (local.set $end (i32.add (local.get $to) (i32.load (local.get $lengths))))
    (block $copied (loop $copy
      (br_if $copied (i32.ge_u (local.get $to) (local.get $end)))
      (i64.store (local.get $to) (i64.load (local.get $from)))
      (local.set $to (i32.add (local.get $to) (i32.const 8)))
      (local.set $from (i32.add (local.get $from) (i32.const 8)))
      (br $copy)))
    (local.set $to (local.get $end))
    (local.set $starts (i32.add (local.get $starts) (i32.const 4)))
    (local.set $lengths (i32.add (local.get $lengths) (i32.const 4)))
    (local.set $offsets (i32.add (local.get $offsets) (i32.const 4)))
    (i32.store (local.get $offsets) (i32.sub (local.get $end) (local.get $begin)))
    (local.set $n (i32.sub (local.get $n) (i32.const 1)))
    (br $next))))

;; The same for several columns: their number, and where the five words for each of them are.
(func (export "gather")
  (local $columns i32) (local $at i32)
  (local.set $columns {argument(0)})
  (local.set $at {argument(1)})
  (block $done (loop $next
    (br_if $done (i32.eqz (local.get $columns)))
    (call $gather (i32.load (local.get $at)) (i32.load offset=4 (local.get $at))
      (i32.load offset=8 (local.get $at)) (i32.load offset=12 (local.get $at))
      (i32.load offset=16 (local.get $at)))
    (local.set $at (i32.add (local.get $at) (i32.const {WORD * GATHER_WORDS})))
    (local.set $columns (i32.sub (local.get $columns) (i32.const 1)))
    (br $next))))
"""
