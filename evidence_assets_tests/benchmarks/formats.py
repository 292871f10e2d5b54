"""One tiny record of each official format, in words of our own, and a way to lay files out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

AI2 = {
    "id": "q1",
    "question": {
        "stem": "Which one buzzes?",
        "choices": [{"label": "A", "text": "ant"}, {"label": "B", "text": "bee"}, {"label": "C", "text": "cat"}],
    },
    "answerKey": "B",
}
CONCEPT = AI2 | {"question": AI2["question"] | {"question_concept": "buzz"}}  # type: ignore[operator]
DIGITS = AI2 | {
    "question": {"stem": "Which?", "choices": [{"label": "1", "text": "ant"}, {"label": "2", "text": "bee"}]},
    "answerKey": "2",
}
MEDQA = {
    "question": "Which drug?",
    "answer": "Aspirin",
    "options": {"A": "Sugar", "B": "Aspirin"},
    "meta_info": "step1",
    "answer_idx": "B",
}
MEDMCQA = {
    "id": "m1",
    "question": "Which bone?",
    "opa": "a",
    "opb": "b",
    "opc": "c",
    "opd": "d",
    "cop": 4,
    "exp": "Since d.",
}
PUBMEDQA = {
    "QUESTION": "Does it help?",
    "CONTEXTS": ["It did.", "So it does."],
    "final_decision": "maybe",
    "LONG_ANSWER": "It may.",
}
HEADQA = {
    "version": "1.0",
    "language": "en",
    "exams": {
        "Exam_2013_B": {
            "name": "Exam_2013_B",
            "data": [
                {
                    "qid": "1",
                    "qtext": "Which cell?",
                    "ra": "2",
                    "image": "",
                    "answers": [{"aid": 1, "atext": "red"}, {"aid": 2, "atext": "white"}],
                }
            ],
        }
    },
}
MINTAKA = {
    "id": "x1",
    "question": "Who wrote both?",
    "translations": {},
    "questionEntity": [
        {"name": "Q1", "entityType": "entity", "label": "Both", "mention": "both", "span": [10, 14]},
        {"name": 2, "entityType": "ordinal", "mention": "second", "span": [0, 3]},
        {"name": None, "entityType": "entity", "label": None, "mention": "wrote", "span": [4, 9]},
    ],
    "answer": {"answerType": "entity", "answer": [{"name": "Q7", "label": "Ann"}], "mention": "Ann B."},
    "category": "books",
    "complexityType": "generic",
}
WEBQSP = {
    "Version": "1.0",
    "Questions": [
        {
            "QuestionId": "WebQTest-0",
            "RawQuestion": "what does ann speak?",
            "Parses": [
                {
                    "TopicEntityMid": "m.01",
                    "Answers": [{"AnswerType": "Entity", "AnswerArgument": "m.02", "EntityName": "Welsh"}],
                },
                {
                    "TopicEntityMid": "m.01",
                    "Answers": [{"AnswerType": "Value", "AnswerArgument": "1999", "EntityName": None}],
                },
            ],
        }
    ],
}
HOTPOT = {
    "_id": "h1",
    "question": "Who founded the firm that made it?",
    "answer": "Ann",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Firm", 1], ["Thing", 0]],
    "context": [["Firm", ["The firm is old.", " Ann founded it."]], ["Thing", ["The firm made it."]]],
}
MUSIQUE = {
    "id": "2hop__1_2",
    "question": "Who founded it?",
    "answer": "Ann",
    "answer_aliases": ["Ann B."],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Firm", "paragraph_text": "Ann founded it.", "is_supporting": True},
        {"idx": 1, "title": "Firm", "paragraph_text": "It is old.", "is_supporting": False},
    ],
}
MIRAGE = {
    "mmlu": {"anatomy-000": {"question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "B"}},
    "bioasq": {"b1": {"question": "Is it?", "options": {"A": "yes", "B": "no"}, "answer": "A", "PMID": [1]}},
}


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


SCITAB = {
    "id": "s1", "claim": "A is 1.", "label": "supports", "table_id": "t1", "table_caption": "Numbers",
    "table_column_names": ["name", "value"], "table_content_values": [["A", "1"], ["B", "2"]],
}  # fmt: skip
PUBHEALTHTAB = {
    "_id": "p1", "claim": "A is 1.", "label": "NOT ENOUGH INFO",
    "table": {"caption": None, "header_horizontal": ["x"], "header_vertical": [], "rows": [["1"]]},
}  # fmt: skip
TABMCQ = (
    "QUESTION\tQUESTION-ALIGNMENT\tCHOICE 1\tCHOICE 2\tCORRECT CHOICE\tRELEVANT TABLE\tRELEVANT ROW\tRELEVANT COL\n"
    '"What does a fox eat?"\t"0,1"\tcarrots\tmice\t2\tm-1\t1\t1\n'
)


def lay(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder
