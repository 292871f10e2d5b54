"""Low-level reading: what is wrong with a file is named with file, line and field."""

import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evidence_assets.benchmarks.json_streams import json_items, json_rows, json_rows_at, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, delimited_rows, read_text, text_lines
from evidence_assets.lake.errors import BadInput


def write(folder: Path, data: bytes | str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_byte_order_mark_and_both_line_ends_are_removed(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfone\r\ntwo\n\nlast")
    assert list(text_lines(path)) == [(1, "one"), (2, "two"), (3, ""), (4, "last")]
    assert read_text(path) == "one\ntwo\n\nlast"
    assert read_text(write(tmp_path, "PAR1 is a receptor.")) == "PAR1 is a receptor.", "a gene, not a Parquet file"


def test_gzip_is_unpacked_whatever_the_name(tmp_path: Path) -> None:
    packed = gzip.compress(b"one\ntwo\n")
    for name, data in (("a.txt.gz", packed), ("a.txt", packed), ("b.gz", b"one\ntwo\n")):
        assert [line for _, line in text_lines(write(tmp_path, data, name))] == ["one", "two"]


def test_gzip_data_that_expand_a_thousand_times_are_refused_at_once(tmp_path: Path) -> None:
    hostile = tmp_path / "empty_lines.jsonl.gz"
    hostile.write_bytes(gzip.compress(b"\n" * 30_000_000))
    assert hostile.stat().st_size < 40_000
    start = time.monotonic()
    with pytest.raises(BadInput, match="expand to more than 200 times their size: unpack the file"):
        list(text_lines(hostile))
    assert time.monotonic() - start < 10, "not the minute that 30 million lines take"
    repetitive = tmp_path / "repetitive.jsonl.gz"
    repetitive.write_bytes(gzip.compress(b"".join(b'{"id": %d, "text": "the same text"}\n' % i for i in range(40_000))))
    assert len(list(text_lines(repetitive))) == 40_000


def test_truncated_gzip_names_the_line_it_breaks_in(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"line {i}\n" for i in range(50_000)).encode())
    with pytest.raises(BadInput, match=r"c\.gz:\d+: the gzip data are truncated") as caught:
        list(text_lines(write(tmp_path, packed[: len(packed) // 2], "c.gz")))
    assert caught.value.line is not None and 1 < caught.value.line < 50_000


def test_jsonl_gives_rows_with_their_lines(tmp_path: Path) -> None:
    rows = list(jsonl_rows(write(tmp_path, '{"a": 1}\r\n\n{"a": "\u2028"}\n')))
    assert [(row.line, row.values) for row in rows] == [(1, {"a": 1}), (3, {"a": "\u2028"})]


def test_json_array_and_object_stream_with_lines(tmp_path: Path) -> None:
    array = write(tmp_path, '[\n {"a": 1},\n\n {"a":\n  2}\n]\n', "a.json")
    assert [(row.line, row.values["a"]) for row in json_rows(array)] == [(2, 1), (4, 2)]
    members = write(tmp_path, '{"x": {"a": 1},\n "y": {"a": 2}}', "b.json")
    assert [(key, row.line, row.values["a"]) for key, row in json_rows_at(members, "*")] == [("x", 1, 1), ("y", 2, 2)]
    assert list(json_items(write(tmp_path, " [ ] ", "c.json"))) == []


def test_delimited_rows_carry_the_line_they_begin_on(tmp_path: Path) -> None:
    path = write(tmp_path, 'a,"b ""x"", y"\n"two\r\nlines",c\n\nd,e\n')
    assert list(delimited_rows(path, ",", quoted=True)) == [
        (1, ["a", 'b "x", y']),
        (2, ["two\nlines", "c"]),
        (5, ["d", "e"]),
    ]
    plain = write(tmp_path, 'a\t"b\nc\t""\n')
    assert list(delimited_rows(plain, "\t", columns=2)) == [(1, ["a", '"b']), (2, ["c", '""'])]


def quoted_pairs(path: Path) -> Iterator[tuple[int, list[str]]]:
    return delimited_rows(path, ",", columns=2, quoted=True)


@pytest.mark.parametrize(
    ("read", "data", "message"),
    [
        (jsonl_rows, b"PAR1\x15\x04\x00", "1: is a Parquet file.*expected JSON lines"),
        (jsonl_rows, "version https://git-lfs.github.com/spec/v1\n", "1: is a Git LFS pointer.*expected JSON lines"),
        (jsonl_rows, "  <!DOCTYPE html><html>", "1: is an HTML page.*expected JSON lines"),
        (jsonl_rows, '{"a": 1}\n{"a": \n', r"2: not valid JSON: Expecting value \(column"),
        (jsonl_rows, '[{"a": 1}]', "1: is one JSON array"),
        (jsonl_rows, '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", "1: the JSON is nested too deeply"),
        (json_rows, "", r"1: not valid JSON: expected \[ or {, but the file ends"),
        (json_rows, '[{"a": 1},\n {"a": 2}', "2: not valid JSON: expected , or ], but the file ends"),
        (json_rows, "{7: 1}", "1: not valid JSON: expected a key in quotes"),
        (json_rows, '[{"a": 1}]\n[{"a": 2}]', "2: more text follows"),
        (quoted_pairs, 'a,b\n"c,d\ne,f\n', "2: a quote is opened in this row and never closed"),
        (quoted_pairs, 'a,b\nc,"d\n' + "e,f\n" * 40_000, "2: a quote is opened in this row and never closed"),
        (quoted_pairs, 'a,b\n"c,d\ne,"f",g\n', "2: not a well-formed row"),
        (quoted_pairs, "a,b\nc\n", "2: the row has 1 fields; expected 2"),
    ],
)
def test_faults_name_file_and_line(
    tmp_path: Path, read: Callable[[Path], Iterator[object]], data: bytes | str, message: str
) -> None:
    with pytest.raises(BadInput, match=rf"a\.jsonl:{message}"):
        list(read(write(tmp_path, data, "a.jsonl")))


def test_fields_are_read_with_their_type() -> None:
    row = Row({"n": "-3", "t": "x", "b": " ", "z": None, "l": [{"k": 1}, 2], "s": "\ud800", "q": True}, Path("f"), 7)
    assert (row.number("n"), row.text("t"), row.text_or_none("b"), row.text_or_none("z")) == (-3, "x", None, None)
    assert (row.label("n"), Row({"i": 12}, Path("f")).label("i")) == ("-3", "12")
    for wrong, message in [
        (lambda: row.text("b"), "f:7: b: is empty"),
        (lambda: row.text("m"), "f:7: m: missing; the record has n, t"),
        (lambda: row.number("q"), "f:7: q: True is not an integer"),
        (lambda: row.rows("l"), r"f:7: l\[1\]: 2 is not an object"),
        (lambda: row.texts("t"), "f:7: t: 'x' is not a list"),
        (lambda: row.text("s"), "f:7: s: character 1 is half of a surrogate pair"),
        (lambda: row.check_field_names(["number", "n"]), r"f:7: t: unknown field\. Available fields: number, n"),
    ]:
        with pytest.raises(BadInput, match=message):
            wrong()
