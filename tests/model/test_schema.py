"""The JSON Schema: valid itself, complete, and the source of the columns and of docs/model.md."""

from __future__ import annotations

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

from ktrace.model.batch import VERSION, arrow_schema, is_required, union_schema
from ktrace.model.schema import RECORDS, fields, json_schema


def test_the_schema_is_valid_2020_12() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


def test_the_versions_agree() -> None:
    assert json_schema()["x-version"] == VERSION


@pytest.mark.parametrize("record", RECORDS)
def test_every_column_says_what_it_is(record: str) -> None:
    columns = arrow_schema(record)
    assert columns.names == list(fields(record))
    for name, spec in fields(record).items():
        assert spec["description"].endswith("."), name
        assert spec["x-arrow"] and spec["x-origin"], name


@pytest.mark.parametrize("record", RECORDS)
def test_arrow_types_fit_the_json_types(record: str) -> None:
    fitting = {"integer": pa.types.is_integer, "object": pa.types.is_string, "array": pa.types.is_list}
    for name, spec in fields(record).items():
        kind = arrow_schema(record).field(name).type
        is_number = any(one.get("type") == "number" for one in spec.get("anyOf", []))
        fits = fitting.get(spec.get("type", ""), pa.types.is_floating if is_number else _is_text)
        assert fits(kind), (name, kind)
        if pa.types.is_integer(kind):
            limit = 2 ** (kind.bit_width - 1)
            assert -limit <= spec["minimum"] <= spec["maximum"] == limit - 1, name


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind.value_type if pa.types.is_dictionary(kind) else kind)


def test_a_column_has_one_type_in_all_records() -> None:
    def plain(kind: pa.DataType) -> pa.DataType:
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    for record in RECORDS:
        for field in arrow_schema(record):
            assert plain(union_schema().field(field.name).type) == plain(field.type), field.name


def test_record_comes_first_in_the_union_and_all_columns_follow() -> None:
    names = union_schema().names
    assert names[0] == "record"
    assert len(names) == len(set(names))
    assert set(names[1:]) == {name for record in RECORDS for name in fields(record)}


@pytest.mark.parametrize("record", RECORDS)
def test_source_and_id_are_never_null(record: str) -> None:
    assert is_required(record, "source")
    assert is_required(record, "id")


def test_every_entity_has_its_reserved_facts() -> None:
    assert list(json_schema()["x-facts"]) == fields("catalog")["entity"]["enum"]
