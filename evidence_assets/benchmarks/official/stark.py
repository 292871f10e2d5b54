"""Readers of STaRK's questions, and of its knowledge bases in their processed layout.

Opening a pickle can run any program, so dictionaries are read as JSON and JSON lines, which
``python -m tools.convert stark`` writes.
AMAZON with brands, categories and colours is in ``processed/cache/brand-category-color``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evidence_assets.benchmarks.dataset_info import DatasetInfo
from evidence_assets.benchmarks.json_streams import json_items, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, headed_rows, text_lines
from evidence_assets.benchmarks.records import LocatedQuestion
from evidence_assets.graphs.merge import NODE_SCHEMA
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.errors import BadInput

ANSWER_TYPES = {"prime": (), "mag": ("paper",), "amazon": ("product",)}
"""Node types that can be an answer; empty for all."""
MAG_TYPES = {
    "node_type_dict": ("author", "institution", "field_of_study", "paper"),
    "edge_type_dict": ("affiliated_with", "cites", "has_topic", "writes"),
}
"""Names of MAG's types by code; its files do not contain them."""
MAG_TYPE_PATTERNS = {
    "affiliated_with": "author___affiliated_with___institution",
    "cites": "paper___cites___paper",
    "has_topic": "paper___has_topic___field_of_study",
    "writes": "author___writes___paper",
}
"""STaRK's own names of MAG's edge types, which have the types of both ends."""
NODES_PER_BATCH = 20_000
CONVERT_COMMAND = "python -m tools.convert stark FOLDER"
_NAME_FIELDS = ("name", "title", "DisplayName", "brand_name", "category_name", "color_name")


def read_stark_nodes(folder: Path, base: str) -> pl.DataFrame:
    """Read the nodes of the knowledge base in ``folder``; ``base`` is prime, mag or amazon.

    A node's name is its first name-like field; its aliases are those of the gene records of PRIME; its document has all
    fields, one per line, without placeholder values (−1, NaN). Some authors of MAG and products of AMAZON have no name:
    their name is their type and number.
    """
    types, names = _read_types(folder, base, "node")
    path = _find_converted_file(folder, "node_info.jsonl")
    rows = _node_rows(path, types, names)
    frames = [pl.DataFrame(schema=NODE_SCHEMA)]
    while batch := list(islice(rows, NODES_PER_BATCH)):
        frames.append(pl.DataFrame(batch, schema=NODE_SCHEMA, orient="row"))
    nodes = pl.concat(frames)
    if len(nodes) != len(types):
        raise BadInput(f"has {len(nodes)} nodes, but node_types.pt has {len(types)}; convert both again", file=path)
    return nodes


def _node_rows(path: Path, types: NDArray[np.int64], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for node, row in enumerate(jsonl_rows(path)):
        if row.number("node") != node or node >= len(types):
            raise row.error(f"expected the {len(types)} nodes of node_types.pt in order", "node")
        info = row.row("info")
        node_type = names[types[node]]
        document = "\n".join(_document_lines(info.values))
        yield str(node), _node_name(info, node, node_type), _node_aliases(info.values), node_type, document


def read_stark_edges(folder: Path, base: str, *, with_end_types: bool = False) -> pl.DataFrame:
    """Read the distinct edges of a knowledge base, without the descriptions of its nodes.

    ``with_end_types``: Whether MAG's edge types have the names of ``MAG_TYPE_PATTERNS``.
    """
    n_nodes = len(_read_types(folder, base, "node")[0])
    kinds, names = _read_types(folder, base, "edge")
    if with_end_types:
        names = tuple(MAG_TYPE_PATTERNS.get(name, name) for name in names)
    ends = _load_edges(folder / "edge_index.pt", n_nodes, len(kinds))
    # One number per edge sorts several times faster than a row of three.
    n_kinds = max(len(names), 1)
    keys = sorted_unique((ends[0] * n_kinds + kinds) * max(n_nodes, 1) + ends[1])
    del ends, kinds
    heads_and_kinds, tails = np.divmod(keys, max(n_nodes, 1))
    del keys
    heads, kinds = np.divmod(heads_and_kinds, n_kinds)
    del heads_and_kinds
    ids = _as_enum([str(node) for node in range(n_nodes)])
    relations = _as_enum(names)
    return pl.DataFrame(
        {"head_id": ids.gather(heads), "relation": relations.gather(kinds), "tail_id": ids.gather(tails)}
    )


def _as_enum(values: Sequence[str]) -> pl.Series:
    return pl.Series(values, dtype=pl.Enum(list(dict.fromkeys(values))))


def _load_edges(path: Path, n_nodes: int, n_edges: int) -> NDArray[np.int64]:
    """Load the nodes at both ends of each edge, in two rows."""
    ends = _load_tensor(path)
    if ends.shape != (2, n_edges):
        raise BadInput(f"has shape {ends.shape}, expected 2 × {n_edges} (one column per edge)", file=path)
    if ends.size and not 0 <= ends.min() <= ends.max() < n_nodes:
        raise BadInput(f"has a node outside of the {n_nodes} of node_types.pt", file=path)
    return ends


def _read_types(folder: Path, base: str, kind: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read the type code of each node or edge, and the type names by code."""
    codes = _load_tensor(folder / f"{kind}_types.pt")
    names = _read_type_names(folder, base, f"{kind}_type_dict")
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(names):
        raise BadInput(f"has a code outside of the {len(names)} types", file=folder / f"{kind}_types.pt")
    return codes, names


def _load_tensor(path: Path) -> NDArray[np.int64]:
    import torch

    if not path.is_file():
        raise BadInput("this file is missing; unpack STaRK's processed.zip here", file=path)
    try:
        value = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch raises a dozen different exceptions for refused pickles, damaged archives and other formats.
        message = f"is not a file of one tensor ({type(error).__name__}); save it with torch.save"
        raise BadInput(message, file=path) from error
    if not isinstance(value, torch.Tensor) or value.is_floating_point():
        raise BadInput("does not contain a tensor of integers; unpack the file again", file=path)
    return np.asarray(value.numpy(), dtype=np.int64)


def _find_converted_file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise BadInput(f"this file is missing; unpack STaRK's processed.zip and run {CONVERT_COMMAND}", file=path)
    return path


def _read_type_names(folder: Path, base: str, name: str) -> tuple[str, ...]:
    if base == "mag" and not any((folder / f"{name}.{ending}").exists() for ending in ("json", "pkl")):
        return MAG_TYPES[name]
    path = _find_converted_file(folder, f"{name}.json")
    names = {key: str(name) for _, key, name in json_items(path)}
    if sorted(names) != sorted(str(code) for code in range(len(names))):
        raise BadInput("expected an object with the codes 0, 1, 2 … as keys", file=path)
    return tuple(names[str(code)] for code in range(len(names)))


def _node_name(info: Row, node: int, node_type: str) -> str:
    candidates = [info.values[field] for field in _NAME_FIELDS if field in info.values]
    for value in candidates:
        if isinstance(value, str) and value.strip() and not _is_empty_value(value):
            return value
    if candidates:
        return f"{node_type} {node} without a name"
    raise info.error(f"has none of the name fields {', '.join(_NAME_FIELDS)}")


def _node_aliases(values: dict[str, Any]) -> list[str]:
    details = values.get("details")
    names: list[object] = []
    if not isinstance(details, dict):
        return []
    for field in ("alias", "other_names"):
        value = details.get(field)
        names += value if isinstance(value, list) else [value]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name.strip()))


def _is_empty_value(value: object) -> bool:
    return value in (None, "", [], {}, -1, "-1", "nan") or value != value


def _document_lines(values: Any, indent: str = "") -> list[str]:
    """Format fields as lines ``name: value``, without empty fields and node numbers."""
    lines = []
    for key, value in values.items():
        if _is_empty_value(value) or key in ("id", "mag_id") or key.startswith("_"):
            continue
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_document_lines(value, indent + "  ")]
            continue
        items = value if isinstance(value, list) else [value]
        lines.append(f"{indent}{key}: {'; '.join(_format_item(item) for item in items if not _is_empty_value(item))}")
    return lines


def _format_item(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(str(inner) for inner in value.values() if not _is_empty_value(inner))
    return str(value)


def read_questions(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read a CSV of queries and answer node ids; a separate file lists the ids of a split in the split's order."""
    file, *index = info.find_files(folder, split)
    lines_by_id = _read_split_ids(index[0]) if index else None
    questions: dict[str, LocatedQuestion] = {}
    for row in headed_rows(file, ("id", "query", "answer_ids")):
        source_id = str(row.number("id"))
        if lines_by_id is None:
            yield info.question(row, split, source_id, row.text("query"), gold=_read_answers(row))
        elif source_id in lines_by_id:
            questions[source_id] = info.question(row, split, source_id, row.text("query"), gold=_read_answers(row))
    for source_id, line in (lines_by_id or {}).items():
        if source_id not in questions:
            raise BadInput(f"question {source_id} is not in {file.name}; remove the line", file=index[0], line=line)
        yield questions[source_id]


def _read_split_ids(file: Path) -> dict[str, int]:
    """Read the ids of a split with their lines."""
    rows = (Row({"id": line.strip()}, file, number) for number, line in text_lines(file) if line.strip())
    return {str(row.number("id")): row.line or 0 for row in rows}


def _read_answers(row: Row) -> tuple[str, ...]:
    text = row.text("answer_ids")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise row.error(f"expected a list such as [12, 7]: {text[:40]!r}", "answer_ids") from error
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise row.error(f"expected a list of integers: {text[:40]!r}", "answer_ids")
    return tuple(str(value) for value in dict.fromkeys(values))


READERS = dict.fromkeys((f"stark_{base}_{k}" for base in ANSWER_TYPES for k in ("synth", "human")), read_questions)
