"""Pages of all kinds of sources, reached from an answer, and back to the answers that they reached."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from evidence_assets.explorer.evidence_view import read_cell
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.origins import MAX_ORIGINS
from evidence_assets.explorer.pages import PER_PAGE
from evidence_assets.explorer.pages.documents import documents
from evidence_assets.explorer.pages.source import _mark_passages
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.lake.store import Lake
from evidence_assets_tests.explorer.hostile_lake import ATTACK, NAMES, Page, words_of
from evidence_assets_tests.lake_rows import (
    chain,
    chunk,
    citation,
    evidence,
    graph_edge,
    node,
    prediction,
    question,
    write_answers,
    write_harvest,
)

FILE = "../../etc/passwd"
GRAPH = f"graphs/{ATTACK}.tsv"
TABLE = {
    "table_id": NAMES[0],
    "benchmark": "quiz",
    "caption": "Insects",
    "header": ["name", "legs"],
    "n_rows": 1,
    "cells": [{"row": 0, "column": 0, "text": "bee"}, {"row": 0, "column": 1, "text": "6"}],
    "content_hash": "h",
}
KINDS = ("chunk", "document", "file", "table", "cell", "edge", "node", "triple", "seed", "model")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A question whose answer cites a chunk, a cell, a harvested edge and a node."""
    lake = Lake.create(tmp_path / "data_lake")
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(1, text="How many legs?", options=["six", "two"])]})
    lake.write("corpus/c/chunks", "0", {"chunks": [chunk(1, "Bees have six legs.", source=FILE)]})
    lake.write("tables", "quiz", {"tables": [TABLE]})
    write_harvest(lake, 3)
    lake.write("knowledge/g/nodes", "", {"kg_nodes": [node("n0", "bee", source="nodes.jsonl"), node("n1", "leg")]})
    sources = [f"{GRAPH}:7", "knowledge/kbloom/harvest"]
    edges = [graph_edge("g0", "n0", "may_treat", "n1", triple_ids=["t0"], sources=sources)]
    lake.write("knowledge/g/edges", "", {"kg_edges": edges})
    rows = [
        evidence(1, 1, "Bees have six legs.", locator="0:19"),
        evidence(1, 2, "6", kind="cell", source_kind="table", source_id=NAMES[0], locator="r1c1"),
        evidence(1, 3, "bees have legs", kind="triple", source_kind="edge", source_id="g0", locator=""),
        evidence(1, 4, "A bee.", source_kind="node", source_id="n0", locator=""),
    ]
    cited = [citation("c-s-1-A", row["evidence_id"], "verified", row["text"]) for row in rows]
    derived = [edge("evidence", "e-s-1-3", DERIVED, "edge", "g0", "h", 1)]
    answer_chain = chain(1, "A", "Six.", [row["evidence_id"] for row in rows])
    write_answers(lake, rows, [answer_chain], [prediction(1, "A")], cited, derived)
    lake.write("predictions/mcqa/s/gpt", "quiz|0", {"predictions": [prediction(1, "B", prediction_id="p2")]})
    model = {"model_id": "m", "name": ATTACK, "revision": "r", "task": "masked language model", "input_hash": "i"}
    lake.write("models/masked_lm", "", {"models": [model | {"vocabulary": 9, "sentences": 5, "accuracy": 0.5}]})
    return lake


def origins(page: str) -> dict[str, str]:
    """Addresses of the origins of the first answer of a page, by their text."""
    section = page[page.index("Where it comes from") :]
    return {unescape(text): unescape(to) for to, text in re.findall(r'<a href="([^"]*)">([^<]*)', section[:4000])}


