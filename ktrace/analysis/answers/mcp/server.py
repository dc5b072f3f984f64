"""The protocol: the tools of a session and pages of the documentation, on standard input and output."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from ktrace import __version__
from ktrace.analysis.answers.mcp.answers import as_text, cut, sendable
from ktrace.analysis.answers.mcp.session import Session
from ktrace.analysis.answers.mcp.tools import TOOLS, Tool, checked
from ktrace.errors import KtraceError, UsageError, error_text
from ktrace.naming.alike import did_you_mean
from ktrace.tables import shortened

_TRY = "check the name, and the space in TMPDIR"

#: Calls that are answered at a time.
CALLS = 64

_INSTRUCTIONS = (
    "Profiles of GPUs and accelerators. open(path) reads a trace and returns a handle; findings(handle) says what "
    "takes the time and what to look at first; the other tools go deeper. Times are whole ns. Tables have columns "
    "and rows; `more` counts the rows left out, and the same call with cursor=next goes on."
)


def server_of(session: Session) -> Server[Any]:
    """The server of a session, for any transport."""
    threads = ThreadPoolExecutor(CALLS, "ktrace-call")  # a call whose client has gone keeps its place until it ends
    paths = pages()

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(map(_declared, TOOLS.values())))

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        call = partial(copy_context().run, answered, session, params.name, params.arguments or {})
        answer = await asyncio.get_running_loop().run_in_executor(threads, call)
        content: list[types.ContentBlock] = [types.TextContent(type="text", text=as_text(answer))]
        return types.CallToolResult(content=content, structured_content=answer, is_error="error" in answer)

    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        listed = [
            types.Resource(uri=uri, name=path.stem, title=_title(path), mime_type="text/markdown")
            for uri, path in paths.items()
        ]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri not in paths:
            raise _unknown(f"there is no resource {uri}")
        text = paths[uri].read_text("utf-8")
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


#: Commands, and what else a tool may be called by -> the tool.
_CALLED = {
    **dict.fromkeys(("summary", "summarize", "summarise", "breakdown"), "overview"),
    **dict.fromkeys(("info", "read", "load"), "open"),
    **dict.fromkeys(("convert", "view"), "export"),
    **dict.fromkeys(("check", "verdict"), "findings"),
    **dict.fromkeys(("sql",), "query"),
    "diff": "compare",
}


def answered(session: Session, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of a tool, or what went wrong: {"error": {"kind": ..., "message": ..., "remedy": ...}}."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            remedy = did_you_mean(_CALLED.get(name, name), TOOLS)
            raise UsageError(f"there is no tool '{shortened(name, 100)}'", expected=", ".join(TOOLS), remedy=remedy)
        with session.access.in_force():
            return sendable(tool.run(session, **checked(tool, arguments)))
    except KtraceError as error:
        document = {key: text for key, text in error.document().items() if text}
    except OSError as error:  # of a name that the system doesn't take, of a disk
        named = str(arguments.get("path") or arguments.get("name") or "")
        document = {"kind": "system", "message": error.strerror or error_text(error), "file": named, "remedy": _TRY}
    except MemoryError:
        document = {"kind": "memory", "message": "the server is out of memory", "remedy": "start it with less --memory"}
    except Exception as error:  # a bug, which must not end the server
        document = {"kind": "internal", "message": f"{error_text(error)}: this is a bug in ktrace"}
    finally:
        session.tidy()
    return sendable(cut({"error": document}))


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


#: An installed ktrace has the pages beside this module (setup.py puts them there), a checkout in docs/.
_INSTALLED = Path(__file__).parent / "docs"
_FOLDER = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[4] / "docs"

#: The pages that are resources: model, glossary, findings, views of SQL, recipes. setup.py has the same.
_PATTERNS = ("model.md", "glossary.md", "programs.md", "commands/query.md", "recipes/*.md")

#: What the address of a page begins with.
_PREFIX = "ktrace://docs/"


def pages() -> dict[str, Path]:
    """The pages by their addresses: ktrace://docs/recipes/too-large.md."""
    paths = [path for pattern in _PATTERNS for path in sorted(_FOLDER.glob(pattern))]
    return {f"{_PREFIX}{path.relative_to(_FOLDER).as_posix()}": path for path in paths}


def _title(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")
