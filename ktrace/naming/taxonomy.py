"""Operation, library, precision and layer of a kernel, by its name. The rules are data: schema/operations.json.

    {"name": "^nvjet_", "operation": "gemm", "library": "cuBLAS"}
    {"kind": "memcpy", "operation": "copy"}
    {"name": "(?:^|[:/.])(L\\\\d+)$", "layer": "\\\\1"}

Rules are tried in order; each column has its value from the first rule that matches and sets the column.

`operation_in` knows what NCCL, RCCL, oneCCL, HCCL, PyTorch and MPI call collectives:

operation_in("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)")     all_reduce
operation_in("_allgather_base")                                   all_gather
operation_in("hcom_reduceScatter__77_0_1")                        reduce_scatter
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property, lru_cache
from importlib import resources
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ktrace.errors import InputError
from ktrace.naming.demangling import demangled
from ktrace.naming.short_names import short_name, without_clones, without_numbers, without_parameters

#: The version of the rules' format.
VERSION = "1.0"

#: Where the rules that come with ktrace are.
_BUILTIN = "schema/operations.json"

_CONDITIONS = ("name", "kind", "format")
_ESCAPE = re.compile(r"\\.")
_REPEATED = re.compile(r"\{[\d,]*\}")
_FLAGS = re.compile(r"\(\?[a-hj-wyzA-Z]*[ix][a-zA-Z]*\)")
_LITERAL = re.compile(r"[^.^$*+?{}\[\]\\|()]+")

#: How many texts are looked for before a regular expression is, and by how many letters they are found.
_CHOICES, _LETTERS = 40, 3


class Labels(NamedTuple):
    """The labels of a name; None where no rule sets one."""

    operation: str | None = None
    library: str | None = None
    precision: str | None = None
    layer: str | None = None
    short_name: str | None = None


COLUMNS = Labels._fields

_ORDER = itemgetter(0, 1)

#: Rules of ktrace see the parameters of a function only if they set nothing else, and then those that aren't values.
_PRECISION = frozenset({"precision"})


class Pattern:
    """A regular expression that is searched in a name.

    Without a capital letter it ignores case, and the text that it finds is in small letters.
    """

    def __init__(self, text: str) -> None:
        self.text, self._plain = text, _ESCAPE.sub("", text)
        self.exact = self._plain != self._plain.lower()
        self.needed = needed(text)

    @cached_property
    def _search(self) -> Callable[[str], re.Match[str] | None]:
        """Compiled when a name is first looked at: most of hundreds are never needed."""
        regex = re.compile(self.text)
        # A search would try `^` at each place of the text.
        whole = _branches(_without_classes(self._plain.replace("\\", ".")), 0)[2] == 1
        return regex.match if self.text.startswith("^") and whole else regex.search

    def find(self, name: str, small: str) -> re.Match[str] | None:
        """The first match in `name`; `small` is the name in small letters."""
        text = name if self.exact else small
        return self._search(text)


def needed(pattern: str) -> tuple[str, ...]:
    """Texts of which every match of the pattern contains at least one; none if this isn't simple to tell.

    needed("(?<![a-z])(?:kda|gdn)_x?")     ("kda", "gdn")
    needed("layers?_")                     ("layer",)
    """
    if _LITERAL.fullmatch(pattern):
        return (pattern,)
    if _FLAGS.search(pattern):
        return ()
    return _branches(_REPEATED.sub("*", _without_classes(_ESCAPE.sub(".", pattern))), 0)[0]


def _without_classes(pattern: str) -> str:
    """The regular expression, without escapes, with a dot for each class of characters such as `[^]a-z]`."""
    parts, place = [], 0
    while (start := pattern.find("[", place)) >= 0:
        first = start + 2 if pattern.startswith("^", start + 1) else start + 1
        end = pattern.find("]", first + 1)  # a bracket at the first place belongs to the class
        if end < 0:
            break
        parts.append(pattern[place:start])
        place = end + 1
    return ".".join([*parts, pattern[place:]])


def _branches(plain: str, place: int) -> tuple[tuple[str, ...], int, int]:
    """What is needed by a group whose content begins here, the place behind it, and how many alternatives it has."""
    branches: list[tuple[str, ...]] = [()]
    while place < len(plain):
        if run := _LITERAL.match(plain, place):
            place = run.end()
            optional = plain[place : place + 1] in ("?", "*")
            branches[-1] = _better(branches[-1], (run[0][:-1] if optional else run[0],))
            continue
        letter = plain[place]
        place += 1
        if letter == "|":
            branches.append(())
        elif letter == ")":
            break
        elif letter == "(":
            plainly = plain.startswith("?:", place) or plain[place : place + 1] != "?"
            words, place, _ = _branches(plain, place + 2 * plain.startswith("?:", place))
            if plainly and plain[place : place + 1] not in ("?", "*"):
                branches[-1] = _better(branches[-1], words)
    words = tuple(dict.fromkeys(word for branch in branches for word in branch))
    return (words if all(branches) and len(words) <= _CHOICES else ()), place, len(branches)


def _better(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The more selective of two sets of texts: the one whose shortest text is longer."""
    return other if min(map(len, other), default=0) > min(map(len, one), default=0) else one


