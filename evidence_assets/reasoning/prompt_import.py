"""Prompts in the printed wording, taken from the user's own copy of a document.

A mark ``@thesis 6.4.6, task 1`` of our prompts names a passage. ``prompt_import.yaml`` says which prompts a section
prints, with the names of their placeholders. A printed prompt is recognized by its placeholders and its form: the kinds
of its sentences, list items and headings, in the order of our parts. So none of its words is needed to find it, and all
words from its first to its last part are kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from string import Template as Fields
from typing import Literal

import yaml
from pydantic import TypeAdapter

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.printed_text import (
    BEGINNING,
    FORM,
    HEADING,
    ITEM,
    PLACEHOLDER,
    SENTENCE,
    Line,
    Unit,
    find_sections,
    numbered_kind,
    placeholder_name,
    read_lines,
    split_units,
)
from evidence_assets.reasoning.templates import Template, TemplatePart, parse_template

Status = Literal["placed", "ambiguous", "not found", "not printed"]
OURS = "ours"
"""First word of the mark of a paragraph with our words."""
LABELS = "labels"
"""Field for the labels of the answer; print lists them."""
_LABEL_LIST = re.compile(r"(?:[A-Z][A-Z ]*, )+(?:or |and )?[A-Z][A-Z ]*(?=\W*$)")
_QUOTED = r"{}:\s*([^“”\"]{{1,200}})[“\"][^“”\"]{{1,200}}[”\"]"


@dataclass(frozen=True)
class PrintedPrompt:
    """A prompt that a document prints; ``prompt_import.yaml`` explains the fields."""

    document: str
    template: str
    section: str
    placeholders: dict[str, str]
    number: int = 1
    conditions: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    quoted: str = ""

    @cached_property
    def kinds(self) -> dict[str, str]:
        """A digit for each field, in order: the kind of units with its placeholder."""
        return {field: str(position) for position, field in enumerate(dict.fromkeys(self.placeholders.values()))}

    @property
    def place(self) -> str:
        return f"section {self.section}, prompt {self.number}"


@dataclass(frozen=True)
class Slot:
    """A part of ours, for which a printed prompt has a passage. A part can have two: sentences, then a placeholder."""

    part: TemplatePart
    kind: str
    occurrence: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.part.source, self.occurrence

    @property
    def is_sentence(self) -> bool:
        return self.kind in (SENTENCE, BEGINNING)


@dataclass(frozen=True)
class Passage:
    """What a printed prompt has for a part; without text, why not."""

    prompt: PrintedPrompt
    status: Status
    text: str = ""
    place: str = ""
    note: str = ""


@dataclass(frozen=True)
class ImportedPart:
    """A row of the report: a part of a prompt, and where its printed wording is."""

    prompt: str
    part: str
    status: Status
    place: str = ""
    note: str = ""


@dataclass(frozen=True)
class PromptImport:
    """The prompts of a document: text by file name, and a row for each part that a mark names."""

    document: str
    files: dict[str, str]
    parts: list[ImportedPart]

    def count(self, *statuses: Status) -> int:
        return sum(part.status in statuses for part in self.parts)


_Passages = Mapping[tuple[str, int], Sequence[Passage]]


def read_printed_prompts() -> list[PrintedPrompt]:
    """The prompts that are printed in all documents."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return TypeAdapter(list[PrintedPrompt]).validate_python(yaml.safe_load(text))


def import_prompts(file: Path, pages: Sequence[str], templates: Sequence[Template]) -> PromptImport:
    """The printed prompts of a file; the document that it is prints most of them."""
    lines = read_lines(pages)
    printed_prompts = read_printed_prompts()
    documents = dict.fromkeys(prompt.document for prompt in printed_prompts)
    imports = [
        _import_document(name, [p for p in printed_prompts if p.document == name], lines, templates)
        for name in documents
    ]
    best = max(imports, key=lambda each: each.count("placed"))
    if not best.files:
        raise BadInput(
            f"prints none of the prompts that the marks of {' and '.join(documents)} name; "
            "give your copy of one of these documents as PDF, Markdown or text",
            file=file,
        )
    return best


