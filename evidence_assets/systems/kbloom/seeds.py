"""Reads seed files: one relation a file, the only input that K-Bloom takes from people.

A file looks like this; ``template`` and everything under it may be left out::

    id: capital_of
    collection: geography
    prompt: <HEAD> is the capital of <TAIL>
    pairs:
      - [Paris, France]
    template: <HEAD> is the capital city of <TAIL>.
    head_kinds: [city]
    tail_kinds: [country]
    inverse: has_capital
    symmetric: false
    functional: true
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import parse_yaml_file
from evidence_assets.text.prompt_text import find_slot_error
from evidence_assets.text.spelling import closest_name

PACKAGED_RELATIONS = Path(__file__).with_name("relations")
"""Folders of seed files that come with the package, one a collection."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    text = " ".join(value.split())
    if not text:
        raise ValueError("is empty")
    return text


def _with_slots(text: str, info: ValidationInfo) -> str:
    if fault := find_slot_error(text):
        raise ValueError(fault.replace("the prompt", f"the {info.field_name}"))
    return text


def _distinct(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    if twice := [pair for place, pair in enumerate(pairs) if pair in pairs[:place]]:
        raise ValueError(f"the seed {list(twice[0])} stands twice")
    return pairs


Text = Annotated[str, BeforeValidator(_text)]
Name = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Prompt = Annotated[Text, AfterValidator(_with_slots)]


@dataclass(frozen=True)
class Relation:
    """A relation to harvest.

    ``template`` verbalises a triple for readers (the prompt where the file gives none); ``head_kinds`` and
    ``tail_kinds`` are the entity kinds allowed (empty: any); ``inverse`` is the id of the relation that says the same
    from the tail's side; in a ``functional`` relation a head has one tail.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Name
    collection: Name
    prompt: Prompt
    pairs: Annotated[tuple[tuple[Text, Text], ...], Field(min_length=1, max_length=5), AfterValidator(_distinct)]
    template: Prompt
    head_kinds: tuple[Text, ...] = ()
    tail_kinds: tuple[Text, ...] = ()
    inverse: Name | None = None
    symmetric: bool = False
    functional: bool = False

    @property
    def seed_hash(self) -> str:
        """Changes exactly when something in the file changes that a result can depend on."""
        return content_id("relation", *(getattr(self, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class SeedFolder:
    """The relations that could be read, by id, the file of each, and what was wrong with the other files."""

    relations: tuple[Relation, ...]
    errors: tuple[BadInput, ...]
    files: dict[str, Path] = field(default_factory=dict, compare=False)


def collection_folder(name: str) -> Path:
    """The folder of a packaged collection of relations."""
    known = sorted(path.name for path in PACKAGED_RELATIONS.iterdir() if path.is_dir())
    if name not in known:
        raise BadInput(f"there is no collection of relations {name!r}; known: {', '.join(known)}", field="relations")
    return PACKAGED_RELATIONS / name


def list_seed_files(folder: Path) -> list[Path]:
    return sorted(path for path in (*folder.glob("*.yaml"), *folder.glob("*.yml")) if not path.name.startswith("."))


def read_seed_folder(*folders: Path) -> SeedFolder:
    """Read every seed file of the folders; a malformed one does not stop the others.

    Of two files with one relation id the first by folder and file name is kept and the other is an error.
    """
    for folder in folders:
        if not folder.is_dir():
            raise BadInput("there is no such folder of seed files", file=folder)
    relations: dict[str, Relation] = {}
    source: dict[str, Path] = {}
    errors: list[BadInput] = []
    for path in (path for folder in folders for path in list_seed_files(folder)):
        try:
            relation, root = _read_seed_file(path)
        except BadInput as error:
            errors.append(error)
            continue
        if relation.id in relations:
            message = f"relation {relation.id!r} is already defined in {source[relation.id].name}; give one another id"
            errors.append(BadInput(message, file=path, line=_find_line(root, "id"), field="id"))
            continue
        relations[relation.id], source[relation.id] = relation, path
    return SeedFolder(tuple(relations[name] for name in sorted(relations)), tuple(errors), source)


def locate_error(error: BadInput, text: str, relation: Relation, folders: Sequence[Path]) -> BadInput:
    """The error with the file and the line of ``text`` in the field that it names.

    As it came where no file says (any more) what the relation says.
    """
    for path in (path for folder in folders if folder.is_dir() for path in list_seed_files(folder)):
        try:
            read, root = _read_seed_file(path)
        except BadInput:
            continue  # reported by whoever reads the folder
        if read.seed_hash == relation.seed_hash and error.field is not None:
            line = _find_line(root, error.field)
            written = path.read_text(encoding="utf-8").splitlines()
            line = next((n for n in range(line, len(written) + 1) if text in written[n - 1]), line)
            return BadInput(error.message, file=path, line=line, field=error.field)
    return error


def _read_seed_file(path: Path) -> tuple[Relation, yaml.Node]:
    """A seed file's relation and its YAML nodes, which know their lines. All its values are texts: no and 1999, too."""
    root = parse_yaml_file(path, lambda text: yaml.compose(text, yaml.BaseLoader))
    if not isinstance(root, yaml.MappingNode):
        raise BadInput("must hold keys such as id, prompt and pairs", file=path, line=1)
    keys = [key.value for key, _ in root.value]
    if twice := [key for place, key in enumerate(keys) if key in keys[:place]]:
        line = next(key.start_mark.line + 1 for key, _ in reversed(root.value) if key.value == twice[0])
        raise BadInput("stands twice in the file", file=path, line=line, field=str(twice[0]))
    stated = parse_yaml_file(path, lambda text: yaml.BaseLoader(text).get_single_data())
    try:
        return TypeAdapter(Relation).validate_python({"template": stated.get("prompt"), **stated}), root
    except ValidationError as invalid:
        error = invalid.errors()[0]
        name, message = str(error["loc"][0]), error["msg"].removeprefix("Value error, ")
        if error["type"] == "unexpected_keyword_argument":
            near = closest_name(name, list(Relation.__dataclass_fields__))
            message = f"is not a key of a seed file; the nearest is {near!r}"
        elif error["type"] == "missing":
            message = "is missing" if len(error["loc"]) == 1 else "a seed is [head, tail]"
        raise BadInput(message, file=path, line=_find_line(root, *error["loc"]), field=name) from invalid


def _find_line(node: yaml.Node, *place: str | int) -> int:
    """The line of what is at a place in a YAML file, or of what it would be in."""
    for part in place:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), node)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
    return int(node.start_mark.line) + 1
