"""The page and the report, in a real browser."""
