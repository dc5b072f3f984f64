"""Counts the operators of an execution trace by their arguments: it has no times to show.

The nodes of an execution trace one by one, for `--execution-trace`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.capabilities import OpNode
from ktrace.input.source import Source
from ktrace.kit.trace_json.chunks import Text
from ktrace.model.batch import Batch
from ktrace.model.json_text import NOT_JSON, decode_document, dump_json
from ktrace.model.row_builder import RowBuilder

from .document import Document, Node, whole_number

#: Attributes that differ from one occurrence of an operator to the next.
_OF_ONE = frozenset({"rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "tensor_range"})

#: Lists of arguments that tell occurrences of an operator apart.
_LISTS = ("inputs.shapes", "inputs.types")

#: JSON texts without content.
EMPTY = frozenset({b"", b'""', b"[]", b"null"})

#: How many different combinations of operator and arguments are kept; a further one starts the counts again.
_MOST = 100_000

#: A combination: kind, name, and the arguments with their JSON texts.
_Key = tuple[str, str, tuple[tuple[str, bytes], ...]]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each operator, shapes and types, with the number of its nodes.

    Raises DamagedInput if there is no list of nodes.
    """
    rows, report = RowBuilder(conversion), conversion.report
    counts: dict[_Key, int] = {}
    number = 0
    with source.open() as stream:
        document = Document(Text(stream), report, source.path)
        for nodes in document:
            for node in nodes:
                number += 1
                if node.is_root:
                    report.used(outcome="structure")
                    continue
                try:
                    key = _key(node)
                except NOT_JSON as error:
                    report.issue("bad-record", f"node {node.id}", str(error))
                    continue
                report.used()
                counts[key] = counts.get(key, 0) + 1
                if len(counts) > _MOST:
                    _add(counts, document.header, rows)
                    yield from rows.ready()
        _add(counts, document.header, rows)
        _add_facts(document.header, rows)
    yield from rows.rest()


def _key(node: Node) -> _Key:
    """What an operator has in common with its other occurrences. Raises msgspec.DecodeError."""
    attributes, lists = node.attributes(), node.lists()
    args = [(name, value) for name, value in attributes.items() if name not in _OF_ONE and value not in EMPTY]
    args += [(name, lists[name]) for name in _LISTS if lists.get(name, b"") not in EMPTY]
    return node.kind(attributes), node.name, tuple(args)


def _add(counts: dict[_Key, int], header: dict[str, Any], rows: RowBuilder) -> None:
    """Adds a row for each combination, and forgets them."""
    pid = header.get("pid")
    pid = pid if isinstance(pid, int) and 0 <= pid < 1 << 62 else None
    for (kind, name, args), count in counts.items():
        values = {key: decode_document(value) for key, value in args}
        group = values.get("pg_name")
        rows.summary(
            kind,
            name,
            metric="count",
            unit="count",
            pid=pid,
            comm=group if isinstance(group, str) else None,
            value=float(count),
            count=count,
            args=dump_json(values) if values else None,
        )
    counts.clear()


def _add_facts(header: dict[str, Any], rows: RowBuilder) -> None:
    """Adds what the header states, as far as it has the right types."""
    facts = {"tool": "PyTorch execution trace"}
    facts |= {
        f"execution_trace_{name}": header[name] for name in ("schema", "time") if isinstance(header.get(name), str)
    }
    facts["description"] = "counts of operators; an execution trace has no times"
    rows.fact("source", facts=facts)


def read_nodes(source: Source, conversion: Conversion) -> Iterator[list[OpNode]]:
    """Yields the nodes of operators and ranges. Raises DamagedInput if there is no list of nodes."""
    report = conversion.report
    with source.open() as stream:
        document = Document(Text(stream), report, source.path)
        for nodes in document:
            chunk = []
            for node in nodes:
                if node.is_root:
                    report.used(outcome="structure")
                    continue
                try:
                    one = _op_node(node, document.header.get("pid"))
                except NOT_JSON as error:
                    report.issue("bad-record", f"node {node.id}", str(error))
                    continue
                report.used()
                chunk.append(one)
            yield chunk


def _op_node(node: Node, pid: object) -> OpNode:
    attributes = node.attributes()
    number = whole_number(attributes.pop("rf_id", b""))
    parent = node.ctrl_deps if node.ctrl_deps is not None else node.parent
    args = {"id": b"%d" % node.id} | ({} if parent is None else {"parent": b"%d" % parent})
    args |= {name: value for name, value in (attributes | node.lists()).items() if value not in EMPTY}
    return OpNode(number or 0, pid if isinstance(pid, int) else None, node.name, args)
