"""Names of spans without what differs from one occurrence to the next.

    aten::mm, op_id = 314286, seq = 12         aten::mm
    ProfilerStep#7                             ProfilerStep#N
    <built-in function f at 0x7f01>            <built-in function f>

PyTorch's emit_nvtx appends `, seq = N, op_id = N, sizes = [...], input_op_ids = [...]` to texts of NVTX ranges;
layer-wise markers of TensorRT-LLM and vLLM are dictionaries of Python, {'Module': 'model.layers.0', ...}.
"""

from __future__ import annotations

import re

from ktrace.stages.select.marks import step_of

#: The begin of a list of arguments at the end of a name.
_ARGUMENTS = re.compile(r",\s?(?P<key>[A-Za-z_]\w*)\s?=")

#: A marker that is a dictionary with the path of a module.
_MARKER = re.compile(r"\{'Module': '(?P<path>[^']+)'")
MARKER = "Module"

#: How Kineto writes modules (with_modules, with_stack).
MODULE = "nn.Module: "

_DIGITS = re.compile(r"[0-9]+")

#: The address in the name of a function of Python.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")


def generic(name: str) -> str:
    """The name of a span without arguments and addresses, and without the number of a step."""
    if step_of(name) is not None:
        return _DIGITS.sub("N", name.strip())
    return name if name.startswith(MODULE) else _ADDRESS.sub("", grouped(name)[0])


def grouped(name: str) -> tuple[str, str]:
    """The name without arguments, and what was left out: the first key, "Module" for a marker, "" for nothing."""
    if name.startswith(MODULE):
        return name.removeprefix(MODULE), MODULE
    if name.startswith("{") and (marker := _MARKER.match(name)):
        return marker["path"], MARKER
    found = _ARGUMENTS.search(name) if "=" in name else None
    if found and found.start() and _closed(name[: found.start()]):
        return name[: found.start()], found["key"]
    return name, ""


def _closed(text: str) -> bool:
    """Whether no bracket is open at the end of the text, so that a comma after it isn't in a list."""
    return all(text.count(opens) <= text.count(closes) for opens, closes in ("()", "[]", "{}"))
