"""The command `ktrace`: a thin shell over the library, a file per command, each imported when it is called.

Exit codes: 0 done, 1 bad input (or faults found), 2 wrong usage.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from ktrace import __version__
from ktrace.errors import KtraceError, UsageError

#: Command -> what it does, for the list of commands, so that listing them imports none of them.
COMMANDS = {
    "convert": "Convert logs, tables and traces into a timeline or a table.",
    "view": "Open traces in the Perfetto UI.",
    "merge": "Merge the ranks of a run, or several tools' views of it, into one timeline.",
    "summary": "Say where the time went.",
    "diff": "Say what changed between two traces, and what of it is more than noise.",
    "batch": "Convert many traces into one dataset, on all cores or a cluster.",
    "info": "Say what an input is and what is in it.",
    "formats": "List what ktrace reads and writes.",
    "validate": "Check canonical files against the schema.",
    "schema": "Print the JSON Schema of the canonical model.",
    "completion": "Print the completion script of a shell.",
    "new-format": "Write the files of a new format: probe, reader, sample, test and page.",
}


class Commands(click.Group):
    """The group of commands; a command's module is imported when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ktrace.cli.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="ktrace %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Any kernel log in, one canonical model, any viewer or table out.

    \b
    ktrace view run.log                       in the browser
    ktrace convert run.log -o run.perfetto    a file for ui.perfetto.dev
    ktrace summary run.log                    where the time went
    """


def main() -> NoReturn:
    """Runs the command line and exits: errors are messages, never tracebacks, unless `--debug` is given."""
    debug = "--debug" in sys.argv[1:]
    # `--debug` may stand anywhere on the line.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    signal.signal(signal.SIGTERM, _interrupt)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
        signal.signal(signal.SIGHUP, _interrupt)
    try:
        code = _run(arguments, debug)
    except (KeyboardInterrupt, click.Abort) as error:  # at whatever moment, even while something else is being told
        if debug:
            raise
        _leave(_explain(error))
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """Ends the process with that exit code, once all is tidied up.

    `sys.exit` would end it as killed by a signal where the interruption came while Python ran code out of a text,
    as dataclasses do when they are imported.
    """
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or None
            stream.flush()
    os._exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    """Runs the command and returns the exit code."""
    try:
        code = cli.main(arguments, prog_name="ktrace", standalone_mode=False)
        if sys.stdout:  # None where the caller closed it
            sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        code = exit_.exit_code
    except BrokenPipeError:
        # The reader of our output has gone: nothing is wrong with us, and nothing may be written any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except (KeyboardInterrupt, click.Abort):
        raise
    except BaseException as error:
        if debug:
            raise
        code = _explain(error)
    return code if isinstance(code, int) else 0


def _explain(error: BaseException) -> int:
    """Prints what went wrong and returns the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, click.UsageError):
        error.show()
        return 2
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        message = "interrupted; no output was written"
    elif isinstance(error, KtraceError):
        message = str(error)
    elif isinstance(error, click.ClickException):
        message = error.format_message()
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, MemoryError):
        message = "out of memory"
    else:
        kind = type(error).__name__
        message = f"{kind}: {error}\n  this is a fault of ktrace: please report it with the output of --debug"
    from ktrace.tables.figures import harmless

    for number, line in enumerate(message.split("\n")):  # names out of a trace may hold anything
        click.echo(f"{'' if number else 'ktrace: '}{harmless(line)}", err=True)
    return 2 if isinstance(error, UsageError) else 1


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt
