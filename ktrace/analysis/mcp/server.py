"""The protocol: the tools of a session and pages of the documentation, on standard input and output or by HTTP.

By HTTP it serves 127.0.0.1 alone, and whoever has the token:

POST /mcp HTTP/1.1
Host: 127.0.0.1:8765                       the address itself, not a name whose DNS points here
Authorization: Bearer Qm9vdHN0cmFwIGl0...
(no Origin, or http://127.0.0.1:8765)      a program, not a page of somebody else in a browser
"""

from __future__ import annotations

import errno
import hmac
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import mcp_types as types
from jsonschema import Draft202012Validator
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from ktrace import __version__
from ktrace.analysis.mcp.answers import as_text
from ktrace.analysis.mcp.session import Session
from ktrace.analysis.mcp.tools import TOOLS, Tool
from ktrace.errors import InternalError, KtraceError, UsageError, error_text

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Where the server listens.
ADDRESS = "127.0.0.1"

#: Requests that are answered at a time.
_REQUESTS = 64

_INSTRUCTIONS = (
    "Profiles of GPUs and accelerators. open(path) reads a trace and returns a handle; findings(handle) says what "
    "takes the time and what to look at first; the other tools go deeper. Times are whole ns. Tables have columns "
    "and rows; `more` counts the rows left out, and the same call with cursor=next goes on."
)


def server_of(session: Session) -> Server[Any]:
    """The server of a session, for any transport."""
    lock = anyio.Lock()
    found = pages()

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(map(_declared, TOOLS.values())))

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with lock:  # a call may take all cores
            answer = await anyio.to_thread.run_sync(answered, session, params.name, params.arguments or {})
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=as_text(answer))]
        return types.CallToolResult(content=content, structured_content=answer, is_error="error" in answer)

    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        listed = [
            types.Resource(uri=uri, name=path.stem, title=_title(path), mime_type="text/markdown")
            for uri, path in found.items()
        ]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri not in found:
            raise _unknown(f"there is no resource {uri}")
        text = found[uri].read_text("utf-8")
        contents = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[contents])

    places = ", ".join([*map(str, session.access.folders), *session.access.urls])
    return Server(
        "ktrace",
        version=__version__,
        instructions=f"{_INSTRUCTIONS} Traces may be in: {places}.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def answered(session: Session, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of a tool, or what went wrong: {"error": {"kind": ..., "message": ..., "remedy": ...}}."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            raise UsageError(f"there is no tool '{name}'", expected=", ".join(TOOLS))
        fault = next(Draft202012Validator(tool.takes).iter_errors(arguments), None)
        if fault is not None:
            raise UsageError(f"{name}: {fault.message}", expected=", ".join(tool.takes["properties"]))
        with session.access.in_force():
            answer = tool.run(session, **arguments)
        session.tidy()
        return answer
    except KtraceError as error:
        told = error
    except Exception as error:  # a bug, which must not end the server
        told = InternalError(f"{error_text(error)}: this is a bug in ktrace")
    return {"error": {key: text for key, text in told.document().items() if text}}


def _declared(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes, destructive_hint=False, idempotent_hint=not tool.writes, open_world_hint=False
    )
    return types.Tool(
        name=tool.name,
        description=tool.about,
        input_schema=tool.takes,
        output_schema=tool.answers,
        annotations=hints,
    )


def _unknown(what: str) -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(code=types.INVALID_PARAMS, message=what)


def serve_stdio(session: Session) -> None:
    """Serves one client on standard input and output, until it closes them."""

    async def serve() -> None:
        server = server_of(session)
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())

    anyio.run(serve)


def serve_http(session: Session, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Serves clients on this machine that have the token, until the process is told to end.

    `ready` is called with the address once it listens; a port of 0 is any free one. Raises KtraceError if the port is
    taken.
    """
    import uvicorn

    listening = socket.socket(socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
    except OSError as error:
        listening.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise KtraceError(f"port {port} of this machine is in use", remedy="choose another one, or 0") from None
    host = f"{ADDRESS}:{listening.getsockname()[1]}"
    app = server_of(session).streamable_http_app(json_response=True, stateless_http=True, host=ADDRESS)
    config = uvicorn.Config(
        Guard(app, host, token),
        log_config=None,
        access_log=False,
        ws="none",
        limit_concurrency=_REQUESTS,
        timeout_graceful_shutdown=1,
        server_header=False,
        date_header=False,
    )
    with listening:
        listening.listen(_REQUESTS)
        ready(f"http://{host}/mcp")
        uvicorn.Server(config).run(sockets=[listening])


class Guard:
    """Lets requests through that have the token and were meant for this server, from no other page of a browser."""

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._host = app, host.encode()
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers others with nothing: 404, and 401 where the token alone is wrong."""
        status = self._status(scope) if scope["type"] == "http" else 0
        if not status:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-length", b"0"), *([(b"www-authenticate", b"Bearer")] if status == 401 else [])]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _status(self, scope: Scope) -> int:
        def all_of(name: bytes) -> list[bytes]:
            return [value for key, value in scope["headers"] if key == name]

        if all_of(b"host") != [self._host] or all_of(b"origin") not in ([], [b"http://" + self._host]):
            return 404
        scheme, _, token = b",".join(all_of(b"authorization")).partition(b" ")
        return 0 if scheme.lower() == b"bearer" and hmac.compare_digest(token, self._token) else 401


#: An installed ktrace has the pages beside this module (setup.py puts them there), a checkout in docs/.
_INSTALLED = Path(__file__).parent / "docs"
_FOLDER = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[3] / "docs"

#: The pages that are resources: model, glossary, findings, views of SQL, recipes. setup.py has the same.
_PATTERNS = ("model.md", "glossary.md", "programs.md", "commands/query.md", "recipes/*.md")

#: What the address of a page begins with.
_PREFIX = "ktrace://docs/"


def pages() -> dict[str, Path]:
    """The pages by their addresses: ktrace://docs/recipes/too-large.md."""
    found = [path for pattern in _PATTERNS for path in sorted(_FOLDER.glob(pattern))]
    return {f"{_PREFIX}{path.relative_to(_FOLDER).as_posix()}": path for path in found}


def _title(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")
