"""Exported pages: their links, their names, their policy, and what a rerun, a kill or another folder leads to."""

import fcntl
import re
import shutil
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.explorer.export import MARKER, PARTIAL, Address, export_pages, parse_link
from evidence_assets.explorer.pages import link
from evidence_assets.explorer.site import STATIC_POLICY
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.explorer.hostile_lake import Page, file_hashes, write_hostile_lake
from evidence_assets_tests.lake_rows import prediction


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return write_hostile_lake(tmp_path_factory.mktemp("export") / "data_lake")


@pytest.fixture(scope="module")
def exported(lake: Lake) -> Path:
    """An export of all pages; tests that change it copy it first."""
    folder = lake.root.parent / "site"
    before = file_hashes(lake.root)
    export = export_pages(lake.root, folder)
    assert not export.left_out
    assert len(export.pages) == len(list(folder.rglob("*.html")))
    assert export.n_bytes == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert file_hashes(lake.root) == before
    return folder


def relative_hashes(folder: Path) -> dict[str, str]:
    return {path.removeprefix(str(folder)): content for path, content in file_hashes(folder).items()}


def test_every_link_leads_to_a_file_and_its_fragment(exported: Path) -> None:
    pages = {path: path.read_text() for path in exported.rglob("*.html")}
    n_links = 0
    for path, text in pages.items():
        for tag, attributes in Page(text).tags:
            for target in filter(None, (attributes.get("href"), attributes.get("src"))):
                parts = urlsplit(target)
                assert not parts.scheme and not parts.netloc and not parts.query and not target.startswith("/"), target
                to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                assert to.is_file() and to.is_relative_to(exported.resolve()), (path, tag, target)
                if parts.fragment:
                    ids = [element.get("id") for _, element in Page(pages[to]).tags]
                    assert unquote(parts.fragment) in ids, (path, target)
                n_links += 1
    assert n_links > 300


def test_pages_keep_their_policy_and_have_no_forms(exported: Path) -> None:
    for path in exported.rglob("*.html"):
        page = Page(path.read_text())
        policies = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert policies == [STATIC_POLICY]
        assert [attributes for tag, attributes in page.tags if tag == "script"] == [
            {"src": f"{'' if path.parent == exported else '../'}static/explorer.js", "defer": None}
        ]
        assert not {"form", "input", "select", "img", "base"} & {tag for tag, _ in page.tags}
        assert "Search: run evidence explore" in page.text and "2469134" not in page.text
    assert "unsafe" not in STATIC_POLICY


def test_filters_and_pages_of_lists_are_linked_pages(exported: Path) -> None:
    questions = (exported / "questions.html").read_text()
    wrong = re.search(r'href="(pages/\w+\.html)">wrong</a>', questions)
    assert wrong and "1 predictions" in (exported / wrong[1]).read_text()
    variants = re.findall(r'href="(pages/\w+\.html)#mcqa/([st])"', questions)
    assert {variant for _, variant in variants} == {"s", "t"}
    assert len({page for page, _ in variants}) == 2, "all variants of a question are on its page"