def write_prompts(files: Mapping[str, str], folder: Path, *, replace_existing: bool) -> None:
    """Write the prompts into a folder; raises BadInput before anything is written if one of the files exists."""
    paths = {folder / name: text for name, text in files.items()}
    existing_paths = [path for path in paths if path.exists() or path.is_symlink()]
    if existing_paths and not replace_existing:
        raise BadInput("exists already: choose another --folder, or replace it with --force", file=existing_paths[0])
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        # A new file is renamed to this name, so that a link to another folder is replaced and not followed.
        with replacing_file(path) as new_path:
            new_path.write_text(text, encoding="utf-8")


def _import_document(
    document: str, prompts: Sequence[PrintedPrompt], lines: Sequence[Line], templates: Sequence[Template]
) -> PromptImport:
    by_name = {template.name: template for template in templates}
    orders = {prompt.template: prompt.parts for prompt in prompts}
    passages: defaultdict[tuple[str, int], list[Passage]] = defaultdict(list)
    for prompt in prompts:
        slots = list(_slots(prompt, by_name[prompt.template]))
        for slot, passage in zip(slots, _find_passages(prompt, slots, lines), strict=True):
            passages[slot.key].append(passage)
    files = {}
    parts: list[ImportedPart] = []
    for name, template in by_name.items():
        rows = [_report(template, part, passages) for part in template.parts if _names_document(part, document)]
        parts += rows
        if any(row.status == "placed" for row in rows):
            files[f"{name}.txt"] = _write_template(template, orders.get(name, ()), passages)
    return PromptImport(document, files, parts)


def _names_document(part: TemplatePart, document: str) -> bool:
    return part.source.split(" ", 1)[0] == document


# What a printed prompt consists of ----------------------------------------------------------------------------------


def _slots(prompt: PrintedPrompt, template: Template) -> Iterator[Slot]:
    """The parts that a printed prompt has, in its order."""
    parts = _ordered_parts(template, prompt.parts)
    has_section = re.compile(rf"\b{re.escape(prompt.section)}\b")
    for part, occurrence in parts:
        is_sent = not prompt.conditions or part.condition in ("", *prompt.conditions)
        if is_sent and _names_document(part, prompt.document) and has_section.search(part.source):
            kind = _kind_of_part(part, prompt) if not occurrence else SENTENCE
            if not prompt.quoted or kind in prompt.kinds.values():
                yield Slot(part, kind, occurrence)


def _ordered_parts(template: Template, order: Sequence[str]) -> list[tuple[TemplatePart, int]]:
    """The parts of a template in this order, ours by default; the number is 1 for the first of two passages."""
    if not order:
        return [(part, 0) for part in template.parts]
    by_name = {part.source.split(", ", 1)[1]: part for part in template.parts if part.source}
    ours = [(part, 0) for part in template.parts if not part.source]
    return ours + [(by_name[name], int(name in order[i + 1 :])) for i, name in enumerate(order)]


def _kind_of_part(part: TemplatePart, prompt: PrintedPrompt) -> str:
    fields = Fields(part.text).get_identifiers()
    kind = next((prompt.kinds[field] for field in fields if field in prompt.kinds), "")
    if kind:
        return kind
    if part.source.endswith(", role"):
        return BEGINNING
    if part.text.startswith("- "):
        return ITEM
    if "\n" in part.text:
        return FORM
    return numbered_kind(part.text) or (HEADING if part.text.endswith(":") else SENTENCE)


def _pattern(slots: Sequence[Slot]) -> re.Pattern[str]:
    """The kinds of units that a prompt with these parts has, with one group for each part."""
    kinds = ["", *(slot.kind for slot in slots), ""]
    return re.compile("".join(f"({_form(*three)})" for three in zip(kinds, kinds[1:], kinds[2:], strict=False)))


