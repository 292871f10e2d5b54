"""Corpora: streamed document by document, and nothing that cannot be cited gets in."""

import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks.chunk_store import ChunkStore, chunk_rows
from evidence_assets.benchmarks.corpora import corpus_files, group_files, read_documents
from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.sentences import sentence_spans
from evidence_assets_tests.benchmarks.official.contract import json_lines


def shard(path: Path, ids: list[str], texts: list[str | None], **extra: list[str]) -> None:
    columns = {"id": ids, "url": ["u"] * len(ids), "title": [f"T{i}" for i in ids], "text": texts} | extra
    pq.write_table(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}), path)


def test_wikipedia_shards_in_order(tmp_path: Path) -> None:
    shard(tmp_path / "train-00001-of-00002.parquet", ["3"], ["three"])
    shard(tmp_path / "train-00000-of-00002.parquet", ["1", "2"], ["one", "two\nlines"])
    texts = {"1": "one", "2": "two\nlines", "3": "three"}
    documents = list(read_documents(tmp_path))
    assert [(d.doc_id, d.title, d.text) for d in documents] == [(i, f"T{i}", text) for i, text in texts.items()]
    assert documents[2].source == "train-00001-of-00002.parquet"


def test_json_lines_plain_and_packed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"doc_id": "a", "title": "A", "text": "one", "url": "u"}\n')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"doc_id": 7, "text": "two"}\n'))
    assert list(read_documents(tmp_path)) == [
        Document("a", "A", "one", "a.jsonl"),
        Document("7", "", "two", "b.jsonl.gz"),
    ]


def test_texts_and_markdown_below_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.md").write_bytes(b"\xef\xbb\xbf# A heading #\r\n\r\nBody.\r\n")
    (tmp_path / "a.txt").write_text("# no heading in plain text")
    (tmp_path / "one.md").write_text("one line")
    (tmp_path / ".hidden").write_text("not read")
    assert list(read_documents(tmp_path)) == [
        Document("a.txt", "a", "# no heading in plain text", "a.txt"),
        Document("deep/b.md", "A heading", "# A heading #\n\nBody.", "deep/b.md"),
        Document("one.md", "one", "one line", "one.md"),
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Minutes of May\n\nThe board met. It elected nobody.", "Minutes of May"),
        ("\n= Minutes =\n=====\nThe board met.", "Minutes"),
        ("The board met.\n\nIt elected nobody.", "a"),
        ("The board met in May and\nelected nobody.", "a"),
        ("Minutes of May", "a"),
        (f"{'Minutes ' * 9}\n\nThe board met.", "a"),
    ],
)
def test_the_title_of_a_plain_text_is_a_short_line_that_stands_apart(tmp_path: Path, text: str, title: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert [(d.title, d.text) for d in read_documents(tmp_path)] == [(title, text)]


def test_rows_of_tables_are_statements_of_a_document(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    rows = "Boat: Pike; Seats: 1.\n\nBoat: Swan; Seats: 8."
    (tmp_path / "a.md").write_text("# Boats\n\n| Boat | Seats |\n|---|--:|\n| Pike | 1 |\n| Swan | 8 |\n\nAll float.")
    cells = "<tr><th>Boat<th>Seats<tr><td>Pike<td>1<tr><td>Swan<td>8"
    (tmp_path / "b.html").write_text(f"<h1>Boats</h1><table>{cells}</table><p>All float.")
    (tmp_path / "prices.csv").write_text("boat,price\n")
    texts = [document.text for document in read_documents(tmp_path)]
    assert texts == [f"# Boats\n\n{rows}\n\nAll float.", f"Boats\n\n{rows}\n\nAll float."]
    assert [texts[0][a:b] for a, b in sentence_spans(texts[0])][1:3] == rows.split("\n\n")


def test_doubled_ids_across_files_and_batches(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"doc_id": "{i}", "text": "t"}}\n' for i in range(7_000)))
    (tmp_path / "b.jsonl").write_text('{"doc_id": "x", "text": "t"}\n{"doc_id": "5", "text": "t"}\n')
    with pytest.raises(BadInput, match=r"b\.jsonl:2: doc_id: '5' occurs twice"):
        list(read_documents(tmp_path))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b"", "the corpus has no documents"),
        ("a.txt", b" \n", r"a\.txt: text: is empty; remove the document"),
        ("a.txt", b"fine\nbad \xff byte", r"a\.txt:2: byte 5 of the line \(0xff\) is not UTF-8"),
        ("a.jsonl", b'{"doc_id": "1", "txt": "t"}', r"a\.jsonl:1: txt: unknown field\. Rename 'txt' to 'text'"),
        ("a.docx", b"PK", r"a\.docx: is not a corpus file; move it away\. Use \.parquet"),
        ("a.parquet", b"PAR1 cut short", r"a\.parquet: the Parquet file is damaged after row 0"),
    ],
)
def test_a_faulty_corpus_is_named_by_file_and_field(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match=message):
        list(read_documents(tmp_path))


