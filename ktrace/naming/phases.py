"""Phases of inference by the annotations of engines: what a batch does, with how many requests and tokens.

engine          annotation                                               where it is written
vLLM            execute_context_2(14721)_generation_3(3)                 annotate_profile of its workers
                execute_64_context_0(sq0sk0...)_generation_64(sq64sk131072...)    the same with sums of lengths
SGLang          step[EXTEND bs=2 toks=14721], step[DECODE bs=64], step[MIXED bs=5 c=2 g=3 c_sq=6144 ... g_sq=3 ...]
ATOM            prefill[bs=2 tok=14721 ctx=[7803, 6918]], decode[bs=117/128 tok=117 d=117], eager_decode[bs=32]
TensorRT-LLM    [Executor] _forward_step 9: 1 ctx reqs, 512 ctx tokens, 32 gen reqs
any             prefill, decode_12                                       ranges that are called so and no more

Hugging Face's generate() annotates nothing; its Python functions tell the passes (`part_of_generate`).

Requests whose prompt is read are "context", those that get their next tokens "generation"; "sq" is the number of tokens
that are computed, "sk" that of the tokens that these attend to, "sqsq" and "sqsk" are the sums of their products.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ktrace.errors import UsageError

#: The phases, in the order of tables.
PREFILL, MIXED, DECODE, VERIFY, DRAFT = PHASES = ("prefill", "mixed", "decode", "verify", "draft")


#: How to record phases.
HOW = (
    "Phases: vLLM, SGLang, ATOM and TensorRT-LLM name the range of each batch in traces of torch.profiler and "
    "nsys --trace=nvtx; Hugging Face's generate() has them in traces with with_stack=True."
)


class Phase(NamedTuple):
    """What a batch does: the `phase`, requests and tokens. None where the annotation doesn't say.

    `context` are the requests whose prompts are read, `context_tokens` the tokens of these prompts that are computed,
    `generation` and `generation_tokens` those of requests that generate.
    """

    phase: str
    context: int | None = None
    context_tokens: int | None = None
    generation: int | None = None
    generation_tokens: int | None = None

    @property
    def batch(self) -> int | None:
        """The number of requests, None if it isn't known."""
        numbers = [number for number in (self.context, self.generation) if number is not None]
        return sum(numbers) if numbers else None

    @property
    def tokens(self) -> int | None:
        """The number of tokens that are computed, None if it isn't known of any of its requests."""
        parts = ((self.context, self.context_tokens), (self.generation, self.generation_tokens))
        if all(requests is None for requests, _ in parts):
            return self.context_tokens
        counts = [0 if requests in (0, None) else tokens for requests, tokens in parts]
        return None if None in counts else sum(number for number in counts if number is not None)


class Attended(NamedTuple):
    """What the requests of a batch attend to, added up: tokens that are computed, tokens that these read, and twice the
    pairs of both that a causal mask leaves, of which the diagonal counts as half."""

    queries: int
    keys: int
    pairs: int


def attended(name: str) -> Attended | None:
    """The sums that the name of a batch states; None for most names, which state none."""
    match = _SUMS.fullmatch(name.strip())
    if match is None:
        return None
    sums = [sum(map(int, pair)) for pair in zip(match.groups()[:4], match.groups()[4:], strict=True)]
    queries, keys, squares, products = sums
    return Attended(queries, keys, 2 * products - squares) if 0 < queries <= keys and squares <= products else None


_NUMBER = r"([0-9]{1,12})"
_PART = rf"\(sq{_NUMBER}sk{_NUMBER}sqsq([0-9]{{1,18}})sqsk([0-9]{{1,18}})\)"
_SUMS = re.compile(rf"execute_(?:[0-9]+_)?context_[0-9]+{_PART}_generation_[0-9]+{_PART}")
_VLLM = re.compile(
    rf"execute_(?:{_NUMBER}_)?context_{_NUMBER}\((?:sq)?{_NUMBER}[^()]*\)_generation_{_NUMBER}\((?:sq)?{_NUMBER}[^()]*\)"
)
_SGLANG = re.compile(r"step\[([A-Z_]+)((?: \w+=[^\s\]]+)*)\]")
_ATOM = re.compile(r"(?:\w+_)?(prefill|decode)\[(.*)\]")
_TRT = re.compile(
    rf"\[Executor\] _forward_step\b[^:]*: {_NUMBER} ctx reqs,(?: {_NUMBER} ctx tokens,)? {_NUMBER} gen reqs"
)
_PLAIN = re.compile(
    r"(?:model[ _.])?(prefill|decode|decoding)(?:[ _-](?:step|phase|iter|iteration|token))?[ _#-]?[0-9]*", re.I
)
_VALUE = re.compile(r"\b(\w+)=([0-9]{1,12})\b")