def _form(last_kind: str, kind: str, next_kind: str) -> str:
    """The kinds of units that a part of this kind may have, between parts of these kinds.

    A heading belongs to the part below it. Sentences belong to the part of the sentence before them, up to a part that
    begins with a list item or placeholder. The first sentence of a prompt without a role comes after a heading, which
    introduces the prompt, and the last part is one sentence, because prose continues after it.
    """
    is_before_sentence = next_kind in ("", SENTENCE)
    if kind == BEGINNING:
        return "R" if is_before_sentence else "Rs*"
    if kind == SENTENCE and not last_kind:
        return "(?<=h)s"
    if kind == SENTENCE and not next_kind:
        return "h*s"
    if kind == SENTENCE:
        return "h*s|hi+?" if is_before_sentence else "h*s+|hi+?"
    if kind == FORM:
        return "h+a+"
    if kind == HEADING:
        return "h"
    return f"(?:is*?|h)*?{kind}(?:h*{kind})*" if kind.isascii() and kind.isdigit() else f"h*{kind}s*?"


# Where it is in the document ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """The units of a section, and where a prompt is: from ``start`` on, with its first placeholder at ``anchor``."""

    units: list[Unit]
    start: int
    anchor: int


def _find_passages(prompt: PrintedPrompt, slots: Sequence[Slot], lines: Sequence[Line]) -> list[Passage]:
    """A passage for each slot."""
    sections = find_sections(lines, prompt.section)
    if prompt.quoted:
        return _find_quoted(prompt, slots, sections)
    with_prompt = [each for section_lines in sections for each in _locate_prompt(prompt, slots, section_lines)]
    if len(with_prompt) != 1:
        return [_missing(prompt, len(with_prompt), len(sections))] * len(slots)
    section = with_prompt[0]
    first, spans = _align(slots, section)
    passages = [Passage(prompt, "not found", note=f"{prompt.place} has another form")] * len(slots)
    for position, (start, end) in enumerate(spans, first):
        passages[position] = _write_passage(prompt, slots[position], section.units[start:end])
    for position, note in _find_ambiguous(slots[first : first + len(spans)], section.units, spans):
        passages[first + position] = Passage(prompt, "ambiguous", place=passages[first + position].place, note=note)
    return passages


def _locate_prompt(prompt: PrintedPrompt, slots: Sequence[Slot], lines: Sequence[Line]) -> Iterator[Section]:
    """The section, if its first placeholder occurs often enough for the prompt's number."""
    kinds = {name: prompt.kinds[field] for name, field in prompt.placeholders.items()}
    first_kind = next(slot.kind for slot in slots if slot.kind in prompt.kinds.values())
    units = split_units(lines, kinds)
    anchors = [-1, *(i for i, unit in enumerate(units) if unit.kind == first_kind)]
    if len(anchors) > prompt.number:
        yield Section(units, anchors[prompt.number - 1] + 1, anchors[prompt.number])


def _missing(prompt: PrintedPrompt, n_prompts: int, n_sections: int) -> Passage:
    if n_prompts:
        return Passage(prompt, "ambiguous", note=f"{n_prompts} sections {prompt.section} have this prompt")
    names = ", ".join(f"{{{name}}}" for name in prompt.placeholders)
    problem = f"no prompt {prompt.number} with {names} in it" if n_sections else "no such heading"
    return Passage(prompt, "not found", note=f"section {prompt.section}: {problem}")


def _align(slots: Sequence[Slot], section: Section) -> tuple[int, list[tuple[int, int]]]:
    """The first slot and the units of each slot, for the longest run of slots that has the form of the print."""
    kinds = "".join(unit.kind for unit in section.units)
    anchor = section.anchor
    first_field = next(i for i, slot in enumerate(slots) if slot.kind == kinds[anchor])
    runs = [(first, last) for first in range(first_field + 1) for last in range(first_field + 1, len(slots) + 1)]
    for first, last in sorted(runs, key=lambda run: run[0] - run[1]):
        pattern = _pattern(slots[first:last])
        for start in range(anchor, section.start - 1, -1):
            match = pattern.match(kinds, start)
            if match and match.start(first_field - first + 1) <= anchor < match.end(first_field - first + 1):
                return first, [match.span(group) for group in range(1, last - first + 1)]
    return 0, []


