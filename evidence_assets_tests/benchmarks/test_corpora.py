"""Corpora: streamed document by document, and nothing that cannot be cited gets in."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks.corpora import read_documents, read_page
from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.sentences import sentence_spans


def shard(path: Path, ids: list[str], texts: list[str | None], **extra: list[str]) -> None:
    columns = {"id": ids, "url": ["u"] * len(ids), "title": [f"T{i}" for i in ids], "text": texts} | extra
    pq.write_table(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}), path)


def test_wikipedia_shards_in_order(tmp_path: Path) -> None:
    shard(tmp_path / "train-00001-of-00002.parquet", ["3"], ["three"])
    shard(tmp_path / "train-00000-of-00002.parquet", ["1", "2"], ["one", "two\nlines"])
    results = list(read_documents(tmp_path))
    assert [(d.doc_id, d.title, d.text) for d in results] == [
        ("1", "T1", "one"),
        ("2", "T2", "two\nlines"),
        ("3", "T3", "three"),
    ]
    assert results[2].source == "train-00001-of-00002.parquet"


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


def test_one_article_at_a_time_is_in_memory(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", [str(i) for i in range(4000)], [f"{i} " * 2500 for i in range(4000)])
    for _ in read_documents(tmp_path):  # loads what is loaded once
        break
    tracemalloc.start()
    assert sum(1 for _ in read_documents(tmp_path)) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000  # the texts together are 49 MB


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
        ("a.jsonl", b'{"doc_id": "1", "txt": "t"}', r"a\.jsonl:1: txt: unknown field; did you mean 'text'"),
        ("a.jsonl", b'{"doc_id": "1"}', r"a\.jsonl:1: text: missing"),
        ("a.jsonl", b'{"text": "t"}', r"a\.jsonl:1: doc_id: missing"),
        ("a.docx", b"PK", r"a\.docx: is not a corpus file; use \.parquet"),
        ("a.parquet", b"PAR1 cut short", r"a\.parquet: the Parquet file is damaged after row 0"),
        ("a.md", b"PK\x03\x04", r"a\.md:1: is a zip archive"),
    ],
)
def test_bad_corpora(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match=message):
        list(read_documents(tmp_path))


def test_a_readme_next_to_shards_is_not_an_article(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", ["1"], ["one"])
    (tmp_path / "README.md").write_text("# About these shards")
    with pytest.raises(BadInput, match=r"README\.md: is a text among shards"):
        list(read_documents(tmp_path))


def test_parquet_faults_name_the_row(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", ["1", "2"], ["one", None])
    with pytest.raises(BadInput, match=r"a\.parquet:2: text: None is not a string"):
        list(read_documents(tmp_path))
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"ab\xff\xff"))
    pq.write_table(pa.table({"id": ["1"], "title": ["t"], "text": bad}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a\.parquet:1: text: byte 3 is not UTF-8"):
        list(read_documents(tmp_path))
    pq.write_table(pa.table({"id": ["1"], "content": ["t"]}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"title: the shard has no such column; its columns are id, content"):
        list(read_documents(tmp_path))


PAGE = """<!doctype html><html><head><title> Bees &amp;
 hives </title><style>p { color: red }</style></head><body><nav><a href="/">Home</a></nav><script>alert(1)</script>
<h1>Bees</h1><p>Bees <b>buzz</b> when
they fly.</p><ul><li>A hive holds forty thousand</li><li>A queen is one</li></ul>
<table><tr><td>Honey</td><td>20 kg</td></tr></table></body></html>"""


def pdf(*lines: str) -> bytes:
    """A PDF of one page with these lines, as small as may be."""
    excerpt = " T* ".join(f"({line}) Tj" for line in lines)
    content = f"BT /F1 12 Tf 14 TL 72 720 Td {excerpt} ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(content), content),
        b"<< /Title (About bees) >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return (
        out
        + b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (table, len(out))
    )


def test_the_text_of_a_page_is_its_visible_text(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    (tmp_path / "bees.html").write_text(PAGE)
    [results] = read_documents(tmp_path)
    text = "Bees\n\nBees buzz when they fly.\n\nA hive holds forty thousand\n\nA queen is one\n\nHoney 20 kg"
    assert results == Document("bees.html", "Bees & hives", text, "bees.html")
    assert [text[a:b] for a, b in sentence_spans(text)][3] == "A queen is one", "a block ends a sentence"


def test_a_pdf_is_its_text(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="PDFs are read by the extra documents")
    path = tmp_path / "bees.pdf"
    path.write_bytes(pdf("Bees buzz.", "They fly."))
    title, text = read_page(path)
    assert title == "About bees" and " ".join(text.split()) == "Bees buzz. They fly."


@pytest.mark.parametrize(
    ("data", "message"), [(pdf(), r"contains images and no text"), (b"%PDF-1.4\n%%EOF", "is damaged or not a PDF")]
)
def test_the_error_names_a_pdf_without_text(tmp_path: Path, data: bytes, message: str) -> None:
    pytest.importorskip("pypdf", reason="PDFs are read by the extra documents")
    (tmp_path / "x.pdf").write_bytes(data)
    with pytest.raises(BadInput, match=rf"x\.pdf: {message}"):
        list(read_documents(tmp_path))
