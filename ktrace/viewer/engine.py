"""Perfetto's own engine, a program on this machine: it loads traces that no browser can, and answers the UI.

the UI's page   -- ws://127.0.0.1:9001/Qm9v…/websocket -->   `Server`   -- standard input -->   trace_processor_shell
                <-----------------------------------------              <- standard output --   server stdio

The bytes are those of the UI's own protocol (TraceProcessorRpcStream in Perfetto's trace_processor.proto), the same by
HTTP and by pipes. By HTTP the engine answers at a port and paths that everybody knows, and whoever asks it can write
files (SQL: ATTACH, tried with v58.2). So ktrace starts it without a port, and only who knows the path of the trace gets
to it. Each connection has an engine of its own, which ends with it.

A UI asks in the words of the engine of its own version: v52 fails with v58, "no such column: perf_sample_count".
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from shutil import which

from ktrace.errors import KtraceError, error_text
from ktrace.viewer import websocket

#: The environment variable with the path of an engine.
VARIABLE = "TRACE_PROCESSOR_SHELL"

PROGRAM = "trace_processor_shell"

#: The first version whose UI runs the commands of our links.
OLDEST = 52

#: The first version with subcommands, such as `server stdio`.
_SUBCOMMANDS = 55

#: Seconds within which an engine tells its version and answers.
_SECONDS = 30

#: Bytes that are taken from an engine at a time.
_PIECE = 1 << 20

#: TraceProcessorRpcStream { msg { seq: 0, request: TPM_GET_STATUS } }, and the tag of `status` in its answer.
_GET_STATUS, _STATUS = bytes((0x0A, 4, 0x08, 0, 0x10, 10)), b"\x92\x0d"


def fetched_by_perfetto() -> Path | None:
    """Returns the newest engine that the package perfetto, or Perfetto's own scripts, fetched for this user."""
    folder = Path.home() / ".local/share/perfetto/prebuilts"
    programs = [path for path in folder.glob(f"{PROGRAM}*") if path.suffix != ".tmp" and os.access(path, os.X_OK)]
    return max(programs, key=lambda path: path.stat().st_mtime, default=None)


def find() -> Path:
    """Returns the engine to use: the one that TRACE_PROCESSOR_SHELL names, that of PATH, or one that was fetched.

    Raises KtraceError if there is none. None is looked for beside an input, nor in the working directory.
    """
    if named := os.environ.get(VARIABLE):
        program = Path(named)
        if not program.is_absolute() or which(program) is None:
            raise KtraceError(
                "isn't a program",
                path=named,
                where=VARIABLE,
                expected=f"the full path of Perfetto's {PROGRAM}",
                remedy=f"correct {VARIABLE}, or unset it",
            )
        return program
    folders = filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep))
    path = which(PROGRAM, path=os.pathsep.join(folders) or os.devnull)
    if (there := Path(path) if path else fetched_by_perfetto()) is None:
        raise MissingEngine()
    return there


class MissingEngine(KtraceError):
    """There is no engine on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "there is no Perfetto engine on this machine for --engine",
            expected=f"{PROGRAM} in {VARIABLE}, on PATH, or fetched by the package perfetto",
            remedy=f"let `ktrace view --engine` fetch one when it asks in a terminal, or name one in {VARIABLE}",
        )


def fetch() -> Path:
    """Fetches the engine that the package perfetto names, by that package, which checks its hash. Returns its path.

    Raises KtraceError if that fails.
    """
    from perfetto.prebuilts.manifests.trace_processor_shell import TRACE_PROCESSOR_SHELL_MANIFEST
    from perfetto.prebuilts.perfetto_prebuilts import get_perfetto_prebuilt

    try:
        return Path(get_perfetto_prebuilt(TRACE_PROCESSOR_SHELL_MANIFEST))
    except Exception as error:  # the package raises Exception itself
        raise KtraceError(
            f"the package perfetto couldn't fetch the engine: {error_text(error)}",
            remedy=f"fetch {PROGRAM} from a release of Perfetto, and name it in {VARIABLE}",
        ) from error


class Engine:
    """A program that is Perfetto's engine, and the processes of it that run.

    `version` names its release ("v58.2-add693d8b"), and `major` counts it; empty and 0 for a build without a version.
    `status` is its answer to the UI's first question. Raises KtraceError if it is too old, or doesn't answer.
    """

    def __init__(self, program: Path) -> None:
        self.program = program
        version = re.search(rb"\b(v([1-9]\d*)\.\d+(-[0-9a-f]+)?)", self._output_of("--version"))
        self.version, self.major = (version[1].decode(), int(version[2])) if version else ("", 0)
        if 0 < self.major < OLDEST:
            raise self._error(f"is Perfetto's engine v{self.major}, which is too old", f"v{OLDEST} or later")
        self._serves = ("--stdiod",) if 0 < self.major < _SUBCOMMANDS else ("server", "stdio")
        self.status = self._status()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def _output_of(self, *arguments: str, sent: bytes = b"") -> bytes:
        """What the program writes to its standard output. Raises KtraceError if it fails."""
        try:
            done = subprocess.run(
                [self.program, *arguments], input=sent, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._error(f"can't be run: {error_text(error)}") from error
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise self._error(f"failed with exit code {done.returncode}: {last}")
        return done.stdout

    def _status(self) -> bytes:
        """The engine's StatusResult, as its own protocol has it."""
        from ktrace.kit.varint import varint

        answer = self._output_of(*self._serves, sent=_GET_STATUS)
        start = answer.find(_STATUS)
        if start < 0:
            raise self._error("doesn't respond like Perfetto's engine")
        size, start = varint(answer, start + len(_STATUS))
        return answer[start : start + size]

    def _error(self, what: str, expected: str | None = None) -> KtraceError:
        return KtraceError(
            what,
            path=str(self.program),
            expected=expected or f"Perfetto's {PROGRAM}, v{OLDEST} or later",
            remedy=f"name another one in {VARIABLE}",
        )

    def require_version_of(self, ui: int) -> None:
        """Raises KtraceError if a UI of this major version can't work with the engine; 0 is an unknown version."""
        if self.major and ui and self.major != ui:
            raise KtraceError(
                f"is Perfetto's engine v{self.major}, which the UI on this machine, v{ui}, can't work with",
                path=str(self.program),
                expected=f"an engine v{ui} for --offline",
                remedy=f"leave out --offline, or name an engine v{ui} in {VARIABLE}",
            )

    def serve(self, connection: socket.socket) -> None:
        """Starts an engine, and passes bytes between it and a WebSocket until either ends."""
        with self._lock:
            if self._closed:
                return
            process = subprocess.Popen(
                [self.program, *self._serves],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._running.add(process)
        assert process.stdin and process.stdout
        one_at_a_time = threading.Lock()

        def send(message: bytes) -> None:
            with one_at_a_time:
                connection.sendall(message)

        def answer(source: int = process.stdout.fileno()) -> None:
            with suppress(OSError):
                while piece := os.read(source, _PIECE):
                    send(websocket.frame(piece))
            with suppress(OSError):  # the engine has ended
                connection.shutdown(socket.SHUT_RDWR)

        answers = threading.Thread(target=answer, daemon=True)
        answers.start()
        try:
            with suppress(OSError), connection.makefile("rb") as stream:
                for piece in websocket.received(stream, send):
                    process.stdin.write(piece)
                    process.stdin.flush()
        finally:
            process.kill()
            process.wait()
            answers.join()
            with suppress(OSError):
                process.stdin.close()
            process.stdout.close()
            with self._lock:
                self._running.discard(process)

    def close(self) -> None:
        """Ends all its processes. Later connections get none."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()
