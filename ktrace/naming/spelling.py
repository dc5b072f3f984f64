"""Names of kernels that tools demangle differently.

void ns::gemm<(int)128, (bool)1, const float>(const float *, T2)     nsys, ncu
void ns::gemm<128, true, float const>(float const*, float)           PyTorch
gemm                                                                 the base name
gemm.kd, gemm(float*) [clone .kd]                                    clones, as ROCm names them
"""

from __future__ import annotations

import re
from functools import lru_cache

from ktrace.naming.demangling import demangled

_CAST = re.compile(r"\((?:unsigned )?(?:bool|char|short|int|long|long long|unsigned)\)(?=[-\d(])")
_TRUTH = re.compile(r"\(bool\)([01])\b")
_CONST = re.compile(r"\bconst\b")


def without_clones(name: str) -> str:
    """The name without what names its clones at its end: `f() [clone .isra.0] [clone .kd]`, `f() (.kd)`, `f.kd`."""
    end = len(name)
    while (begin := name.rfind(" [clone ", 0, end)) >= 0 and name.find("]", begin, end) == end - 1:
        end = begin
    return (name[:end] if end < len(name) else name.removesuffix(" (.kd)").removesuffix(".kd")) or name


@lru_cache(maxsize=65_536)
def spelled_alike(name: str) -> str:
    """The name without what differs between demanglers: return type, parameters, clones, casts, const, spaces."""
    name = without_clones(demangled(name))
    name = _TRUTH.sub(lambda found: "true" if found[1] == "1" else "false", name)
    name = (
        _CONST.sub("", _CAST.sub("", name))
        .replace("(anonymous namespace)", "{anonymous}")
        .replace("<unnamed>", "{anonymous}")
    )
    head = name[: _parameters(name)]
    return head.removeprefix("void ").replace(" ", "")


@lru_cache(maxsize=65_536)
def base_name(name: str) -> str:
    """The name of the function without namespaces, template arguments and parameters."""
    name = spelled_alike(name)
    depth, kept = 0, []
    for letter in name:
        depth += (letter in "<{") - (letter in ">}")
        if depth == 0 and letter not in "<>{}":
            kept.append(letter)
    plain = "".join(kept)
    return plain.rsplit("::", 1)[-1] or name


_BRACKETS = re.compile(r"[()]")
_POINTING = re.compile(r"[*&]")


def without_numbers(name: str) -> str:
    """The name of a function without its parameters that are values: their types aren't those of the data."""
    if not name.endswith(")"):
        return name
    depth, begin = 0, 0
    for bracket in reversed(list(_BRACKETS.finditer(name))):
        depth += 1 if bracket.group() == ")" else -1
        if depth == 0:
            begin = bracket.start() + 1
            break
    parameters, kept = name[begin:-1], []
    if "<" not in parameters and "(" not in parameters:
        kept = parameters.split(",")
    else:
        start = 0
        for place, letter in enumerate(parameters):
            depth += (letter in "<({[") - (letter in ">)}]")
            if depth == 0 and letter == ",":
                kept.append(parameters[start:place])
                start = place + 1
        kept.append(parameters[start:])
    return f"{name[:begin]}{','.join(one for one in kept if _POINTING.search(one) or '<' in one)})"


def _parameters(name: str) -> int:
    """The index of the parameters: the first parenthesis outside of template arguments; the length if there is none."""
    depth = 0
    for place, letter in enumerate(name):
        if letter in "<{":
            depth += 1
        elif letter in ">}":
            depth -= 1
        elif letter == "(" and depth <= 0 and place:
            return place
    return len(name)
