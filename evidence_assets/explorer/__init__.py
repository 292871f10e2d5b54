"""The explorer: a read-only web application over the lake; it escapes all text."""
