"""Triples of graph and model: origins, the four published cases, hops, and unusable replies."""

import json
from collections.abc import Callable

import polars as pl
import pytest

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.graphs.rows import triple_id
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.evidence.sources import ExternallyLinkedSelector
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.stage import PreviousOutput, StageContext, StageInput
from evidence_assets.experiment.stages import build_all_stages
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.errors import BadInput, UnusableReply
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.background.recall import (
    PromptedBackground,
    StoredBackground,
    build_recall_rows,
    build_triple_rows,
    parse_list,
    parse_triples,
    read_background,
)
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.graphs.small_graph import graph_of
from evidence_assets_tests.lake_rows import as_stored, question
from evidence_assets_tests.systems.small_models import ScriptedGenerator, WordEncoder

NAMES = ["Switzerland", "Swiss franc", "Bern", "Alps", "Europe"]
RELATIONS = ["currency", "capital", "located in"]
EDGES = [(0, 0, 1), (0, 1, 2), (3, 2, 4), (0, 2, 4)]
GRAPH = graph_of(NAMES, RELATIONS, EDGES)
QUESTION = Question("q1", "own", "kgqa", "What is the money of Switzerland called?")
BAD = Question("q2", "own", "kgqa", "A bad question about Switzerland?")


def reply(request: Request) -> str:
    if request.user.endswith("Entities:"):
        return "- Switzerland\n- money"
    if request.user.endswith("Relations:"):
        return "currency"
    assert '"Switzerland", "money"' in request.user
    return "(Switzerland, money called, franc)\n(Switzerland, currency, Swiss franc)"


def recall_with_script(*questions: Question, script: Callable[[Request], str] = reply) -> pl.DataFrame:
    """Rows of ``chains`` recalled by a scripted model."""
    source = PromptedBackground(LanguageModel(ScriptedGenerator(script)))
    return as_stored("chains", build_recall_rows(source, "background", questions or (QUESTION,)).rows)


def make_selector(
    settings: BackgroundSettings | None = None, background: StoredBackground | None = None
) -> BackgroundKnowledge:
    settings = settings or BackgroundSettings(recall="recalled")
    return BackgroundKnowledge(GRAPH, WordEncoder(), settings, background or read_background(recall_with_script()))


def origins_and_texts(evidence: list[SelectedEvidence]) -> list[tuple[str, str]]:
    return [(json.loads(item.why or "")["origin"], item.text) for item in evidence]


def test_both_origins_are_ranked_together_and_marked() -> None:
    evidence = make_selector().select([QUESTION])[0]
    assert set(origins_and_texts(evidence)) == {
        ("graph", "Switzerland currency Swiss franc"),
        ("graph", "Switzerland capital Bern"),
        ("graph", "Switzerland located in Europe"),
        ("model", "Switzerland money called franc"),
    }
    assert origins_and_texts(evidence)[0] == ("model", "Switzerland money called franc"), (
        "nearest to the question first"
    )
    assert evidence[0].parents[0].kind == "triple"
    assert all(item.parents[0].kind == "edge" for item in evidence[1:])
    scores = [item.score for item in evidence]
    assert scores == sorted(scores, reverse=True)


def test_a_recalled_triple_has_its_model_and_prompt_but_never_the_id_of_a_source() -> None:
    rows = recall_with_script()
    output = build_triple_rows(rows)
    assert prepare_rows("triples", output.rows).num_rows == 2
    assert {row["origin"] for row in output.rows} == {"background"}
    assert {row["model_id"] for row in output.rows} == {"scripted@1"}
    assert all(rows["prompt_hash"][0] in row["source"] for row in output.rows)
    assert not {row["triple_id"] for row in output.rows} & {
        triple_id(row["head"], row["relation"], row["tail"]) for row in output.rows
    }
    recalled_item = make_selector().select([QUESTION])[0][0]
    assert recalled_item.parents[0].id in {row["triple_id"] for row in output.rows}
    assert {(e["parent_kind"], e["parent_id"], e["parent_version"]) for e in output.lineage} == {
        ("chain", rows["chain_id"][0], rows["content_hash"][0])
    }


