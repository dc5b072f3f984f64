"""Short names of kernels. `name` stays whole; the short name has its own column.

void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, ...>(int, ...)
                                            ──►   vectorized_elementwise_kernel<AddFunctor>
_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdI...Evv  ──►   kentry<Rmsnorm2dFwd>
Cijk_Alik_Bljk_BBS_BH_Bias_..._MT256x32x64_...   ──►   Cijk_Alik_Bljk_BBS_BH_MT256x32x64
ampere_sgemm_128x64_nn                      ──►   ampere_sgemm_128x64_nn

The short name of a C++ function is its name and the first template argument that describes what it does: without return
type, parameters, namespaces, numbers, types of numbers, tags of architectures, and templates that only wrap others
(`ReduceOp`, `Array`, ...). Tools demangle names differently; a spelling is one for all of them:

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
    name = _TRUTH.sub(lambda match: "true" if match[1] == "1" else "false", name)
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


_CALL_OF_CUDA = re.compile(r"cu[A-Za-z]\w*$")
#: What CUPTI adds to their names, after underscores.
_RELEASE = re.compile(r"v\d+|pt[sd][sz]")


def without_release(name: str) -> str:
    """The name of a call of CUDA without its release: cudaMemcpyAsync for CUPTI's cudaMemcpyAsync_v3020_ptsz."""
    if not _CALL_OF_CUDA.match(name):
        return name
    parts = name.split("_")
    while _RELEASE.fullmatch(parts[-1]):
        parts.pop()
    return "_".join(parts)


_TEMPLATES_AND_LISTS = re.compile(r"[<>()\[\]]")


@lru_cache(maxsize=65_536)
def without_parameters(name: str) -> str:
    """The name of a function without the types of its parameters, which don't say what it does.

    halo_step(float*, ncclComm*, int)                          halo_step()
    void cub::Reduce<cub::Policy<float> >(float*, cub::Op)     void cub::Reduce<cub::Policy<float> >()
    """
    if "(" not in name:
        return name
    plain = _OPERATOR.sub(_masked, _UNNAMED.sub(_masked, name))
    depth, kept, begin = 0, [], 0
    inside = False  # a list of parameters, none of which is kept
    for match in _TEMPLATES_AND_LISTS.finditer(plain):
        place, sign = match.start(), match.group()
        if sign in "<([":
            if depth == 0 and sign == "(" and place and plain[place - 1] not in " (":
                kept.append(name[begin : place + 1])
                inside = True
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0 and inside:
                begin, inside = place, False
    return "".join(kept if inside else [*kept, name[begin:]])


def _masked(match: re.Match[str]) -> str:
    """A placeholder of the same length that has no brackets."""
    return "_" * len(match.group())


_PARENTHESES = re.compile(r"[()]")
_POINTING = re.compile(r"[*&]")


def without_numbers(name: str) -> str:
    """The name of a function without its parameters that are values: their types aren't those of the data."""
    if not name.endswith(")"):
        return name
    depth, begin = 0, 0
    for bracket in reversed(list(_PARENTHESES.finditer(name))):
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


