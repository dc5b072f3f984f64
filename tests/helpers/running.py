"""`ktrace view` as a program, at a port of its own, for the tests.

with viewing(tmp_path, log, "--no-browser") as view:
    page = view.link
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from ktrace.viewer import PORT

#: Runs the command with any free port for that of ui.perfetto.dev, so that tests may run side by side.
ANY_PORT = "import ktrace.viewer; ktrace.viewer.PORT = 0; from ktrace.cli import main; main()"


@contextmanager
def port_of_the_ui() -> Iterator[None]:
    """Keeps the port of ui.perfetto.dev for one test at a time, of all processes; skips if another program has it."""
    fcntl = pytest.importorskip("fcntl")
    with open(Path(tempfile.gettempdir()) / f"ktrace-tests-{PORT}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            socket.create_server(("127.0.0.1", PORT)).close()
        except OSError:
            pytest.skip(f"port {PORT} is taken")
        yield


class View:
    """A `ktrace view` that serves. `folder` is where it may leave temporary files."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        assert process.stdout
        self.process = process
        self.folder = folder
        self.link = process.stdout.readline().strip()
        page, _, arguments = self.link.partition("#!/?")
        self.page = page.partition("?")[0].removesuffix("/")
        self.arguments = {name: values[0] for name, values in parse_qs(arguments).items()}

    @property
    def url(self) -> str:
        """The URL of the trace."""
        return self.arguments["url"]

    @property
    def commands(self) -> list[dict[str, object]]:
        """The commands that the UI is to run."""
        return list(json.loads(self.arguments["startupCommands"]))

    def get(self, url: str | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Fetches a URL, the trace's by default."""
        parts = urlsplit(url or self.url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""), headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def ended(self, seconds: float = 20) -> tuple[int, str, str]:
        """Exit code and what else was printed, once it has ended."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def left(self) -> list[str]:
        """The temporary files that are there."""
        return [path.name for path in self.folder.iterdir()]


@contextmanager
def viewing(tmp_path: Path, *arguments: object, code: str = ANY_PORT) -> Iterator[View]:
    """Runs the command, and ends it at the end of the block if it hasn't ended by itself."""
    folder = tmp_path / "temporary"
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", code, "view", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder), "COLUMNS": "120"},
    )
    try:
        yield View(process, folder)
    finally:
        process.kill()
        process.communicate()