class TaxonomyRule(msgspec.Struct, frozen=True):
    """Conditions, all of which must be true, and the values that the columns then have; a value may be None.

    `whole` says that a rule which sets more than the precision is searched in the parameters of functions, too.
    """

    names: tuple[Pattern, ...]
    kinds: frozenset[str]
    formats: frozenset[str]
    values: dict[str, str | None]
    whole: bool

    def applies(self, kind: str, source: str | None) -> bool:
        """Whether the conditions other than the name are true."""
        return (not self.kinds or kind in self.kinds) and (not self.formats or source in self.formats)


class Taxonomy:
    """Rules in order; names for which no rule sets a short name have a shortened one."""

    def __init__(self, rules: Iterable[TaxonomyRule]) -> None:
        self._rules = [(rule, frozenset(rule.values)) for rule in rules]
        #: Places of rules without a name or with a pattern that any name may match, with the pattern.
        self._always: list[tuple[int, int, Pattern | None]] = []
        #: Texts that the other patterns need, each with its pattern, by their first letters.
        self._texts: dict[str, list[tuple[str, tuple[int, int, Pattern | None]]]] = {}
        for place, (rule, _) in enumerate(self._rules):
            if not rule.names:
                self._always.append((place, 0, None))
            for number, pattern in enumerate(rule.names):
                entry = place, number, pattern
                if not pattern.needed:
                    self._always.append(entry)
                for word in pattern.needed:
                    self._texts.setdefault(word[:_LETTERS].lower(), []).append((word, entry))
        self._short = [letters for letters in self._texts if len(letters) < _LETTERS]

    def labels(self, name: str, kind: str = "kernel", format: str | None = None) -> Labels:
        """The labels of a name of this kind in a source of this format."""
        plain = without_clones(demangled(name))
        small = plain.lower()
        whole, function, typed = (
            (text, small if text is plain else text.lower())
            for text in (plain, without_parameters(plain), without_numbers(plain))
        )
        values: dict[str, str | None] = {}
        missing = set(COLUMNS)
        for place, _, pattern in self._candidates(plain, small):
            rule, columns = self._rules[place]
            if missing.isdisjoint(columns) or not rule.applies(kind, format):
                continue
            texts = typed if columns == _PRECISION else whole if rule.whole else function
            match = pattern is None or pattern.find(*texts)
            if match:
                for column in columns & missing:
                    values[column] = _filled(rule.values[column], match)
                missing -= columns
        if "short_name" in missing:
            values["short_name"] = short_name(name)
        return Labels(**values)

    def layer(self, name: str) -> str | None:
        """The layer in a name, such as the name of a scope."""
        name = without_clones(name)
        small = name.lower()
        for place, _, pattern in self._candidates(name, small):
            rule, columns = self._rules[place]
            if "layer" in columns and pattern and rule.applies("", None) and (match := pattern.find(name, small)):
                return _filled(rule.values["layer"], match)
        return None

    def _candidates(self, plain: str, small: str) -> list[tuple[int, int, Pattern | None]]:
        """The patterns that the name may match, in order: to look for texts is much faster."""
        entries = list(self._always)
        letters = {small[at : at + _LETTERS] for at in range(len(small) - _LETTERS + 1)}
        for first in [*(self._texts.keys() & letters), *(short for short in self._short if short in small)]:
            for word, entry in self._texts[first]:
                if word in (plain if entry[2] and entry[2].exact else small):
                    entries.append(entry)
        return sorted(entries, key=_ORDER)


def _filled(value: str | None, place: bool | re.Match[str]) -> str | None:
    """The value with groups of the match inserted for \\1, \\2, ..."""
    if value is None or "\\" not in value or isinstance(place, bool):
        return value
    return place.expand(value) or None


@cache
def builtin_rules() -> tuple[TaxonomyRule, ...]:
    """The rules of schema/operations.json."""
    text = resources.files("ktrace.schema").joinpath("operations.json").read_text("utf-8")
    return tuple(_rules(text, _BUILTIN))


@lru_cache(maxsize=8)
def _taxonomy(text: str | None, path: str) -> Taxonomy:
    """The rules in the text of a file, followed by those that come with ktrace. To index them takes 0.5 ms."""
    return Taxonomy([*(_rules(text, path) if text is not None else ()), *builtin_rules()])


def taxonomy(rules: str | Path | None = None) -> Taxonomy:
    """The rules of a file, if any, followed by those that come with ktrace.

    Raises InputError for a file that can't be read or has a fault.
    """
    if rules is None:
        return _taxonomy(None, _BUILTIN)
    try:
        text = Path(rules).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"can't be read: {why}", path=str(rules), expected="rules as JSON") from error
    return _taxonomy(text, str(rules))


