"""A corpus of a few texts as files, opened."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.retrieval import index_building
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.corpus_files import SCHEMA, Shard, write_corpus_files
from evidence_assets.retrieval.vector_index import IndexMeta
from evidence_assets.text.sentences import sentence_spans


def build_index(folder: Path, vectors: npt.NDArray[np.floating[Any]], **settings: Any) -> IndexMeta:
    """The index of these vectors in ``folder``, replacing what is there."""
    with replacing_folder(folder) as temporary:
        np.save(temporary / "vectors.npy", vectors.astype(np.float16))
        return index_building.write_index(temporary, **settings)


def written_corpus(
    folder: Path,
    ids: Sequence[str],
    texts: Sequence[str],
    titles: Sequence[str] = (),
    vectors: npt.NDArray[np.float32] | None = None,
) -> IndexedCorpus:
    """The texts under their ids, in this order, with these vectors."""
    rows = [
        {
            "chunk_id": chunk_id,
            "doc_id": f"d{chunk_id}",
            "title": title,
            "text": text,
            "sentence_offsets": [{"start": a, "end": b} for a, b in sentence_spans(text)],
        }
        for chunk_id, text, title in zip(ids, texts, titles or [""] * len(ids), strict=True)
    ]
    if vectors is None:
        vectors = np.ones((len(ids), 4), np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    batches = [pa.RecordBatch.from_pylist(rows, SCHEMA)] if rows else []
    write_corpus_files(folder, [Shard(batches, [vectors])])
    index_building.write_index(folder, built_from="v", model_id="m")
    return IndexedCorpus(folder, "made", "v")