#: Words in template arguments that don't describe what the kernel does.
_CARRIER_WORDS = """
BinaryFunctor AUnaryFunctor BUnaryFunctor UnaryFunctor ReduceOp func_wrapper_t gpu_kernel_impl gpu_kernel_impl_nocast
gpu_index_kernel OpaqueType Array array tuple C Int OffsetCalculator
enable_sm80_to_sm89 enable_sm90 enable_sm90_or_later enable_sm100_or_later TrivialOffsetCalculator LoadWithoutCast
StoreWithoutCast LoadWithCast StoreWithCast default_config empty_type counting_iterator transform_iterator identity
NullType sequence integral_constant bool_constant operator lambda unnamed anonymous Var std at native detail c10 cute
cutlass half_t bfloat16_t tfloat32_t BFloat16 Half Float8_e4m3fn Float8_e5m2 complex const unsigned signed int long
short char bool float double void size_t true false __bf16 _Float16
float2 float4 int2 int4 uint4 half half2 __half __half2 __nv_bfloat16
__nv_bfloat162 nv_bfloat16 __hip_bfloat16 hip_bfloat16 bfloat16 int8_t uint8_t int16_t int32_t int64_t uint32_t uint64_t
"""
_CARRIERS = frozenset(_CARRIER_WORDS.split())
_CARRYING = re.compile(
    r"(?:[Tt]raits|[Mm]etadata|Params?|Policy|Config|config|Problem|Shape|Iterator|Algorithm|Mode|DataType|Layout|Tag|hub)$"
)
#: Tags of architectures, which all kernels for one GPU share: gfx950_t, Sm90, sm_100a.
_ARCHITECTURE = re.compile(r"(?:gfx\d[a-z\d]*|[Ss][Mm]_?\d+[af]?)(?:_t)?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_BRACKETS = re.compile(r"[<>(){}\[\]]")
_OPERATOR = re.compile(r"operator ?(?:\(\)|<<=?|>>=?|->\*?|<=>?|>=?|<)")
_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")

#: Names by code generators, which pack all settings into one word: the pattern, and the parts that distinguish kernels.
_PACKED = (
    (
        re.compile(r"^((?:Custom_)?Cijk_[A-Za-z]+_[A-Za-z]+_[A-Z0-9a-z]+(?:_BH|_HPA)?)_.*?(MT\d+x\d+x\d+).*$", re.S),
        r"\1_\2",
    ),
    (re.compile(r"^(igemm_(?:fwd|bwd|wrw)_\w+?)_bx\d+_ex\d+_(bt\d+x\d+x\d+)_.*$"), r"\1_\2"),
    (re.compile(r"^(.+?_kernel|triton_\w+?)_\d+d(?:\d+(?:de|d|c))*\d*e?$"), r"\1"),
)


#: What tells a copy's target from its source: "xfer 4.00M, AMD:1 <- AMD". C++ has no such name.
_COPY = " <- "


@lru_cache(maxsize=65_536)
def short_name(name: str) -> str:
    """The short name of a kernel; names that aren't C++ are unchanged."""
    plain = without_clones(demangled(name))
    if _COPY in plain:
        return plain
    if "<" not in plain and "::" not in plain and "(" not in plain:
        for pattern, kept in _PACKED:
            if pattern.match(plain):
                return pattern.sub(kept, plain)
        return plain
    return _of_cpp(plain) or name


def _of_cpp(name: str) -> str:
    """The function and the descriptive argument of a C++ name."""
    name = _UNNAMED.sub("anonymous", _OPERATOR.sub("operator", name))
    depth, begin, end = 0, None, len(name)
    arguments: tuple[int, int] | None = None
    for match in _BRACKETS.finditer(name):
        place, sign = match.start(), match.group()
        if sign == "(" and depth == 0 and place:
            if name[place - 1] == " ":  # no parameters: "gemv (C)"
                return name
            end = place
            break
        if sign in "<({[":
            depth += 1
            begin = place if depth == 1 and sign == "<" else begin
        elif depth:
            depth -= 1
            if depth == 0 and sign == ">" and begin is not None:
                arguments = begin, place
    if arguments and not name[arguments[1] + 1 : end].strip():
        head, inside = name[: arguments[0]], name[arguments[0] + 1 : arguments[1]]
    else:
        head, inside = name[:end], ""
    return _with_description(_last(head), _words(inside)) if _last(head) else ""


def _last(head: str) -> str:
    """The function, without its namespaces and return type."""
    depth, kept = 0, []
    for part in re.split(r"([<>])", head):
        if part in "<>" and part:
            depth += 1 if part == "<" else -1
        elif depth <= 0:
            kept.append(part)
    return "".join(kept).strip().rsplit("::", 1)[-1].rsplit(" ", 1)[-1].lstrip("*&")


def _words(inside: str) -> list[str]:
    """The words of template arguments; only the last word of a path."""
    words: list[str] = _WORD.findall(re.sub(r"(?<!\w)\w+::", "", inside))
    return words


def _with_description(function: str, words: list[str]) -> str:
    for word in words:
        carrier = word in _CARRIERS or _CARRYING.search(word) or _ARCHITECTURE.fullmatch(word)
        if not carrier and len(word) > 2:
            return function if word == function else f"{function}<{word}>"
    return function
