"""The authors' records of prompting with background knowledge, in their format; the questions and replies are ours."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

from evidence_assets import profiles
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks, benchmarks, declarations
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.experiment.question_rows import question_rows
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.registry import get_encoder
from evidence_assets.reproduction.cells import find_cell_sources, load_scores
from evidence_assets.systems.baselines import recorded_answers
from evidence_assets_tests.benchmarks.official import test_open_readers
from evidence_assets_tests.benchmarks.official.contract import write_files
from tools.background_records import app, read_folder, read_record, write_conversion

QUESTIONS = {"Where do bees live?": "hives", "What's a wasp's home?": "nest", "Who eats honey?": "bears", "Why?": "so"}
GRAPH = "(bees, live in, big hives), (honey, sold on, August 9, 2001)"
RECALLED = "- (bees, home, hives)\n- (bees, live in, big hives)\nBees are insects."
SAMPLE = "webqsp.sample1215-listed"
FULL, NONE = "kaping_background+full@gemini-1.0-pro.jsonl", "no_knowledge@gemini-1.0-pro.jsonl"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """An empty lake of the profile that has the benchmarks."""
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    monkeypatch.setenv("EVIDENCE_PROFILE", "paper")
    declarations.cache_clear()
    benchmarks.cache_clear()
    return LakeResource().open()


@pytest.fixture
def raw(lake: Lake) -> Path:
    """Raw folder of the lake with four questions in WebQSP's format and one in Mintaka's."""
    rows = [
        {"QuestionId": f"q{i}", "RawQuestion": text, "Parses": [{"Answers": [{"AnswerArgument": answer}]}]}
        for i, (text, answer) in enumerate(QUESTIONS.items())
    ]
    write_files(
        lake.root / "raw",
        {
            "webqsp/data/WebQSP.test.json": json.dumps({"Questions": rows}),
            "mintaka/data/mintaka_test.json": json.dumps([test_open_readers.TestMintaka.ROW]),
        },
    )
    return lake.root / "raw"


def record(question: str, answer: str, is_correct: bool = False, /, **fields: Any) -> str:
    prompt = f"Facts\n{GRAPH}\n\nQuestion: {question}\nAnswer: "
    return json.dumps({"prompt": prompt, "answer": answer, "actual_answer": "[]", "is_correct": is_correct} | fields)


def with_triples(question: str, answer: str, is_correct: bool = False) -> str:
    return record(question, answer, is_correct, kaping_triples=GRAPH, background_triples=RECALLED)


def dump(folder: Path, files: dict[str, str], run: str = "gemini") -> Path:
    """A folder in the authors' layout."""
    write_files(folder / "kaping" / f"{run}-result-question-dump", files)
    return folder


FILES = {
    "no_knowledge_webqsp/gemini_1.json": record("where do bees live", "In hives.", True),
    "no_knowledge_webqsp/gemini_2.json": record("what 's a wasp 's home", "N/A"),
    "no_knowledge_webqsp/gemini_10.json": record("", "In a tree.", question="where do bees live"),
    "no_knowledge_webqsp/gemini_3.json": record("who eats honey", "Error"),
    "kaping_background_webqsp/gemini_1.json": with_triples("where do bees live", "", True),
    "kaping_background_webqsp/gemini_2.json": with_triples("what 's a wasp 's home", "A nest", False),
}


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_records_become_recorded_answers_and_their_questions_a_subset(raw: Path, lake: Lake, tmp_path: Path) -> None:
    assert SAMPLE not in all_benchmarks(), "without its list there is no such subset"
    write_files(tmp_path / "repository", {"data/other.json": "not JSON", "kaping/config.json": "{}"})
    result = CliRunner().invoke(app, [str(dump(tmp_path / "repository", FILES)), "--json"])
    assert result.exit_code == 0, result.output
    recorded = raw / "recorded" / "webqsp"
    assert {file.name for file in recorded.iterdir()} == {FULL, NONE, "sample1215.txt"}
    assert lines_of(recorded / NONE) == [
        {"id": "q0", "answer": "In hives."},
        {"id": "q1", "answer": None},
        {"id": "q2"},
    ]
    near, sold, recalled = (
        ["bees", "live in", "big hives"],
        ["honey", "sold on", "August 9, 2001"],
        ["bees", "home", "hives"],
    )
    facts = {"triples": [near, sold, recalled], "recalled": [recalled]}
    assert lines_of(recorded / FULL) == [{"id": "q0", "answer": None} | facts, {"id": "q1", "answer": "A nest"} | facts]
    sample = all_benchmarks()[SAMPLE]
    assert [q.source_id for q in read_benchmark_questions(lake, sample)] == ["q0", "q1", "q2"]
    assert sample.official_size == 1215
    notes = json.loads(result.output)["records"]
    assert notes[1].endswith(
        "4 records, 1 of a question sampled before, 1 of these with another reply, 1 failed requests"
    )
    assert notes[0].endswith("2 records, 2 parts of triples that are none")


