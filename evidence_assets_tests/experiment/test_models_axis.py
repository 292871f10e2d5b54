"""Combinations of variants with the models of a profile, and the resulting asset keys."""

from pathlib import Path

import pytest
import yaml

from evidence_assets import profiles, systems
from evidence_assets.experiment import solvers
from evidence_assets.experiment.methods import combine_models
from evidence_assets.experiment.stages import build_all_stages, build_stages
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.extractive.spans.choice import SpanWeights
from evidence_assets.lake.errors import BadInput
from evidence_assets.profiles import PROFILE_VARIABLE
from evidence_assets.reasoning.model_calls import PromptedTask
from evidence_assets.reproduction.presets import PRESETS_VARIABLE, presets
from evidence_assets.reproduction.printed_variants import PrintedVariant, printed_variants

MODELS = """\
extends: embedded
name: several
generators:
  llama: {backend: openai, name: meta/llama, revision: a}
  qwen: {backend: openai, name: qwen/qwen, revision: b}
encoders: {minilm: {name: embedded-minilm}, mpnet: {name: all-mpnet}}
masked_models: {bert: {name: bert}, roberta: {name: roberta}}
"""


@pytest.fixture(autouse=True)
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "several.yaml"
    profile.write_text(MODELS)
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(profile))
    monkeypatch.delenv(PRESETS_VARIABLE, raising=False)


def keys(variant: Variant) -> list[str]:
    return [stage.key for stage in build_all_stages(systems.open_method(variant))]


@pytest.fixture(autouse=True)
def printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variant z has a preset."""
    printed = {"mcqa/z": PrintedVariant(presets=("uscrake_main",), load_by_default=True)}
    monkeypatch.setattr("evidence_assets.experiment.variants.printed_variants", lambda: printed_variants() | printed)


def preset_variant(**fields: object) -> Variant:
    return Variant(system="baselines", family="mcqa", name="z", method="bm25", **fields)


def test_keys_name_models_only_with_an_enabled_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [f"{table}/mcqa/z" for table in ("evidence", "chains", "predictions", "citations", "scores")]
    assert keys(preset_variant()) == plain
    monkeypatch.setenv(PRESETS_VARIABLE, "uscrake_main")
    assert keys(preset_variant()) == plain + [f"{key}/qwen" for key in plain[1:]], "evidence is shared"


def test_models_of_a_variant_override_its_presets() -> None:
    method = systems.open_method(preset_variant(models={"generator": ("qwen",)}))
    assert [combination.variant.label for combination in combine_models(method)] == ["z@qwen"]
    assert keys(preset_variant(models={"generator": ("qwen",)}))[:2] == ["evidence/mcqa/z", "chains/mcqa/z/qwen"]
    with pytest.raises(BadInput, match="no generator 'gwen'"):
        combine_models(systems.open_method(preset_variant(models={"generator": ("gwen",)})))


def test_another_encoder_has_its_own_vectors_and_shares_all_other_inputs() -> None:
    table = Variant(system="ucret", family="table", name="z", method="ucret", models={"encoder": "all"})
    assert {"evidence/table/z", "evidence/table/z/mpnet", "scores/table/z/mpnet"} <= set(keys(table))
    text = Variant(system="uscrake", family="mcqa", name="z", method="uscrake", models={"encoder": "all"})
    stages = {stage.key: {item.key for item in stage.inputs} for stage in build_all_stages(systems.open_method(text))}
    plain, other = stages["evidence/mcqa/z"], stages["evidence/mcqa/z/mpnet"]
    vector_keys = {key for key in plain if key.endswith(("/index", "/node_vectors"))}
    assert {"corpus/sample/index", "knowledge/sample/node_vectors"} <= vector_keys
    assert other - plain == {f"{key}/mpnet" for key in vector_keys} and plain - other == vector_keys
    background = Variant(system="background", family="graph", name="z", method="background", models={"encoder": "all"})
    stages = {
        stage.key: {item.key for item in stage.inputs} for stage in build_all_stages(systems.open_method(background))
    }
    assert stages["evidence/graph/z/mpnet"] == stages["evidence/graph/z"], "its encoder meets no stored vectors"


def test_triples_are_ranked_as_their_model_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the sample's own model leaves out the similarity to the seeds."""
    harvest = next(variant for variant in variants_of("kbloom") if variant.key == "knowledge/kbloom")

    def ranked_by(variant: Variant) -> tuple[str, str]:
        settings = systems.open_method(variant).settings
        return settings.fluency, settings.final

    assert ranked_by(harvest) == ("corrected", "printed"), "of a profile that extends the embedded one"
    for profile, expected in (("embedded", ("probability", "fluency")), ("paper", ("corrected", "printed"))):
        monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
        assert ranked_by(harvest) == expected, profile
    own_model = tmp_path / "own_model.yaml"
    own_model.write_text(MODELS.replace("{bert: {name: bert}", "{own: {name: sample-masked-lm}"))
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(own_model))
    assert ranked_by(harvest) == ("probability", "fluency")
    assert ranked_by(harvest.model_copy(update={"active_models": {"masked_model": "roberta"}})) == (
        "corrected",
        "printed",
    )


