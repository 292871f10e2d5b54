"""A lake for a reader's own questions: it reads all data of another lake through links, and keeps its answers apart."""

from __future__ import annotations

from pathlib import Path

from evidence_assets.lake.store import Lake

OWN_FOLDERS = (
    "questions",
    "tables",
    "chunk_rankings",
    "evidence",
    "chains",
    "predictions",
    "citations",
    "counterfactuals",
    "lineage_edges",
    "subgraphs",
    "scores",
    "history",
    "cache",
)
"""Folders that answering writes to; they are the scratch lake's own."""


def open_scratch_lake(lake: Lake, folder: Path) -> Lake:
    """The lake in ``folder``, with links to the present folders of another lake that answering only reads."""
    scratch = Lake.create(folder, **lake.frozen)
    for path in sorted(lake.root.resolve().iterdir()):
        link = folder / path.name
        is_read = path.is_dir() and path.name not in OWN_FOLDERS and not path.name.startswith(".")
        if is_read and not link.exists():
            link.symlink_to(path, target_is_directory=True)
    return scratch
