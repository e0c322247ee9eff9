"""Data files: written with Arrow, and what their footers tell."""