def _find_ambiguous(
    slots: Sequence[Slot], units: Sequence[Unit], spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    """Slots of neighbouring sentences that can be divided in another way, and why."""
    for is_sentence, group in groupby(range(len(slots)), key=lambda position: slots[position].is_sentence):
        run = list(group)
        if not is_sentence:
            continue
        start = spans[run[0]][0]
        end = spans[run[-1]][1]
        n_sentences = sum(unit.kind in (SENTENCE, BEGINNING) for unit in units[start:end])
        rest = units[end:]
        if len(run) > 1 and n_sentences > len(run):
            yield from ((position, f"{n_sentences} sentences for {len(run)} parts") for position in run)
        elif run[-1] == len(slots) - 1 and rest and _shares_paragraph(units[start + 1 : end + 1]):
            # Prose, or the last part if two of these sentences are one part.
            yield from (
                (position, "a paragraph has several sentences, and more paragraphs come after") for position in run
            )


def _shares_paragraph(units: Sequence[Unit]) -> bool:
    return any(unit.separator == " " for unit in units)


def _find_quoted(prompt: PrintedPrompt, slots: Sequence[Slot], sections: Sequence[Sequence[Line]]) -> list[Passage]:
    """The passages of a prompt within a sentence, with an example in quotation marks."""
    text = "\n".join(line.text for section in sections for line in section)
    matches = list(re.finditer(_QUOTED.format(prompt.quoted), text))
    if len(matches) != 1:
        status: Status = "ambiguous" if matches else "not found"
        note = f"section {prompt.section} quotes {len(matches) or 'no'} prompts after “{prompt.quoted}:”"
        return [Passage(prompt, status, note=note)] * len(slots)
    places = [line.place for section in sections for line in section]
    place = places[text.count("\n", 0, matches[0].start())]
    words = " ".join(matches[0][1].split())
    unit = Unit(f"{words} {{quoted}}", place, next(iter(prompt.kinds.values())))
    return [_write_passage(prompt, slot, [unit]) for slot in slots]


# What is written ----------------------------------------------------------------------------------------------------


def _write_passage(prompt: PrintedPrompt, slot: Slot, units: Sequence[Unit]) -> Passage:
    """The text of units with our fields for their placeholders."""
    text = ""
    last_line = ""
    for unit in units:
        line = _with_shared_field(unit.text, prompt) or _with_fields(unit.text, prompt.placeholders)
        # Neighbouring placeholders of one field, such as those of the options, become one.
        if line != last_line or not _with_shared_field(unit.text, prompt):
            text += f"{unit.separator}{line}" if text else line
        last_line = line
    notes = list(_placeholder_notes(prompt, units))
    with_labels = _LABEL_LIST.sub(f"${LABELS}", text)
    if with_labels != text and LABELS in Fields(slot.part.text).get_identifiers():
        text = with_labels
        notes.append(f"its list of labels is ${LABELS}")
    return Passage(prompt, "placed", text, units[0].place, "; ".join(notes))


def _with_shared_field(text: str, prompt: PrintedPrompt) -> str:
    """The field alone if several placeholders have it: its value has their headings."""
    names = [placeholder_name(name) for name in PLACEHOLDER.findall(text)]
    fields = [prompt.placeholders[name] for name in names if name in prompt.placeholders]
    return next((f"${field}" for field in fields if list(prompt.placeholders.values()).count(field) > 1), "")


def _placeholder_notes(prompt: PrintedPrompt, units: Sequence[Unit]) -> Iterator[str]:
    names_by_field: defaultdict[str, list[str]] = defaultdict(list)
    for unit in units:
        for match in PLACEHOLDER.finditer(unit.text):
            names_by_field[prompt.placeholders.get(placeholder_name(match[1]), "")].append(match[0])
    for field, names in names_by_field.items():
        if not field:
            yield f"no field for {', '.join(names)}"
        elif len(names) > 1:
            yield f"{', '.join(names)} with their headings are ${field}"


def _with_fields(text: str, placeholders: Mapping[str, str]) -> str:
    def replace_name(match: re.Match[str]) -> str:
        field = placeholders.get(placeholder_name(match[1]))
        is_before_letter = match.string[match.end() : match.end() + 1].isidentifier()
        return match[0] if not field else f"${{{field}}}" if is_before_letter else f"${field}"

    return PLACEHOLDER.sub(replace_name, text.replace("$", "$$"))


def _status(passages: Sequence[Passage]) -> Status:
    """Placed if every prompt that has the part has its passage."""
    if not passages:
        return "not printed"
    return next((passage.status for passage in passages if passage.status != "placed"), "placed")


def _report(template: Template, part: TemplatePart, passages: _Passages) -> ImportedPart:
    of_part = [*passages.get((part.source, 1), ()), *passages.get((part.source, 0), ())]
    status = _status(of_part)
    places = dict.fromkeys(passage.place for passage in of_part if passage.place)
    notes = [passage.note for passage in of_part if passage.note]
    if status == "placed":
        texts = " ".join(passage.text for passage in of_part)
        lacking = set(Fields(part.text).get_identifiers()) - set(Fields(texts).get_identifiers())
        notes += [f"${field} is not printed" for field in sorted(lacking)]
    return ImportedPart(template.name, part.source, status, ", ".join(places), "; ".join(dict.fromkeys(notes)))


def _write_template(template: Template, order: Sequence[str], passages: _Passages) -> str:
    """The valid file of a prompt: printed passages under their marks, ours under a mark that says so."""
    messages: dict[str, list[str]] = {"system": [], "user": []}
    for part, occurrence in _ordered_parts(template, order):
        status = _status([*passages.get((part.source, 1), ()), *passages.get((part.source, 0), ())])
        if part.source and status == "placed":
            of_part = passages[part.source, occurrence]
            paragraphs = [_paragraph(part.source, *each) for each in _conditions_and_texts(part, of_part)]
            messages[part.role] += paragraphs
        elif not occurrence:
            mark = f"{OURS}, {status}: {part.source}" if part.source else OURS
            messages[part.role].append(_paragraph(mark, part.condition, part.text))
    text = "\n---\n".join("\n\n".join(paragraphs) for paragraphs in messages.values()) + "\n"
    parse_template(text, Path(f"{template.name}.txt"), template.fields)
    return text


def _paragraph(mark: str, condition: str, text: str) -> str:
    return f"@{mark}\n{f'?{condition} ' if condition else ''}{text}"


def _conditions_and_texts(part: TemplatePart, passages: Sequence[Passage]) -> Iterator[tuple[str, str]]:
    """The paragraphs of a part: one if all prompts print the same, otherwise one for each wording or prompt."""
    texts = list(dict.fromkeys(passage.text for passage in passages))
    if len(texts) == 1:
        yield _condition_of(part, texts[0]), texts[0]
        return
    for level in (0, -1):
        by_condition: dict[str, set[str]] = defaultdict(set)
        for passage in passages:
            by_condition[passage.prompt.conditions[level]].add(passage.text)
        if level or all(len(each) == 1 for each in by_condition.values()):
            yield from ((condition, text) for condition, each in by_condition.items() for text in each)
            return


def _condition_of(part: TemplatePart, text: str) -> str:
    """Without this field the paragraph is not sent.

    A field alone in our paragraph is such a field. One that the print lacks becomes a condition, too, because a prompt
    must have all fields of ours.
    """
    fields = Fields(part.text).get_identifiers()
    lacking = set(fields) - set(Fields(text).get_identifiers())
    alone = fields[0] if fields and part.text == f"${fields[0]}" else ""
    return part.condition or alone or next(iter(sorted(lacking)), "")
