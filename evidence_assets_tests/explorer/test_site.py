"""The explorer's pages: their content, their escaping, and that they write nothing."""

import re
import socket
from html import unescape
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest
from starlette.testclient import TestClient

from evidence_assets.explorer.lake_reader import LakeReader, _read_stamps
from evidence_assets.explorer.site import POLICY, application, listen, serve
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.mirror import file_stamps
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World
from evidence_assets_tests.explorer.hostile_lake import NAMES, Page, file_hashes, write_hostile_lake
from evidence_assets_tests.lake_rows import evidence as evidence_row
from evidence_assets_tests.lake_rows import prediction, question, write_answers


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return write_hostile_lake(tmp_path / "data_lake")


def crawl(client: TestClient, max_pages: int, first: tuple[str, ...] = ("/",)) -> dict[str, str]:
    """Linked pages by address, up to a limit; none may fail."""
    pages: dict[str, str] = {}
    waiting = list(first)
    while waiting and len(pages) < max_pages:
        address = waiting.pop(0)
        if address in pages:
            continue
        reply = client.get(address)
        assert reply.status_code == 200, (address, reply.text)
        pages[address] = reply.text
        links = (unescape(target) for target in re.findall(r'href="(/[^"#]*)', reply.text))
        waiting += [link for link in links if link not in pages and not link.startswith("/static/")]
    return pages


def test_every_linked_page_exists_escapes_markup_and_changes_no_file(lake: Lake, client: TestClient) -> None:
    before = file_hashes(lake.root)
    table = f"/source/table/{quote(NAMES[0], safe='')}"
    pages = crawl(client, 400, ("/", "/search?q=b", "/questions?differs=mcqa/t&variant=mcqa/s", table))
    assert pages[table].index('<figure class="grid">') < pages[table].index("<h2>Evidence from"), "first the table"
    kinds = {address.split("/")[1].partition("?")[0] for address in pages}
    assert kinds >= {"", "questions", "question", "source", "search"}
    for address, page in pages.items():
        tags = Page(page)
        assert [attributes for tag, attributes in tags.tags if tag == "script"] == [
            {"src": "/static/explorer.js", "defer": None}
        ], address
        assert not {"img", "iframe", "object", "base", "meta http-equiv"} & {tag for tag, _ in tags.tags}, address
        for tag, attributes in tags.tags:
            assert not any(name.startswith("on") or name == "style" for name in attributes), (address, tag, attributes)
            for name in ("href", "src", "action"):
                to = attributes.get(name) or "/"
                assert to.startswith(("/", "#")) and not to.startswith("//"), (address, to)
        assert "2469134" not in tags.text, address
        assert sum(attributes.get("class") == "about" for _, attributes in tags.tags) == 1, address
    assert file_hashes(lake.root) == before


def test_a_question_page_shows_variants_evidence_and_locations(client: TestClient) -> None:
    page = client.get("/question/q1?variant=mcqa%2Ft").text
    assert page.index('<a href="#a1">mcqa/<wbr>t</a>') < page.index('<a href="#a2">mcqa/<wbr>s</a>'), (
        "what was asked for comes first"
    )
    assert "<mark>Bees buzz.</mark>" in page and 'href="/source/chunk/k1"' in page
    assert "Without its evidence there would be no answer" in page
    cell = quote(f"{NAMES[0]}:r1c1", safe="")
    assert f'<td class="kept" id="a1-e2"><a href="/source/cell/{cell}">5</a></td>' in page and "not evidence" in page
    assert Page(page).text.count("verified") == 2
    assert "right" in page and "wrong" in page


def test_from_a_document_back_to_answers_and_what_would_fall(client: TestClient) -> None:
    page = Page(client.get("/source/chunk/k1").text)
    assert "Evidence from this chunk" in page.text and "Which buzzes?" in page.text and "cited" in page.text
    assert "These answers change" in page.text and "insufficient" in page.text
    document = client.get("/source/document/" + "a%2Fb%3Fc%3Dd%26e%23f")
    assert document.status_code == 200 and "Bees buzz." in document.text
    assert "The lake has no evidence from this chunk." in client.get("/source/chunk/k2").text
    assert "/source/chunk/k2" in client.get("/search?q=the straße").text


def test_pages_of_a_long_list_are_linked_for_any_name(lake: Lake, client: TestClient) -> None:
    table = {"kind": "cell", "source_kind": "table", "source_id": NAMES[0], "locator": "r1c1"}
    rows = [evidence_row(1, rank, f"row {rank}", **table) for rank in range(1, 61)]
    write_answers(lake, rows, [], [prediction(1, "A")])
    first = client.get(f"/source/table/{quote(NAMES[0], safe='')}").text
    [next_page] = re.findall(r'rel="next" href="([^"]*)"', first)
    second = client.get(unescape(next_page))
    assert second.status_code == 200 and "row 60" in second.text and "row 60" not in first


