"""Measurements: each module has a ``main()`` that prints what it measured."""