@pytest.mark.parametrize(
    ("graph", "model", "kinds"),
    [(True, True, {"graph", "model"}), (True, False, {"graph"}), (False, True, {"model"}), (False, False, set())],
)
def test_the_four_published_cases(graph: bool, model: bool, kinds: set[str]) -> None:
    evidence = make_selector(BackgroundSettings(graph=graph, recall="recalled" if model else "")).select([QUESTION])[0]
    assert {origin for origin, _ in origins_and_texts(evidence)} == kinds


def reply_with_prose(request: Request) -> str:
    """Reply with a sentence instead of triples to the bad question."""
    if "Make triples" in request.user and "bad" in request.user:
        return "I think that the question is about several interesting things in the world, so here they are."
    return reply(request)


def test_recalled_rows_are_reused_and_failed_ones_requested_again() -> None:
    generator = ScriptedGenerator(reply_with_prose)
    source = PromptedBackground(LanguageModel(generator))
    first = build_recall_rows(source, "background", [QUESTION, BAD])
    previous = PreviousOutput(as_stored("chains", first.rows), as_stored("lineage_edges", first.lineage))
    n_requests = len(generator.requests)
    second = build_recall_rows(source, "background", [QUESTION, BAD], previous)
    assert second.reused == 1 and all("bad" in request.user for request in generator.requests[n_requests:])
    statuses = {row["question_id"]: row["status"] for row in prepare_rows("chains", second.rows).to_pylist()}
    assert statuses == {"q1": "answered", "q2": "failed"}
    assert not second.rows.to_pylist()[0]["omissions"]  # type: ignore[union-attr]


def test_a_failed_recall_keeps_the_triples_of_the_graph() -> None:
    recalled = read_background(recall_with_script(QUESTION, BAD, script=reply_with_prose))
    assert recalled.errors.keys() == {"q2"}
    assert [(each.kind, each.part) for each in recalled.omissions["q2"]] == [("missing", "background knowledge")]
    evidence = make_selector(background=recalled).select([QUESTION, BAD])
    assert {origin for origin, _ in origins_and_texts(evidence[0])} == {"graph", "model"}
    assert {origin for origin, _ in origins_and_texts(evidence[1])} == {"graph"}


def test_rejected_lines_and_missing_names_are_counted_on_the_recall() -> None:
    def script(request: Request) -> str:
        if "Name all entities" in request.user:
            return "I would say that this is about Switzerland and about money."
        if request.user.endswith("Relations:"):
            return "currency"
        assert "Entities: []" in request.user
        return "(Switzerland, currency, Swiss franc)\nI hope that this helps you, my friend."

    rows = recall_with_script(script=script)
    assert rows["status"].to_list() == ["answered"]
    omissions = read_background(rows).omissions["q1"]
    assert [(each.kind, each.part) for each in omissions] == [
        ("missing", "background knowledge: entities"),
        ("rejected", "background knowledge: triples"),
    ]
    assert "line 2" in omissions[1].reason


def test_triples_are_encoded_as_printed() -> None:
    encoder = WordEncoder()
    (evidence,) = BackgroundKnowledge(GRAPH, encoder, BackgroundSettings()).select([QUESTION])
    assert "(Switzerland, located in, Europe)" in encoder.encoded_texts
    assert "Switzerland located in Europe" in {item.text for item in evidence}


def test_top_k_and_hops() -> None:
    assert len(make_selector(BackgroundSettings(recall="recalled", top_k=2)).select([QUESTION])[0]) == 2
    question = Question("q", "own", "kgqa", "Where is Bern?")
    near = make_selector().select([question])[0]
    assert {text for _, text in origins_and_texts(near)} == {"Switzerland capital Bern"}
    far = make_selector(BackgroundSettings(recall="recalled", D=3)).select([question])[0]
    assert len(far) == 4
    capped = make_selector(BackgroundSettings(recall="recalled", D=3, max_triples=1)).select([question])[0]
    assert {text for _, text in origins_and_texts(capped)} == {"Switzerland capital Bern"}
    three = make_selector(BackgroundSettings(D=2, max_triples=3)).select([question])[0]
    assert len(three) == 3, "an edge that two hops reach counts once"


