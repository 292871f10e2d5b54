"""HTML pages and PDFs: what a reader sees and nothing else; what cannot be read is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.benchmarks import corpora
from evidence_assets.benchmarks.corpora import read_documents, read_page
from evidence_assets.benchmarks.records import Document
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.sentences import sentence_spans

PAGE = """<!doctype html><html><head><title> Bees &amp;
 hives </title><style>p { color: red }</style></head><body><nav><a href="/">Home</a></nav><script>alert(1)</script>
<h1>Bees</h1><p>Bees <b>buzz</b> when
they fly.</p><ul><li>A hive holds forty thousand</li><li>A queen is one</li></ul>
<table><tr><td>Honey</td><td>20 kg</td></tr></table></body></html>"""


def pdf(*lines: str) -> bytes:
    """A PDF of one page with these lines, as small as may be."""
    shown = " T* ".join(f"({line}) Tj" for line in lines)
    content = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()
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
        % (
            table,
            len(out),
        )
    )


def test_a_page_is_what_is_seen_of_it(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    (tmp_path / "bees.html").write_text(PAGE)
    [found] = read_documents(tmp_path)
    text = "Bees\n\nBees buzz when they fly.\n\nA hive holds forty thousand\n\nA queen is one\n\nHoney 20 kg"
    assert found == Document("bees.html", "Bees & hives", text, "bees.html")
    assert [text[a:b] for a, b in sentence_spans(text)][3] == "A queen is one", "a block ends a sentence"


def test_a_pdf_is_its_text(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="PDFs are read by the extra documents")
    path = tmp_path / "bees.pdf"
    path.write_bytes(pdf("Bees buzz.", "They fly."))
    title, text = read_page(path)
    assert title == "About bees" and " ".join(text.split()) == "Bees buzz. They fly."


@pytest.mark.parametrize(
    ("data", "said"), [(pdf(), r"holds pictures and no text"), (b"%PDF-1.4\n%%EOF", "is damaged or no PDF")]
)
def test_a_pdf_that_says_nothing_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    pytest.importorskip("pypdf", reason="PDFs are read by the extra documents")
    (tmp_path / "x.pdf").write_bytes(data)
    with pytest.raises(BadInput, match=rf"x\.pdf: {said}"):
        list(read_documents(tmp_path))


@pytest.mark.parametrize(("name", "package"), [("a.htm", "beautifulsoup4"), ("a.pdf", "pypdf")])
def test_a_missing_library_is_told_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(corpora, "import_module", missing)
    (tmp_path / name).write_bytes(b"%PDF-1.4")
    with pytest.raises(
        BadInput, match=rf"is read by {package}, which is not installed: pip install 'evidence-assets\[doc"
    ):
        list(read_documents(tmp_path))