def classify(name: str, *, kind: str = "kernel", format: str | None = None, rules: str | Path | None = None) -> Labels:
    """Reads a name of device work: operation, library, precision, layer, and a short name for people.

    Parameters
    ----------
    name : str
        The whole name, as the profiler gives it.
    kind : str
        Kind of the work: "kernel", "memcpy", "memset", ...
    format : str, optional
        Format of the source, since some engines can be told by it alone.
    rules : path, optional
        A file of rules that come before those of ktrace.

    Returns
    -------
    Labels
        What the rules know; None where they know nothing.

    Raises
    ------
    InputError
        The rules have a fault.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.classify("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn").operation
    'gemm'
    """
    return taxonomy(rules).labels(name, kind, format)


def _rules(text: str, path: str) -> list[TaxonomyRule]:
    """Parses the rules in the text of a file. Raises InputError with the place of a fault."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _fault(f"isn't JSON: {error}", path) from error
    if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
        raise _fault('has no list "rules"', path)
    version = document.get("ktrace_operations", VERSION)
    if str(version).split(".")[0] != VERSION.split(".", maxsplit=1)[0]:
        raise _fault(f"has version {version}, this is version {VERSION}", path, "ktrace_operations")
    return [_rule(rule, path, f"rules[{place}]") for place, rule in enumerate(document["rules"])]


def _rule(rule: Any, path: str, where: str) -> TaxonomyRule:
    if not isinstance(rule, dict):
        raise _fault("a rule must be an object", path, where)
    for key, value in rule.items():
        if key not in (*_CONDITIONS, *COLUMNS, "about"):
            raise _fault(f"'{key}' isn't a key of a rule", path, where)
        if key in COLUMNS and not (value is None or (isinstance(value, str) and value)):
            raise _fault("a value must be a text, or null to leave the column empty", path, f"{where}.{key}")
    values = {column: rule[column] for column in COLUMNS if column in rule}
    if not values:
        raise _fault("the rule sets no column", path, where)
    texts = {key: _texts(rule, key, path, where) for key in _CONDITIONS}
    return TaxonomyRule(
        tuple(_pattern(text, values, path, f"{where}.name") for text in texts["name"]),
        frozenset(texts["kind"]),
        frozenset(texts["format"]),
        values,
        whole=path != _BUILTIN,
    )


def _pattern(text: str, values: dict[str, str | None], path: str, where: str) -> Pattern:
    if path == _BUILTIN:  # a test compiles these
        return Pattern(text)
    try:
        re.compile(text)
        for value in values.values():
            if value and "\\" in value:
                re.compile(f"(?:{text})|").search("").expand(value)  # type: ignore[union-attr]
    except (re.error, IndexError) as error:
        raise _fault(
            f"'{text}' isn't a regular expression with the groups that its values use: {error}", path, where
        ) from error
    return Pattern(text)


def _texts(rule: dict[str, Any], key: str, path: str, where: str) -> Sequence[str]:
    """The texts of a condition, any of which may match."""
    stated = rule.get(key, [])
    texts = [stated] if isinstance(stated, str) else stated
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise _fault("a condition must be a text or a list of texts", path, f"{where}.{key}")
    if key in rule and not texts:
        raise _fault("the list is empty", path, f"{where}.{key}")
    return texts


def _fault(what: str, path: str, where: str | None = None) -> InputError:
    return InputError(
        what,
        path=path,
        where=where,
        expected='{"rules": [{"name": "a pattern", "operation": "gemm", "library": "ours"}]}',
        remedy="see docs/operations.md",
    )


#: Libraries of collectives in the names of kernels.
_LIBRARY = re.compile(r"n?r?ccl|msccl|oneccl|hccl|hcom", re.IGNORECASE)

#: Words in names, in the order in which they are looked for, and the operation.
_WORDS: tuple[tuple[str, str], ...] = (
    (r"all_?reduce", "all_reduce"),
    (r"all_?gather", "all_gather"),
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?to_?all", "all_to_all"),
    (r"broadcast", "broadcast"),
    (r"cross_device_reduce", "all_reduce"),
    (r"barrier", "barrier"),
    (r"send_?recv", "send_recv"),
    (r"reduce", "reduce"),
    (r"gather", "gather"),
    (r"scatter", "scatter"),
    (r"send(?![a-z])", "send"),
    (r"recv|receive", "recv"),
)
_OPERATION = [(re.compile(word, re.IGNORECASE), operation) for word, operation in _WORDS]

#: Sends and receives are between two ranks.
SENDS = frozenset({"send", "recv", "send_recv"})

#: At these no rank is done before the last one has begun.
WAITING = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"})


@lru_cache(maxsize=4096)
def operation_in(name: str) -> str | None:
    """The operation that a name contains, such as "all_reduce"; None if there is none."""
    return next((operation for word, operation in _OPERATION if word.search(name)), None)


def is_send(name: str) -> bool:
    """Whether the name is that of a send or receive."""
    return _SEND.search(name) is not None


def is_collective(name: str) -> bool:
    """Whether the name is that of a library's collective among all ranks of a group."""
    return _LIBRARY.search(name) is not None and _AMONG_ALL.search(name) is not None


_SEND = re.compile(r"send|recv", re.IGNORECASE)
_AMONG_ALL = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|reduce", re.IGNORECASE)