def test_a_hub_is_capped_after_its_relations_are_ranked() -> None:
    """The triple that answers has the highest number of the hub's."""
    names = ["Switzerland", *(f"lake {i}" for i in range(40)), "Swiss franc"]
    edges = [(0, 0, node) for node in range(1, 41)] + [(0, 1, 41)]
    graph = graph_of(names, ["located in", "currency"], edges)
    question = Question("q", "own", "kgqa", "What is the currency of Switzerland?")
    encoder = WordEncoder()
    selector = BackgroundKnowledge(graph, encoder, BackgroundSettings(top_k=1, max_triples=5))
    [[best]] = selector.select([question])
    assert best.text == "Switzerland currency Swiss franc"
    encoded_triples = [text for text in encoder.encoded_texts if text.startswith("(")]
    assert encoded_triples == ["(Switzerland, currency, Swiss franc)"] + [
        f"(Switzerland, located in, lake {i})" for i in range(4)
    ]


def test_topic_entities_come_from_an_external_linker(lake: Lake) -> None:
    rows = [question(i, "sample_kgqa", source_id=f"s{i}", task="kgqa", options=[]) for i in (1, 2)]
    lake.write("questions/graph", "sample_kgqa|0", {"questions": rows})
    write_files(lake.root / "raw", {"links/sample_kgqa/refined.jsonl": '{"id": "s1", "entities": ["Alps", "Mars"]}\n'})
    context = StageContext(
        lake, "evidence", "evidence/graph/x", "sample_kgqa|0", inputs=[StageInput("questions/graph")]
    )
    selector = ExternallyLinkedSelector(make_selector(BackgroundSettings(links="refined")), context, "refined")
    linked, without_entities = selector.select([QUESTION, BAD])
    assert [item.text for item in linked] == ["Alps located in Europe"] and without_entities == []
    with pytest.raises(BadInput, match=r"refnied\.jsonl"):
        ExternallyLinkedSelector(make_selector(), context, "refnied")


# Replies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        (
            "- Switzerland\n2. Swiss franc\n\n* Switzerland\nMartin Luther King Jr.",
            "Switzerland/Swiss franc/Martin Luther King Jr.",
        ),
        ("None.", ""),
        (
            "Here are the entities:\n\n1. **Switzerland**\n2. **Swiss franc** - the currency of that country",
            "Switzerland/Swiss franc",
        ),
        ("## Entities\n> Bern", "Bern"),
        ("Switzerland, Swiss franc, Bern.", "Switzerland/Swiss franc/Bern"),
        ("Washington, D.C.", "Washington, D.C."),
    ],
)
def test_lists_of_names_are_parsed(reply: str, names: str) -> None:
    assert parse_list(reply).items == tuple(filter(None, names.split("/")))


@pytest.mark.parametrize(
    ("reply", "triples"),
    [
        (
            "1. Switzerland | currency | Swiss franc\n\nBern|capital of|Switzerland\nBern | capital of | Switzerland",
            "Switzerland/currency/Swiss franc; Bern/capital of/Switzerland",
        ),
        ("none", ""),
        ("(Washington, D.C., capital of, United States)", "Washington, D.C./capital of/United States"),
        ("(Bern, population, 133,883)", "Bern/population/133,883"),
        ("### Triples\nHere are the triples:\n- `(Bern, capital of, Switzerland)`,", "Bern/capital of/Switzerland"),
        ("(Bern, in, Alps), (Alps, in, Europe)", "Bern/in/Alps; Alps/in/Europe"),
        ("Triple 1: (Bern (city), capital of, Switzerland).", "Bern (city)/capital of/Switzerland"),
        ('["Washington, D.C.", "capital of", "United States"],', "Washington, D.C./capital of/United States"),
        ("（伯尔尼，首都，瑞士）", "伯尔尼/首都/瑞士"),
        ("**Bern** | capital of | **Switzerland**", "Bern/capital of/Switzerland"),
        ("Bern -> capital of -> Switzerland", "Bern/capital of/Switzerland"),
        ("| Subject | Relation | Object |\n|---|---|---|\n| Bern | in | Alps |", "Bern/in/Alps"),
    ],
)
def test_triples_are_parsed(reply: str, triples: str) -> None:
    parsed = parse_triples(reply)
    assert ["/".join(triple) for triple in parsed.items] == list(filter(None, triples.split("; ")))
    assert parsed.rejected == ()


