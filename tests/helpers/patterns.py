"""Every regular expression of ktrace and its converters, and the methods that it is used with."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

ROOT = Path(__file__).parent.parent.parent
_COMPILED = ("match", "fullmatch", "search")
_FUNCTIONS = {
    "compile": "",
    "match": "match",
    "fullmatch": "fullmatch",
    "search": "search",
    "findall": "finditer",
    "finditer": "finditer",
    "sub": "finditer",
    "subn": "finditer",
    "split": "finditer",
}

#: Constants that are handed on where other patterns are searched for, and how they are called.
_KNOWN = {
    "converters/closed.py _JSON": {"match"},
    "ktrace/kit/text/headings.py _CAMEL": {"fullmatch"},
    "ktrace/kit/text/headings.py _SUFFIXED": {"fullmatch"},
    "converters/ncu/__init__.py _SUMMARISED": {"fullmatch"},
    r"converters/onnxruntime.py .*_fence_(?:before|after)\Z": {"match"},
    "converters/perfetto/reading/event_fields.py (?i).*(copy|memcpy)": {"match"},
}


@dataclass
class Used:
    """A pattern, where it stands, and how it is called: `match`, `fullmatch`, `search` or `finditer`."""

    pattern: re.Pattern[Any]
    where: str
    methods: set[str] = field(default_factory=set)


@dataclass(eq=False)
class _Module:
    name: str
    path: str
    nodes: list[ast.AST]
    values: dict[str, Any]


@functools.cache
def all_patterns() -> tuple[list[Used], list[str]]:
    """The patterns, sorted by place, and the calls of `re` whose pattern depends on arguments."""
    modules = [
        _loaded(path) for top in ("ktrace", "converters") for path in sorted((ROOT / top).rglob("*.py")) if _ours(path)
    ]
    methods = _methods_by_pattern(modules)
    found: dict[tuple[Any, int], Used] = {}
    open_calls = [call for module in modules for call in _called(module, methods, found)]
    for module in modules:
        for where, pattern in _held(module):
            if (pattern.pattern, pattern.flags) not in found:
                _add(found, pattern, where, _of_variables(module))
    return sorted(found.values(), key=lambda used: used.where), open_calls


def _ours(path: Path) -> bool:
    """Links inside `ktrace/` name the folders beside it; a `__main__` runs what it imports."""
    relative = path.relative_to(ROOT)
    return path.name != "__main__.py" and not any((ROOT / parent).is_symlink() for parent in relative.parents)


def _loaded(path: Path) -> _Module:
    relative = path.relative_to(ROOT)
    parts = [*relative.with_suffix("").parts]
    name = ".".join((["ktrace"] if parts[0] != "ktrace" else []) + parts).removesuffix(".__init__")
    values = vars(importlib.import_module(name))
    text = path.read_text(encoding="utf-8") if _knows_a_pattern(values) else ""
    return _Module(name, relative.as_posix(), [*ast.walk(ast.parse(text))], values)


def _knows_a_pattern(values: dict[str, Any]) -> bool:
    """Whether an expression of a module may name a pattern: the code of half of the modules needn't be parsed."""
    held = [value for value in values.values() if isinstance(value, types.ModuleType)]
    patterns = chain(values.values(), *(vars(module).values() for module in held))
    return re in held or any(isinstance(value, re.Pattern) for value in patterns)


def _methods_by_pattern(modules: list[_Module]) -> dict[tuple[Any, int], set[str]]:
    """For the patterns that are constants the methods they are called with; where one is handed on, those that the
    module calls of variables."""
    methods: dict[tuple[Any, int], set[str]] = {}
    for module in modules:
        called = {id(node.value): node.attr for node in module.nodes if isinstance(node, ast.Attribute)}
        called |= {id(node.args[0]): node.func.attr for node in module.nodes if _takes_a_pattern(node)}  # type: ignore[attr-defined]
        for node in module.nodes:
            value = _constant(node, module.values)
            method = called.get(id(node), "")
            if value is not None and method not in ("pattern", "flags", "groups"):
                known = _FUNCTIONS.get(method)
                methods.setdefault((value.pattern, value.flags), set()).update(
                    {known} if known else _of_variables(module)
                )
    return methods


