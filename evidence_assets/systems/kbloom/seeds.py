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

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import yaml_of
from evidence_assets.text.nearest import nearest
from evidence_assets.text.prompt_text import missing_slot

MAX_PAIRS = 5
PACKAGED = Path(__file__).with_name("relations")
"""Folders of seed files that come with the package, one a collection."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Relation:
    """A relation to harvest.

    ``template`` verbalises a triple for readers (the prompt where the file gives none); ``head_kinds`` and
    ``tail_kinds`` are the entity kinds allowed (empty: any); ``inverse`` is the id of the relation that says the same
    from the tail's side; in a ``functional`` relation a head has one tail.
    """

    id: str
    collection: str
    prompt: str
    pairs: tuple[tuple[str, str], ...]
    template: str
    head_kinds: tuple[str, ...] = ()
    tail_kinds: tuple[str, ...] = ()
    inverse: str | None = None
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
    known = sorted(path.name for path in PACKAGED.iterdir() if path.is_dir())
    if name not in known:
        raise BadInput(f"there is no collection of relations {name!r}; known: {', '.join(known)}", field="relations")
    return PACKAGED / name


def seed_files(folder: Path) -> list[Path]:
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
    for path in (path for folder in folders for path in seed_files(folder)):
        try:
            relation, lines = _read(path)
        except BadInput as error:
            errors.append(error)
            continue
        if relation.id in relations:
            errors.append(
                BadInput(
                    f"relation {relation.id!r} is already defined in {source[relation.id].name}; give one another id",
                    file=path,
                    line=lines["id"],
                    field="id",
                )
            )
            continue
        relations[relation.id], source[relation.id] = relation, path
    return SeedFolder(tuple(relations[name] for name in sorted(relations)), tuple(errors), source)


def located(error: BadInput, text: str, relation: Relation, folders: Sequence[Path]) -> BadInput:
    """The error with the file and the line of ``text`` in the field that it names.

    As it came where no file says (any more) what the relation says.
    """
    for path in (path for folder in folders if folder.is_dir() for path in seed_files(folder)):
        try:
            read, lines = _read(path)
        except BadInput:
            continue  # reported by whoever reads the folder
        if read.seed_hash == relation.seed_hash and error.field is not None:
            line = lines[error.field]
            written = path.read_text(encoding="utf-8").splitlines()
            line = next((n for n in range(line, len(written) + 1) if text in written[n - 1]), line)
            return BadInput(error.message, file=path, line=line, field=error.field)
    return error


def _read(path: Path) -> tuple[Relation, dict[str, int]]:
    root = yaml_of(path, lambda text: yaml.compose(text, Loader=yaml.SafeLoader))
    if not isinstance(root, yaml.MappingNode):
        raise BadInput("must hold keys such as id, prompt and pairs", file=path, line=1)
    reader = _FileReader(path, root)
    return reader.relation(), {name: key.start_mark.line + 1 for name, (key, _) in reader.nodes.items()}


class _FileReader:
    """Turns one file's YAML nodes into a relation; nodes, not values, because they know their lines."""

    def __init__(self, path: Path, root: yaml.MappingNode) -> None:
        self._path = path
        self._root = root
        self.nodes: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        known = tuple(Relation.__dataclass_fields__)
        for key, value in root.value:
            name = str(key.value)
            if name not in known:
                near = nearest(name, known)
                raise self._error(key, name, f"is not a key of a seed file; the nearest is {near!r}")
            if name in self.nodes:
                raise self._error(key, name, "stands twice in the file")
            self.nodes[name] = (key, value)

    def relation(self) -> Relation:
        prompt = self._prompt("prompt")
        return Relation(
            id=self._name("id"),
            collection=self._name("collection"),
            prompt=prompt,
            pairs=self._pairs(),
            template=self._prompt("template") if "template" in self.nodes else prompt,
            head_kinds=self._texts("head_kinds"),
            tail_kinds=self._texts("tail_kinds"),
            inverse=self._name("inverse") if "inverse" in self.nodes else None,
            symmetric=self._flag("symmetric"),
            functional=self._flag("functional"),
        )

    def _error(self, node: yaml.Node, field: str, message: str) -> BadInput:
        return BadInput(message, file=self._path, line=node.start_mark.line + 1, field=field)

    def _node(self, field: str) -> yaml.Node:
        if field not in self.nodes:
            raise BadInput("is missing", file=self._path, line=self._root.start_mark.line + 1, field=field)
        return self.nodes[field][1]

    def _text(self, field: str, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, field, "must be text")
        if node.tag != "tag:yaml.org,2002:str":
            kind = node.tag.rsplit(":", 1)[-1]
            if node.value.strip():
                raise self._error(
                    node, field, f"must be text, but YAML reads {node.value!r} as {kind}; put it in quotes"
                )
        text = " ".join(node.value.split())
        if not text:
            raise self._error(node, field, "is empty")
        return text

    def _name(self, field: str) -> str:
        node = self._node(field)
        text = self._text(field, node)
        if not _NAME.fullmatch(text):
            raise self._error(node, field, f"must be letters, digits, '_', '-' and '.', not {text!r}")
        return text

    def _prompt(self, field: str) -> str:
        node = self._node(field)
        text = self._text(field, node)
        if fault := missing_slot(text):
            raise self._error(node, field, fault.replace("the prompt", f"the {field}"))
        return text

    def _items(self, field: str, node: yaml.Node) -> Sequence[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, field, "must be a list")
        return list(node.value)

    def _texts(self, field: str) -> tuple[str, ...]:
        if field not in self.nodes:
            return ()
        return tuple(self._text(field, item) for item in self._items(field, self._node(field)))

    def _pairs(self) -> tuple[tuple[str, str], ...]:
        node = self._node("pairs")
        items = self._items("pairs", node)
        if not 1 <= len(items) <= MAX_PAIRS:
            raise self._error(node, "pairs", f"must hold one to {MAX_PAIRS} seed pairs, not {len(items)}")
        pairs: list[tuple[str, str]] = []
        for item in items:
            sides = self._items("pairs", item)
            if len(sides) != 2:
                raise self._error(item, "pairs", f"a seed is [head, tail]; this one has {len(sides)} parts")
            pair = self._text("pairs", sides[0]), self._text("pairs", sides[1])
            if pair in pairs:
                raise self._error(item, "pairs", f"the seed {list(pair)} stands twice")
            pairs.append(pair)
        return tuple(pairs)

    def _flag(self, field: str) -> bool:
        if field not in self.nodes:
            return False
        node = self._node(field)
        if node.tag != "tag:yaml.org,2002:bool":
            raise self._error(node, field, "must be true or false")
        return bool(yaml.safe_load(node.value))