def test_scores_are_in_both_readings_beside_the_authors_count(raw: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(dump(tmp_path / "repository", FILES)), "--json"])
    rows = {(r["system"], r["metric"]): r for r in json.loads(result.output)["scores"]}
    assert {row["benchmark"] for row in rows.values()} == {SAMPLE}
    none = {metric: rows["no_knowledge", metric] for metric in ("is_correct", "accuracy")}
    assert [(row["value"], row["n"], row["printed"]) for row in none.values()] == [(0.25, 4, 0.541), (0.3333, 3, 0.541)]
    full = {metric: row for (system, metric), row in rows.items() if system == "kaping_background+full"}
    # q0: "big hives" includes the answer and is not it; bees, honey and a date match nothing. q1: nothing matches.
    hits = {metric: row["value"] for metric, row in full.items() if metric.startswith("hit")}
    assert hits == {"hit@1": 0, "hit@1_included": 0.3333} and full["hit@1_included"]["printed"] == 0.252
    assert full["answer_f1"]["value"] == pytest.approx((2 * 1 / 3 / (1 + 1 / 3)) / 3, abs=1e-4)
    assert full["answer_f1_included"]["value"] == pytest.approx((2 * 1 / (2 * 1 + 3)) / 3, abs=1e-4)
    assert full["answer_f1_included"]["printed"] == 0.173


