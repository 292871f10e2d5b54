"""``python -m tools.stark_vectors FOLDER BENCHMARK``: STaRK's published vectors of text-embedding-ada-002, searched.

FOLDER is what STaRK's emb_download.py writes for a base, such as ``emb/prime/text-embedding-ada-002``: one
``query_emb_dict.pt`` and one ``candidate_emb_dict.pt`` below it, dictionaries of vectors by the id of the question or
node. Each question's nearest nodes by inner product, as in STaRK's own vector search (VSS), become recorded answers of
the system ``vss``, whose scores are compared with the printed ones. The vectors are copied into the lake's raw folder,
where the variant ``fourstepfocus_ada_002`` of 4StepFocus reads them. The files are read as tensors, nothing in them is
run, and the vectors stay on disk: the memory that the search takes is stated first.
"""

from __future__ import annotations

import json
import pickle  # nosec B403
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.cli.console import out, report_errors
from evidence_assets.graphs.merge import prefixed_node_id
from evidence_assets.lake.array_files import ArrayWriter
from evidence_assets.lake.atomic import replacing_file, replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import FloatArray
from evidence_assets.retrieval.vector_index import faiss
from evidence_assets.systems.baselines.recorded_answers import FOLDER
from evidence_assets.systems.four_step_focus import published_vectors
from evidence_assets.systems.four_step_focus.published_vectors import MODEL
from evidence_assets.text.spelling import did_you_mean

if TYPE_CHECKING:
    import torch