def test_bad_lines_are_rejected_one_by_one() -> None:
    parsed = parse_triples("Sure, here you go, friend\n(Bern, capital of, Switzerland)\n(Bern, river)\n(Bern, on, Aare")
    assert parsed.items == (("Bern", "capital of", "Switzerland"),)
    assert [reason.partition(" is")[0] for reason in parsed.rejected] == ["line 1", "line 3", "line 4"]
    assert parse_triples("Bern, capital of, Switzerland", ["bern"]).items == (("Bern", "capital of", "Switzerland"),)
    half = parse_triples("(Bern, in, Alps), (Alps, in) (as of today)")
    assert half.items == (("Bern", "in", "Alps"),) and len(half.rejected) == 1
    long = "word " * 60
    parsed_names = parse_list(f"Bern\nThis line is a sentence and not a name.\n{long}")
    assert parsed_names.items == ("Bern",) and len(parsed_names.rejected) == 2
    assert parse_triples(f"(Bern, is, {long})\n(a, b, c)").items == (("a", "b", "c"),)


@pytest.mark.parametrize("reply", ["", "```\n```", "Sure, here you go, friend", "(Bern, capital of)"])
def test_a_reply_without_any_triple_is_unusable(reply: str) -> None:
    with pytest.raises(UnusableReply):
        parse_triples(reply)
    with pytest.raises(UnusableReply, match="no name but a sentence"):
        parse_list("I think that the question is about money in general.")


# Variants -------------------------------------------------------------------------------------------------------------


def recall_inputs(variant: Variant, **settings: str) -> list[str]:
    parameters = {"recall": "background", **settings}
    method = systems.open_method(variant.model_copy(update={"parameters": parameters}))
    assert isinstance(method, SelectionMethod)
    return [each.key for each in method.extra_inputs]


def test_one_models_recall_serves_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "companions")
    variant = next(each for each in variants_of("background") if each.name == "kg_both_shared")
    using_gpt = variant.model_copy(update={"active_models": {"generator": "gpt_3_5_turbo"}})
    own_keys, shared_keys = recall_inputs(using_gpt), recall_inputs(using_gpt, recalled_by="gemini_1_0_pro")
    assert own_keys[0] == "chains/graph/background/gpt_3_5_turbo"
    assert shared_keys == ["chains/graph/background/gemini_1_0_pro", "triples/graph/background/gemini_1_0_pro"]
    assert variant.parameters["recalled_by"] == "gemini_1_0_pro"
    assert systems.open_method(variant).model_kinds == ("encoder",), "one evidence for all models"
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "paper")
    assert recall_inputs(variant, recalled_by="gemini_1_0_pro")[0] == "chains/graph/background", "the profile's first"
    with pytest.raises(BadInput, match="has no generator 'gemini_1_0_por'"):
        recall_inputs(variant, recalled_by="gemini_1_0_por")


def test_a_reader_answers_instead_of_the_language_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, "paper")
    variant = next(each for each in variants_of("background") if each.name == "kg_both_reader")
    (stages,) = {tuple(stage.key for stage in build_all_stages(systems.open_method(variant)))}
    assert [key.split("/")[0] for key in stages] == ["predictions", "citations", "scores"], "one answer"
    predictions = next(s for s in build_all_stages(systems.open_method(variant)) if s.table == "predictions")
    assert predictions.pool == "gpu"
    assert [name.model for name in variant.printed.figures] == ["xlm-roberta"]
