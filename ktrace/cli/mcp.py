"""`ktrace mcp`: answers for agents."""

from __future__ import annotations

import os
import secrets
from contextlib import closing
from typing import TYPE_CHECKING

import click

from ktrace.cli._console import print_line
from ktrace.cli._options import as_size, limits_option
from ktrace.errors import KtraceError, import_extra
from ktrace.parallel.startup import import_pyarrow, tune_allocator

if TYPE_CHECKING:
    from ktrace.analysis.answers.mcp.session import Session

#: The environment variable with the token of a server by HTTP.
TOKEN = "KTRACE_MCP_TOKEN"

#: What code of others is named by, which this server runs only if the user set it: plug-ins, NVIDIA's nsys.
_OF_OTHERS = ("KTRACE_PLUGINS", "KTRACE_NSYS")


@click.command("mcp")
@click.argument("folders", metavar="[DIR]...", nargs=-1)
@click.option(
    "--allow",
    metavar="DIR",
    multiple=True,
    help="A folder, or a prefix of URLs, that traces may be read from; by default the working directory. Repeatable.",
)
@click.option("--export-to", metavar="DIR", help="The only folder that files are written to; by default none.")
@click.option(
    "--memory",
    metavar="SIZE",
    default="2GiB",
    callback=as_size,
    show_default=True,
    help="The memory limit of all open traces together.",
)
@click.option(
    "--http",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help=f"Serve over HTTP on this port of 127.0.0.1 (0: any free one), to clients that have the token in {TOKEN}.",
)
@limits_option
def command(
    folders: tuple[str, ...], allow: tuple[str, ...], export_to: str | None, memory: int, http: int | None
) -> None:
    """Serve answers about traces to AI agents, by the Model Context Protocol (MCP); needs ktrace[mcp].

    An agent starts it and speaks to it on standard input and output. It reads only in the allowed folders: DIR, and
    those of --allow.

    \b
    ktrace mcp ~/traces
    ktrace mcp --allow ~/traces --export-to ~/exports
    ktrace mcp --http 8765                     by HTTP, on this machine
    """
    for name in _OF_OTHERS:
        os.environ.setdefault(name, "")
    tune_allocator()
    import_pyarrow()
    import_extra("mcp", "mcp", "ktrace mcp", error=KtraceError)
    import_extra("duckdb", "mcp", "ktrace mcp", error=KtraceError)
    from ktrace.analysis.answers.mcp.access import Access
    from ktrace.analysis.answers.mcp.session import Session

    with closing(Session(Access((*folders, *allow) or (".",), export_to), memory)) as session:
        if http is None:
            from ktrace.analysis.answers.mcp.server import serve_stdio

            serve_stdio(session)
        else:
            _serve_http(session, http)


def _serve_http(session: Session, port: int) -> None:
    """Serves by HTTP, and tells the address, and the token unless the user chose it."""
    from ktrace.analysis.answers.mcp.http import serve_http

    given = os.environ.get(TOKEN, "")
    token = given or secrets.token_urlsafe()

    def ready(address: str) -> None:
        print_line(address, err=True)
        if not given:
            print_line(f"token: {token}", err=True)

    serve_http(session, port, token, ready)
