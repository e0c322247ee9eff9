"""Predicates over the rows of a table: parsed, bound to columns, and used to leave files out."""
