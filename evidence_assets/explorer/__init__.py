"""The explorer: a read-only web application over the lake, which escapes all text of documents and models."""
