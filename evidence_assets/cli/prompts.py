"""``evidence prompts``: the prompts of a variant, part by part, and their printed wording from a user's own copy."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from evidence_assets import systems
from evidence_assets.benchmarks.corpora import read_pages
from evidence_assets.cli.console import JsonOption, leave_out_empty, out, print_if_json, print_table, report_errors
from evidence_assets.experiment.answering import Answering
from evidence_assets.experiment.methods import AnyMethod, SelectionMethod
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.prompt_import import OURS, PromptImport, import_prompts, write_prompts
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE
from evidence_assets.reasoning.templates import TemplatePart
from evidence_assets.text.spelling import did_you_mean

TABLE_PREFIX = "table_"


class _ShowByDefault(typer.core.TyperGroup):
    """``evidence prompts ucret`` is ``evidence prompts show ucret``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # typer does not export the type of its base class
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


commands = typer.Typer(rich_markup_mode=None)
prompts = typer.Typer(
    cls=_ShowByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Show the prompts that a system sends to a language model.

    `evidence prompts SYSTEM` shows them; `import` takes their printed wording from your copy of a paper.
    """,
)
commands.add_typer(prompts, name="prompts")


@dataclass(frozen=True)
class VariantPrompt:
    """A prompt that a variant sends, in parts."""

    variant: str
    prompt: str
    parts: tuple[TemplatePart, ...]


@prompts.command()
def show(
    system: Annotated[str, typer.Argument(help="Name of a system, such as ucret.")],
    variant: Annotated[
        str, typer.Option(help="Such as ucret_published or table/ucret_published. Default: all loaded variants.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show the prompts of a system, part by part.

    Each part of a published prompt comes after the passage of the paper that asks for it. A part with "if" is sent only
    if that field is not empty; $name is a field. Prompts of the profile's folder replace the packaged ones.
    """
    with report_errors():
        sent_prompts = [prompt for each in _select_variants(system, variant) for prompt in _prompts_of(each)]
        if not sent_prompts:
            names = variant or f"the loaded variants of {system}"
            raise BadInput(f"{names} send no prompts to a language model: choose another with --variant")
    if not print_if_json(as_json, [asdict(prompt) for prompt in sent_prompts]):
        _print_prompts(sent_prompts)


@prompts.command("import")
def import_document(
    document: Annotated[Path, typer.Argument(help="Your copy of a paper: PDF, Markdown, text or HTML.")],
    folder: Annotated[Path, typer.Option(help="Folder for the prompts; a profile names it as `prompts:`.")] = Path(
        "prompts"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace prompts that exist in the folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write prompts in the printed wording, from your copy of a paper.

    Passages are recognized by section, placeholders and form. The table has a row for each part of our prompts that a
    passage asks for. What cannot be placed keeps our wording under a mark `@ours`. The exit status is 1 if a printed
    part is not found or ambiguous.
    """
    with report_errors():
        result = import_prompts(document, read_pages(document), systems.load_templates())
        write_prompts(result.files, folder, replace_existing=force)
    if not print_if_json(as_json, asdict(result)):
        _print_import(result, folder)
    if result.count("not found", "ambiguous"):
        raise typer.Exit(1)


def _print_import(result: PromptImport, folder: Path) -> None:
    rows = [astuple(part) for part in result.parts]
    print_table(*leave_out_empty(("prompt", "part", "status", "where", "note"), rows))
    n_described = result.count("not printed")
    counts = f"{result.count('placed')} of {len(result.parts) - n_described} printed parts placed"
    others = f"{n_described} more are described in the document and not printed" if n_described else ""
    out.print(f"{result.document}: {'; '.join(filter(None, (counts, others)))}.")
    out.print(f"{len(result.files)} files in {folder}; paragraphs in our words have the mark @{OURS}.")
    out.print(f"Next: `prompts: {folder}` in a profile.")


def _select_variants(system: str, name: str) -> list[Variant]:
    """The named variants of a system, or all that are loaded."""
    names = systems.list_systems()
    if system not in names:
        raise BadInput(f"there is no system {system!r}{did_you_mean(system, names)}")
    declared = variants_of(system)
    if not name:
        return [variant for variant in declared if variant.is_loaded]
    selected = [variant for variant in declared if name in (variant.name, f"{variant.family}/{variant.name}")]
    if not selected:
        raise BadInput(f"{system} has no variant {name!r}{did_you_mean(name, [v.name for v in declared])}")
    return selected


def _prompts_of(variant: Variant) -> list[VariantPrompt]:
    """The prompts of a variant with the wording of its profile, in the order in which they are sent."""
    method: AnyMethod = systems.open_method(variant)
    templates = [template for task in method.prompted_tasks for template in task.templates]
    if isinstance(method, SelectionMethod):
        answering = Answering(method)
        is_table = variant.family == "table"
        for task in answering.prompted_tasks:
            # Our own style has other prompts for tables than for texts.
            for_family = [template for template in task.templates if template.name.startswith(TABLE_PREFIX) == is_table]
            templates += for_family if answering.style is DEFAULT_STYLE and answering.has_options else task.templates
    wording = variant.prompt_settings
    return [VariantPrompt(variant.key, t.name, wording.customize(t).parts) for t in templates]


def _print_prompts(sent_prompts: list[VariantPrompt]) -> None:
    """Print each prompt once, with the variants that send it."""
    variants_by_prompt: dict[tuple[str, tuple[TemplatePart, ...]], list[str]] = {}
    for prompt in sent_prompts:
        variants_by_prompt.setdefault((prompt.prompt, prompt.parts), []).append(prompt.variant)
    for (name, parts), senders in variants_by_prompt.items():
        out.rule(f"{name}: {', '.join(senders)}", align="left")
        role = ""
        for part in parts:
            if part.role != role:
                role = part.role
                out.print(f"{role}:", style="bold")
            notes = [part.source] if part.source else []
            notes += [f"if {part.condition}"] if part.condition else []
            if notes:
                out.print(f"[{', '.join(notes)}]", style="dim", markup=False, soft_wrap=True)
            out.print(part.text, markup=False, soft_wrap=True)
