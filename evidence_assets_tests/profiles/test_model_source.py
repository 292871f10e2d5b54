"""A language model by one text: an address, a file, or a name at a server that is set."""

from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.lake.errors import BadInput
from evidence_assets.profiles.model_source import generator_of

ADDRESS = "http://127.0.0.1:8081/v1"


def test_the_profile_local_has_the_server_of_this_machine_and_short_work() -> None:
    profile = profiles.load("local")
    assert (profile.generator.backend, profile.generator.base_url, profile.generator.name) == ("openai", ADDRESS, "")
    assert not profile.explain_options and profiles.load("paper").explain_options


def test_a_file_and_a_folder_are_read_in_the_process(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    assert generator_of(str(file)) == {"backend": "transformers", "name": str(file.resolve())}
    assert generator_of(str(tmp_path))["backend"] == "transformers"


def test_a_name_needs_the_address_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(BadInput, match="set OPENAI_BASE_URL to the address of its server"):
        generator_of("qwen2.5:1.5b")
    monkeypatch.setenv("OPENAI_BASE_URL", ADDRESS)
    generator = generator_of("qwen2.5:1.5b")
    assert (generator["name"], generator["base_url"]) == ("qwen2.5:1.5b", ADDRESS)


def test_the_environment_replaces_the_models_of_the_selected_profile(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv("EVIDENCE_MODEL", ADDRESS)
    assert profiles.load().generator.base_url == ADDRESS and not profiles.load().explain_options
    assert profiles.load("embedded").generator.backend == "extractive", "profiles by name are as written"


def test_a_profile_names_a_model_by_its_address(tmp_path: Path, other_settings: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(f"extends: embedded\nname: mine\ngenerator: {ADDRESS}\n")
    other_settings.setenv("EVIDENCE_PROFILE", str(tmp_path / "mine.yaml"))
    assert profiles.load().generator.base_url == ADDRESS and profiles.load().explain_options
