"""``evidence prompts``: what a language model will be sent for one question, without sending it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from evidence_assets import systems
from evidence_assets.cli.console import JsonOption, LakeOption, as_json_only, out, sentences
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.text.nearest import nearest

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def prompts(
    system: Annotated[str, typer.Argument(help="Such as ucret.")],
    variant: Annotated[
        str, typer.Option(help="Such as ucret_published, or table/ucret_published; all loaded ones otherwise.")
    ] = "",
    question: Annotated[
        str, typer.Option(help="Beginning of a question's id; the first with evidence otherwise.")
    ] = "",
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """What a language model will be sent for one question, word for word, without sending it."""
    with sentences():
        from evidence_assets.experiment.prompts import prompts as shown

        if system not in systems.names():
            raise BadInput(f"there is no system {system!r}; did you mean {nearest(system, systems.names())!r}?")
        known = variants_of(system)
        chosen = [v for v in known if (variant in (v.name, v.place) if variant else v.loaded)]
        if not chosen:
            near = nearest(variant, [v.name for v in known])
            raise BadInput(f"{system} has no variant {variant!r}; did you mean {near!r}?")
        loaded, opened = systems.load(system), Lake(lake or find_lake())
        found, silent = [], []
        for one in chosen:
            try:
                found += shown(loaded, one, opened, question)
            except BadInput as error:
                silent.append(error)
        if not found:
            raise silent[0]
    if as_json_only(as_json, [asdict(one) for one in found]):
        return
    for number, each in enumerate(found, 1):
        asked = each.request
        shape = f"one of {', '.join(asked.choices)}" if asked.choices else "JSON" if asked.json_schema else "free text"
        out.rule(f"{number}. {each.asset}", align="left")
        for role, text in (("system", asked.system), ("user", asked.user)):
            out.print(f"{role}:", style="bold")
            out.print(text, markup=False, soft_wrap=True)
        out.print(f"reply: {shape}, at most {asked.most_tokens} tokens", style="dim", markup=False)