def test_recorded_scores_stand_beside_the_printed_cells(
    raw: Path, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of one model fill the same cell; the listed sample replaces the drawn one as a source."""
    embedded = profiles.load("embedded").token_encoder
    monkeypatch.setattr(recorded_answers, "get_encoder", lambda settings: get_encoder(embedded))
    assert "webqsp.sample1215-seed0" in {source.benchmark for source in find_cell_sources()}
    folder = dump(tmp_path / "repository", FILES)
    name = "background_webqsp/gemini2_1.json"
    answered = record("where do bees live", "hives", True, background_triples=RECALLED)
    again = {name: answered, "no_knowledge_webqsp/gemini2_1.json": record("where do bees live", "trees")}
    assert CliRunner().invoke(app, [str(dump(folder, again, "gemini2"))]).exit_code == 0
    names = {source.benchmark for source in find_cell_sources()}
    assert SAMPLE in names and "webqsp.sample1215-seed0" not in names
    benchmarks.cache_clear()
    questions = list(read_benchmark_questions(lake, all_benchmarks()[SAMPLE]))
    shards = profiles.load().shards.questions
    for shard in range(shards):
        rows = question_rows(questions, "test", shard, shards)
        lake.write("questions/graph", f"{SAMPLE}|{shard}", {"questions": rows})
    (stage,) = recorded_answers.recorded_stages(Variant(system="baselines", family="graph", name="recorded"))
    scored = stage.run(StageContext(lake, "scores", stage.key, SAMPLE)).rows
    assert isinstance(scored, list) and len({row["score_id"] for row in scored}) == len(scored)
    lake.write(stage.key, SAMPLE, {"scores": scored})
    with connect(lake.root) as connection:
        scores = load_scores(connection)
    key = ("webqsp.sample1215", "no_knowledge", "", "gemini-1.0-pro", "accuracy", "")
    note = "from recorded answers, not run here"
    by_note = {score.difference_note: score.value for score in scores[key]}
    assert by_note == {note: pytest.approx(1 / 3), f"{note}; run gemini2": 0}
    key = ("webqsp.sample1215", "kaping_background", "full", "gemini-1.0-pro", "hit@1", "")
    assert [(score.value, score.n) for score in scores[key]] == [(0, 3)]


BAD = {
    "kaping_webqsp/gemini_1.json": (record("where do bees live", "hives"), "kaping_triples: missing"),
    "no_knowledge_webqsp/gemini_4.json": ('{"answer": "x"', r"gemini_4.json:1: not valid JSON"),
    "no_knowledge_webqsp/gemini_5.json": (record("why", "so", False, is_correct=1), "is_correct: is neither true nor"),
    "no_knowledge_webqsp/gemini_6.json": (record("what is this", "x"), "question: no question of the benchmark has"),
    "no_knowledge_webqsp/gemini_7.json": (json.dumps({"is_correct": True, "prompt": "Why"}), "prompt: does not end in"),
    "no_knowledge_webqsp/gemini_8.json": (json.dumps({"is_correct": True, "question": "why"}), "answer: missing"),
    "no_knowledge_webqsp/claude_1.json": (record("why", "so"), "is not named <run>_<number>.json"),
    "secret_webqsp/gemini_1.json": (record("why", "so"), "is in no folder <case>_<dataset>"),
    "no_knowledge_metaqa/gemini_1.json": (record("why", "so"), "there is no listed sample of 'metaqa'"),
    "no_knowledge_webqsp/gemini_9.json": (json.dumps([1]), "gemini_9.json: is_correct: missing"),
}


def test_bad_files_are_named_and_the_others_read(raw: Path, tmp_path: Path) -> None:
    folder = dump(tmp_path / "repository", FILES | {name: text for name, (text, _) in BAD.items()})
    result = CliRunner().invoke(app, [str(folder)], env={"COLUMNS": "200"})
    assert result.exit_code == 1 and len(lines_of(raw / "recorded" / "webqsp" / NONE)) == 3
    for name, (_, message) in BAD.items():
        location = name.rpartition("/")[0] if "metaqa" in name else name
        (line,) = (line for line in result.output.splitlines() if f"{location}:" in line or message in line)
        assert message in line and location in line, result.output


def test_a_record_in_two_folders_is_one_or_an_error(raw: Path, lake: Lake, tmp_path: Path) -> None:
    """The authors' folder of ChatGPT has records of GemSUra."""
    name = "no_knowledge_webqsp/gemsura_1.json"
    folder = dump(tmp_path, {name: record("why", "so")}, "gemsura")
    conversion = read_folder(dump(folder, {name: record("why", "so")}, "chatgpt"), lake)
    (recording,) = conversion.recordings.values()
    assert recording.name == "no_knowledge@gemsura-7b.jsonl" and not conversion.errors
    (error,) = read_folder(dump(folder, {name: record("why", "thus")}, "gemsura"), lake).errors
    assert "differs from" in str(error) and "gemsura-result-question-dump" in str(error.file)


def test_names_in_a_record_lead_to_no_path(raw: Path, tmp_path: Path) -> None:
    hostile = json.loads(record("why", "so")) | {"id": "../../x", "run": "../../x", "dataset": "../../x"}
    folder = dump(tmp_path / "repository", {"no_knowledge_webqsp/vimrc_1.json": json.dumps(hostile)}, "vimrc")
    before = {path for path in tmp_path.rglob("*") if raw not in path.parents}
    assert CliRunner().invoke(app, [str(folder)]).exit_code == 0
    assert {path for path in tmp_path.rglob("*") if raw not in path.parents} == before
    assert (raw / "recorded/webqsp/no_knowledge@xlm-roberta.jsonl").exists()


def test_other_names_of_fields_are_read(tmp_path: Path) -> None:
    row = {"answer": "a", "is_correct": True, "question": "why", "external_triples": GRAPH}
    write_files(tmp_path, {"gemini_1.json": json.dumps(row)})
    assert len(read_record(tmp_path / "gemini_1.json", "kaping").graph_triples) == 2


class LengthEncoder:
    """Encodes a text by its length: the longest triple is the nearest to every question."""

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        return np.array([[len(text)] for text in texts], dtype=np.float32)


def test_triples_of_both_origins_are_ranked_by_an_encoder_and_ten_kept(raw: Path, lake: Lake, tmp_path: Path) -> None:
    recalled = "\n".join(f"(bees, like, {'x' * n})" for n in range(1, 12))
    text = record("where do bees live", "hives", kaping_triples="(a, b, c)", background_triples=recalled)
    folder = dump(tmp_path / "repository", {"kaping_background_webqsp/gemini_1.json": text})
    write_conversion(read_folder(folder, lake), lake, cast(Encoder, LengthEncoder()))
    (row,) = lines_of(raw / "recorded" / "webqsp" / FULL)
    assert row["triples"] == row["recalled"] == [["bees", "like", "x" * n] for n in range(11, 1, -1)]
    assert "no encoder 'bert'" in CliRunner().invoke(app, [str(folder), "--encoder", "bert"]).output


def test_a_folder_without_records_is_an_error(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="name the authors' repository"):
        read_folder(tmp_path, lake)


def test_a_listed_question_that_the_benchmark_lacks_is_an_error(raw: Path, lake: Lake) -> None:
    write_files(raw, {"recorded/webqsp/sample1215.txt": "q1\nq9\n"})
    with pytest.raises(BadInput, match=r"sample1215.txt:2: q9 is not a question of the benchmark"):
        list(read_benchmark_questions(lake, all_benchmarks()[SAMPLE]))