RECORDED_NAME = f"vss@{MODEL}.jsonl"
QUESTIONS = "query_emb_dict.pt"
NODES = "candidate_emb_dict.pt"
K = 100
"""Nodes of a ranking, enough for every printed metric; the reciprocal rank of a later one counts as 0."""
NODES_PER_BLOCK = 8192
BYTES_PER_ENTRY = 1600
"""Memory of one entry of a dictionary without its numbers: 1,601 bytes, measured for 200,000 vectors."""
Vectors = Mapping[int, "torch.Tensor"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def read_vectors(file: Path) -> Vectors:
    """The dictionary of a file, whose numbers stay on disk; only tensors, numbers and texts can be read."""
    import torch

    try:
        entries = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, TypeError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise BadInput(f"is no file of tensors that can be read without running it ({reason})", file=file) from error
    if not isinstance(entries, dict) or not entries:
        raise BadInput("expected a dictionary of vectors by id", file=file)
    first = next(iter(entries.values()))
    for key, vector in entries.items():
        if not isinstance(key, int) or not isinstance(vector, torch.Tensor) or not vector.is_floating_point():
            raise BadInput("expected numbers as ids, and vectors", file=file, field=str(key)[:40])
        if vector.numel() != first.numel():
            message = f"has {vector.numel()} numbers, the first vector {first.numel()}. Get the file again"
            raise BadInput(message, file=file, field=str(key))
    return entries


def find_nearest(nodes: Vectors, queries: FloatArray, k: int = K) -> NDArray[np.int64]:
    """Ids of the ``k`` nodes nearest to each query by inner product, by FAISS; equal ones by id.

    Memory: the queries, their best nodes, and a block of nodes.
    """
    from faiss.contrib.exhaustive_search import knn_ground_truth

    ids = np.array(sorted(nodes), dtype=np.int64)
    blocks = (
        stack_vectors(nodes, ids[start : start + NODES_PER_BLOCK].tolist())
        for start in range(0, len(ids), NODES_PER_BLOCK)
    )
    metric = faiss().METRIC_INNER_PRODUCT
    scores, positions = knn_ground_truth(queries, blocks, min(k, len(ids)), metric, ngpu=0)
    order = np.lexsort((positions, -scores))
    nearest: NDArray[np.int64] = ids[np.take_along_axis(positions, order, 1)]
    return nearest


def stack_vectors(vectors: Vectors, keys: Sequence[int]) -> FloatArray:
    """The vectors of these ids as rows."""
    rows = [vectors[key].detach().flatten().float().numpy() for key in keys]
    return np.stack(rows).astype(np.float32, copy=False)


def describe_memory(nodes: int, questions: int, dimensions: int) -> str:
    """The memory that the search takes, and the room on disk that is mapped."""
    blocks = 2 * NODES_PER_BLOCK * dimensions * 4 + 4 * questions * K * 12  # 112 MB measured for 2,800 questions
    gigabytes = (blocks + questions * dimensions * 4 + (nodes + questions) * BYTES_PER_ENTRY) / 1e9
    return (
        f"{nodes:,} nodes and {questions:,} questions of {dimensions:,} numbers: about {gigabytes:.1f} GB of memory; "
        f"{nodes * dimensions * 4 / 1e9:.1f} GB of vectors stay on disk, and are copied"
    )


def _find_file(folder: Path, name: str) -> Path:
    files = sorted(folder.rglob(name))
    if len(files) != 1:
        how_many = f"{len(files)} files" if files else "no file"
        raise BadInput(f"holds {how_many} {name}: name the folder of one base that emb_download.py wrote", file=folder)
    return files[0]


def _find_benchmark(name: str) -> Benchmark:
    searches = {key: each for key, each in all_benchmarks().items() if each.task == "skb_search"}
    if name not in searches or name != searches[name].base_name:
        raise BadInput(f"no searches of a knowledge base {name!r}{did_you_mean(name, searches)}")
    return searches[name]


def _stack_queries(file: Path, queries: Vectors, source_ids: Sequence[str], benchmark: str) -> FloatArray:
    """The vectors of these questions as rows."""
    missing = next((name for name in source_ids if not name.isdecimal() or int(name) not in queries), None)
    if missing is not None:
        raise BadInput(f"has no vector of the question {missing} of {benchmark}", file=file)
    return stack_vectors(queries, [int(name) for name in source_ids])


def _read_nodes(file: Path, dimensions: int) -> Vectors:
    """The vectors of the nodes, which must have as many numbers as those of the questions."""
    nodes = read_vectors(file)
    n_numbers = next(iter(nodes.values())).numel()
    if n_numbers != dimensions:
        raise BadInput(f"has {n_numbers} numbers a vector, {QUESTIONS} {dimensions}", file=file)
    return nodes


def _write_rankings(file: Path, source_ids: Sequence[str], rankings: NDArray[np.int64], graph: str) -> None:
    with replacing_file(file) as temporary, temporary.open("w", encoding="utf-8") as written:
        for source_id, nearest in zip(source_ids, rankings.tolist(), strict=True):
            ranked = [prefixed_node_id(graph, str(node)) for node in nearest]
            written.write(json.dumps({"id": source_id, "ranked": ranked}) + "\n")


def _copy_vectors(folder: Path, vectors_by_kind: Mapping[str, Vectors]) -> None:
    """Write the files that `PublishedVectors` opens; memory: a block of vectors."""
    with replacing_folder(folder) as temporary:
        for kind, vectors in vectors_by_kind.items():
            ids = np.array(sorted(vectors), dtype=np.int64)
            np.save(temporary / f"{kind}_ids.npy", ids)
            with ArrayWriter(temporary / f"{kind}.npy", np.float32, (next(iter(vectors.values())).numel(),)) as array:
                for start in range(0, len(ids), NODES_PER_BLOCK):
                    array.add(stack_vectors(vectors, ids[start : start + NODES_PER_BLOCK].tolist()))


@app.command(help=__doc__)
def main(
    folder: Annotated[Path, typer.Argument(help="Folder with the vectors of one base.")],
    benchmark: Annotated[str, typer.Argument(help="Such as stark_prime_synth.")],
) -> None:
    with report_errors():
        declared = _find_benchmark(benchmark)
        lake = LakeResource().open()
        source_ids = [q.source_id for q in read_benchmark_questions(lake, declared) if q.split == declared.split]
        file = _find_file(folder, QUESTIONS)
        questions = read_vectors(file)
        queries = _stack_queries(file, questions, source_ids, benchmark)
        nodes = _read_nodes(_find_file(folder, NODES), queries.shape[1])
        out.print(describe_memory(len(nodes), *queries.shape), markup=False, soft_wrap=True)
        target = lake.raw_path(f"{FOLDER}/{benchmark}") / RECORDED_NAME
        _write_rankings(target, source_ids, find_nearest(nodes, queries), declared.graph)
        copy = lake.raw_path(f"{published_vectors.FOLDER}/{benchmark}") / MODEL
        _copy_vectors(copy, {"question": questions, "node": nodes})
        out.print(
            f"{target}\n{copy}\nScore them with: evidence run {benchmark} --variants recorded,fourstepfocus_ada_002",
            markup=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    app()
