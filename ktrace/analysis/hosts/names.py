"""What the names of spans mean. Each different name is looked at once.

aten::mm, op_id = 314286, seq = 12         group aten::mm, an operator
nn.Module: LlamaMLP_0                      module LlamaMLP, of which this is an instance
model.layers.9.self_attn                   module model.layers.*.self_attn; model.norm next to it is one, too
torch/nn/modules/linear.py(125): forward   a frame of Python
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktrace.analysis.work.span_names import MARKER, MODULE, grouped
from ktrace.model.arrays import Bools, Int64

#: A path of attributes; that of a module if a part of it is a number.
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")

#: Frames of Python: of Kineto (file.py(12): f, <built-in ...>) and of JAX ($file.py:12 f).
_FRAME = re.compile(
    r"nn\.Module: |<built-in |<frozen |<string>|\$\S+:\d+ |[^(]*\.(?:py|pyx|pyi)\(\d+\): |\S+\(\d+\): [\w<>]+$"
)

#: The window of a recording, which Kineto writes as a slice of no thread.
_RECORDING = re.compile(r"PyTorch Profiler \(\d+\)$")

#: The number of an instance, and numbers in paths.
_INSTANCE = re.compile(r"_\d+$")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")

#: Operators of PyTorch by their namespaces, and what autograd calls.
_OPERATOR = re.compile(r"(?:aten|prim|c10d|autograd::engine)::|[A-Za-z_][\w.]*(?:::\w+)+$|(?=\w+$)\w+Backward")

_ENGINE = "autograd::engine::evaluate_function"

#: Arguments that only PyTorch's operators have.
_OF_OPERATORS = ("seq", "op_id", "sizes")


class Names(NamedTuple):
    """The meaning of each name by its number: the number of its group, and what it is.

    `words` are the groups. `frame` are frames of Python, modules as Kineto writes them, and the recording itself:
    they aren't ranges. `arguments` are names that have a list of arguments, which their group leaves out. `engine` is
    what PyTorch's autograd does around a backward operator.
    """

    words: list[str]
    group: Int64
    module: Bools
    operator: Bools
    frame: Bools
    arguments: Bools
    engine: Bools

    @classmethod
    def of(cls, names: Sequence[str]) -> Names:
        """The meanings of different names."""
        numbers: dict[str, int] = {}
        group = np.empty(len(names), np.int64)
        module, operator, frame, arguments, engine = (np.zeros(len(names), np.bool_) for _ in range(5))
        roots = _roots(names)
        for place, name in enumerate(names):
            word, key = grouped(name)
            arguments[place] = bool(key) and key != MODULE
            module[place] = key in (MODULE, MARKER) or _is_path(word, roots)
            if module[place]:
                word = _INSTANCE.sub("", word) if key == MODULE else _NUMBER.sub("*", word)
            group[place] = numbers.setdefault(word, len(numbers))
            operator[place] = bool(_OPERATOR.match(word)) and (key in _OF_OPERATORS or word.startswith("aten::"))
            engine[place] = name.startswith(_ENGINE)
            frame[place] = bool(_FRAME.match(name) or _RECORDING.match(name))
        return cls(list(numbers), group, module, operator, frame, arguments, engine)


def _roots(names: Sequence[str]) -> set[str]:
    """The first parts of paths with a number."""
    paths = (name.split(".") for name in names if "." in name and _PATH.fullmatch(name))
    return {parts[0] for parts in paths if any(part.isdecimal() for part in parts)}


def _is_path(name: str, roots: set[str]) -> bool:
    return bool(roots) and name.split(".", 1)[0] in roots and bool(_PATH.fullmatch(name))
