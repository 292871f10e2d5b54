"""Typed rows have the columns of the tables."""

from typing import get_type_hints

import pyarrow as pa
import pytest

from evidence_assets.experiment import stored_rows
from evidence_assets.lake.schemas import TABLES

ROW_TYPES = {
    "questions": stored_rows.QuestionRow,
    "evidence": stored_rows.EvidenceRow,
    "chains": stored_rows.ChainRow,
    "predictions": stored_rows.PredictionRow,
    "subgraphs": stored_rows.SubgraphRow,
}
SCALARS = {str: "string", int: "int32", float: "double", bool: "bool"}


def check_type(hint: object, declared: pa.DataType) -> None:
    """Raise AssertionError unless a type hint fits a type of the schema."""
    if pa.types.is_list(declared):
        (item,) = hint.__args__  # type: ignore[attr-defined]
        check_type(item, declared.value_type)
    elif pa.types.is_struct(declared):
        hints = get_type_hints(hint)
        assert list(hints) == [field.name for field in declared]
        for field in declared:
            check_type(hints[field.name], field.type)
    else:
        literals = getattr(hint, "__args__", None)
        assert SCALARS[str if literals else hint] == str(declared)  # type: ignore[index]


@pytest.mark.parametrize("table", ROW_TYPES)
def test_typed_rows_have_the_columns_of_their_table(table: str) -> None:
    hints = get_type_hints(ROW_TYPES[table])
    schema = TABLES[table].arrow
    assert sorted(hints) == sorted(schema.names)
    for field in schema:
        hint = hints[field.name]
        alternatives = getattr(hint, "__args__", ())
        is_optional = type(None) in alternatives
        assert is_optional == field.nullable, field.name
        check_type(alternatives[0] if is_optional else hint, field.type)
