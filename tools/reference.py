"""The reference pages of the documentation site, generated from the code: commands, profiles, variants, settings.

MkDocs calls `on_files` (see `hooks` in mkdocs.yml). To read a page without building the site:

    python -m tools.reference commands
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

import typer.main
import yaml
from pydantic import BaseModel

from evidence_assets import profiles, systems
from evidence_assets.cli import app
from evidence_assets.experiment.variants import variants
from evidence_assets.reproduction.presets import presets

HELP_WIDTH = 100


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("<", "\\<").replace("\n", " ")


def _table(columns: list[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return [*lines, *(f"| {' | '.join(_cell(value) for value in row)} |" for row in rows), ""]


def _commands_below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "list_commands"):
        context = command.context_class(command, info_name=path)
        for name in command.list_commands(context):
            yield from _commands_below(command.get_command(context, name), f"{path} {name}")
    else:
        yield path, command


def commands() -> str:
    """Every command with the text of its `--help`."""
    lines = ["# Commands", "", "Each section is the output of `evidence COMMAND --help`.", ""]
    for path, command in _commands_below(typer.main.get_command(app), "evidence"):
        context = command.context_class(command, info_name=path, terminal_width=HELP_WIDTH)
        lines += [f"## {path}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return f"`{value.model_dump() if isinstance(value, BaseModel) else value!r}`"


def _models_below(model: type[BaseModel], key: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    yield key, model
    for name, field in model.model_fields.items():
        for annotation in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from _models_below(annotation, f"{key}.{name}".lstrip("."))


def profile_keys() -> str:
    """Every key of a profile, and the packaged profiles."""
    lines = [
        "# Profiles",
        "",
        "A profile is a YAML file, chosen by `EVIDENCE_PROFILE` (a packaged name or a path).",
        "",
    ]
    lines += _table(
        ["profile", "description"], ([f"`{n}`", profiles.load(n).description] for n in profiles.available())
    )
    for key, model in _models_below(profiles.Profile):
        lines += [f"## {key or 'Top level'}", "", (model.__doc__ or "").strip().partition("\n\n")[0], ""]
        rows = ([f"`{n}`", _default(f), f.description or ""] for n, f in model.model_fields.items() if n != "bases")
        lines += _table(["key", "default", "description"], rows)
    return "\n".join(lines)


def variant_list() -> str:
    """Every variant with its parameters, and every preset."""
    lines = ["# Variants", "", "A variant is a method with parameters; its key is part of its assets' keys.", ""]
    for system in systems.list_systems():
        system_variants = [variant for variant in variants() if variant.system == system]
        lines += [f"## {system}", ""]
        lines += _table(
            ["variant", "method", "parameters", "presets"],
            (
                [f"`{v.key}`", v.method or system, _parameters(v.parameters), ", ".join(v.printed.presets)]
                for v in system_variants
            ),
        )
    lines += ["## Presets", "", "A preset is a printed table. Load its variants with `EVIDENCE_PRESETS=NAME`.", ""]
    lines += _table(["preset", "description"], ([f"`{name}`", preset.about] for name, preset in presets().items()))
    return "\n".join(lines)


def _parameters(values: object) -> str:
    return f"`{yaml.safe_dump(values, default_flow_style=True, width=1000, sort_keys=False).strip()}`" if values else ""


def _default_of(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"`{field.default!r}`"
    return "from the profile" if field.default_factory is MISSING else f"`{field.default_factory()!r}`"


def settings() -> str:
    """The parameters of every method, with their defaults."""
    lines = ["# Settings", "", "The parameters that a variant may state, by system and method.", ""]
    for name in systems.list_systems():
        lines += [f"## {name}", ""]
        by_class: dict[type, list[str]] = {}
        for method_name, method in systems.method_classes(name).items():
            by_class.setdefault(method.settings_class, []).append(method_name)
        for settings_class, method_names in by_class.items():
            heading = ", ".join(f"`{method_name}`" for method_name in method_names)
            lines += [f"### {heading}", "", _docstring(settings_class), ""]
            if fields(settings_class):
                lines += _table(
                    ["parameter", "default"], ([f"`{f.name}`", _default_of(f)] for f in fields(settings_class))
                )
    return "\n".join(lines)


def _docstring(settings_class: type) -> str:
    lines = (settings_class.__doc__ or "").splitlines()
    return "\n".join(line.strip() for line in lines).replace("``", "`")


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "profiles": profile_keys,
    "variants": variant_list,
    "settings": settings,
}


def on_files(files: Any, *, config: Any) -> Any:
    """Add the generated pages to the site."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


if __name__ == "__main__":
    print(PAGES[sys.argv[1]]())