#: SGLang's modes of a forward pass.
_MODES = {
    "EXTEND": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "DLLM_EXTEND": PREFILL,
    "PREFILL": PREFILL,
    "DECODE": DECODE,
    "MIXED": MIXED,
    "TARGET_VERIFY": VERIFY,
    "VERIFY": VERIFY,
    "DRAFT": DRAFT,
    "DRAFT_EXTEND": DRAFT,
    "DRAFT_EXTEND_V2": DRAFT,
    "DRAFT_DECODE": DRAFT,
}


def phase_of(name: str) -> Phase | None:
    """The phase that the name of a range states, None if it states none."""
    text = name.strip()
    if match := _VLLM.fullmatch(text):
        _, context, context_tokens, generation, generation_tokens = match.groups()
        return _of_requests(int(context), int(context_tokens), int(generation), int(generation_tokens))
    if match := _SGLANG.fullmatch(text):
        return _of_sglang(match[1], _values(match[2]))
    if match := _ATOM.fullmatch(text):
        return _of_atom(match[1], _values(match[2]))
    if match := _TRT.match(text):
        context, tokens, generation = (None if one is None else int(one) for one in match.groups())
        return _of_requests(context, 0 if context == 0 else tokens, generation, generation)
    match = _PLAIN.fullmatch(text)
    return Phase(PREFILL if match[1].lower() == "prefill" else DECODE) if match else None


#: Parts of generate() of Hugging Face's transformers (4.38, 4.46, 5.24): a loop in which each pass through the model
#: yields a token, what reads the prompt (in older versions the first pass of the loop), what begins a pass, and loops
#: whose passes yield several tokens.
LOOP, PROMPT, PASS, SEVERAL = range(4)
_GENERATE = {
    **{f"{private}{name}": LOOP for private in ("", "_") for name in ("greedy_search", "sample", "beam_search")},
    **{f"{private}{name}": LOOP for private in ("", "_") for name in ("beam_sample", "group_beam_search")},
    **dict.fromkeys(("_prefill", "_prefill_chunking"), PROMPT),
    "prepare_inputs_for_generation": PASS,
    **dict.fromkeys(("assisted_decoding", "_assisted_decoding"), SEVERAL),
}


def part_of_generate(name: str) -> int | None:
    """The part of generate() that a Python function is, as generation/utils.py(3123): _sample; None for others.

    Models may have a function of their own that begins a pass.
    """
    place, _, function = name.rpartition("): ")
    part = _GENERATE.get(function)
    is_transformers = "transformers/generation/utils.py(" in place.replace("\\", "/")
    return part if is_transformers or part == PASS else None


def phase_test(phase: str) -> Callable[[str], bool]:
    """A test whether a name states a wanted phase: decode, or decode:32 for a batch size. Raises UsageError."""
    word, _, batch = phase.partition(":")
    if word not in PHASES or (":" in phase and not batch.isdecimal()):
        raise UsageError(f"there is no phase '{phase}'", expected=f"{', '.join(PHASES)}, or with a batch: decode:32")

    def is_wanted(name: str) -> bool:
        stated = phase_of(name)
        return stated is not None and stated.phase == word and (not batch or stated.batch == int(batch))

    return is_wanted


def _values(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in _VALUE.findall(text)}


def _of_requests(
    context: int | None, context_tokens: int | None, generation: int | None, generation_tokens: int | None
) -> Phase | None:
    """The phase that follows from the requests; None for a batch without any."""
    if not context and not generation:
        return None
    phase = MIXED if context and generation else PREFILL if context else DECODE
    return Phase(phase, context, context_tokens, generation, generation_tokens)


def _of_sglang(mode: str, values: dict[str, int]) -> Phase | None:
    """bs= counts requests, toks= tokens of prompts; c= and g= are the requests of a mixed batch."""
    phase = _MODES.get(mode)
    if phase is None:
        return None
    requests = values.get("bs")
    if phase == PREFILL:
        return Phase(phase, requests, values.get("toks", values.get("c_sq")), 0, 0)
    if phase == MIXED and "c" in values and "g" in values:
        of_counts = _of_requests(values["c"], values.get("c_sq"), values["g"], values.get("g_sq"))
        return of_counts and of_counts._replace(phase=MIXED)
    if phase == MIXED:
        return Phase(phase, requests)
    tokens = values.get("g_sq", values.get("toks", requests if phase == DECODE else None))
    return Phase(phase, 0, 0, requests, tokens)


def _of_atom(word: str, values: dict[str, int]) -> Phase | None:
    """p= and d= are the requests of each kind; spec= tokens are guessed for each request that generates."""
    requests, tokens = values.get("bs"), values.get("tok")
    context, generation = values.get("p", 0 if word == DECODE else requests), values.get("d", 0)
    if word == PREFILL and not generation:
        return Phase(PREFILL, requests, tokens, 0, 0)
    if not context:
        return Phase(DECODE, 0, 0, requests, requests if tokens is None and "spec" not in values else tokens)
    each = 1 + values.get("spec", 0)
    return Phase(
        MIXED, context, None if tokens is None else max(tokens - generation * each, 0), generation, generation * each
    )
