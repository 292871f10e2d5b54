"""Dumps as three columns: in names and ids, around some entities, in memory that does not grow with the dump."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.experiment.answers.short_answers import build_short_task
from evidence_assets.experiment.evidence_rows import evidence_by_question
from evidence_assets.experiment.scores.retrieval_scores import triple_metrics
from evidence_assets.graphs.passages import fact_passages
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import PromptedShortAnswers
from evidence_assets.systems.a2q.selection import A2Q, NearestTriples, TripleSettings
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings
from evidence_assets_tests import lake_rows
from evidence_assets_tests.benchmarks.graphs.test_readers import TestDrugbank
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.graphs.small_graph import graph_of_rows, merge_source, read_triples, with_vectors
from evidence_assets_tests.reasoning.small_questions import NoAnswers
from evidence_assets_tests.systems.small_models import ScriptedGenerator, SharedWordReranker, WordEncoder
from tools.bertnet_outputs import main, read_recorded_harvests
from tools.convert.__main__ import app
from tools.convert.dumps import DUMPS
from tools.convert.triples import convert


def entity(key: str, label: str, **claims: object) -> str:
    """A line of Wikidata's dump."""
    statements = {
        relation: [{"mainsnak": {"snaktype": "value", "datavalue": value}, "rank": "normal"}]
        for relation, value in claims.items()
    }
    return json.dumps({"id": key, "labels": {"en": {"language": "en", "value": label}}, "claims": statements or []})


