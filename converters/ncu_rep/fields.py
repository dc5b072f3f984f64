"""The fields of each message by number: the name that this package uses, and how the value is read.

LAUNCH = message("tid: int, call: int, 9 offset: xyz, grid: xyz, block: xyz, 13 metrics: raw*", xyz=_XYZ)

`signed` is a whole number that may be negative, `flag` yes or no, `raw` bytes; `skip` is known but not read.
"""

from __future__ import annotations

from ktrace.kit.columnar.protobuf import Shape, message

FILE = message("version: int")

#: Kinds of entries of a payload, in their order, and the field of the block header that counts them.
SOURCES, LAUNCHES, RANGES, COMMAND_LISTS, GRAPHS = "sources", "launches", "ranges", "command lists", "graphs"

_PROCESS = message("pid: int, host: text, path: text")

BLOCK = message(
    "sources: int, launches: int, session: raw, strings: raw, size: int, process: process, ranges: int",
    "command lists: int, graphs: int",
    process=_PROCESS,
)
STRINGS = message("strings: text*")

_XYZ = message("x: int, y: int, z: int")
_SERIES = message("number: int, combination: text")
_CLOCKS = message("asked: flag, locked: flag")
_SOURCE_OF = message("number: int", *["more: skip"] * 8)
_COMMENT = message("about: about, name: text, text: text", about=message("section: text"))

_FRAME = message("module: text, address: int, file: text, function: text, line: int")
_STACK = message("frames: frame*", frame=_FRAME)

_SECTION_METRIC = message(
    "name: text, label: text, hardware: skip, instances: skip, unit: text, filter: skip, instead: instead*",
    "display: skip, groups: skip*",
    instead=message("name: text, label: text, filter: skip"),
)
_IN_TABLE = message("5 metrics: metric*", metric=_SECTION_METRIC)
_IN_CHART = message("4 metrics: metric*", metric=_SECTION_METRIC)
#: The items in the body of a section, as far as they have metrics with labels.
BODY_ITEM = message("table: table, bars: table, histogram: chart, lines: chart", table=_IN_TABLE, chart=_IN_CHART)
_SECTION = message(
    "id: text, name: text, order: int, header: header, body: body*, others: others, description: skip, sets: skip*",
    "extends: skip, derived: skip, filter: skip, group: skip*, source: skip",
    header=message("rows: skip, metrics: metric*", metric=_SECTION_METRIC),
    body=message("items: raw*, name: skip, default: skip"),
    others=message("metrics: metric*", metric=_SECTION_METRIC),
)

_ITEM = message(
    "message: message, table: raw, bars: skip, histogram: skip, lines: skip, proposal: proposal, roofline: skip",
    "focus: focus*, source table: raw, speedup: speedup, suffixes: raw",
    message=message("text: text, type: int, number: signed, title: text"),
    proposal=message("rule: text"),
    focus=message("message: signed, metric: text, value: double, severity: int, advice: text"),
    speedup=message("type: int, percent: double"),
)
_RULE = message(
    "rule: text, title: text, body: body, section: text, marks: mark*",
    body=message("items: item*", item=_ITEM),
    mark=message("kind: int, line: int, address: int, text: text, type: int, file: text"),
)

_ATTRIBUTES = message(
    "version: skip, category: int, color: color, payload: payload, message: text",
    color=message("type: int, argb: int"),
    payload=message(
        "type: int, uint64: int, int64: signed, double: double, uint32: int, int32: signed, float: float, text: text"
    ),
    text=message("type: int, text: text, handle: int"),
)
_PUSHED = message("name: text, attributes: attributes, call: int", attributes=_ATTRIBUTES)
_STARTED = message("id: int, name: text, attributes: attributes, call: int, tid: int", attributes=_ATTRIBUTES)
_NVTX = message(
    "domains: domain*, threads: thread*, started: started*, default: int",
    domain=message(
        "id: int, name: text, strings: string*, names: skip*",
        string=message("id: int, text: text"),
    ),
    thread=message("tid: int, domains: ranges*", ranges=message("domain: int, 3 ranges: pushed*", pushed=_PUSHED)),
    started=message("domain: int, 3 ranges: range*", range=_STARTED),
)

LAUNCH = message(
    "tid: int, call: int, module: int, function: int, mangled: text, short: text, demangled: text, dimensions: skip",
    "offset: xyz, grid: xyz, block: xyz, comment: text, metrics: raw*, created: int, source: source, api: int",
    "sections: section*, comments: comment*, rules: rule*, unsupported: flag, nvtx: nvtx, context: int, stream: int",
    "series: series, clocks: clocks, context name: text, stream name: text, stack: stack, scope: int, green: flag",
    xyz=_XYZ,
    source=_SOURCE_OF,
    section=_SECTION,
    comment=_COMMENT,
    rule=_RULE,
    nvtx=_NVTX,
    series=_SERIES,
    clocks=_CLOCKS,
    stack=_STACK,
)

#: The common fields of ranges, command lists and graphs.
_RESULT = message(
    "tid: int, call: int, comment: text, metrics: raw*, created: int, api: int, sections: section*, comments: comment*",
    "unsupported: flag, nvtx: nvtx, context: int",
    section=_SECTION,
    comment=_COMMENT,
    nvtx=_NVTX,
)
RANGE: Shape = {
    **_RESULT,
    **message(
        "12 clocks: clocks, context name: text, stack: stack, sources: int*, green: flag", clocks=_CLOCKS, stack=_STACK
    ),
}
GRAPH: Shape = {
    **_RESULT,
    **message(
        "12 stream: int, clocks: clocks, context name: text, stream name: text, stack: stack, sources: int*",
        "green: flag",
        clocks=_CLOCKS,
        stack=_STACK,
    ),
}
COMMAND_LIST: Shape = {
    **GRAPH,
    **message(
        "18 name: text, dimensions: skip, launches: launch*, rules: rule*",
        launch=message("grid: xyz, block: xyz", xyz=_XYZ),
        rule=_RULE,
    ),
}

_SYMBOL = message("name: text, address: int, index: skip")
SOURCE = message(
    "number: int, code: skip, intermediate: skip, binary: skip, level: int, revision: int, flags: int, files: files",
    "symbols: symbols",
    files=message("files: file*", file=message("path: text, text: skip")),
    symbols=message("functions: symbol*, objects: symbol*", symbol=_SYMBOL),
)

#: The value of a metric or an attribute: one of these fields.
VALUE = message("text: text, float: float, double: double, uint32: int, uint64: int")

_SYSTEM = message(
    "os: text, build: text, cpu: text, architecture: text, computer: text, platform: int, addresses: skip*"
)
SESSION = message(
    "pid: int, created: int, host: system, target: system, properties: properties, devices: device*, comment: text",
    "versions: version*, program: program, settings: raw, command: text",
    system=_SYSTEM,
    properties=message("properties: pair*", pair=message("key: text, value: text")),
    device=message(
        "number: int, name: text, attributes: attribute*", attribute=message("name: text, value: value", value=VALUE)
    ),
    version=message("of: text, version: text"),
    program=message("path: text, folder: text, arguments: text, environment: raw"),
)
