"""The fields of each message by number: the name that this package uses, and how the value is read.

LAUNCH = {7: One("demangled", TEXT), 10: One("grid", XYZ), 13: Many("metrics", RAW), ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class How(Enum):
    """How the value of a field is read. A field with SKIP is known but not read."""

    INT = "integer"
    SIGNED = "integer that may be negative"
    FLAG = "yes or no"
    DOUBLE = "double"
    FLOAT = "float"
    TEXT = "text"
    RAW = "bytes"
    SKIP = "left out"


class Field(NamedTuple):
    """A field: its name, how it is read (or the fields of its message), and whether it is a list."""

    name: str
    how: How | Mapping[int, Field]
    many: bool


Shape = Mapping[int, Field]


def One(name: str, how: How | Shape) -> Field:  # noqa: N802 (reads as a word of the tables)
    """Returns a field with one value; of several the last counts."""
    return Field(name, how, many=False)


def Many(name: str, how: How | Shape) -> Field:  # noqa: N802
    """Returns a field that is a list of values."""
    return Field(name, how, many=True)


INT, SIGNED, FLAG, DOUBLE, FLOAT, TEXT, RAW, SKIP = How

FILE: Shape = {1: One("version", INT)}

#: Kinds of entries of a payload, in their order, and the field of the block header that counts them.
SOURCES, LAUNCHES, RANGES, COMMAND_LISTS, GRAPHS = "sources", "launches", "ranges", "command lists", "graphs"

_PROCESS: Shape = {1: One("pid", INT), 2: One("host", TEXT), 3: One("path", TEXT)}

BLOCK: Shape = {
    1: One(SOURCES, INT),
    2: One(LAUNCHES, INT),
    3: One("session", RAW),
    4: One("strings", RAW),
    5: One("size", INT),
    6: One("process", _PROCESS),
    7: One(RANGES, INT),
    8: One(COMMAND_LISTS, INT),
    9: One(GRAPHS, INT),
}
STRINGS: Shape = {1: Many("strings", TEXT)}

_XYZ: Shape = {1: One("x", INT), 2: One("y", INT), 3: One("z", INT)}
_SERIES: Shape = {1: One("number", INT), 2: One("combination", TEXT)}
_CLOCKS: Shape = {1: One("asked", FLAG), 2: One("locked", FLAG)}
_SOURCE_OF: Shape = {1: One("number", INT), **{number: One("more", SKIP) for number in range(2, 10)}}
_COMMENT: Shape = {1: One("about", {1: One("section", TEXT)}), 2: One("name", TEXT), 3: One("text", TEXT)}

_FRAME: Shape = {
    1: One("module", TEXT),
    2: One("address", INT),
    3: One("file", TEXT),
    4: One("function", TEXT),
    5: One("line", INT),
}
_STACK: Shape = {1: Many("frames", _FRAME)}

_SECTION_METRIC: Shape = {
    1: One("name", TEXT),
    2: One("label", TEXT),
    3: One("hardware", SKIP),
    4: One("instances", SKIP),
    5: One("unit", TEXT),
    6: One("filter", SKIP),
    7: Many("instead", {1: One("name", TEXT), 2: One("label", TEXT), 3: One("filter", SKIP)}),
    8: One("display", SKIP),
    9: Many("groups", SKIP),
}
_SHOWN = Many("metrics", _SECTION_METRIC)
#: The items in the body of a section, as far as they have metrics with labels.
BODY_ITEM: Shape = {
    1: One("table", {5: _SHOWN}),
    2: One("bars", {5: _SHOWN}),
    3: One("histogram", {4: _SHOWN}),
    4: One("lines", {4: _SHOWN}),
}
_SECTION: Shape = {
    1: One("id", TEXT),
    2: One("name", TEXT),
    3: One("order", INT),
    4: One("header", {1: One("rows", SKIP), 2: _SHOWN}),
    5: Many("body", {1: Many("items", RAW), 2: One("name", SKIP), 3: One("default", SKIP)}),
    6: One("others", {1: _SHOWN}),
    7: One("description", SKIP),
    8: Many("sets", SKIP),
    9: One("extends", SKIP),
    10: One("derived", SKIP),
    11: One("filter", SKIP),
    12: Many("group", SKIP),
    13: One("source", SKIP),
}

_MESSAGE: Shape = {1: One("text", TEXT), 2: One("type", INT), 3: One("number", SIGNED), 4: One("title", TEXT)}
_FOCUS: Shape = {
    1: One("message", SIGNED),
    2: One("metric", TEXT),
    3: One("value", DOUBLE),
    4: One("severity", INT),
    5: One("advice", TEXT),
}
_ITEM: Shape = {
    1: One("message", _MESSAGE),
    2: One("table", RAW),
    3: One("bars", SKIP),
    4: One("histogram", SKIP),
    5: One("lines", SKIP),
    6: One("proposal", {1: One("rule", TEXT)}),
    7: One("roofline", SKIP),
    8: Many("focus", _FOCUS),
    9: One("source table", RAW),
    10: One("speedup", {1: One("type", INT), 2: One("percent", DOUBLE)}),
    11: One("suffixes", RAW),
}
_MARK: Shape = {
    1: One("kind", INT),
    2: One("line", INT),
    3: One("address", INT),
    4: One("text", TEXT),
    5: One("type", INT),
    6: One("file", TEXT),
}
_RULE: Shape = {
    1: One("rule", TEXT),
    2: One("title", TEXT),
    3: One("body", {1: Many("items", _ITEM)}),
    4: One("section", TEXT),
    5: Many("marks", _MARK),
}

_PAYLOAD: Shape = {
    1: One("type", INT),
    2: One("uint64", INT),
    3: One("int64", SIGNED),
    4: One("double", DOUBLE),
    5: One("uint32", INT),
    6: One("int32", SIGNED),
    7: One("float", FLOAT),
    8: One("text", TEXT),
}
_ATTRIBUTES: Shape = {
    1: One("version", SKIP),
    2: One("category", INT),
    3: One("color", {1: One("type", INT), 2: One("argb", INT)}),
    4: One("payload", _PAYLOAD),
    5: One("message", {1: One("type", INT), 2: One("text", TEXT), 3: One("handle", INT)}),
}
_PUSHED: Shape = {1: One("name", TEXT), 2: One("attributes", _ATTRIBUTES), 3: One("call", INT)}
_STARTED: Shape = {
    1: One("id", INT),
    2: One("name", TEXT),
    3: One("attributes", _ATTRIBUTES),
    4: One("call", INT),
    5: One("tid", INT),
}
_REGISTERED: Shape = {1: One("id", INT), 2: One("text", TEXT)}
_DOMAIN: Shape = {
    1: One("id", INT),
    2: One("name", TEXT),
    3: Many("strings", _REGISTERED),
    4: Many("names", SKIP),
}
_THREAD: Shape = {
    1: One("tid", INT),
    2: Many("domains", {1: One("domain", INT), 3: Many("ranges", _PUSHED)}),
}
_NVTX: Shape = {
    1: Many("domains", _DOMAIN),
    2: Many("threads", _THREAD),
    3: Many("started", {1: One("domain", INT), 3: Many("ranges", _STARTED)}),
    4: One("default", INT),
}

LAUNCH: Shape = {
    1: One("tid", INT),
    2: One("call", INT),
    3: One("module", INT),
    4: One("function", INT),
    5: One("mangled", TEXT),
    6: One("short", TEXT),
    7: One("demangled", TEXT),
    8: One("dimensions", SKIP),
    9: One("offset", _XYZ),
    10: One("grid", _XYZ),
    11: One("block", _XYZ),
    12: One("comment", TEXT),
    13: Many("metrics", RAW),
    14: One("created", INT),
    15: One("source", _SOURCE_OF),
    16: One("api", INT),
    17: Many("sections", _SECTION),
    18: Many("comments", _COMMENT),
    19: Many("rules", _RULE),
    20: One("unsupported", FLAG),
    21: One("nvtx", _NVTX),
    22: One("context", INT),
    23: One("stream", INT),
    24: One("series", _SERIES),
    25: One("clocks", _CLOCKS),
    26: One("context name", TEXT),
    27: One("stream name", TEXT),
    28: One("stack", _STACK),
    29: One("scope", INT),
    30: One("green", FLAG),
}

#: The common fields of ranges, command lists and graphs.
_RESULT: Shape = {
    1: One("tid", INT),
    2: One("call", INT),
    3: One("comment", TEXT),
    4: Many("metrics", RAW),
    5: One("created", INT),
    6: One("api", INT),
    7: Many("sections", _SECTION),
    8: Many("comments", _COMMENT),
    9: One("unsupported", FLAG),
    10: One("nvtx", _NVTX),
    11: One("context", INT),
}
RANGE: Shape = {
    **_RESULT,
    12: One("clocks", _CLOCKS),
    13: One("context name", TEXT),
    14: One("stack", _STACK),
    15: Many("sources", INT),
    16: One("green", FLAG),
}
GRAPH: Shape = {
    **_RESULT,
    12: One("stream", INT),
    13: One("clocks", _CLOCKS),
    14: One("context name", TEXT),
    15: One("stream name", TEXT),
    16: One("stack", _STACK),
    17: Many("sources", INT),
    18: One("green", FLAG),
}
COMMAND_LIST: Shape = {
    **GRAPH,
    18: One("name", TEXT),
    19: One("dimensions", SKIP),
    20: Many("launches", {1: One("grid", _XYZ), 2: One("block", _XYZ)}),
    21: Many("rules", _RULE),
}

_SYMBOL: Shape = {1: One("name", TEXT), 2: One("address", INT), 3: One("index", SKIP)}
SOURCE: Shape = {
    1: One("number", INT),
    2: One("code", SKIP),
    3: One("intermediate", SKIP),
    4: One("binary", SKIP),
    5: One("level", INT),
    6: One("revision", INT),
    7: One("flags", INT),
    8: One("files", {1: Many("files", {1: One("path", TEXT), 2: One("text", SKIP)})}),
    9: One("symbols", {1: Many("functions", _SYMBOL), 2: Many("objects", _SYMBOL)}),
}

#: The value of a metric or an attribute: one of these fields.
VALUE: Shape = {
    1: One("text", TEXT),
    2: One("float", FLOAT),
    3: One("double", DOUBLE),
    4: One("uint32", INT),
    5: One("uint64", INT),
}

_SYSTEM: Shape = {
    1: One("os", TEXT),
    2: One("build", TEXT),
    3: One("cpu", TEXT),
    4: One("architecture", TEXT),
    5: One("computer", TEXT),
    6: One("platform", INT),
    7: Many("addresses", SKIP),
}
_DEVICE: Shape = {
    1: One("number", INT),
    2: One("name", TEXT),
    3: Many("attributes", {1: One("name", TEXT), 2: One("value", VALUE)}),
}
_PROGRAM: Shape = {
    1: One("path", TEXT),
    2: One("folder", TEXT),
    3: One("arguments", TEXT),
    4: One("environment", RAW),
}
SESSION: Shape = {
    1: One("pid", INT),
    2: One("created", INT),
    3: One("host", _SYSTEM),
    4: One("target", _SYSTEM),
    5: One("properties", {1: Many("properties", {1: One("key", TEXT), 2: One("value", TEXT)})}),
    6: Many("devices", _DEVICE),
    7: One("comment", TEXT),
    8: Many("versions", {1: One("of", TEXT), 2: One("version", TEXT)}),
    9: One("program", _PROGRAM),
    10: One("settings", RAW),
    11: One("command", TEXT),
}
