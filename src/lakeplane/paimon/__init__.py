"""The Paimon format: files of a table as values and columns, and plans of what to read."""
