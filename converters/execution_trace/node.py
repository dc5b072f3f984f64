"""A node of an execution trace, in the two layouts that PyTorch has written."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

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
        found: dict[str, bytes] = {}
        for name, side in (("input", self.inputs), ("output", self.outputs)):
            if bytes(side)[:1] == b"{":
                members = _members(side)
                texts = {one: bytes(members[one]) for one in SIDES if one in members}
            else:
                shapes, types = getattr(self, f"{name}_shapes"), getattr(self, f"{name}_types")
                texts = {"values": bytes(side), "shapes": bytes(shapes), "types": bytes(types)}
            found |= {f"{name}s.{one}": text for one, text in texts.items() if text}
        return found


_members = msgspec.json.Decoder(dict[str, Raw]).decode

#: Returns the nodes of a JSON list, or a node. Raises msgspec.DecodeError, and RecursionError for too deep a nesting.
nodes_of = msgspec.json.Decoder(list[Node]).decode
node_of = msgspec.json.Decoder(Node).decode


def whole_number(text: bytes) -> int | None:
    """The number in a JSON text, None for another text."""
    digits = text.removeprefix(b"-")
    return int(text) if digits.isdigit() and len(digits) < 20 else None
