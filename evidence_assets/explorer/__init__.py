"""The explorer: a read-only web application over the lake; it escapes all text."""

LOCALHOST = "127.0.0.1"
"""The address that only this machine reaches."""
PORT = 3001
MAX_EXPORTED_PAGES = 10_000
"""Default maximum number of pages of an export."""
