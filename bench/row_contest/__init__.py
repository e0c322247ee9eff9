"""The contestants of ``row_changes``: programs of their own, for they need environments of their own."""
