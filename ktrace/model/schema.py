"""The JSON Schema of the model, and the names of its columns by group, without anything of Arrow.

`x-group` says what a column is about: `launch` is how a kernel was launched, `place` where it ran, and so on. Lists of
columns are made from it, so that a column that is added to the schema is in all of them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

#: The records, in the order of the files of a canonical folder.
RECORDS = ("events", "summaries", "links", "catalog")

#: The word for a record in the `record` column of one-file forms.
WORD = {"events": "event", "summaries": "summary", "links": "link", "catalog": "catalog"}


@cache
def json_schema() -> dict[str, Any]:
    """The JSON Schema of the model, parsed."""
    text = resources.files("ktrace.schema").joinpath("ktrace-1.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def fields(record: str) -> dict[str, dict[str, Any]]:
    """The JSON Schema of each column of `record`, in order, without `record` itself."""
    properties = json_schema()["$defs"][WORD[record]]["properties"]
    return {name: spec for name, spec in properties.items() if name != "record"}


@cache
def columns_in(*groups: str, record: str = "events") -> tuple[str, ...]:
    """The columns of these groups: the groups in this order, the columns of each in the order of the schema."""
    return tuple(name for group in groups for name, spec in fields(record).items() if spec["x-group"] == group)
