"""`ktrace completion`: the completion script for a shell."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from ktrace.cli._console import write_stdout

#: Both names of the command: `ktrace` is another program on macOS.
NAMES = ("ktrace", "kt")


class PowerShellComplete(ShellComplete):
    """Completion for PowerShell, Windows' own (5.1) and 7, which click doesn't have.

    A line of what is printed is a value, a tab and its help. Where nothing is printed, PowerShell completes files.
    """

    name = "powershell"
    source_template = """Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($word, $line, $position)
    $env:COMP_LINE = $line.ToString()
    $env:COMP_WORD = $word
    $env:%(complete_var)s = "powershell_complete"
    try {
        & $line.CommandElements[0].Value | ForEach-Object {
            $value, $help = $_ -split "`t", 2
            if (-not $help) { $help = $value }
            [System.Management.Automation.CompletionResult]::new($value, $value, "ParameterValue", $help)
        }
    } finally {
        Remove-Item Env:COMP_LINE, Env:COMP_WORD, Env:%(complete_var)s
    }
}"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words before the one to complete, and that one."""
        words, word = split_arg_string(os.environ.get("COMP_LINE", ""))[1:], os.environ.get("COMP_WORD", "")
        return words[:-1] if word and words else words, word

    def format_completion(self, item: CompletionItem) -> str:
        """Returns a value with its help; of files nothing, which the shell completes itself."""
        return "" if item.type in ("file", "dir") else f"{item.value}\t{item.help or ''}"


add_completion_class(PowerShellComplete)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:        eval "$(ktrace completion bash)"        in ~/.bashrc
    zsh:         eval "$(ktrace completion zsh)"         in ~/.zshrc
    fish:        ktrace completion fish | source         in ~/.config/fish/config.fish
    PowerShell:  ktrace completion powershell | Out-String | Invoke-Expression     in $PROFILE
    """
    cli = ctx.find_root().command
    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"no completion for {shell}")
    for name in NAMES:
        write_stdout(completer(cli, {}, name, "_KTRACE_COMPLETE").source(), "\n")
