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


def single(name: str, how: How | Shape) -> Field:
    """Returns a field with one value; of several the last counts."""
    return Field(name, how, many=False)


def repeated(name: str, how: How | Shape) -> Field:
    """Returns a field that is a list of values."""
    return Field(name, how, many=True)


INT, SIGNED, FLAG, DOUBLE, FLOAT, TEXT, RAW, SKIP = How

FILE: Shape = {1: single("version", INT)}

#: Kinds of entries of a payload, in their order, and the field of the block header that counts them.
SOURCES, LAUNCHES, RANGES, COMMAND_LISTS, GRAPHS = "sources", "launches", "ranges", "command lists", "graphs"

_PROCESS: Shape = {1: single("pid", INT), 2: single("host", TEXT), 3: single("path", TEXT)}

BLOCK: Shape = {
    1: single(SOURCES, INT),
    2: single(LAUNCHES, INT),
    3: single("session", RAW),
    4: single("strings", RAW),
    5: single("size", INT),
    6: single("process", _PROCESS),
    7: single(RANGES, INT),
    8: single(COMMAND_LISTS, INT),
    9: single(GRAPHS, INT),
}
STRINGS: Shape = {1: repeated("strings", TEXT)}

_XYZ: Shape = {1: single("x", INT), 2: single("y", INT), 3: single("z", INT)}
_SERIES: Shape = {1: single("number", INT), 2: single("combination", TEXT)}
_CLOCKS: Shape = {1: single("asked", FLAG), 2: single("locked", FLAG)}
_SOURCE_OF: Shape = {1: single("number", INT), **{number: single("more", SKIP) for number in range(2, 10)}}
_COMMENT: Shape = {1: single("about", {1: single("section", TEXT)}), 2: single("name", TEXT), 3: single("text", TEXT)}

_FRAME: Shape = {
    1: single("module", TEXT),
    2: single("address", INT),
    3: single("file", TEXT),
    4: single("function", TEXT),
    5: single("line", INT),
}
_STACK: Shape = {1: repeated("frames", _FRAME)}

_SECTION_METRIC: Shape = {
    1: single("name", TEXT),
    2: single("label", TEXT),
    3: single("hardware", SKIP),
    4: single("instances", SKIP),
    5: single("unit", TEXT),
    6: single("filter", SKIP),
    7: repeated("instead", {1: single("name", TEXT), 2: single("label", TEXT), 3: single("filter", SKIP)}),
    8: single("display", SKIP),
    9: repeated("groups", SKIP),
}
_SHOWN = repeated("metrics", _SECTION_METRIC)
#: The items in the body of a section, as far as they have metrics with labels.
BODY_ITEM: Shape = {
    1: single("table", {5: _SHOWN}),
    2: single("bars", {5: _SHOWN}),
    3: single("histogram", {4: _SHOWN}),
    4: single("lines", {4: _SHOWN}),
}
_SECTION: Shape = {
    1: single("id", TEXT),
    2: single("name", TEXT),
    3: single("order", INT),
    4: single("header", {1: single("rows", SKIP), 2: _SHOWN}),
    5: repeated("body", {1: repeated("items", RAW), 2: single("name", SKIP), 3: single("default", SKIP)}),
    6: single("others", {1: _SHOWN}),
    7: single("description", SKIP),
    8: repeated("sets", SKIP),
    9: single("extends", SKIP),
    10: single("derived", SKIP),
    11: single("filter", SKIP),
    12: repeated("group", SKIP),
    13: single("source", SKIP),
}

_MESSAGE: Shape = {
    1: single("text", TEXT),
    2: single("type", INT),
    3: single("number", SIGNED),
    4: single("title", TEXT),
}
_FOCUS: Shape = {
    1: single("message", SIGNED),
    2: single("metric", TEXT),
    3: single("value", DOUBLE),
    4: single("severity", INT),
    5: single("advice", TEXT),
}
_ITEM: Shape = {
    1: single("message", _MESSAGE),
    2: single("table", RAW),
    3: single("bars", SKIP),
    4: single("histogram", SKIP),
    5: single("lines", SKIP),
    6: single("proposal", {1: single("rule", TEXT)}),
    7: single("roofline", SKIP),
    8: repeated("focus", _FOCUS),
    9: single("source table", RAW),
    10: single("speedup", {1: single("type", INT), 2: single("percent", DOUBLE)}),
    11: single("suffixes", RAW),
}
_MARK: Shape = {
    1: single("kind", INT),
    2: single("line", INT),
    3: single("address", INT),
    4: single("text", TEXT),
    5: single("type", INT),
    6: single("file", TEXT),
}
_RULE: Shape = {
    1: single("rule", TEXT),
    2: single("title", TEXT),
    3: single("body", {1: repeated("items", _ITEM)}),
    4: single("section", TEXT),
    5: repeated("marks", _MARK),
}

