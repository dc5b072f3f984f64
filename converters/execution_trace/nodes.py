"""The nodes of an execution trace one by one, for `--execution-trace`."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.capabilities import OpNode
from ktrace.input.source import Source
from ktrace.kit.trace_json.chunks import Text
from ktrace.model.json_text import NOT_JSON

from .document import Document, Node, whole_number
from .reader import EMPTY


def read(source: Source, conversion: Conversion) -> Iterator[list[OpNode]]:
    """Yields the nodes of operators and ranges. Raises DamagedInput if there is no list of nodes."""
    report = conversion.report
    with source.open() as stream:
        document = Document(Text(stream), report, source.path)
        for nodes in document:
            found = []
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
                found.append(one)
            yield found


def _op_node(node: Node, pid: object) -> OpNode:
    attributes = node.attributes()
    number = whole_number(attributes.pop("rf_id", b""))
    parent = node.ctrl_deps if node.ctrl_deps is not None else node.parent
    args = {"id": b"%d" % node.id} | ({} if parent is None else {"parent": b"%d" % parent})
    args |= {name: value for name, value in (attributes | node.lists()).items() if value not in EMPTY}
    return OpNode(number or 0, pid if isinstance(pid, int) else None, node.name, args)