def test_a_rerun_writes_the_same_bytes_and_deletes_old_pages(lake: Lake, exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    shutil.copytree(exported, folder)
    old_page = folder / "pages" / f"{'0' * 32}.html"
    for path in (old_page, folder / "pages" / "notes.html", folder / ".nojekyll"):
        path.write_text("other")
    unchanged = folder / "scores.html"
    modified = unchanged.stat().st_mtime_ns
    export_pages(lake.root, folder)
    assert not old_page.exists()
    assert (folder / "pages" / "notes.html").read_text() == (folder / ".nojekyll").read_text() == "other"
    for path in (folder / "pages" / "notes.html", folder / ".nojekyll"):
        path.unlink()
    assert relative_hashes(folder) == relative_hashes(exported)
    assert unchanged.stat().st_mtime_ns == modified


def test_a_killed_export_is_finished_by_a_rerun(
    lake: Lake, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site"

    def kill(n_written: int, n_pages: int) -> None:
        if n_written == 7:
            (folder / PARTIAL).write_text("<!doctype")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_pages(lake.root, folder, log=kill)
    assert not (folder / "index.html").exists() and len(list(folder.rglob("*.html"))) == 6
    export_pages(lake.root, folder)
    assert relative_hashes(folder) == relative_hashes(exported)


def test_links_beyond_the_maximum_are_struck(lake: Lake, tmp_path: Path) -> None:
    export = export_pages(lake.root, tmp_path / "site", max_pages=5)
    assert len(list((tmp_path / "site").rglob("*.html"))) == 5 and export.left_out
    struck = 0
    for path in (tmp_path / "site").rglob("*.html"):
        links = [attributes for tag, attributes in Page(path.read_text()).tags if tag == "a"]
        struck += sum(attributes.get("aria-disabled") == "true" for attributes in links)
        targets = [str(a["href"]).partition("#")[0] for a in links if "href" in a]
        assert all((path.parent / target).exists() for target in targets)
    assert struck >= len(export.left_out)


def test_only_an_empty_folder_or_an_export_is_written(lake: Lake, exported: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "index.html").write_text("mine")
    with pytest.raises(BadInput, match=r"thesis: has other files: choose a new or empty folder"):
        export_pages(lake.root, tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["index.html"]
    with pytest.raises(BadInput, match=r"index\.html: is a file: choose another folder"):
        export_pages(lake.root, tmp_path / "thesis" / "index.html")
    with pytest.raises(BadInput, match="is in the lake"):
        export_pages(lake.root, lake.root / "site")
    with (exported / MARKER).open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="another export writes to it: wait"):
            export_pages(lake.root, exported)


def test_a_lake_that_cannot_be_read_is_no_page(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = write_hostile_lake(tmp_path / "data_lake")
    broken.path("predictions", "predictions/mcqa/s", "quiz|0").write_bytes(b"PAR1")
    result = CliRunner().invoke(app, ["explore", "--export", str(tmp_path / "site"), "--lake", str(broken.root)])
    assert result.exit_code == 1 and "quiz" in result.output
    assert not (tmp_path / "site" / "index.html").exists()


def test_the_command_says_the_size_and_what_was_left_out(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence_assets.cli.queries.SECONDS_PER_LINE", 0.0)
    command = ["explore", "--export", str(tmp_path / "site"), "--max-pages", "3", "--lake", str(lake.root)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert re.search(r"2 of at least 3 pages, \d+ s, about \d+ s left", result.output)
    assert re.search(
        r"3 pages, 0\.0\d* MB: open .*site/index\.html\n\d+ or more linked pages were left out", result.output
    )


def test_a_gone_source_is_a_page_that_says_so(tmp_path: Path) -> None:
    lake = write_hostile_lake(tmp_path / "data_lake")
    lake.delete("chunks", "corpus/c/chunks")
    lake.write("predictions/mcqa/s", "quiz|0", {"predictions": [prediction(1, "A"), prediction(2, "A")]})
    export_pages(lake.root, tmp_path / "site")
    pages = [path.read_text() for path in (tmp_path / "site" / "pages").iterdir()]
    assert any("The lake has no chunk &#39;k1&#39;." in page for page in pages)


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(st.sets(st.tuples(texts, texts), min_size=2, max_size=8))
def test_files_of_pages_differ_and_never_have_a_name_of_the_data(names: set[tuple[str, str]]) -> None:
    links = [link("source", kind, name) for kind, name in names] + [
        link("questions", variant=kind) for kind, _ in names
    ]
    files = [parse_link(target)[0].file for target in dict.fromkeys(links)]
    assert len(set(files)) == len(files) == len({name.lower() for name in files})
    assert all(re.fullmatch(r"pages/[0-9a-f]{32}\.html", name) for name in files)


def test_a_variant_of_a_question_is_a_place_on_its_page() -> None:
    name = "mcqa/<b> & 'x'"
    address, fragment = parse_link(link("question", "q1", variant=name))
    assert address == Address("/question/q1") and unquote(fragment) == name and fragment == quote(name)
    assert unescape(fragment) == fragment