def item(key: str) -> dict[str, object]:
    return {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": key}}


WORLD = [
    entity("Q90", "Paris", P17=item("Q142")),
    entity("Q830149", "Paris", P17=item("Q30")),
    entity("Q142", "France"),
    entity("P17", "country"),
    entity("Q142b", "French\tland", P9=item("Q142")),
    entity("Q90b", "no end", P17=item("Q999")),
]
NS, DOT = "<http://rdf.freebase.com/ns/", "\t.\n"


def dump(folder: Path, lines: list[str] = WORLD) -> Path:
    path = folder / "latest-all.json.gz"
    path.write_bytes(gzip.compress(("[\n" + ",\n".join(lines) + "\n]\n").encode()))
    return path


def triples(folder: Path, format: str, text: str) -> list[tuple[str, ...]]:
    """The statements and names of a dump, without their lines."""
    (folder / "dump").write_text(text)
    return [item[:3] for item in DUMPS[format](folder / "dump")]


@pytest.mark.parametrize(
    ("format", "text", "line", "field", "words"),
    [
        ("wikidata", '[\n{"id": "Q1",\n]', 2, None, "not valid JSON"),
        ("freebase", f"{NS}m.01>\t{NS}a.b>\t{NS}m.02>\n", 1, None, "expected subject, predicate, object"),
        ("freebase", f'{NS}m.01>\t{NS}type.object.name>\t"a\\q"@en{DOT}', 1, "object", "is no quoted text"),
    ],
)
def test_faults_are_named_by_line_and_field(
    tmp_path: Path, format: str, text: str, line: int, field: str | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        triples(tmp_path, format, text)
    assert (caught.value.line, caught.value.field) == (line, field)


def test_names_are_mapped_to_ids_and_disambiguated(tmp_path: Path) -> None:
    names, ids = tmp_path / "out" / "triples.tsv", tmp_path / "out" / "ids.tsv"
    assert convert("wikidata", [dump(tmp_path)], names, ids) == 4
    assert names.read_text().splitlines() == [
        "French land\tP9\tFrance",
        "Paris (Q830149)\tcountry\tQ30",
        "Paris (Q90)\tcountry\tFrance",
        "no end\tcountry\tQ999",
    ]
    assert ids.read_text().splitlines() == ["Q142b\tP9\tQ142", "Q830149\tP17\tQ30", "Q90\tP17\tQ142", "Q90b\tP17\tQ999"]
    called = (names.parent / "names.tsv").read_text().splitlines()
    assert called == [
        "Q142\tFrance",
        "Q142b\tFrench land",
        "Q830149\tParis (Q830149)",
        "Q90\tParis (Q90)",
        "Q90b\tno end",
    ]
    left = sorted(path.name for path in names.parent.iterdir())
    assert left == ["ids.tsv", "names.tsv", "triples.tsv"], "nothing else is left"


def test_only_labels_of_kept_nodes_are_disambiguated_and_relations_never(tmp_path: Path) -> None:
    """The label of a property is often that of an item, too; that of a node is often shared by one far away."""
    world = [*WORLD, entity("Q6256", "country", P31=item("Q90")), entity("P31", "instance of")]
    names = tmp_path / "triples.tsv"
    convert("wikidata", [dump(tmp_path, world)], names, around=["Q90"])
    assert names.read_text().splitlines() == ["Paris\tcountry\tFrance", "country\tinstance of\tParis"]


def test_aliases_follow_the_name_and_are_shared(tmp_path: Path) -> None:
    """Both items called Washington are linked; an alias never merges nodes."""
    aliases = {"aliases": {"en": [{"value": "Washington"}, {"value": "DC"}], "de": [{"value": "Hauptstadt"}]}}
    lines = [json.loads(entity("Q61", "Washington, D.C.", P17=item("Q30"))) | aliases]
    lines += [json.loads(entity("Q1223", "Washington", P17=item("Q30"))), json.loads(entity("Q30", "United States"))]
    convert("wikidata", [dump(tmp_path, list(map(json.dumps, lines)))], tmp_path / "triples.tsv", tmp_path / "ids.tsv")
    assert (tmp_path / "names.tsv").read_text().splitlines() == [
        "Q1223\tWashington",
        "Q30\tUnited States",
        "Q61\tWashington, D.C.",
        "Q61\tDC",
        "Q61\tWashington",
    ]
    source = GraphSource(format="tab_separated", paths=("triples.tsv",), names="names.tsv", licence="CC0-1.0")
    graph = graph_of_rows("wikidata", *merge_source(source, tmp_path))
    assert sorted(graph.names) == ["United States", "Washington", "Washington, D.C."]
    [span] = graph.linker.find_spans("In which country is Washington?")
    assert len(span.link.nodes) == 2


def test_dates_numbers_and_short_texts_of_freebase_are_ends(tmp_path: Path) -> None:
    date = '"1961-08-04"^^<http://www.w3.org/2001/XMLSchema#date>'
    lines = [("m.02mjmr", "people.person.date_of_birth", date), ("m.02mjmr", "people.person.height_meters", '"1.85"')]
    lines += [("m.02mjmr", "a.motto", '"Yes we can"@en'), ("m.02mjmr", "a.motto", '"Ja wir schaffen das"@de')]
    lines += [("m.02mjmr", "common.topic.alias", '"Obama"@en'), ("m.02mjmr", "type.object.name", '"Barack Obama"@en')]
    lines += [("m.02mjmr", "common.topic.description", '"A president."@en'), ("m.02mjmr", "a.b", f'"{"x" * 201}"@en')]
    text = "".join(f"{NS}{subject}>\t{NS}{relation}>\t{value}{DOT}" for subject, relation, value in lines)
    assert triples(tmp_path, "freebase", text) == [
        ("m.02mjmr", "people.person.date_of_birth", "1961-08-04"),
        ("m.02mjmr", "people.person.height_meters", "1.85"),
        ("m.02mjmr", "a.motto", "Yes we can"),
        ("m.02mjmr", "Obama", True),
        ("m.02mjmr", "Barack Obama", False),
    ]


SWISS = [
    entity("Q39", "Switzerland", P38=item("Q25344")),
    entity("Q1000039", "Switzerland", P17=item("Q30")),
    entity("Q25344", "Swiss franc", P31=item("Q25345")),
    entity("Q25345", "Swiss franc"),
    entity("Q30", "United States"),
    entity("P38", "currency"),
    entity("P17", "country"),
    entity("P31", "instance of"),
]


def test_nodes_that_share_a_label_are_linked_shown_and_scored_by_it(tmp_path: Path) -> None:
    """From a dump to a prompt: two Switzerlands and two Swiss francs, each a node."""
    convert("wikidata", [dump(tmp_path, SWISS)], tmp_path / "triples.tsv", tmp_path / "triples_in_ids.tsv")
    source = GraphSource(format="tab_separated", paths=("triples.tsv",), names="names.tsv", licence="CC0-1.0")
    assert set(read_triples([source], tmp_path)["head"]) == {"Switzerland (Q39)", "Switzerland (Q1000039)"} | {
        "Swiss franc (Q25344)"
    }
    graph = with_vectors(graph_of_rows("wikidata", *merge_source(source, tmp_path)))
    assert len(graph) == 5, "the id tells nodes apart"
    question = Question("q1", "mintaka", "kgqa", "What is the money of Switzerland, its currency?")
    [span] = graph.linker.find_spans(question.text)
    assert len(span.link.nodes) == 2, "all entities of the label"
    selectors = {
        "background": BackgroundKnowledge(graph, WordEncoder(), BackgroundSettings(top_k=2)),
        "a2q": NearestTriples(graph, WordEncoder(), TripleSettings(top_n=2, linked=True)),
        "attention": A2Q(graph, WordEncoder(), SharedWordReranker()),
    }
    gold = lake_rows.question(1, task="kgqa", options=[], gold="Swiss franc", text=question.text)
    for name, selector in selectors.items():
        [evidence] = selector.select([question])
        assert evidence[0].text == "Switzerland currency Swiss franc", name
        rows = [
            lake_rows.evidence(1, rank, each.text, kind=each.kind, source_kind="edge", why=each.why)
            for rank, each in enumerate(evidence, 1)
        ]
        frame = lake_rows.as_stored("evidence", rows)
        assert triple_metrics([gold], frame)["hit@1"].value == 1.0, name
        model = ScriptedGenerator("Swiss franc")
        PromptedShortAnswers(LanguageModel(model), NoAnswers()).answer(
            [build_short_task(question, evidence_by_question(frame)["q1"])]
        )
        [request] = model.requests
        assert "Switzerland" in request.user and "(Q" not in request.user + request.system, name
    passages = [passage.text for passage in fact_passages(graph)]
    assert "Switzerland" in passages and not any("(Q" in text for text in passages)


def test_the_drugbank_command_writes_triples_with_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    texts = [tmp_path / name for name in ("interactions.tsv", "vocabulary.csv")]
    for path, text in zip(texts, TestDrugbank.files, strict=True):
        path.write_text(text)
    result = CliRunner().invoke(app, ["drugbank", *map(str, texts)])
    assert result.exit_code == 0 and "2 triples" in result.output, result.output
    place = tmp_path / "data_lake/raw/graphs/drugbank"
    lines = (place / "triples.tsv").read_text().splitlines()
    assert lines == ["Aspirin\tinteracts_with\tWarfarin", "Warfarin\tinteracts_with\tAspirin"]
    assert not (place / "triples_in_ids.tsv").exists()
    near = ["wikidata", str(dump(tmp_path)), "--around", "mintakka"]
    assert "did you mean 'mintaka'" in CliRunner().invoke(app, near).output


# Recorded outputs of BertNet, as its authors lay them out


def test_the_published_folders_are_all_found_with_novelty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders as in the authors' repository; the tuples are constructed."""
    tuples, other = (json.dumps([[pair, -1.0]]) for pair in (["pen", "paper"], ["ink", "paper"]))
    settings = ("initprompts", "top1prompts", "top20prompts")
    models = ("bert-large-cased", "roberta-large", "distilbert-base-cased")
    files = {
        f"results/{folder}/1000tuples_{setting}/{model}/{relation}/ent_tuples.json": tuples
        for folder, relation in (("conceptnet", "UsedFor"), ("lama", "P37_official_language"), ("human", "antonym"))
        for setting in settings
        for model in models
    }
    files["results/lama/1000tuples_top20prompts/roberta-large/P413_position_played_on_team__speciality/x.json"] = "[]"
    files["results/conceptnet/1000tuples_initprompts/bert-large-cased/summary.txt"] = "not a list"
    files["results/conceptnet/1000tuples_top20prompts/bert-large-cased/IsA/ent_tuples.json"] = other
    files["raw/references/conceptnet/train100k.txt"] = "UsedFor\tpen\tpaper\t1\nIsA\tink\tliquid\t0\n"
    write_files(tmp_path, files)
    harvests = read_recorded_harvests(tmp_path / "results")
    in_print = {(h.collection, h.variant, h.model) for h in harvests if h.printed("tuples")}
    variants = ("initial_prompt", "top1_prompt", "multi_prompts")
    assert in_print == {(c, v, m) for c in ("conceptnet", "lama") for v in variants for m in models[:2]}
    main(tmp_path / "results", tmp_path / "raw")
    lines = capsys.readouterr().out.splitlines()
    best = "conceptnet 1000tuples_top20prompts bert-large-cased, 2 relations: "
    assert f"{best}novelty against conceptnet_train100k 33.33, printed 60.83" in lines, "ink is new, and false before"
    assert f"{best}tuples 2, printed 14,052" in lines
    assert lines[-1] == "18 sets, 12 of them in print; novelty against conceptnet_train100k"