def test_a_folder_without_documents_names_the_files_of_documents_and_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"PK")
    accepted = r"\.md, .*\.pdf files; \.csv and \.tsv files are read as tables"
    for folder, message in ((tmp_path, "the corpus is empty; add"), (tmp_path / "a.docx", "this is a file; name a")):
        with pytest.raises(BadInput, match=f"{message} .*{accepted}"):
            corpus_files(folder, [])


def test_empty_and_other_files_are_collected_and_a_lake_in_the_folder_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one")
    (tmp_path / "blank.md").write_text("\ufeff \n\n")
    (tmp_path / "table.csv").write_text("x,y")
    Lake.create(tmp_path / "data_lake")
    (tmp_path / "data_lake" / "copy.txt").write_text("two")
    (tmp_path / "format.json").write_text("{}")  # of another program
    others: list[Path] = []
    assert corpus_files(tmp_path, others) == [tmp_path / "note.txt"]
    assert others == [tmp_path / "blank.md", tmp_path / "format.json", tmp_path / "table.csv"]


def test_a_readme_next_to_shards_is_not_an_article(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", ["1"], ["one"])
    (tmp_path / "README.md").write_text("# About these shards")
    with pytest.raises(BadInput, match=r"README\.md: is a text in a folder with Parquet or JSON lines"):
        list(read_documents(tmp_path))


def test_parquet_faults_name_the_row(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", ["1", "2"], ["one", None])
    with pytest.raises(BadInput, match=r"a\.parquet:2: text: None is not a string"):
        list(read_documents(tmp_path))
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"ab\xff\xff"))
    for columns, message in (
        ({"title": ["t"], "text": bad}, r"a\.parquet:1: contains text that is not UTF-8"),
        ({"content": ["t"]}, "title: the shard has no such column; its columns are id, content"),
    ):
        pq.write_table(pa.table({"id": ["1"], **columns}), tmp_path / "a.parquet")
        with pytest.raises(BadInput, match=message):
            list(read_documents(tmp_path))


PAGE = """<!doctype html><html><head><title> Bees &amp;
 hives </title><style>p { color: red }</style></head><body><nav><a href="/">Home</a></nav><script>alert(1)</script>
<h1>Bees</h1><p>Bees <b>buzz</b> when
they fly.</p><ul><li>A hive holds forty thousand</li><li>A queen is one</li></ul>
<table><tr><td>Honey</td><td>20 kg</td></tr></table></body></html>"""


def pdf(*lines: str) -> bytes:
    """A PDF of one page with these lines, without the table of its objects."""
    content = f"BT /F1 12 Tf 14 TL 72 720 Td {' T* '.join(f'({line}) Tj' for line in lines)} ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        f"<< /Length {len(content)} >> stream\n{content}\nendstream",
        "<< /Title (About bees) >>",
    ]
    body = "".join(f"{number} 0 obj\n{text}\nendobj\n" for number, text in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer << /Size 6 /Root 1 0 R /Info 5 0 R >>\nstartxref\n0\n%%EOF".encode()


def test_the_text_of_a_page_is_its_visible_text(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    (tmp_path / "bees.html").write_text(PAGE)
    [results] = read_documents(tmp_path)
    text = "Bees\n\nBees buzz when they fly.\n\nA hive holds forty thousand\n\nA queen is one\n\nHoney 20 kg"
    assert results == Document("bees.html", "Bees & hives", text, "bees.html")
    assert [text[a:b] for a, b in sentence_spans(text)][3] == "A queen is one", "a block ends a sentence"


def test_the_text_of_a_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="PDFs are read by the extra documents")
    path = tmp_path / "x.pdf"
    path.write_bytes(pdf("Bees buzz.", "They fly."))
    [document] = read_documents(tmp_path)
    assert document.title == "About bees" and document.text.split() == ["Bees", "buzz.", "They", "fly."]
    for data, message in ((pdf(), "contains images and no text"), (b"%PDF-1.4\n%%EOF", "is damaged or not a PDF")):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=rf"x\.pdf: {message}"):
            list(read_documents(tmp_path))


