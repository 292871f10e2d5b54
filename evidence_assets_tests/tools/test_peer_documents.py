"""The comparison with other systems on the same documents: its questions, its scores, and what it counts."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bench.answers.short_answer_questions import PAGES
from bench.peers.documents import (
    SET,
    PageQuestion,
    Reply,
    System,
    complete_replies,
    count_rows,
    is_refusal,
    read_peer,
    read_replies,
    read_view,
    score,
    select_questions,
)

COLOUR = PageQuestion("Which colour is the door?", ("green", "dark green"))
PRICE = PageQuestion("What did it cost?", ("£1,200",))
OWNER = PageQuestion("Who owns it?", ())
PEER = """\
import json, sys, urllib.request
for line in sys.stdin:
    urllib.request.urlopen(sys.argv[1] + "/chat/completions", data=b"{}").read()
    print(json.dumps({"reply": line.strip().upper(), "sources": ["a page"]}), flush=True)
"""


class ModelServer(BaseHTTPRequestHandler):
    """A server that lists a model and replies that it has read seven tokens and written two."""

    def do_GET(self) -> None:
        self._reply({"data": [{"id": "small"}]})

    def do_POST(self) -> None:
        self._reply({"usage": {"prompt_tokens": 7, "completion_tokens": 2}})

    def _reply(self, content: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelServer) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}/v1"
        running.shutdown()


def make_reply(question: PageQuestion, text: str, *sources: str, seconds: float = 1.0) -> Reply:
    return Reply(question.text, text, list(sources), seconds, 1, 100, 10)


def test_each_fourth_question_has_no_answer_on_the_pages() -> None:
    pages, questions = select_questions()
    assert [not question.golds for question in questions] == [False, False, False, True] * 5
    assert len({question.text for question in questions}) == 20
    texts = [(PAGES / SET / page).read_text(encoding="utf-8") for page in pages]
    assert len(texts) == 5
    assert select_questions() == (pages, questions)


@pytest.mark.parametrize(
    "text",
    [
        "I cannot answer this question due to insufficient information.",
        "The provided context does not mention the blacksmith's first name.",
        "The context doesn’t specify that.",
        "There is no specific information about it.",
        "No sure answer in the documents. Closest statement: “It is green.” (door.md, characters 0–12)",
        "The evidence does not decide. Closest answer: green",
        "It can't be determined from the text.",
        "",
    ],
)
def test_a_refusal_says_that_the_text_does_not_say_it(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", ["green", "The text says: “No dogs are allowed.”", "Not before nine: it opens late."])
def test_an_answer_with_a_negation_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


def test_a_row_counts_answers_and_the_citations_of_those() -> None:
    replies = [
        make_reply(COLOUR, "It is Dark Green.", "The door is dark green.", "The gate is red.", seconds=2),
        make_reply(PRICE, "I cannot answer.", "It cost £1,200."),
        make_reply(OWNER, "Mr Smith owns it.", "Mr Smith", seconds=9),
    ]
    counts = ("2 + 1", "1", "1", "1", "1 of 2", "1 of 1", "20", "2.0")
    assert score("a system", [COLOUR, PRICE, OWNER], replies) == ("a system", *counts, "1.0", "100", "10")
    wrong = [make_reply(COLOUR, "greenish"), make_reply(PRICE, "£1,200.50"), make_reply(OWNER, "")]
    assert score("", [COLOUR, PRICE, OWNER], wrong)[2:8] == ("2", "0", "0", "0 of 0", "0 of 2", "")


def test_used_evidence_is_what_an_answer_cites() -> None:
    evidence = [{"text": "It is green.", "used": True}, {"text": "It is big.", "used": False}]
    assert read_view(json.dumps({"answer_text": "green", "evidence": evidence})) == ("green", ["It is green."])


def test_only_missing_replies_are_asked_and_their_tokens_counted(server: str, tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(PEER, encoding="utf-8")
    system = System("echo", f"{{python}} {tmp_path}/echo.py {{address}}", read_peer)
    file = tmp_path / "echo.jsonl"
    for questions in (["first"], ["first", "second"]):
        complete_replies(system, file, questions, server, tmp_path)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2
    replies = read_replies(file)
    assert {question: reply.text for question, reply in replies.items()} == {"first": "FIRST", "second": "SECOND"}
    assert {(r.calls, r.tokens_read, r.tokens_written, *r.sources) for r in replies.values()} == {(1, 7, 2, "a page")}


def test_a_system_with_fewer_replies_is_compared_on_those_too(tmp_path: Path) -> None:
    for name, count in (("ask", 2), ("paper_qa", 1)):
        lines = [make_reply(question, "green").__dict__ for question in (COLOUR, OWNER)[:count]]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    rows = [row[:2] for row in count_rows(tmp_path, [COLOUR, OWNER])]
    assert rows == [("`evidence ask`", "1 + 1"), ("`evidence ask`", "1 + 0"), ("PaperQA2", "1 + 0")]
