"""`ktrace completion`: the completion script for a shell."""

from __future__ import annotations

import click

from ktrace.cli._console import put


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  eval "$(ktrace completion bash)"                 in ~/.bashrc
    zsh:   eval "$(ktrace completion zsh)"                  in ~/.zshrc
    fish:  ktrace completion fish | source                  in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from ktrace.cli import cli

    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"no completion for {shell}")
    put(completer(cli, {}, "ktrace", "_KTRACE_COMPLETE").source(), "\n")