def test_an_answer_links_to_every_kind_of_origin_and_each_shows_the_answers_it_reached(client: TestClient) -> None:
    links = origins(client.get("/question/q1").text)
    expected = {
        "Title 1": "/source/document/d1",
        FILE: f"/source/file/c%3A{quote(FILE, safe='')}",
        GRAPH[:79] + "…": f"/source/file/{quote(GRAPH, safe='')}",
        "nodes.jsonl": "/source/file/nodes.jsonl",
        "Insects, r1c1": f"/source/cell/{quote(f'{NAMES[0]}:r1c1', safe='')}",
        "head 0 → tail 0": "/source/seed/s0",
        "head 1 → tail 1": "/source/seed/s1",
        "m": "/source/model/m",
    }
    assert expected.items() <= links.items()
    for address in expected.values():
        reply = client.get(address)
        page = Page(reply.text)
        assert reply.status_code == 200, address
        words = words_of(reply.text).partition("and the answers that it reached")[2]
        assert re.search(r"How many legs\? cited .*? A\. six right mcqa/s B\. two wrong mcqa/s/gpt", words), address
        assert "<img" not in reply.text and reply.text.count("<script") == 1, address
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes), address


def test_the_pages_of_origins_say_what_they_are(client: TestClient) -> None:
    def text(*parts: str) -> str:
        address = "/source/" + "/".join(quote(part, safe="") for part in parts)
        return words_of(client.get(address).text)

    assert re.search(r"file ../../etc/passwd corpus c documents 1 chunks 1 ", text("file", f"c:{FILE}"))
    assert "edges 1" in text("file", GRAPH) and "bee — may_treat → leg" in text("file", GRAPH)
    assert "nodes 1" in text("file", "nodes.jsonl")
    assert "text 6 place r1c1" in text("cell", f"{NAMES[0]}:r1c1")
    assert "no evidence from this cell" in text("cell", f"{NAMES[0]}:r1c0")
    assert "text legs 6 place c1" in text("cell", f"{NAMES[0]}:c1")
    model = text("model", "m")
    assert (
        "accuracy 0.5" in model and "all 2 answers that it wrote" in model and "relation may_treat: 3 triples" in model
    )
    assert text("seed", "s0").startswith("head 0") and "relation may_treat" in text("seed", "s0")
    triple = text("triple", "t0")
    assert "model m" in triple and "seed head 1 → tail 1" in triple and "1 rows of evidence" in triple
    assert "file c:../../etc/passwd" in text("chunk", "k1") and "file nodes.jsonl" in text("node", "n0")
    edge_page = text("edge", "g0")
    assert f"file {' '.join(GRAPH.split())}"[:60] in edge_page and "file knowledge" not in edge_page


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_source_is_not_found(client: TestClient, kind: str) -> None:
    for name in ("unknown", "c:unknown", f"{NAMES[0]}:r1c9", f"{NAMES[0]}:r1", FILE, ATTACK, *NAMES[1:]):
        reply = client.get(f"/source/{kind}/{quote(name, safe='')}")
        assert reply.status_code == 404 and f"no {kind} " in reply.text and "<img" not in reply.text, name
    reply = client.get("/source/script/x")
    assert reply.status_code == 404 and "Choose one of cell, chunk, document, edge, file" in reply.text


def test_answers_of_a_model_are_filtered(client: TestClient, lake: Lake) -> None:
    others = {"predictions": [prediction(1, "B", prediction_id="p3", model_id=NAMES[0])]}
    lake.write("predictions/mcqa/s/other", "quiz|0", others)
    [address] = re.findall(
        r'href="(/questions\?model[^"]*)', client.get(f"/source/model/{quote(NAMES[0], safe='')}").text
    )
    assert "1 predictions." in client.get(unescape(address)).text


