"""`ktrace` for shells in tests, without starting Python and importing pyarrow each time.

    with serving(folder) as bin_folder:
        subprocess.run(["bash", "-c", "ktrace summary run.json | head -3"], env={"PATH": f"{bin_folder}:..."})

`ktrace` in that folder is a small client: it sends its arguments, folder, environment and standard streams to a server
that has imported everything, and that forks a process for each call.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """A folder for PATH with a `ktrace` in it, as long as the block lasts."""
    address, programs = str(folder / "socket"), folder / "bin"
    programs.mkdir()
    client = programs / "ktrace"
    client.write_text(_CLIENT.format(python=sys.executable, address=address))
    client.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE)
    try:
        assert server.stdout
        assert server.stdout.readline() == b"ready\n"
        yield programs
    finally:
        server.kill()
        server.communicate()


def _serve(address: str) -> None:
    from importlib import import_module

    import pyarrow.parquet  # noqa: F401

    from ktrace.cli import COMMANDS

    for command in COMMANDS:
        import_module(f"ktrace.cli.{command.replace('-', '_')}")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(16)
    print("ready", flush=True)
    while True:
        link, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _answer(link)
        link.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _answer(link: socket.socket) -> None:
    """Runs one command as a process of its own would, and sends its exit code."""
    length, streams, _, _ = socket.recv_fds(link, 4, 3)
    size, text = int.from_bytes(length, "big"), b""
    while len(text) < size:
        text += link.recv(size - len(text))
    arguments, folder, environment = json.loads(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ktrace", *arguments]
    code: object = 71
    try:
        from ktrace.cli import main

        main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        atexit._run_exitfuncs()
        for each in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                each.flush()
        link.sendall(bytes([code if isinstance(code, int) else 1]))
        os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