# One pass over a corpus: every shard of it, what was done is not done again, and nothing grows with the corpus


class Words:
    """Counts words as tokens and remembers what it was asked; an encoder as far as chunks need one."""

    model_id, revision, dimensions, max_tokens = "words", "1", 1, 512

    def __init__(self, stops_at: str = "no such word") -> None:
        self.encoded_texts: list[str] = []
        self.stops_at = stops_at

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self.encoded_texts += texts
        if any(self.stops_at in text for text in texts):
            raise KeyboardInterrupt
        return [len(text.split()) for text in texts]


def write(folder: Path, files: int = 3, documents: int = 40) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        texts = [f"File {number} says {i} here. And ends it. " * (1 + i % 7) for i in range(documents)]
        rows = [{"doc_id": f"{number}-{i}", "title": f"T{i}", "text": text} for i, text in enumerate(texts)]
        (folder / f"{number}.jsonl").write_text(json_lines(*rows))
    return folder


def chunk_corpus(
    place: Path, folder: Path, encoder: Words | None = None, shards: int = 4, limit: int = 8
) -> ChunkStore:
    store, words = ChunkStore(place), cast(Encoder, encoder or Words())
    store.update(group_files(folder), words, "words@1", limit, shards, lambda completed, total: None)
    return store


def hashes(place: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.glob("*.parquet")}


def test_all_shards_together_are_the_chunks_of_all_documents(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    parts = chunk_corpus(tmp_path / "parts", folder)
    shards = [parts.read_shard(shard) for shard in range(4)]
    assert all(len(rows) for rows in shards)
    homes = [set(rows["doc_id"].to_pylist()) for rows in shards]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 120, "a document is in one shard"
    key = [("doc_id", "ascending"), ("ordinal", "ascending")]
    rows = [row for d in read_documents(folder) for row in chunk_rows(d, Words(), 8)]  # type: ignore[arg-type]
    expected = pa.Table.from_pylist(rows, schema=TABLES["chunks"].arrow)
    assert pa.concat_tables(shards).sort_by(key).equals(expected.sort_by(key))


def test_a_killed_pass_resumes_and_writes_the_same_bytes(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    chunk_corpus(tmp_path / "whole", folder)
    with pytest.raises(KeyboardInterrupt):
        chunk_corpus(tmp_path / "parts", folder, Words(stops_at="File 1 says 30"))
    kept_rows = hashes(tmp_path / "parts")
    assert len(kept_rows) == 1
    rerun = Words()
    chunk_corpus(tmp_path / "parts", folder, rerun)
    assert not any("File 0" in text for text in rerun.encoded_texts)
    assert (
        hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
        and kept_rows.items() <= hashes(tmp_path / "parts").items()
    )


def test_an_edit_cuts_what_came_from_that_file_alone(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    chunk_corpus(tmp_path / "parts", folder)
    before = hashes(tmp_path / "parts")
    (folder / "1.jsonl").write_text('{"doc_id": "1-0", "text": "File 1 is another now."}\n')
    edited = Words()
    parts = chunk_corpus(tmp_path / "parts", folder, edited)
    assert {text.split()[1] for text in edited.encoded_texts} == {"1"}
    assert len(before.items() & hashes(tmp_path / "parts").items()) == 2 and len(hashes(tmp_path / "parts")) == 3
    assert sum(len(set(parts.read_shard(shard)["doc_id"].to_pylist())) for shard in range(4)) == 81
    unchanged = Words()
    chunk_corpus(tmp_path / "parts", folder, unchanged)
    assert unchanged.encoded_texts == []


def test_an_id_in_two_files_is_refused_every_time(tmp_path: Path) -> None:
    folder = write(tmp_path / "raw")
    (folder / "b.jsonl").write_text('{"doc_id": "1-7", "text": "Is in two files."}\n')
    for _ in range(2):
        with pytest.raises(BadInput, match=r"b\.jsonl: doc_id: '1-7' occurs twice"):
            chunk_corpus(tmp_path / "parts", folder)
