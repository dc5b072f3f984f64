"""Makes the sample of an HPCToolkit database: `python -m tests.helpers.hpctoolkit_samples` writes it anew.

The layout is that of HPCToolkit's doc/FORMATS.md, version 4.0; the figures are invented.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "samples" / "hpctoolkit"

KINDS = ("SUMMARY", "NODE", "RANK", "THREAD", "GPUDEVICE", "GPUCONTEXT", "GPUSTREAM", "CORE")
SCOPES = {"point": 1, "function": 3, "lex_aware": 0, "execution": 2}

#: Nanoseconds since 1970.
START = 1_700_000_000_000_000_000


class Context(NamedTuple):
    """A node of the tree: its id, flags, relation and lexical type, the places of what it names, its children."""

    id: int
    kind: int
    function: str = ""
    file: str = ""
    line: int = 0
    relation: int = 0
    children: tuple[Context, ...] = ()
    point: tuple[str, int] | None = None


class Writer:
    """Bytes that grow: structures whose places are known once they are laid."""

    def __init__(self, content: str, sections: int) -> None:
        self.data = bytearray(b"HPCTOOLKIT" + content.encode() + bytes((4, 0)) + bytes(16 * sections))

    def lay(self, layout: str, *values: Any) -> int:
        """Lays fields at the next place that is a multiple of 8, and returns it."""
        return self.raw(struct.pack(f"<{layout}", *values))

    def raw(self, data: bytes) -> int:
        """Lays bytes likewise."""
        self.data += bytes(-len(self.data) % 8)
        self.data += data
        return len(self.data) - len(data)

    def text(self, text: str) -> int:
        """Lays a text with its zero."""
        return self.raw(text.encode() + b"\0")

    def section(self, number: int, at: int) -> None:
        """Says where a section begins; it ends here."""
        struct.pack_into("<QQ", self.data, 0x10 + 16 * number, len(self.data) - at, at)

    def whole(self, footer: str) -> bytes:
        """The file."""
        return bytes(self.data) + footer.encode()


def meta(metrics: tuple[str, ...], entries: dict[tuple[int, str], tuple[Context, ...]], title: str) -> bytes:
    """`meta.db`; metric number i has the ids 4 i to 4 i + 3, in the order of SCOPES."""
    made = Writer("meta", 8)
    made.section(0, made.lay("QQ", made.text(title), made.text("")))
    names = made.lay(f"{len(KINDS)}Q", *map(made.text, KINDS))
    made.section(1, made.lay("QB", names, len(KINDS)))
    scopes = [made.lay("QBBxxxxxx", made.text(name), kind, 255) for name, kind in SCOPES.items()]
    first = made.raw(b"".join(bytes(made.data[at : at + 16]) for at in scopes))
    described = []
    for number, name in enumerate(metrics):
        ids = [struct.pack("<QHxxxxxx", first + 16 * index, 4 * number + index) for index in range(len(SCOPES))]
        described.append(struct.pack("<QQQHHxxxx", made.text(name), made.raw(b"".join(ids)), 0, len(ids), 0))
    at = made.raw(b"".join(described))
    made.section(2, made.lay("QIBBBxQHB", at, len(metrics), 32, 16, 24, first, len(SCOPES), 16))
    lay = _Contexts(made)
    laid = [struct.pack("<QQIHxxQ", *lay.all(below), one, 1, made.text(name)) for (one, name), below in entries.items()]
    at = made.raw(b"".join(laid))
    made.section(3, made.lay("QHB", at, len(laid), 32))
    return made.whole("_meta.db")


class _Contexts:
    """Lays contexts, children first."""

    def __init__(self, made: Writer) -> None:
        self._made = made

    def all(self, contexts: tuple[Context, ...]) -> tuple[int, int]:
        """The size and the place of an array of contexts."""
        laid = b"".join([self._one(context) for context in contexts])
        return len(laid), self._made.raw(laid) if laid else 0

    def _one(self, context: Context) -> bytes:
        made, below = self._made, self.all(context.children)
        flags, flex = 0, []
        if context.function:
            flags |= 1
            flex.append(made.lay("QQQQII", made.text(context.function), 0, 0, 0, 0, 0))
        if context.file:
            flags |= 2
            flex += [made.lay("IxxxxQ", 0, made.text(context.file)), context.line]
        if context.point:
            flags |= 4
            flex += [made.lay("IxxxxQ", 0, made.text(context.point[0])), context.point[1]]
        head = (*below, context.id, flags, context.relation, context.kind, len(flex), 0)
        return struct.pack("<QQIBBBBHxxxxxx", *head) + struct.pack(f"<{len(flex)}Q", *flex)


def profiles(found: list[tuple[dict[str, int], dict[int, dict[int, float]]]]) -> bytes:
    """`profile.db`: for each profile its identity ({} for the summary), and by context the values of metrics."""
    made = Writer("prof", 2)
    laid = []
    for identity, contexts in found:
        ids = b"".join(
            struct.pack("<BxHIQ", KINDS.index(kind), kind == "NODE", 0 if kind == "NODE" else number, number)
            for kind, number in identity.items()
        )
        place = made.raw(struct.pack("<Hxxxxxx", len(identity)) + ids) if identity else 0
        values, index = b"", b""
        for context, metrics in sorted(contexts.items()):
            index += struct.pack("<IQ", context, len(values) // 10)
            values += b"".join(struct.pack("<Hd", *pair) for pair in sorted(metrics.items()))
        at = made.raw(values)
        laid.append(
            struct.pack("<QQIxxxxQQIxxxx", len(values) // 10, at, len(contexts), made.raw(index), place, not identity)
        )
    at = made.raw(b"".join(laid))
    made.section(0, made.lay("QIB", at, len(laid), 48))
    return made.whole("_prof.db")


def traces(lines: dict[int, list[tuple[int, int]]]) -> bytes:
    """`trace.db`: for each profile its samples, a time and a context."""
    made = Writer("trce", 1)
    laid = []
    for profile, samples in lines.items():
        data = b"".join(struct.pack("<QI", *sample) for sample in samples)
        at = made.raw(data)
        laid.append(struct.pack("<IxxxxQQ", profile, at, at + len(data)))
    at = made.raw(b"".join(laid))
    times = [ts for samples in lines.values() for ts, _ in samples] or [0]
    made.section(0, made.lay("QIBxxxQQ", at, len(laid), 24, min(times), max(times)))
    return made.whole("trace.db")


#: Metrics of the sample, and the contexts of its tree; 8, 13 and 14 are instructions, which aren't in the tree.
METRICS = ("CPUTIME (sec)", "GKER (sec)", "GKER:COUNT", "GPUOP (sec)", "GXCOPY (sec)", "GXCOPY:H2D (B)")
TREE = {
    (1, "main thread"): (
        Context(2, 0, "main", relation=1, children=(
            Context(3, 2, file="src/app.c", line=12, children=(
                Context(4, 0, "cudaMemcpyAsync [libcudart.so]", relation=1, children=(
                    Context(5, 0, "<gpu copyin>", relation=1),
                )),
            )),
            Context(6, 1, file="src/app.c", line=20, children=(
                Context(7, 2, file="src/app.c", line=21),
                Context(9, 2, file="src/app.c", line=22, children=(
                    Context(10, 0, "cudaLaunchKernel [libcudart.so]", relation=1, children=(
                        Context(11, 0, "<gpu kernel>", relation=1, children=(
                            Context(12, 0, "saxpy(int, float, float*)", relation=1),
                        )),
                    )),
                    Context(15, 3, relation=1, point=("/usr/lib/libc.so.6", 0x2A10)),
                )),
            )),
        )),
    ),
}  # fmt: skip


def _values(
    own: dict[int, dict[str, float]], parents: dict[int, int], hidden: dict[int, int]
) -> dict[int, dict[int, float]]:
    """The values in all scopes of what contexts have of their own; `hidden` are instructions and the lines around."""
    found: dict[int, dict[int, float]] = {}
    for context, metrics in own.items():
        for name, value in metrics.items():
            number = 4 * METRICS.index(name)
            found.setdefault(context, {})[number] = value
            at: int | None = context
            while at is not None:
                place = found.setdefault(at, {})
                place[number + 3] = place.get(number + 3, 0) + value
                if at == context or at == hidden.get(context):
                    place[number + 1] = place[number + 2] = place[number + 3]
                at = hidden.get(at, parents.get(at))
    return found


def sample() -> dict[str, bytes]:
    """The files of a database: a thread that waits, and two GPU streams, of which one is never idle."""
    parents = {1: 0, **{inner.id: 1 for inner in TREE[1, "main thread"]}}
    waiting = list(TREE[1, "main thread"])
    while waiting:
        one = waiting.pop()
        parents |= {inner.id: one.id for inner in one.children}
        waiting += one.children
    hidden = {8: 7, 13: 9, 14: 9}
    own = {
        8: {"CPUTIME (sec)": 0.015},
        13: {"CPUTIME (sec)": 0.005},
        15: {"CPUTIME (sec)": 0.01},
        5: {"GXCOPY (sec)": 0.0000025, "GPUOP (sec)": 0.0000025, "GXCOPY:H2D (B)": 65_536.0},
        11: {"GKER (sec)": 0.000012, "GKER:COUNT": 3.0, "GPUOP (sec)": 0.000012},
    }
    values = _values(own, parents, hidden)
    thread = {"NODE": 0x80AF2211, "RANK": 3, "THREAD": 0, "CORE": 5}
    gpu = {"NODE": 0x80AF2211, "RANK": 3, "GPUDEVICE": 1, "GPUCONTEXT": 1}
    lines = {
        1: [(START, 7), (START + 5_000_000, 7), (START + 10_000_000, 15), (START + 20_000_000, 0),
            (START + 26_000_000, 9), (START + 31_000_000, 7), (START + 36_000_000, 0)],
        2: [(START + 11_999, 0), (START + 12_000, 5), (START + 14_501, 0),
            (START + 20_000, 12), (START + 24_001, 0), (START + 24_001, 12), (START + 28_002, 0),
            (START + 29_999, 0), (START + 30_000, 12), (START + 34_000, 12), (START + 34_001, 0)],
        3: [(START + 13_000, 5), (START + 14_000, 12), (START + 16_000, 4)],
    }  # fmt: skip
    summary = {
        context: {number: value * 1.0 for number, value in metrics.items()} for context, metrics in values.items()
    }
    found = [({}, summary), (thread, values), (gpu | {"GPUSTREAM": 7}, {}), (gpu | {"GPUSTREAM": 9}, {})]
    return {
        "meta.db": meta(METRICS, TREE, "app"),
        "profile.db": profiles(found),
        "cct.db": Writer("ctxt", 1).whole("__ctx.db"),
        "trace.db": traces(lines),
    }


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes a database, and returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


if __name__ == "__main__":
    write(FOLDER / "a-thread-and-two-gpu-streams", sample())
