"""Valid and invalid seed files; every error names file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.kbloom.seeds import Relation, read_seed_folder

GOOD = """\
id: capital_of
collection: geography
prompt: <HEAD> is the capital of <TAIL>
pairs:
  - [Paris, France]
  - [New Delhi, "  India "]
  - [no, 1999]
template: <HEAD> is the capital city of <TAIL>.
head_kinds: [city]
tail_kinds: [country]
inverse: has_capital
functional: true
"""


def write(folder: Path, text: str, name: str = "capital.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read_seed_file(path: Path) -> Relation:
    folder = read_seed_folder(path.parent)
    for error in folder.errors:
        raise error
    (relation,) = folder.relations
    return relation


def test_a_good_file(tmp_path: Path) -> None:
    relation = read_seed_file(write(tmp_path, GOOD))
    pairs = (("Paris", "France"), ("New Delhi", "India"), ("no", "1999"))
    prompt, template = "<HEAD> is the capital of <TAIL>", "<HEAD> is the capital city of <TAIL>."
    kinds = ("city",), ("country",)
    assert relation == Relation(
        "capital_of", "geography", prompt, pairs, template, *kinds, "has_capital", symmetric=False, functional=True
    )


def test_a_relation_may_have_more_seed_pairs_than_the_published_five(tmp_path: Path) -> None:
    more = "".join(f"  - [head {n}, tail {n}]\n" for n in range(40))
    relation = read_seed_file(write(tmp_path, GOOD.replace("  - [Paris, France]\n", more)))
    assert len(relation.pairs) == 42


@pytest.mark.parametrize(
    ("change", "line", "field", "message"),
    [
        (("prompt: <HEAD> is the capital of <TAIL>", "prompt: <HEAD> is a capital"), 3, "prompt", "no <TAIL>"),
        (("city of <TAIL>.", "city of <TAIL> and <TAIL>."), 8, "template", "the template has <TAIL> 2 times"),
        (("[Paris, France]", "[Paris, '  ']"), 5, "pairs", "is empty"),
        (("[Paris, France]", "[Paris]"), 5, "pairs", "write each seed as [head, tail]"),
        (("[Paris, France]", "[New Delhi, India]"), 5, "pairs", "appears twice"),
        (("functional: true", "functionel: true"), 12, "functionel", "did you mean 'functional'?"),
        (("id: capital_of", "id: capital of/x"), 1, "id", "should match pattern"),
        (("id: capital_of\n", ""), 1, "id", "is missing"),
        (("inverse: has_capital", "id: again"), 11, "id", "appears twice"),
        (("collection: geography", "collection: [a"), 2, "", "list that opens here is not closed"),
        (("[Paris, France]", "[Paris, France"), 5, "", "list that opens here is not closed"),
    ],
)
def test_bad_files_name_line_and_field(
    tmp_path: Path, change: tuple[str, str], line: int, field: str, message: str
) -> None:
    assert change[0] in GOOD
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(BadInput) as caught:
        read_seed_file(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: {field}")


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "b.yaml")
    write(tmp_path, GOOD.replace("Paris", "Lyon"), "c.yaml")
    write(tmp_path, GOOD.replace("capital_of", "other"), "a.yml")
    write(tmp_path, "id: broken\n", "d.yaml")
    folder = read_seed_folder(tmp_path)
    assert [relation.id for relation in folder.relations] == ["capital_of", "other"]
    assert folder.relations[0].pairs[0] == ("Paris", "France")
    messages = [str(error) for error in folder.errors]
    assert len(messages) == 2
    assert "c.yaml:1: id: relation 'capital_of' is already defined in b.yaml" in messages[0]
    assert "d.yaml" in messages[1]