def test_the_tables_with_several_models_are_combined_with_them() -> None:
    tables = ("3.3", "3.4", "3.5", "4.1", "6.2", "6.3", "6.4", "6.5", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8")
    answering = {name for name, preset in presets().items() if preset.models.get("generator") == "all"}
    for table in (*(f"thesis {number}" for number in tables), *(f"kaping-background 5.{n}" for n in range(1, 7))):
        assert any(table in presets()[name].all_tables for name in answering), table
    harvesting = [p for p in presets().values() if p.models.get("masked_model") == "all"]
    assert {f"thesis 5.{n}" for n in range(1, 7)} <= {table for p in harvesting for table in p.all_tables}


def test_an_encoder_of_the_paper_is_used_where_the_profile_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = next(variant for variant in variants_of("background") if variant.name == "kg_both")
    monkeypatch.setenv("EVIDENCE_PROFILE", "embedded")
    assert [m.variant.key for m in combine_models(systems.open_method(variant), frozenset())] == ["graph/kg_both"]
    monkeypatch.setenv("EVIDENCE_PROFILE", "paper")
    (method,) = combine_models(systems.open_method(variant), frozenset())
    combination = method.variant
    assert combination.key == "graph/kg_both/mpnet" and combination.profile.encoder.name.endswith("all-mpnet-base-v2")
    with pytest.raises(BadInput, match="has no encoder 'mpnett'"):
        unknown = variant.model_copy(update={"models": {"encoder": ("mpnett",)}})
        combine_models(systems.open_method(unknown), frozenset())


@pytest.mark.parametrize(
    ("encoder", "revision"),
    [("{name: me/mine}", None), ("{device: cuda}", "1a2b"), ("{name: me/mine, revision: c3}", "c3")],
)
def test_a_model_of_another_name_does_not_inherit_a_revision(
    tmp_path: Path, encoder: str, revision: str | None
) -> None:
    base, extending = tmp_path / "base.yaml", tmp_path / "own.yaml"
    base.write_text("extends: embedded\nname: base\nencoder: {name: BAAI/bge-m3, revision: 1a2b, megabytes: 9}\n")
    extending.write_text(f"extends: base.yaml\nname: own\nencoder: {encoder}\n")
    settings = profiles.load(str(extending)).encoder
    assert (settings.revision, settings.megabytes) == (revision, 9 if revision == "1a2b" else None)


# Rows from model replies are recomputed only when the model, its revision or a prompt changes


def other_version(task: PromptedTask[object, object], prompts: object = None) -> str:
    return f"other version of {task.name}"


MODEL = {"backend": "openai", "name": "llama", "revision": "1", "constrain": "json_schema"}
CASES = {"mcqa": "uscrake", "table": "ucret", "search": "four_step_focus"}


def versions(family: str, folder: Path, patch: pytest.MonkeyPatch, **changes: object) -> dict[str, str]:
    """Code versions of a variant's stages, by table, with a profile that has a language model."""
    profile = {"extends": "embedded", "name": "own", "generator": {**MODEL, **changes}}
    path = folder / f"{abs(hash(str(profile)))}.yaml"
    path.write_text(yaml.safe_dump(profile))
    patch.setenv(PROFILE_VARIABLE, str(path))
    variant = next(v for v in variants_of(CASES[family]) if v.family == family and not v.evidence and v.explain)
    return {stage.table: stage.version for stage in build_stages(systems.open_method(variant))}


@pytest.mark.parametrize("family", CASES)
def test_code_versions_contain_model_and_prompts(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = versions(family, tmp_path, monkeypatch)
    prompted_tables = {"evidence", "predictions"} if family == "search" else {"chains", "predictions"}
    for change in ({"name": "qwen"}, {"revision": "2"}, {"constrain": "none"}):
        other = versions(family, tmp_path, monkeypatch, **change)
        changed = {table for table in first if other[table] != first[table]}
        assert changed & {"evidence", *prompted_tables} == prompted_tables, change
    for same in ({"concurrency": 4}, {"base_url": "http://elsewhere/v1"}, {"timeout_seconds": 9}):
        assert versions(family, tmp_path, monkeypatch, **same) == first, same
    monkeypatch.setattr(PromptedTask, "version_with", other_version)
    other = versions(family, tmp_path, monkeypatch)
    assert all(other[table] != first[table] for table in prompted_tables)


def all_versions(profile: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Code versions of all stages of some systems, by asset."""
    patch.setenv(PROFILE_VARIABLE, str(profile))
    methods = [systems.open_method(variant) for name in CASES.values() for variant in variants_of(name)]
    return {stage.key: stage.version for method in methods for stage in build_stages(method)}


def changed_families(prompt: str, ending: str, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """By table, the families whose versions change with a user's prompt that has another ending."""
    (folder / "prompts").mkdir()
    template = next(template for template in systems.load_templates() if template.name == prompt)
    (folder / "prompts" / f"{prompt}.txt").write_text(f"{template.system}{ending}\n---\n{template.user}\n")
    for name, line in (("plain", ""), ("with_prompt", "prompts: prompts\n")):
        (folder / f"{name}.yaml").write_text(f"extends: local\nname: own\n{line}")
    before, after = (all_versions(folder / f"{name}.yaml", patch) for name in ("plain", "with_prompt"))
    changed: dict[str, set[str]] = {}
    for key in before:
        if before[key] != after[key]:
            table, family, *_ = key.split("/")
            changed.setdefault(table, set()).add(family)
    return changed


@pytest.mark.parametrize(
    ("prompt", "changed"),
    [
        ("choose_letter", {"predictions": {"mcqa", "table"}, "counterfactuals": {"table"}}),
        ("published_verdict", {"predictions": {"table"}}),
        ("published_case", {"chains": {"table"}, "predictions": {"table"}}),
        ("published_chain", {"chains": {"mcqa"}, "predictions": {"mcqa"}}),
        ("triplets", {"evidence": {"search"}, "predictions": {"search"}, "citations": {"search"}}),
    ],
)
def test_a_users_prompt_makes_only_those_assets_stale_that_send_it(
    prompt: str, changed: dict[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert changed_families(prompt, " Now.", tmp_path, monkeypatch) == changed, "no chains by the prompt of a choice"


def test_an_unchanged_copy_of_a_prompt_makes_nothing_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed_families("choose_letter", "", tmp_path, monkeypatch) == {}


@pytest.mark.parametrize("family", ["mcqa", "graph"])
def test_refitted_weights_change_the_version_of_answers(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROFILE_VARIABLE, "embedded")
    before = solvers.solver_version(family, profiles.load())
    monkeypatch.setattr(solvers, "load_span_weights", lambda: SpanWeights(0.0, {}, {}))
    assert solvers.solver_version(family, profiles.load()) != before
