"""Reads the document as a stream: its header, and its nodes chunk by chunk.

    ..."value": ""}]
      },
      {
        "id": 13, "name": ...
                            ^ the end of a chunk: a node ends, and text follows that begins as the first node does

A chunk that isn't JSON is read node by node. PyTorch doesn't escape names, so that a quote in the name of a
record_function() makes invalid JSON; such a node is repaired.

A node of an execution trace, in the two layouts that PyTorch has written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from ktrace.errors import DamagedInput
from ktrace.kit.columnar.dictionaries import is_utf8
from ktrace.kit.trace_json.chunks import CHUNK, Text, value_at
from ktrace.kit.trace_json.salvage import mend_value
from ktrace.model.json_text import NOT_JSON, decode_document, json_decoder
from ktrace.report import Report

Raw = msgspec.Raw

#: Nodes for the process and its threads, which aren't operators. They were renamed twice.
_ROOT = re.compile(r"\[pytorch\|profiler\|execution_(?:trace|graph)\|(?:process|thread)\]|__ROOT_(?:PROCESS|THREAD)__")

#: RecordScope::USER_SCOPE: what record_function() opens. All other scopes are operators (ATen/record_function.h).
_USER_SCOPE = b"7"

#: Attributes of nodes in the flat layout.
_FLAT = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema", "kernel_backend", "kernel_file")

#: The lists of arguments and results: name in `inputs` -> name in the flat layout, by "input" or "output".
SIDES = ("values", "shapes", "types", "strides")

_NONE = Raw(b"")

Id = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Attribute(msgspec.Struct):
    """An attribute of a node. Its type repeats that of the value."""

    name: str
    value: Raw


class Node(msgspec.Struct):
    """A node as JSON; fields of only one layout are empty in the other."""

    id: Id
    name: str
    ctrl_deps: Id | None = None
    parent: Id | None = None
    inputs: Raw = _NONE
    outputs: Raw = _NONE
    attrs: list[Attribute] = []
    rf_id: Raw = _NONE
    fw_parent: Raw = _NONE
    seq_id: Raw = _NONE
    scope: Raw = _NONE
    tid: Raw = _NONE
    fw_tid: Raw = _NONE
    op_schema: Raw = _NONE
    kernel_backend: Raw = _NONE
    kernel_file: Raw = _NONE
    input_shapes: Raw = _NONE
    input_types: Raw = _NONE
    output_shapes: Raw = _NONE
    output_types: Raw = _NONE

    @property
    def is_root(self) -> bool:
        """Whether it is the node of the process or of a thread."""
        return _ROOT.fullmatch(self.name) is not None

    def attributes(self) -> dict[str, bytes]:
        """The attributes as JSON texts by name."""
        if self.attrs:
            return {attribute.name: bytes(attribute.value) for attribute in self.attrs}
        values = {name: bytes(getattr(self, name)) for name in _FLAT}
        return {name: value for name, value in values.items() if value}

    def kind(self, attributes: dict[str, bytes]) -> str:
        """The kind of the node in the model: a range that a program opened, or an operator."""
        return "range" if attributes.get("scope") == _USER_SCOPE else "op"

    def lists(self) -> dict[str, bytes]:
        """The lists of arguments and results as JSON texts: "inputs.shapes", "outputs.types", ...

        Raises msgspec.DecodeError if `inputs` isn't an object of lists.
        """
        texts_by_name: dict[str, bytes] = {}
        for name, side in (("input", self.inputs), ("output", self.outputs)):
            if bytes(side)[:1] == b"{":
                members = _members(side)
                texts = {one: bytes(members[one]) for one in SIDES if one in members}
            else:
                shapes, types = getattr(self, f"{name}_shapes"), getattr(self, f"{name}_types")
                texts = {"values": bytes(side), "shapes": bytes(shapes), "types": bytes(types)}
            texts_by_name |= {f"{name}s.{one}": text for one, text in texts.items() if text}
        return texts_by_name


_members = msgspec.json.Decoder(dict[str, Raw]).decode

#: Returns the nodes of a JSON list, or a node. Raises msgspec.DecodeError, and RecursionError for too deep a nesting.
nodes_of = json_decoder(list[Node])
node_of = json_decoder(Node)


def whole_number(text: bytes) -> int | None:
    """The number in a JSON text, None for another text."""
    digits = text.removeprefix(b"-")
    return int(text) if digits.isdigit() and len(digits) < 20 else None


#: Greatest number of bytes of a node; more is damage.
LARGEST = 32 << 20

#: Members that are kept.
HEADER = ("schema", "pid", "time", "start_ts", "finish_ts")

_FIRST_KEY = re.compile(rb'\{\s*("(?:[^"\\]|\\.){0,40}")\s*:')
_SEPARATORS = re.compile(rb"[\s,]*")
_LAST = re.compile(rb"\}(?=\s*\]\s*,\s*\"finish_ts\")")

_EXPECTED = 'a JSON object with "schema" and "nodes"'
_REMEDY = "record it again with torch.profiler.ExecutionTraceObserver, and call unregister_callback() at the end"


class Document:
    """Iterates over lists of nodes. Counts every node; `header` has the other members as they are read."""

    def __init__(self, text: Text, report: Report, path: str) -> None:
        self.header: dict[str, Any] = {}
        self._text = text
        self._report = report
        self._path = path
        self._boundary = re.compile(rb"\}\s*,\s*(?=\{)")

    def __iter__(self) -> Iterator[list[Node]]:
        text = self._text
        if text.peek(3) == b"\xef\xbb\xbf":
            text.pos += 3
            text.own("structure", 0)
        if text.skip_blank() != b"{":
            raise self._damaged(f"{text.peek(20)!r} where an object should begin")
        text.step()
        has_nodes = False
        while (key := self._key()) is not None:
            if key == "nodes" and text.skip_blank() == b"[":
                text.step()
                has_nodes = True
                yield from self._nodes()
            elif not self._member(key):
                break
        if not has_nodes:
            raise self._damaged("it has no list of nodes")
        if text.skip_blank() != b"}":
            self._report.issue("cut", f"byte {text.pos}", "the document isn't closed", 0)
        else:
            text.step()
        text.skip_rest(self._report)

    def _damaged(self, what: str) -> DamagedInput:
        where = f"byte {self._text.pos}"
        return DamagedInput(what, path=self._path, where=where, expected=_EXPECTED, remedy=_REMEDY)

    def _key(self) -> str | None:
        """Reads the key of the next member, None if there is none."""
        text = self._text
        text.skip_blank()
        self._skip_separators()
        if text.peek() != b'"':
            return None
        start = text.pos
        key = self._value(1 << 16)
        if key is None or text.skip_blank() != b":":
            return None
        text.pos += 1
        text.own("structure", start)
        return key if isinstance(key, str) else None

    def _member(self, key: str) -> bool:
        """Reads a member; returns False if it has no end."""
        text = self._text
        text.skip_blank()
        start = text.pos
        value = self._value(LARGEST)
        text.own("read", start)
        if value is not None and key in HEADER:
            self.header[key] = value
        return value is not None

    def _value(self, most: int) -> Any:
        """Reads the value that begins here, None if it isn't valid."""
        text = self._text
        read = value_at(text, text.pos, most)
        if read.fault:
            return None
        content = text.part(read.start, read.end)
        text.pos = read.end
        try:
            return decode_document(content)
        except NOT_JSON:
            return ""

    def _skip_separators(self) -> None:
        text = self._text
        while True:
            start, text.pos = text.pos, text.match(_SEPARATORS, text.pos)
            text.own("structure", start)
            if text.pos < text.end or not text.more():
                return

    def _nodes(self) -> Iterator[list[Node]]:
        """Yields the nodes of the list whose bracket is read, and reads its end."""
        text = self._text
        self._skip_separators()
        if key := _FIRST_KEY.match(text.peek(1 << 10)):
            self._boundary = re.compile(rb"\}\s*,\s*(?=\{\s*" + re.escape(key[1]) + rb")")
        while True:
            self._skip_separators()
            first = text.peek()
            if first == b"]":
                text.step()
                return
            if not first:
                return
            end = self._boundary_from(text.pos + CHUNK)
            nodes = self._decoded(end) if end >= 0 else None
            if nodes is None:
                nodes = list(self._singly(end if end >= 0 else text.end))
            if nodes:
                yield nodes

    def _boundary_from(self, at: int) -> int:
        """The end of a node from a position on that another one follows; -1 if there is none."""
        text = self._text
        while True:
            if at < text.end:
                match = text.search(self._boundary, at)
                if match >= 0:
                    return match + 1
                at = max(at, text.end - 4096)
            if text.end - text.pos > LARGEST or not text.more():
                return -1

    def _decoded(self, end: int) -> list[Node] | None:
        """Decodes the nodes up to a position, None if they aren't JSON, or not UTF-8: nodes have undecoded values."""
        content = b"".join((b"[", self._text.view(self._text.pos, end), b"]"))
        if not is_utf8(content):
            return None
        try:
            nodes = nodes_of(content)
        except NOT_JSON:
            return None
        start, self._text.pos = self._text.pos, end
        self._text.own("read", start)
        self._report.record(len(nodes))
        return nodes

    def _singly(self, end: int) -> Iterator[Node]:
        """Yields the nodes that begin before a position, one by one; stops at the end of the list."""
        text = self._text
        while text.pos < end:
            self._skip_separators()
            if text.peek() in (b"]", b""):
                return
            self._report.record()
            start = text.pos
            value = value_at(text, start, LARGEST)
            if not value.fault:
                content = self._utf8(text.part(start, value.end), start)
                text.pos = value.end
            else:
                content = self._broken(start)
            text.own("read" if content else "skipped", start)
            if content:
                yield from self._node(content, start)

    def _utf8(self, content: bytes, start: int) -> bytes:
        """Returns the text of a node with U+FFFD for bytes that aren't UTF-8, which are reported."""
        if is_utf8(content):
            return content
        self._report.issue("encoding", f"byte {start}")
        return content.decode(errors="replace").encode()

    def _broken(self, start: int) -> bytes:
        """Returns the repaired text of an object that isn't JSON, b"" if it can't be repaired."""
        text = self._text
        after = self._boundary_from(start)
        if after < 0:
            last = text.search(_LAST, start)
            after = last + 1 if last >= 0 else self._last_bracket(start)
        if after < 0:
            shown = text.peek(60).decode(errors="replace")
            text.pos = text.end
            self._report.issue("cut", f"byte {start}", shown)
            return b""
        piece = text.part(start, after)
        text.pos = after
        for better, repairs in mend_value(piece):
            try:
                msgspec.json.decode(better)
            except NOT_JSON:
                continue
            for repair in repairs:
                self._report.issue(repair.kind, f"byte {start + repair.place}", repair.detail)
            return better
        self._report.issue("bad-record", f"byte {start}", piece[:60].decode(errors="replace"))
        return b""

    def _last_bracket(self, start: int) -> int:
        """The end of the last object in the window that a bracket follows: "finish_ts" may come first; -1 for none."""
        content = self._text.part(start, self._text.end)
        match = re.search(rb"\}\s*\]\s*(?:,[^\[\]{}]*)?\}\s*\Z", content[-4096:])
        return start + max(len(content) - 4096, 0) + match.start() + 1 if match else -1

    def _node(self, content: bytes, start: int) -> Iterator[Node]:
        try:
            yield node_of(content)
        except NOT_JSON as error:
            self._report.issue("bad-record", f"byte {start}", str(error))