def test_long_lists_of_documents_and_origins_are_bounded_and_paged(client: TestClient, lake: Lake) -> None:
    n_documents = 60
    chunks = [chunk(n, f"Bee {n}.", source="bees.txt") for n in range(1, n_documents + 1)]
    lake.write("corpus/c/chunks", "0", {"chunks": chunks})
    rows = [evidence(1, n, f"Bee {n}.", source_id=f"k{n}") for n in range(1, n_documents + 1)]
    write_answers(lake, rows, [], [prediction(1, "A")])
    chains = {"chains": [chain(1, "A", "Six.", [])]}
    lineage = [edge("chain", "c-s-1-A", "was_shown", "evidence", row["evidence_id"], "h", 1) for row in rows]
    lake.write("chains/mcqa/s", "quiz|0", {**chains, "lineage_edges": lineage})
    used = [edge("prediction", "p-s-1", "used", "chain", "c-s-1-A", "h", 1)]
    lake.write("predictions/mcqa/s", "quiz|0", {"predictions": [prediction(1, "A")], "lineage_edges": used})
    answer = client.get("/question/q1").text
    assert f"and {n_documents - MAX_ORIGINS} more" in answer
    first = client.get("/source/file/c%3Abees.txt").text
    next_pages = [unescape(address) for address in re.findall(r'rel="next" href="([^"]*)"', first)]
    assert next_pages == ["/source/file/c%3Abees.txt?page=2", "/source/file/c%3Abees.txt?related=2"]
    second = [client.get(address).text for address in next_pages]
    assert "Bee 60." in second[0] and "Bee 60." not in first
    assert "/source/document/d9" in second[1] and '"/source/document/d9"' not in first


def test_cells_columns_and_captions_are_read() -> None:
    locators = ("r0c1", "r1c0", "c1", "caption", "r2c0", "r1", "c9", "r1c1 ", "")
    assert [read_cell(TABLE, locator) for locator in locators] == ["legs", "bee", "legs\n6", "Insects", *[None] * 5]


def test_corpora_and_documents_are_listed_and_cited_passages_marked(lake: Lake, client: TestClient) -> None:
    chunks = [chunk(1, "Bees have six legs. <b>Cats</b> have four.", source=FILE), chunk(2, "Dogs bark.", doc_id="d2")]
    lake.write("corpus/c/chunks", "0", {"chunks": chunks})
    lake.write("corpus/other/chunks", "0", {"chunks": [chunk(3, "Owls hoot.", doc_id="d3")]})
    page = client.get("/documents").text
    assert "/documents?corpus=c" in page and "/documents?corpus=other" in page and "source/document" not in page
    page = client.get("/documents?corpus=c").text
    assert "cited for 1 question" in page and "/source/document/d2" in page and "d3" not in page
    assert client.get("/documents?corpus=none").status_code == 404
    document = client.get(f"/source/chunk/{chunks[0]['chunk_id']}").text
    marked = (
        '<a class="passage" href="/question/q1"><mark>Bees have six legs.</mark></a> &lt;b&gt;Cats&lt;/b&gt; have four.'
    )
    assert marked in document
    assert document.index("<mark>") < document.index("<dt>") < document.index("<h2>Evidence from"), "the text first"


def test_a_page_of_documents_does_not_hold_the_text_of_a_corpus(lake: Lake) -> None:
    n_documents = 4000
    text = "Bees have six legs. " * 500
    chunks = [
        chunk(10 * n + part, f"{n} {part} {text}", doc_id=f"d{n:04}", title=f"T{n}", ordinal=part)
        for n in range(n_documents)
        for part in (1, 0)
    ]
    lake.write("corpus/c/chunks", "0", {"chunks": chunks})
    reader = LakeReader(lake.root)
    with reader.opened():
        reader.connection = connect(lake.root, memory="100MB")
        values = documents(reader, {"page": "2"}).values
    numbers = range(PER_PAGE, 2 * PER_PAGE)
    page_rows = [(row["doc_id"], row["title"], row["source"], row["chunks"]) for row in values["rows"]]
    assert page_rows == [(f"d{n:04}", f"T{n}", "f.txt", 2) for n in numbers]
    assert [values["beginnings"][row["doc_id"]].split(" B")[0] for row in values["rows"]] == [f"{n} 0" for n in numbers]


def test_passages_that_overlap_are_marked_once() -> None:
    parts = _mark_passages("abcdefgh", [(4, 6, "q2"), (1, 5, "q1"), (2, 3, "q3"), (7, 99, "q4")])
    assert parts == [("a", ""), ("bcde", "q1"), ("f", "q2"), ("gh", "")]
