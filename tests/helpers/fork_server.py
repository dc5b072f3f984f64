"""`ktrace` as a program for tests, without starting Python and importing pyarrow each time.

    subprocess.run([program(), "summary", "run.json"])
    subprocess.run(["bash", "-c", "ktrace summary run.json | head -3"], env=with_program())

It is a small client: it sends its arguments, folder, environment and standard streams to a server that has imported
everything, and that forks a process for each call. What Python reads at its start isn't the call's (the encoding of
streams, say), and signals reach the client: tests of these start Python.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

_CLIENT = """#!{python} -ISE
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({address!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(link, [len(call).to_bytes(4, "big")], [0, 1, 2])
link.sendall(call)
answer = link.recv(1)
sys.exit(answer[0] if answer else 70)
"""


@cache
def program() -> Path:
    """The path of a `ktrace`. Its server ends with this process, and removes the folder."""
    folder = Path(tempfile.mkdtemp(prefix="ktrace-program-"))
    client = folder / "bin/ktrace"
    client.parent.mkdir()
    client.write_text(_CLIENT.format(python=sys.executable, address=str(folder / "socket")))
    client.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout
    assert server.stdout.readline() == b"ready\n"
    _SERVERS.append(server)
    return client


#: Kept, so that their standard input stays open.
_SERVERS: list[subprocess.Popen[bytes]] = []


def with_program() -> dict[str, str]:
    """The environment of a shell in which `ktrace` is that of this tree."""
    return os.environ | {"PATH": f"{program().parent}:{os.environ['PATH']}"}


def _serve(folder: Path) -> None:
    import pyarrow.parquet  # noqa: F401

    from ktrace.cli import COMMANDS, command_of

    for command in COMMANDS:
        command_of(command)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "socket"))
    listening.listen(16)
    print("ready", flush=True)
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        link, _ = listening.accept()
        gc.freeze()  # what is here isn't looked through, and thereby copied, in each process
        if os.fork() == 0:
            listening.close()
            _answer(link, folder)
        link.close()
        with suppress(ChildProcessError):
            while child := os.waitpid(-1, os.WNOHANG)[0]:
                _learn(folder / f"{child}.json")
    shutil.rmtree(folder)


def _learn(modules: Path) -> None:
    """Imports what a command has imported, so that the next one needn't."""
    if modules.exists():
        for name in json.loads(modules.read_text()):
            import_module(name)
        modules.unlink()


def _answer(link: socket.socket, folder: Path) -> None:
    """Runs one command as a process of its own would, and sends its exit code."""
    length, streams, _, _ = socket.recv_fds(link, 4, 3)
    size, text = int.from_bytes(length, "big"), b""
    while len(text) < size:
        text += link.recv(size - len(text))
    arguments, cwd, environment = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[1:1] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["ktrace", *arguments]
    known, code = set(sys.modules), 0
    try:
        from ktrace.cli import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        atexit._run_exitfuncs()
        for each in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                each.flush()
        if new := [name for name in sys.modules.keys() - known if name.startswith(("ktrace.", "duckdb", "rich"))]:
            (folder / f"{os.getpid()}.json").write_text(json.dumps(new))
        link.sendall(bytes([code]))
        os._exit(0)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
