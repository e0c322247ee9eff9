"""Predicates on the rows of a table, with the meaning that Spark SQL gives them.

- ``parse``: from the text of a condition to a tree bound to columns, by way of ``tokens`` (words),
  ``leaves`` and ``operands`` (the shapes that are understood), ``literals``, ``bind`` and ``steps`` (what a
  comparison means for the column). What is not understood exactly becomes an ``Opaque`` leaf (``opaque``).
- ``tree``: the predicates themselves; ``sql_text`` writes them as SQL again.
- ``project``: from rows to partition values; ``residual``: what is left to check in each file.
- ``columns`` and ``bounds`` evaluate predicates on rows and on statistics of many files at once. They and
  ``physical`` and ``residual`` import NumPy and Arrow; import them where they are needed.

Whoever plans with these never loses a row: a part that is not understood, and a fact that is not known,
keep files.
"""
