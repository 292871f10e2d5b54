"""Writes a graph's dump as three tab-separated columns, in names and in ids, whatever the dump's size.

The dump is read once, line by line. Names are put to ids, and neighbourhoods followed, by DuckDB on disk within a
stated memory. What comes out is sorted, each triple once, so that the same dump gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import duckdb

from evidence_assets.benchmarks.graphs.formats import find_format
from evidence_assets.lake.atomic import replacing_file
from tools.convert.dumps import DUMPS, Named

MEMORY = "1GB"
HUB = 10_000
"""A node with more triples than this leads on to nobody, unless it was asked for by name."""
NAMES = "names.tsv"
_NAMES_OF_NODES = (
    "SELECT id, name FROM (SELECT id, name, '' AS kind FROM nodes UNION SELECT id, called.name, kind FROM called "
    "SEMI JOIN nodes USING (id) JOIN labels USING (id) WHERE kind = 'alias' AND called.name <> label) "
    "ORDER BY id, kind, name"
)
"""The name of each node, then its aliases."""
_COLUMNS = "delim='\t', header=false, auto_detect=false, quote='', escape='', nullstr='\\N'"
_WRITTEN = "DELIM '\t', HEADER false, QUOTE '', ESCAPE ''"


def convert(
    format: str,
    files: list[Path],
    target: Path,
    in_ids: Path | None = None,
    *,
    around: Collection[str] = (),
    hops: int = 1,
    memory: str = MEMORY,
) -> int:
    """Write the triples of a dump into ``target``, in names, and into ``in_ids`` as the dump has them; say how many.

    An id without a name stands for itself; a name that several nodes share is followed by the id: ``Paris (Q830149)``.
    A graph that declares ``names`` shows and links such a node by its label.
    What the ids of ``in_ids`` are called is written beside it, as `NAMES`: the name of each, then its aliases.

    ``around``: Ids, or names in a format without ids: only triples at most ``hops`` steps from one of them are kept;
        all where none is given.
    ``memory``: What DuckDB may take; the rest is on disk beside ``target``.
    """
    read: Callable[..., Iterable[Any]] = DUMPS[format] if format in DUMPS else find_format(format, files).read
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as folder, duckdb.connect(f"{folder}/work.duckdb") as work:
        triples, names = Path(folder, "triples.tsv"), Path(folder, "names.tsv")
        with triples.open("w", encoding="utf-8") as triple_file, names.open("w", encoding="utf-8") as called:
            for item in read(*files):
                if isinstance(item, Named):
                    _write(called, item.id, item.name, "alias" if item.is_alias else "")
                else:
                    _write(triple_file, item.head, item.relation, item.tail)
        work.execute("SET preserve_insertion_order = false")
        work.execute("SET threads = 1")
        work.execute("SET enable_progress_bar = false")
        work.execute("SET memory_limit = ?", [memory])
        work.execute("SET temp_directory = ?", [f"{folder}/spilled"])
        for table, file, columns in (("stated", triples, ("h", "r", "t")), ("called", names, ("id", "name", "kind"))):
            shape = ", ".join(f"'{column}': 'VARCHAR'" for column in columns)
            work.execute(f"CREATE TABLE {table} AS FROM read_csv(?, columns={{{shape}}}, {_COLUMNS})", [str(file)])
            file.unlink()
        if around:
            _keep_near(work, around, hops)
        _name_nodes(work)
        in_names = (
            "SELECT coalesce(a.name, h) AS h, coalesce(b.label, r) AS r, coalesce(c.name, t) AS t FROM stated "
            "LEFT JOIN nodes a ON h = a.id LEFT JOIN labels b ON r = b.id LEFT JOIN nodes c ON t = c.id"
        )
        names_file = in_ids and in_ids.with_name(NAMES)
        distinct = "SELECT DISTINCT * FROM ({}) ORDER BY ALL".format
        in_ids_rows = distinct("SELECT h, r, t FROM stated")
        for place, rows in ((in_ids, in_ids_rows), (target, distinct(in_names)), (names_file, _NAMES_OF_NODES)):
            if place is not None:
                with replacing_file(place) as temporary:
                    work.execute(f"COPY ({rows}) TO ? (FORMAT csv, {_WRITTEN})", [str(temporary)])
        return int(work.execute("SELECT count(*) FROM (SELECT DISTINCT h, r, t FROM stated)").fetchall()[0][0])


def _keep_near(work: duckdb.DuckDBPyConnection, around: Collection[str], hops: int) -> None:
    """Leave the triples with an end that is less than ``hops`` steps from what was asked for."""
    work.execute("CREATE TABLE near (id VARCHAR)")
    work.executemany("INSERT INTO near VALUES (?)", [[node] for node in sorted(set(around))])
    if hops > 1:
        work.execute(
            "CREATE TABLE hubs AS SELECT id FROM (SELECT h AS id FROM stated UNION ALL SELECT t FROM stated) "
            f"GROUP BY id HAVING count(*) > {HUB}"
        )
    for _ in range(hops - 1):
        work.execute(
            "INSERT INTO near SELECT id FROM (SELECT t AS id FROM stated SEMI JOIN near ON h = near.id UNION "
            "SELECT h FROM stated SEMI JOIN near ON t = near.id) WHERE id NOT IN (FROM near) AND id NOT IN (FROM hubs)"
        )
    work.execute("DELETE FROM stated WHERE h NOT IN (FROM near) AND t NOT IN (FROM near)")


def _name_nodes(work: duckdb.DuckDBPyConnection) -> None:
    """Create ``labels`` with the label of each id, and ``nodes`` with the name of each end of a kept triple.

    A label that several nodes share is followed by the id. Relations keep their label: "country" is P17, although an
    item has this label, too.
    """
    ends = "SELECT h AS id FROM stated UNION ALL SELECT t FROM stated"
    work.execute("CREATE TABLE labels AS SELECT id, min(name) AS label FROM called WHERE kind = '' GROUP BY id")
    work.execute(
        f"CREATE TABLE nodes AS WITH labelled AS (SELECT id, label FROM labels SEMI JOIN ({ends}) USING (id)), "
        "shared AS (SELECT label FROM labelled GROUP BY label HAVING count(*) > 1) "
        "SELECT id, CASE WHEN shared.label IS NULL THEN label ELSE label || ' (' || id || ')' END AS name "
        "FROM labelled LEFT JOIN shared USING (label)"
    )


def _write(file: TextIO, *fields: str) -> None:
    """A line; a tab or line end within a field is a space."""
    file.write("\t".join(" ".join(field.split()) for field in fields) + "\n")