def test_questions_are_filtered_and_wrong_ones_come_first(client: TestClient) -> None:
    marks = re.findall(r'<span class="mark (\w+)">', client.get("/questions").text)
    assert marks == ["wrong", "right", "right", "right"]
    assert "1 predictions" in Page(client.get("/questions?right=wrong").text).text
    assert "1 predictions" in Page(client.get("/questions?variant=mcqa/s&differs=mcqa/t").text).text
    listed = re.findall(r'<li>\s*<a href="/question/(q\d)', client.get("/questions").text)
    assert len(listed) == len(set(listed)) > 1, "one entry per question"
    assert "No prediction matches the filters." in client.get("/questions?benchmark=%27%20OR%20true%20--").text
    assert client.get("/questions?page=999999999999999&status=answered").status_code == 200


@pytest.mark.parametrize("name", NAMES)
def test_names_that_mean_harm_find_nothing(client: TestClient, name: str) -> None:
    for kind in ("chunk", "document", "file", "cell", "model", "node", "edge", "triple", "seed", "nothing"):
        reply = client.get("/source/" + kind + "/" + "".join(f"%{byte:02x}" for byte in name.encode()))
        assert reply.status_code in (200, 404) and "<svg onload" not in reply.text
    for path in ("/question/", "/relation/", "/static/../../", "/"):
        assert client.get(path + "".join(f"%{byte:02x}" for byte in name.encode())).status_code == 404
    assert client.get("/search", params={"q": name}).status_code == 200


def test_only_reading_from_this_machine(client: TestClient) -> None:
    reply = client.get("/")
    assert reply.headers["content-security-policy"] == POLICY and "unsafe" not in POLICY
    assert client.post("/").status_code == 405
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    for name in ("explorer.css", "explorer.js", "icon.svg"):
        text = client.get(f"/static/{name}").text
        assert text and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_server_listens_on_one_address_only(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("uvicorn.Server.run", lambda _, sockets: sockets[0].close())
    serve(lake.root, port=0)
    assert re.search(r"http://127\.0\.0\.1:[1-9]\d+/\. ", capsys.readouterr().err)
    with listen(0) as listening:
        port = listening.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), 5).close()
        with pytest.raises(ConnectionRefusedError):  # any address but the one that only this machine has
            socket.create_connection(("127.0.0.2", port), 5)
        with pytest.raises(BadInput, match=rf"cannot listen on 127\.0\.0\.1:{port} .*choose a free --port"):
            listen(port)
    with listen(0, host="0.0.0.0") as listening:
        socket.create_connection(("127.0.0.2", listening.getsockname()[1]), 5).close()


def test_a_changed_lake_is_noticed(lake: Lake, client: TestClient) -> None:
    assert "4 predictions" in client.get("/questions").text
    lake.write("predictions/mcqa/u", "quiz|0", {"predictions": [prediction(1, "B", selector="u")]})
    assert "5 predictions" in client.get("/questions").text
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(1, gold="B"), question(2, gold="B")]})
    assert "3 predictions" in Page(client.get("/questions?right=wrong").text).text
    lake.delete("predictions", "predictions/mcqa/u")
    assert "4 predictions" in client.get("/questions").text


def test_a_file_that_vanishes_while_files_are_listed_has_no_stamp(lake: Lake) -> None:
    before = file_stamps(lake.root)
    (lake.root / "predictions" / "gone.parquet").symlink_to(lake.root / "gone")  # is listed, and has no size
    assert file_stamps(lake.root) == before and _read_stamps(lake.root) == {
        path: stamp for path, stamp in before.items() if path.suffix == ".parquet"
    }


def test_short_answers_are_right_as_scores_count_them(lake: Lake) -> None:
    short_question = question(9, "short", task="kgqa", options=[], gold="aspirin")
    lake.write("questions/graph", "short|0", {"questions": [short_question]})
    lake.write("predictions/graph/g", "short|0", {"predictions": [prediction(9, "The Aspirin.", "short", "g")]})
    with LakeReader(lake.root).opened() as reader:
        assert reader.rows("SELECT is_right FROM answers WHERE benchmark = 'short'") == [{"is_right": True}]


@pytest.mark.slow
def test_the_sample_can_be_walked_from_scores_to_seeds_and_stays_as_it_is(made_world: World) -> None:
    lake = Lake(made_world.root / "data_lake")
    before, relation = file_hashes(lake.root), lake.read("relation_seeds")["relation_id"][0]
    harvested = lake.read("triples").filter((pl.col("origin") == "kbloom") & (pl.col("relation_id") == relation))
    edge_id, node = lake.read("kg_edges")["edge_id"][0], lake.read("kg_nodes")["node_id"][0]
    start = (
        f"/relation/{relation}",
        f"/source/triple/{harvested['triple_id'][0]}",
        f"/source/edge/{edge_id}",
        f"/source/node/{node}",
        "/",
        "/search?q=gout",
    )
    client = TestClient(application(lake.root), base_url="http://127.0.0.1")
    pages = crawl(client, 60, start)
    assert "Prompts" in pages[start[0]] and "<dt>score</dt>" in pages[start[1]]
    assert all("Evidence from this" in pages[start[place]] for place in (1, 2, 3))
    assert file_hashes(lake.root) == before