def _takes_a_pattern(node: ast.AST) -> bool:
    """Whether this is a call such as `text.match(_NAME, at)`."""
    return (
        isinstance(node, ast.Call)
        and bool(node.args)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _COMPILED
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re")
    )


def _constant(node: ast.AST, values: dict[str, Any]) -> re.Pattern[Any] | None:
    """The pattern that an expression names: `_NAME`, or `forms.NAME`."""
    value = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        value = values.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        holder = values.get(node.value.id)
        value = getattr(holder, node.attr, None) if isinstance(holder, types.ModuleType) else None
    return value if isinstance(value, re.Pattern) else None


@functools.cache
def _of_variables(module: _Module) -> set[str]:
    """The methods that a module calls of patterns which aren't constants; all if there are none."""
    called = {
        _FUNCTIONS[node.attr]
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and node.attr in _FUNCTIONS.keys() - {"split"}
        and not (isinstance(node.value, ast.Name) and (node.value.id == "re" or node.value.id.isupper()))
    }
    return called or {*_COMPILED}


def _called(
    module: _Module, methods: dict[tuple[Any, int], set[str]], found: dict[tuple[Any, int], Used]
) -> Iterator[str]:
    calls = [node for node in module.nodes if _is_call_of_re(node)]
    parents = {id(child): node for node in module.nodes for child in ast.iter_child_nodes(node)} if calls else {}
    for node in calls:
        where = f"{module.path}:{node.lineno}"
        pattern = _evaluated(node, module.values)
        if pattern is None:
            if not _in_comprehension_of_module(node, parents):
                yield f"{where} {ast.unparse(node.args[0])}"
            continue
        if node.func.attr != "compile":
            _add(found, pattern, where, {_FUNCTIONS[node.func.attr]})
            continue
        parent = parents[id(node)]
        if isinstance(parent, ast.Attribute):
            _add(found, pattern, where, {_FUNCTIONS[parent.attr]})
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            name = target.id if isinstance(target, ast.Name) else ""
            place = f"{module.path} {name}"
            _add(
                found,
                pattern,
                f"{where} {name}",
                _KNOWN.get(place) or methods.get((pattern.pattern, pattern.flags)) or _of_variables(module),
            )
        else:
            _add(found, pattern, where, _KNOWN.get(f"{module.path} {pattern.pattern}") or _of_variables(module))


def _is_call_of_re(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in _FUNCTIONS
    )


def _in_comprehension_of_module(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    """Whether the call runs while the module is imported, so that the walk over its values finds the pattern."""
    while (parent := parents.get(id(node))) is not None:
        if isinstance(parent, (ast.FunctionDef, ast.Lambda)):
            return False
        node = parent
    return True


def _evaluated(call: ast.Call, values: dict[str, Any]) -> re.Pattern[Any] | None:
    flags = call.args[1] if call.func.attr == "compile" and len(call.args) > 1 else None  # type: ignore[attr-defined]
    flags = next((keyword.value for keyword in call.keywords if keyword.arg == "flags"), flags)
    try:
        text, flag = (
            eval(compile(ast.Expression(part), "", "eval"), dict(values)) if part else 0
            for part in (call.args[0], flags)
        )
        return re.compile(text, flag)
    except (NameError, AttributeError, TypeError):
        return None


def _add(found: dict[tuple[Any, int], Used], pattern: re.Pattern[Any], where: str, methods: set[str]) -> None:
    used = found.setdefault((pattern.pattern, pattern.flags), Used(pattern, where))
    used.methods |= methods


def _held(module: _Module) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns in a module's values, also deep inside tables, rules and closures."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [(f"{module.path} {name}", value) for name, value in module.values.items()]
    while stack:
        where, value = stack.pop()
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None), types.ModuleType)):
            continue
        seen.add(id(value))
        if isinstance(value, re.Pattern):
            yield where, value
            continue
        stack += [(where, part) for part in _parts(value)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*value]
    if isinstance(value, (dict, types.MappingProxyType)):
        return [*value.keys(), *value.values()]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.BuiltinMethodType):
        return [value.__self__]
    if (
        isinstance(value, types.FunctionType)
        and value.__module__ in sys.modules
        and value.__module__.startswith("ktrace")
    ):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell is not None]
        return [*cells, *(value.__defaults__ or ())]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, one.name, None) for one in fields(value)]
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    return []
