"""Tables of files: each with its caption, header and rows, and what cannot be read with its file and line."""

from pathlib import Path

import pytest

from evidence_assets.benchmarks.corpora import read_page
from evidence_assets.benchmarks.page_tables import find_markdown_tables
from evidence_assets.benchmarks.table_files import read_folder_tables, read_tables_of
from evidence_assets.lake.errors import BadInput

MARKDOWN = r"""# Club

## Fees ##

Member | Fee
:--|--:
[Adult](a.html) | **240** \| 250
Child |

```
| no | table |
|----|-------|
| of | code |
```

One | line above --- is no table
---

| only |
|------|
| one |

## Boats
| Boat | Seats |
|------|-------|
| `Pike` | 1 |
| Swan | 8 | extra |
"""
PAGE = """<h2>Stages</h2><table><tr><td><table><tr><th>Day</th><th colspan=2>Way</th></tr>
<tr><td rowspan=2>Sunday</td><td>Bregenz</td><td>Hard</td></tr><tr><td>Hard</td><td>Lindau</td></tr></table></td></tr>
</table><table><caption>Logo</caption><tr><td>a</td><td>b</td></tr></table>"""


def test_markdown_has_a_table_below_each_rule_outside_code() -> None:
    fees, boats = find_markdown_tables(MARKDOWN)
    assert (fees.caption, fees.header, fees.line) == ("Fees", ("Member", "Fee"), 5)
    assert fees.rows == (("Adult", "240 | 250"), ("Child",))
    assert fees.statements == ["Member: Adult; Fee: 240 | 250.", "Member: Child."]
    assert boats.rows == (("Pike", "1"), ("Swan", "8", "extra"))


def test_a_page_has_its_innermost_tables_and_spanning_cells_are_repeated(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    (tmp_path / "trip.html").write_text(PAGE)
    [table] = read_tables_of(tmp_path / "trip.html")
    assert (table.table_id, table.caption, table.header) == ("trip.html", "Stages", ("Day", "Way", "Way"))
    assert table.rows == (("Sunday", "Bregenz", "Hard"), ("Sunday", "Hard", "Lindau"))


TITLED = """<html><body><h1>Tents &amp; ropes</h1><table><tr><th colspan=2>Prices <i>in 2024</i></th></tr>
<tr><th>Name</th><th>Price</th></tr><tr><td>Tent</td><td>12</td></tr><tr><td>Total of all</td></tr></table>
<table><tr><td>Logo</td></tr><tr><td>Menu</td><td>Text</td></tr></table></body></html>"""


def test_a_page_with_a_title_row_and_a_short_row_has_its_table(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    (tmp_path / "prices.html").write_text(TITLED)
    [table] = read_tables_of(tmp_path / "prices.html")
    assert (table.caption, table.header) == ("Prices in 2024", ("Name", "Price"))
    assert table.rows == (("Tent", "12"), ("Total of all", ""))
    statements = "Prices in 2024\n\nName: Tent; Price: 12.\n\nName: Total of all."
    title, text = read_page(tmp_path / "prices.html")
    assert (title, text) == ("Tents & ropes", f"Tents & ropes\n\n{statements}\n\nLogo\n\nMenu Text")
    (tmp_path / "prices.html").write_text(TITLED.replace("<table>", "<table><caption>Shop</caption>", 1))
    [table] = read_tables_of(tmp_path / "prices.html")
    assert table.caption == "Shop" and "Shop\n\nPrices in 2024\n\n" in read_page(tmp_path / "prices.html")[1]


def test_the_first_value_of_an_infobox_is_no_header(tmp_path: Path) -> None:
    pytest.importorskip("bs4", reason="HTML is read by the extra documents")
    rows = "<tr><th>Price</th><td>12</td></tr><tr><th>Weight</th><td>3</td></tr>"
    (tmp_path / "tent.html").write_text(f"<table><tr><th colspan=2>Tent</th></tr>{rows}</table>")
    [table] = read_tables_of(tmp_path / "tent.html")
    assert table.rows == (("Price", "12"), ("Weight", "3"))


def test_a_row_with_more_cells_than_the_header_is_reported_and_the_other_files_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,price\ntent,1,200\nrope,9\n")
    (tmp_path / "b.csv").write_text('item,price\ntent,"1,200"\nrope,9,,\n')
    errors = list[BadInput]()
    assert [table.table_id for table in read_folder_tables(tmp_path, errors.append)] == ["b.csv"]
    [error] = errors
    assert (error.file, error.line) == (tmp_path / "a.csv", 2) and "3 cells, the header 2" in str(error)


def test_a_sentence_of_one_column_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("note\nBring rope, tent\nLeave at noon, please\n")
    [table] = read_tables_of(tmp_path / "a.csv")
    assert (table.caption, table.header) == ("", ("note",))


@pytest.mark.parametrize(
    ("text", "caption", "header"),
    [
        ("sep=;\nitem;price\ntent;120,50\n", "", ("item", "price")),
        ("\ufeffSEP=\t\r\nitem, colour\tprice\r\ntent, red\t12\r\n", "", ("item, colour", "price")),
        ("sep=;\nPrices\nitem;price\ntent;12\n", "Prices", ("item", "price")),
        ("Prices of the summer\n\nitem;price\ntent;120\nrope;9\n", "Prices of the summer", ("item", "price")),
        ("Prices, 2024;;\nitem;price;stock\ntent;12;3\n", "Prices, 2024", ("item", "price", "stock")),
        ("item,\ntent,120\nrope,9\n", "", ("item", "")),
        (",price\ntent,120\nrope,9\n", "", ("", "price")),
        ("item,,\ntent,,3\nrope,9,4\n", "", ("item", "", "")),
        ("note\nall is well\nnothing\n", "", ("note",)),
    ],
)
def test_a_separator_and_a_title_above_the_header_are_no_header(
    tmp_path: Path, text: str, caption: str, header: tuple[str, ...]
) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    [table] = read_tables_of(tmp_path / "a.csv")
    assert (table.caption, table.header) == (caption, header)
    assert len(table.rows) >= 1 and table.rows[0][0].startswith(("tent", "all"))


def test_of_a_folder_all_tables_are_read_and_bad_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "club.md").write_text(MARKDOWN)
    (tmp_path / "deep" / "prices.tsv").write_text("item\tprice\nrope\t12\n")
    (tmp_path / "deep" / "sizes.tsv").write_text("item,size\nrope,30\nbell,4\n")  # no tab, whatever its name
    (tmp_path / "bad.csv").write_text('a,b\n1,2\n3,"4\n')
    (tmp_path / "coded.tsv").write_bytes(b"a\tb\n1\t\xe4\n")
    (tmp_path / "note.txt").write_text("| a | b |\n|---|---|\n| no | Markdown |\n")
    errors: list[BadInput] = []
    tables = list(read_folder_tables(tmp_path, errors.append))
    names = ["club.md, table 1", "club.md, table 2", "deep/prices.tsv", "deep/sizes.tsv"]
    assert [table.table_id for table in tables] == names
    assert tables[2].rows == (("rope", "12"),) and tables[3].header == ("item", "size")
    assert [str(error).removeprefix(f"{tmp_path}/").split(" (")[0] for error in errors] == [
        "bad.csv:3: a quote is opened in this row and never closed",
        "coded.tsv:2: byte 3 of the line",
    ]


def test_a_document_without_a_table_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# No table\n\nText.")
    with pytest.raises(BadInput, match=r"a\.md: has no table: it needs a header"):
        read_tables_of(tmp_path / "a.md")
