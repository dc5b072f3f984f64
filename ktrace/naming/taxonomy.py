"""Operation, library, precision and layer of a kernel, by its name. The rules are data: schema/operations.json.

    {"name": "^nvjet_", "operation": "gemm", "library": "cuBLAS"}
    {"kind": "memcpy", "operation": "copy"}
    {"name": "(?:^|[:/.])(L\\\\d+)$", "layer": "\\\\1"}

Rules are tried in order; each column has its value from the first rule that matches and sets the column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ktrace.errors import InputError
from ktrace.naming.short_names import short_name
from ktrace.naming.spelling import without_clones

#: The version of the rules' format.
VERSION = "1.0"

_CONDITIONS = ("name", "kind", "format")
_ESCAPE = re.compile(r"\\.")
_CLASS = re.compile(r"\[\^?\]?[^\]]{0,1000}\]")
_REPEATED = re.compile(r"\{[\d,]*\}")
_SIGNS = frozenset(r".^$*+?{}[]\|()")


class Labels(NamedTuple):
    """The labels of a name; None where no rule sets one."""

    operation: str | None = None
    library: str | None = None
    precision: str | None = None
    layer: str | None = None
    short_name: str | None = None


COLUMNS = Labels._fields


class Pattern:
    """A regular expression that is searched in a name.

    Without a capital letter it ignores case, and the text that it finds is in small letters.
    """

    def __init__(self, text: str) -> None:
        plain = _ESCAPE.sub("", text)
        self.exact = plain != plain.lower()
        self._regex = re.compile(text)
        self._needed = needed(text)

    def find(self, name: str, small: str) -> re.Match[str] | None:
        """The first match in `name`; `small` is the name in small letters."""
        text = name if self.exact else small
        return self._regex.search(text) if self._needed in text else None  # the plain text is much faster


def needed(pattern: str) -> str:
    """The longest run of letters that every match of the pattern contains; "" if this isn't simple to tell."""
    if re.compile(pattern).flags & (re.IGNORECASE | re.VERBOSE):
        return ""
    plain = _REPEATED.sub("*", _CLASS.sub(".", _ESCAPE.sub(".", pattern)))
    depth, runs, run = 0, [], ""
    for place, letter in enumerate(plain):
        following = plain[place + 1 : place + 2]
        if depth == 0 and letter == "|":
            return ""
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter not in _SIGNS and following not in ("?", "*"):
            run += letter
        else:
            runs.append(run)
            run = ""
    return max([*runs, run], key=len)


@dataclass(frozen=True)
class Rule:
    """Conditions, all of which must be true, and the values that the columns then have; a value may be None."""

    names: tuple[Pattern, ...]
    kinds: frozenset[str]
    formats: frozenset[str]
    values: dict[str, str | None]

    def matches(self, name: str, small: str, kind: str, source: str | None) -> bool | re.Match[str]:
        """Whether all conditions are true; the match in the name if there is one."""
        if (self.kinds and kind not in self.kinds) or (self.formats and source not in self.formats):
            return False
        for pattern in self.names:
            if found := pattern.find(name, small):
                return found
        return not self.names


class Taxonomy:
    """Rules in order; names for which no rule sets a short name have a shortened one."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [(rule, frozenset(rule.values)) for rule in rules]

    def labels(self, name: str, kind: str = "kernel", format: str | None = None) -> Labels:
        """The labels of a name of this kind in a source of this format."""
        plain = without_clones(name)
        small = plain.lower()
        found: dict[str, str | None] = {}
        missing = set(COLUMNS)
        for rule, columns in self._rules:
            if missing.isdisjoint(columns):
                continue
            place = rule.matches(plain, small, kind, format)
            if not place:
                continue
            for column in columns & missing:
                found[column] = _filled(rule.values[column], place)
            missing -= columns
        if "short_name" in missing:
            found["short_name"] = short_name(name)
        return Labels(**found)

    def layer(self, name: str) -> str | None:
        """The layer in a name, such as the name of a scope."""
        name = without_clones(name)
        small = name.lower()
        for rule, columns in self._rules:
            if "layer" in columns and rule.names and (place := rule.matches(name, small, "", None)):
                return _filled(rule.values["layer"], place)
        return None


def _filled(value: str | None, place: bool | re.Match[str]) -> str | None:
    """The value with groups of the match inserted for \\1, \\2, ..."""
    if value is None or "\\" not in value or isinstance(place, bool):
        return value
    return place.expand(value) or None


@cache
def builtin_rules() -> tuple[Rule, ...]:
    """The rules of schema/operations.json."""
    text = resources.files("ktrace.schema").joinpath("operations.json").read_text("utf-8")
    return tuple(_rules(text, "schema/operations.json"))


def taxonomy(rules: str | Path | None = None) -> Taxonomy:
    """The rules of a file, if any, followed by those that come with ktrace.

    Raises InputError for a file that can't be read or has a fault.
    """
    if rules is None:
        return Taxonomy(builtin_rules())
    try:
        text = Path(rules).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"can't be read: {why}", path=str(rules), expected="rules as JSON") from error
    return Taxonomy([*_rules(text, str(rules)), *builtin_rules()])


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


def _rules(text: str, path: str) -> list[Rule]:
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


def _rule(rule: Any, path: str, where: str) -> Rule:
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
    return Rule(
        tuple(_pattern(text, values, path, f"{where}.name") for text in texts["name"]),
        frozenset(texts["kind"]),
        frozenset(texts["format"]),
        values,
    )


def _pattern(text: str, values: dict[str, str | None], path: str, where: str) -> Pattern:
    try:
        pattern = Pattern(text)
        for value in values.values():
            if value and "\\" in value:
                re.compile(f"(?:{text})|").search("").expand(value)  # type: ignore[union-attr]
    except (re.error, IndexError) as error:
        raise _fault(
            f"'{text}' isn't a regular expression with the groups that its values use: {error}", path, where
        ) from error
    return pattern


def _texts(rule: dict[str, Any], key: str, path: str, where: str) -> Sequence[str]:
    """The texts of a condition, any of which may match."""
    found = rule.get(key, [])
    texts = [found] if isinstance(found, str) else found
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
