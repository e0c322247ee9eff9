"""The contestants of ``spark_io``: programs that run in an environment of their own, and answer with JSON."""
