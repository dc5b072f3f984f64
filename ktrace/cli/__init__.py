"""The command `ktrace`: a thin shell over the library; the module of a command is imported when it is called.

Exit codes: 0 done, 1 bad input (or faults found), 2 wrong usage, 3 a regression found, 130 interrupted by Ctrl-C.

Commands: convert, merge, view, summary, check, diff, whatif, query, share, mcp, batch, cache, info, map, formats,
schema, validate, completion, new_format, check_format. They share `_options` (options and the completion of their
values), `_console` (printing, also of tables and of what was noted, repaired or skipped) and `_programs` (JSON for
programs).
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from ktrace import __version__
from ktrace.errors import UsageError
from ktrace.parallel.interruption import INTERRUPTION

#: Command -> what it does, for the list of commands; listing the commands imports no module of theirs.
COMMANDS = {
    "convert": "Convert logs, tables and traces into a timeline or a table.",
    "view": "Open traces in the Perfetto UI.",
    "merge": "Merge the ranks of a run, or several tools' views of it, into one timeline.",
    "summary": "Show where the time went.",
    "check": "Check whether a recording is complete and consistent, before you trust its figures.",
    "diff": "Show what changed between two traces, and which changes exceed noise.",
    "whatif": "Show what would help: how long a step would take with faster work, without waits.",
    "query": "Answer a question in SQL about any input.",
    "share": "Write a page to send: the verdict, an overview, a part for Perfetto; names replaced if you like.",
    "mcp": "MCP server for AI agents: answers about traces.",
    "batch": "Convert many traces into one dataset, on all cores or a cluster.",
    "cache": "Show or clear the cache of inputs that were viewed.",
    "info": "Show what an input is and what it contains.",
    "map": "Guess which column of any CSV, TSV or JSON Lines is which field.",
    "formats": "List what ktrace reads and writes.",
    "validate": "Check canonical files against the schema.",
    "schema": "Print the JSON Schema of the canonical model.",
    "completion": "Print the completion script for a shell.",
    "new-format": "Write the files of a new format: reader, sample, test and page.",
    "check-format": "Check that a format keeps what every format promises.",
}


#: What other tools call a command -> the command.
_CALLED = {
    **dict.fromkeys(("open", "show", "ui", "display"), "view"),
    **dict.fromkeys(("top", "stats", "analyze", "analyse", "report", "profile"), "summary"),
    "kernels": "summary --by kernel",
    **dict.fromkeys(("gate", "threshold"), "diff --fail-over"),
    **dict.fromkeys(("export", "import", "to"), "convert"),
    **dict.fromkeys(("compare", "regression"), "diff"),
    **dict.fromkeys(("simulate", "replay", "predict", "what-if"), "whatif"),
    **dict.fromkeys(("sql", "ask"), "query"),
    **dict.fromkeys(("redact", "anonymize", "anonymise", "send", "publish"), "share"),
    **dict.fromkeys(("join", "combine"), "merge"),
    **dict.fromkeys(("inspect", "describe", "detect"), "info"),
    **dict.fromkeys(("lint", "verify", "doctor"), "check"),
}

#: What other tools call an option -> the option.
_OPTIONS_CALLED = {
    **dict.fromkeys(("--threshold", "--max-regression", "--tolerance", "--fail-on-regression"), "--fail-over"),
    **dict.fromkeys(("--limit", "--n", "--head"), "--top"),
    **dict.fromkeys(("--group-by", "--groupby", "--sort-by"), "--by"),
}

#: Commands that stand in the module of another.
_PLACES = {"schema": ("formats", "schema")}


def command_of(name: str) -> click.Command:
    """The command of a name in COMMANDS, from its module, which is imported."""
    module, function = _PLACES.get(name, (name.replace("-", "_"), "command"))
    command: click.Command = getattr(import_module(f"ktrace.cli.{module}"), function)
    return command


class Commands(click.Group):
    """The group of commands; a command's module is imported when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_of(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; an unknown one is an error that names what was probably meant."""
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            raise click.UsageError(_no_command(word), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:  # such as --json, where --format takes that form
            options = error.ctx.command.params if error.ctx else ()
            forms = next((getattr(one.type, "choices", ()) for one in options if one.name == "format_"), ())
            meant = _OPTIONS_CALLED.get(error.option_name, "")
            if (form := error.option_name.lstrip("-")) in forms:
                meant = f"--format {form}"
            elif not any(meant in one.opts for one in options):
                raise
            said = f"No such option '{error.option_name}'. Did you mean '{meant}'?"
            raise click.NoSuchOption(error.option_name, said, ctx=error.ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _no_command(word: str) -> str:
    """Returns the message for a word that isn't a command: an input, or a misspelt command."""
    from glob import glob
    from shlex import quote

    from ktrace.tables import escape_controls

    if os.path.lexists(word) or "://" in word or glob(word):  # noqa: PTH207 (pathlib refuses absolute patterns)
        name = quote(escape_controls(word))
        return (
            f"'{escape_controls(word)}' is an input; a command comes first:\n"
            f"  ktrace view {name}\n  ktrace info {name}\n  ktrace summary {name}\n"
            f"  ktrace convert {name} -o OUT.perfetto"
        )
    from difflib import get_close_matches

    called = _CALLED.get(word.lower())
    near = [called] if called else get_close_matches(word.lower(), COMMANDS, 3, 0.6)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no command '{escape_controls(word)}'{meant}"


@click.command(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="ktrace %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Any GPU or accelerator profile in; a timeline, a table or an answer out.

    \b
    ktrace view run.log                       in the browser
    ktrace convert run.log -o run.perfetto    a file for ui.perfetto.dev
    ktrace summary run.log                    where the time went

    Exit codes: 0 done, 1 bad input or output, 2 wrong usage, 3 slower than `ktrace diff --fail-over` allows,
    130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        from ktrace.cli._console import write_stdout

        write_stdout(ctx.get_help(), "\n")


def main() -> NoReturn:
    """Runs the command line and exits: errors are messages, never tracebacks, unless `--debug` is given."""
    debug = "--debug" in sys.argv[1:]
    # `--debug` may appear anywhere on the command line.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    INTERRUPTION.listen()
    if sys.stdout is None:
        from ktrace.cli._console import ClosedOutput

        sys.stdout = ClosedOutput()
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is shown as \u2026
    try:
        code = _run(arguments, debug)
        INTERRUPTION.settle()
    except (KeyboardInterrupt, click.Abort) as error:  # at any moment, even while another error is being printed
        INTERRUPTION.settle()
        if debug:
            raise
        _leave(_explain(error))
    if INTERRUPTION.told:  # too late to matter; its timer would end Python while that cleans up
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """Runs the exit handlers, flushes the output and ends the process with this exit code.

    If the interruption comes while Python executes code from a string, as dataclasses do on import, `sys.exit` ends
    the process as if a signal had killed it.
    """
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or None
            stream.flush()
    os._exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    """Runs the command and returns the exit code."""
    if os.environ.get("_KTRACE_COMPLETE", "").startswith("powershell"):
        import ktrace.cli.completion  # noqa: F401 (registers the shell, which click doesn't know)
    try:
        code = cli.main(arguments, prog_name="ktrace", standalone_mode=False, obj=[*arguments])
        if sys.stdout:  # None where the caller closed it
            sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except BrokenPipeError:  # the reader closed the pipe: this isn't our error
        _write_no_more()
        code = 1
    except (KeyboardInterrupt, click.Abort):
        raise
    except BaseException as error:
        if debug:
            raise
        code = _explain(error)
        try:
            sys.stdout.flush()
        except OSError:  # what doesn't fit on the disk
            _write_no_more()
    return code if isinstance(code, int) else 0


def _write_no_more() -> None:
    """What is left of the output goes nowhere, so that Python doesn't fail with it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: BaseException) -> int:
    """Prints what went wrong, as JSON for programs, and returns the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    from ktrace.cli._console import print_line, tell_json
    from ktrace.cli._programs import error_line, json_errors_enabled, to_ktrace_error

    interrupted = isinstance(error, (KeyboardInterrupt, click.Abort))
    code = INTERRUPTION.code if interrupted else 2 if isinstance(error, (UsageError, click.UsageError)) else 1
    if json_errors_enabled():
        tell_json(error_line(error, code))
        return code
    if isinstance(error, click.UsageError):
        from ktrace.tables import escape_controls

        text = error.format_message()
        if isinstance(error, click.NoSuchOption):  # older versions of click show its name as it is
            text = text.replace(error.option_name, escape_controls(error.option_name))
        lines = [escape_controls(line) for line in text.split("\n")]  # `map` may be the module of a command by now
        click.UsageError("\n".join(lines), error.ctx).show()
        return code
    _, ktrace_error = to_ktrace_error(error)
    for number, line in enumerate(str(ktrace_error).split("\n")):
        print_line(f"{'  ' if line[:1].strip() else ''}{line}" if number else f"ktrace: {line}", err=True)
    return code
