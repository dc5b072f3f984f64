"""Links, the ends of arrows: flows (s, t, f), slices with a bind_id, waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded

from .dialect import Rule
from .draft import Draft, Task, as_text, by_word, integers, valid
from .events import Events
from .places import joined, place, plain

_ROLES = {"s": 0, "t": 1, "f": 2}


def flows(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """s, t, f: links, attached to the enclosing slice; an f without bp "e" is attached to the next one.

    Flows of a category that repeats `correlation` are folded.
    """
    dialect, rows = task.dialect, len(events)
    kinds = ["flow", *dict.fromkeys(kind for kind in dialect.flows.values() if kind), ""]
    kind = by_word(events.columns.get("cat"), rows, lambda cat: kinds.index(dialect.flows.get(cat or "", "flow") or ""))
    folded = kind == len(kinds) - 1
    if folded.any():
        task.report.used(int(folded.sum()), outcome="folded")
        if folded.all():
            return
    draft = Draft.of(events)
    draft.left["ph"] = events.columns["ph"]
    draft.columns["link"] = words(kinds, kind)
    draft = task.timed(draft.where(~folded))
    has_id = "id" in draft.left
    if not has_id or draft.left["id"].null_count:
        none = ~valid(draft.left["id"]) if has_id else np.full(len(draft), True)
        task.skip("bad-record", "a flow without an id", draft.at[none])
        draft = draft.where(~none)
    if not len(draft):
        return
    task.report.used(len(draft))
    _fill(draft)
    place(draft, rule, dialect)
    draft.keep("dur")
    draft.keep("s")
    yield draft.batch("links")


def _fill(draft: Draft) -> None:
    """Key, role, bind and name of flows."""
    rows = len(draft)
    role = by_word(draft.left.pop("ph"), rows, lambda word: _ROLES.get(word or "", 0))
    binding = by_word(draft.left.get("bp"), rows, lambda word: int(word == "e"))
    draft.columns["role"] = words(["out", "step", "in"], role)
    draft.columns["bind"] = words(["enclosing", "next"], (role == 2) & (binding == 0))
    if "bp" in draft.left:
        used = pa.array((role == 2) & (binding == 1))
        draft.leave("bp", pc.if_else(used, None, draft.left["bp"]))
        draft.keep("bp")
    parts = [plain(draft.left[member]) for member in ("cat", "name", "id") if member in draft.left]
    draft.columns["key"] = joined(parts, "/")
    for member in ("cat", "name"):
        if member in draft.left:
            draft.columns[member] = draft.left.pop(member)
    del draft.left["id"]


def bind_links(draft: Draft) -> Iterator[Batch]:
    """Yields the links of slices with a `bind_id`: an arrow arrives (flow_in), leaves (flow_out) or passes."""
    key = draft.left.get("args.$bind_id")
    flags = {name: draft.left.get(f"args.${name}") for name in ("flow_in", "flow_out")}
    if key is None or all(flag is None for flag in flags.values()):
        return
    arrives, leaves = (_true(flag, len(draft)) for flag in flags.values())
    mask = (arrives | leaves) & valid(key)
    if not mask.any():
        return
    index = pa.array(mask)
    role = np.where(arrives & leaves, 1, np.where(leaves, 0, 2))[mask]
    columns = {
        "link": constant("flow", int(mask.sum())),
        "key": plain(key).filter(index),
        "role": words(["out", "step", "in"], role),
        "event": pa.array(draft.at[mask]),
    }
    for name in ("$bind_id", "$flow_in", "$flow_out"):
        column = draft.left.get(f"args.{name}")
        if column is not None:
            draft.leave(f"args.{name}", pc.if_else(index, pa.nulls(len(draft), column.type), column))
    yield Draft(draft.at[mask], {}, columns).batch("links", 1)


def _true(flag: pa.Array | None, rows: int) -> Bools:
    if flag is None or not pa.types.is_boolean(flag.type):
        return np.zeros(rows, np.bool_)
    found: Bools = flag.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def waits(draft: Draft, rule: Rule) -> list[Batch]:
    """Returns the links from calls that record an event to work that waits for it, by the call's correlation."""
    key, role, mask = None, "", None
    if rule.waits and f"args.{rule.waits}" in draft.left:
        key, _ = integers(draft.left[f"args.{rule.waits}"])
        role = "in"
        mask = None if key is None else pc.greater(key, 0)
    elif rule.records and "correlation" in draft.columns:
        key, role = draft.columns["correlation"], "out"
        name = encoded(draft.columns["name"])
        calls = [as_text(word) in rule.records for word in name.dictionary.to_pylist()]
        mask = pa.array(calls, pa.bool_()).take(name.indices) if any(calls) else None
    if key is None or mask is None or not pc.any(mask).as_py():
        return []
    chosen: Bools = pc.and_(mask, pc.is_valid(key)).fill_null(False).to_numpy(zero_copy_only=False)
    columns = {
        "link": constant("wait", int(chosen.sum())),
        "key": key.filter(pa.array(chosen)).cast(pa.string()),
        "role": constant(role, int(chosen.sum())),
        "event": pa.array(draft.at[chosen]),
    }
    return [Draft(draft.at[chosen], {}, columns).batch("links", 2)]
