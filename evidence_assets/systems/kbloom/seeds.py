"""Reads seed files: one relation per file, with its prompt and seed pairs.

Example; ``template`` and the keys below it are optional::

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

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, ValidationInfo

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import list_joined_harvests, user_folders
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import parse_yaml_file
from evidence_assets.text.prompt_text import find_slot_error
from evidence_assets.text.spelling import did_you_mean
from evidence_assets.text.words import name_key

PACKAGED_RELATIONS = Path(__file__).with_name("relations")
"""Folders of the packaged seed files, one per collection."""


def _with_slots(text: str, info: ValidationInfo[object]) -> str:
    if fault := find_slot_error(text):
        raise ValueError(fault.replace("the prompt", f"the {info.field_name}"))
    return text


def _distinct(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    if duplicates := [pair for position, pair in enumerate(pairs) if pair in pairs[:position]]:
        raise ValueError(f"the seed {list(duplicates[0])} appears twice. Remove one of the lines")
    return pairs


Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]
Name = Annotated[Text, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Prompt = Annotated[Text, AfterValidator(_with_slots)]


@dataclass(frozen=True)
class Relation:
    """A relation to harvest.

    ``template`` verbalises a triple (default: the prompt); ``head_kinds`` and ``tail_kinds`` are the allowed kinds of
    entities (empty: any); ``inverse`` is the id of the inverse relation; in a ``functional`` relation a head has one
    tail.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    id: Name
    collection: Name
    prompt: Prompt
    pairs: Annotated[tuple[tuple[Text, Text], ...], Field(min_length=1), AfterValidator(_distinct)]
    template: Prompt
    head_kinds: tuple[Text, ...] = ()
    tail_kinds: tuple[Text, ...] = ()
    inverse: Name | None = None
    symmetric: bool = False
    functional: bool = False

    @property
    def seed_hash(self) -> str:
        """Hash of all fields: changes exactly when results can change."""
        return content_id("relation", *(getattr(self, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class SeedFolder:
    """Relations of the valid seed files by id, with their files, and the errors of the other files."""

    relations: tuple[Relation, ...]
    errors: tuple[BadInput, ...]
    files: dict[str, Path] = field(default_factory=dict, compare=False)


def collection_folder(name: str) -> Path:
    """The folder of a packaged collection of relations."""
    collections = sorted(path.name for path in PACKAGED_RELATIONS.iterdir() if path.is_dir())
    if name not in collections:
        raise BadInput(
            f"there is no collection of relations {name!r}; choose one of {', '.join(collections)}", field="relations"
        )
    return PACKAGED_RELATIONS / name


def merged_collections() -> tuple[str, ...]:
    """Collections that harvests merge: the profile's, and those that graphs of the lake or project join."""
    joined = [assets for folder in user_folders() for assets in list_joined_harvests(folder).values()]
    collections = [asset.split("/")[2] for assets in joined for asset in assets if asset.count("/") == 2]
    return tuple(dict.fromkeys([*profiles.load().harvesting.collections, *collections]))


def list_seed_files(folder: Path) -> list[Path]:
    return sorted(path for path in (*folder.glob("*.yaml"), *folder.glob("*.yml")) if not path.name.startswith("."))


def read_seed_folder(*folders: Path) -> SeedFolder:
    """Read every seed file of the folders; a malformed file does not stop the others.

    If two files have the same relation id, the first by folder and file name is valid and the other is an error.
    """
    for folder in folders:
        if not folder.is_dir():
            raise BadInput("there is no such folder of seed files; create it or correct the path", file=folder)
    relations: dict[str, Relation] = {}
    files: dict[str, Path] = {}
    errors: list[BadInput] = []
    for path in (path for folder in folders for path in list_seed_files(folder)):
        try:
            relation, root = _read_seed_file(path)
        except BadInput as error:
            errors.append(error)
            continue
        if relation.id in relations:
            message = f"relation {relation.id!r} is already defined in {files[relation.id].name}; change one of the ids"
            errors.append(BadInput(message, file=path, line=_find_line(root, "id"), field="id"))
            continue
        relations[relation.id] = relation
        files[relation.id] = path
    return SeedFolder(tuple(relations[name] for name in sorted(relations)), tuple(errors), files)


def find_suspect_seeds(folder: SeedFolder) -> list[BadInput]:
    """Seeds that repeat or contradict an earlier one of their file; case, punctuation and inflection are ignored."""
    warnings = []
    for relation in folder.relations:
        keys = [(name_key(head), name_key(tail)) for head, tail in relation.pairs]
        for position, (head, tail) in enumerate(keys):
            earlier = keys[:position]
            if (head, tail) in earlier or (relation.symmetric and (tail, head) in earlier):
                problem = "repeats an earlier seed. Remove one of them"
            elif (tail, head) in earlier:
                problem = "reverses an earlier seed. Remove one of them, or set `symmetric: true`"
            elif relation.functional and any(head == other for other, _ in earlier):
                problem = "gives a head a second tail. Remove one of them, or `functional: true`"
            else:
                continue
            path = folder.files[relation.id]
            line = _find_line(_read_seed_file(path)[1], "pairs", position)
            pair = list(relation.pairs[position])
            warnings.append(BadInput(f"the seed {pair} {problem}", file=path, line=line, field="pairs"))
    return warnings


def _read_seed_file(path: Path) -> tuple[Relation, yaml.Node]:
    """The relation and the YAML nodes of a seed file. All values are read as text (no, 1999)."""
    root = parse_yaml_file(path, lambda text, _: yaml.compose(text, yaml.BaseLoader))
    if not isinstance(root, yaml.MappingNode):
        raise BadInput("must be a mapping with keys such as id, prompt and pairs", file=path, line=1)
    keys = [key.value for key, _ in root.value]
    if duplicates := [key for position, key in enumerate(keys) if key in keys[:position]]:
        line = next(key.start_mark.line + 1 for key, _ in reversed(root.value) if key.value == duplicates[0])
        raise BadInput("appears twice in the file. Remove one of them", file=path, line=line, field=str(duplicates[0]))
    fields = yaml.BaseLoader("").construct_document(root)
    try:
        return TypeAdapter(Relation).validate_python({"template": fields.get("prompt"), **fields}), root
    except ValidationError as invalid:
        raise _locate_error(invalid, root, path) from invalid


def _locate_error(invalid: ValidationError, root: yaml.Node, path: Path) -> BadInput:
    """The first error of a seed file, with its line and field."""
    error = invalid.errors()[0]
    name = str(error["loc"][0])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "unexpected_keyword_argument":
        message = f"is not a key of a seed file{did_you_mean(name, Relation.__dataclass_fields__)}"
    elif error["type"] == "missing":
        message = "is missing; add it" if len(error["loc"]) == 1 else "write each seed as [head, tail]"
    return BadInput(message, file=path, line=_find_line(root, *error["loc"]), field=name)


def _find_line(node: yaml.Node, *path: str | int) -> int:
    """The line of the value at this path of keys and positions, or of its nearest existing parent."""
    for step in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step), node)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
    return int(node.start_mark.line) + 1