_PAYLOAD: Shape = {
    1: single("type", INT),
    2: single("uint64", INT),
    3: single("int64", SIGNED),
    4: single("double", DOUBLE),
    5: single("uint32", INT),
    6: single("int32", SIGNED),
    7: single("float", FLOAT),
    8: single("text", TEXT),
}
_ATTRIBUTES: Shape = {
    1: single("version", SKIP),
    2: single("category", INT),
    3: single("color", {1: single("type", INT), 2: single("argb", INT)}),
    4: single("payload", _PAYLOAD),
    5: single("message", {1: single("type", INT), 2: single("text", TEXT), 3: single("handle", INT)}),
}
_PUSHED: Shape = {1: single("name", TEXT), 2: single("attributes", _ATTRIBUTES), 3: single("call", INT)}
_STARTED: Shape = {
    1: single("id", INT),
    2: single("name", TEXT),
    3: single("attributes", _ATTRIBUTES),
    4: single("call", INT),
    5: single("tid", INT),
}
_REGISTERED: Shape = {1: single("id", INT), 2: single("text", TEXT)}
_DOMAIN: Shape = {
    1: single("id", INT),
    2: single("name", TEXT),
    3: repeated("strings", _REGISTERED),
    4: repeated("names", SKIP),
}
_THREAD: Shape = {
    1: single("tid", INT),
    2: repeated("domains", {1: single("domain", INT), 3: repeated("ranges", _PUSHED)}),
}
_NVTX: Shape = {
    1: repeated("domains", _DOMAIN),
    2: repeated("threads", _THREAD),
    3: repeated("started", {1: single("domain", INT), 3: repeated("ranges", _STARTED)}),
    4: single("default", INT),
}

LAUNCH: Shape = {
    1: single("tid", INT),
    2: single("call", INT),
    3: single("module", INT),
    4: single("function", INT),
    5: single("mangled", TEXT),
    6: single("short", TEXT),
    7: single("demangled", TEXT),
    8: single("dimensions", SKIP),
    9: single("offset", _XYZ),
    10: single("grid", _XYZ),
    11: single("block", _XYZ),
    12: single("comment", TEXT),
    13: repeated("metrics", RAW),
    14: single("created", INT),
    15: single("source", _SOURCE_OF),
    16: single("api", INT),
    17: repeated("sections", _SECTION),
    18: repeated("comments", _COMMENT),
    19: repeated("rules", _RULE),
    20: single("unsupported", FLAG),
    21: single("nvtx", _NVTX),
    22: single("context", INT),
    23: single("stream", INT),
    24: single("series", _SERIES),
    25: single("clocks", _CLOCKS),
    26: single("context name", TEXT),
    27: single("stream name", TEXT),
    28: single("stack", _STACK),
    29: single("scope", INT),
    30: single("green", FLAG),
}

#: The common fields of ranges, command lists and graphs.
_RESULT: Shape = {
    1: single("tid", INT),
    2: single("call", INT),
    3: single("comment", TEXT),
    4: repeated("metrics", RAW),
    5: single("created", INT),
    6: single("api", INT),
    7: repeated("sections", _SECTION),
    8: repeated("comments", _COMMENT),
    9: single("unsupported", FLAG),
    10: single("nvtx", _NVTX),
    11: single("context", INT),
}
RANGE: Shape = {
    **_RESULT,
    12: single("clocks", _CLOCKS),
    13: single("context name", TEXT),
    14: single("stack", _STACK),
    15: repeated("sources", INT),
    16: single("green", FLAG),
}
GRAPH: Shape = {
    **_RESULT,
    12: single("stream", INT),
    13: single("clocks", _CLOCKS),
    14: single("context name", TEXT),
    15: single("stream name", TEXT),
    16: single("stack", _STACK),
    17: repeated("sources", INT),
    18: single("green", FLAG),
}
COMMAND_LIST: Shape = {
    **GRAPH,
    18: single("name", TEXT),
    19: single("dimensions", SKIP),
    20: repeated("launches", {1: single("grid", _XYZ), 2: single("block", _XYZ)}),
    21: repeated("rules", _RULE),
}

_SYMBOL: Shape = {1: single("name", TEXT), 2: single("address", INT), 3: single("index", SKIP)}
SOURCE: Shape = {
    1: single("number", INT),
    2: single("code", SKIP),
    3: single("intermediate", SKIP),
    4: single("binary", SKIP),
    5: single("level", INT),
    6: single("revision", INT),
    7: single("flags", INT),
    8: single("files", {1: repeated("files", {1: single("path", TEXT), 2: single("text", SKIP)})}),
    9: single("symbols", {1: repeated("functions", _SYMBOL), 2: repeated("objects", _SYMBOL)}),
}

#: The value of a metric or an attribute: one of these fields.
VALUE: Shape = {
    1: single("text", TEXT),
    2: single("float", FLOAT),
    3: single("double", DOUBLE),
    4: single("uint32", INT),
    5: single("uint64", INT),
}

_SYSTEM: Shape = {
    1: single("os", TEXT),
    2: single("build", TEXT),
    3: single("cpu", TEXT),
    4: single("architecture", TEXT),
    5: single("computer", TEXT),
    6: single("platform", INT),
    7: repeated("addresses", SKIP),
}
_DEVICE: Shape = {
    1: single("number", INT),
    2: single("name", TEXT),
    3: repeated("attributes", {1: single("name", TEXT), 2: single("value", VALUE)}),
}
_PROGRAM: Shape = {
    1: single("path", TEXT),
    2: single("folder", TEXT),
    3: single("arguments", TEXT),
    4: single("environment", RAW),
}
SESSION: Shape = {
    1: single("pid", INT),
    2: single("created", INT),
    3: single("host", _SYSTEM),
    4: single("target", _SYSTEM),
    5: single("properties", {1: repeated("properties", {1: single("key", TEXT), 2: single("value", TEXT)})}),
    6: repeated("devices", _DEVICE),
    7: single("comment", TEXT),
    8: repeated("versions", {1: single("of", TEXT), 2: single("version", TEXT)}),
    9: single("program", _PROGRAM),
    10: single("settings", RAW),
    11: single("command", TEXT),
}
