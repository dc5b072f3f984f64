"""Every command in the docs runs, and prints what the docs show.

A command that names a file runs on what tests/helpers/doc_files.py has under this name. Output is shown below a line
that begins with `$ `, and may be shortened by `...`. Programs that aren't here, and why, are in `ELSEWHERE`; commands
of ktrace that need a network or a person in `NOT_RUN`, whose options are checked nevertheless.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES
from doc_commands import Command, Synopsis, found, same
from doc_files import lay
from fork_server import with_program

from ktrace.cli import command_of

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in PAGES}
FOUND = {page: list(found(page, text)) for page, text in TEXTS.items()}
COMMANDS = {page: [each for each in entries if isinstance(each, Command)] for page, entries in FOUND.items()}

_INSTALLS = "installs; .ci/run and tests/test_plugins.py do it"
_TESTS = "runs tests"
#: First word of a command that isn't ktrace's -> why it isn't run.
ELSEWHERE = {
    **dict.fromkeys(("nsys", "ncu", "nvprof", "trtexec"), "NVIDIA's, needs a GPU"),
    **dict.fromkeys(("rocprof", "rocprofv2", "rocprofv3"), "AMD's, needs a GPU"),
    **dict.fromkeys(("msprof", "neuron-explorer"), "Huawei's and AWS', need an accelerator"),
    **dict.fromkeys(("benchmark_app", "torchrun", "./app", "proton"), "the profiled program"),
    **dict.fromkeys(("pip", "python3", "cd", ".venv/bin/pip", ".venv/bin/ktrace"), _INSTALLS),
    **dict.fromkeys((".venv/bin/python", ".venv/bin/ruff", "tox", "python"), _TESTS),
    **dict.fromkeys(("dask", "srun", "until", "for", "kubectl", "ssh"), "starts a cluster"),
    **dict.fromkeys(("docker", "pre-commit", "mkdocs"), "tests/test_delivery.py runs what it runs"),
    "with": "Python",
    "export": "sets what the next program reads",
    "duckdb": "its SQL runs in tests/fleet",
}

#: What a command of ktrace contains -> why it isn't run, only parsed.
NOT_RUN = {
    "ktrace view": "waits for a browser; tests/viewer",
    "ktrace cache": "shows a folder of the user; tests/analysis/overview",
    "ktrace mcp": "waits for a client; tests/analysis/mcp",
    "s3://": "needs a store; tests/fleet and tests/test_recipes.py have one",
    "--dask": "needs a cluster; tests/fleet has one",
    ".nsys-rep": "needs NVIDIA's nsys",
    "run.h5": "no sample in HDF5; tests/converters make one",
    "/shared/": "a folder of a cluster",
    "~/": "a folder of the user",
    "ktrace new-format": "writes into the repository; tests/test_new_format.py",
    "check-format NAME": "placeholders; the page runs it for a format",
    "run.beep": "a plug-in's; tests/test_plugins.py",
    "grep beeper": "a plug-in's; tests/test_plugins.py",
}

#: Programs that only show what ktrace printed: left out where they aren't installed.
PIPES = ("jq", "xsv")

#: Command -> its exit code, of those that show no output and end with another than 0.
CODES = {
    "ktrace diff base.parquet new.parquet --fail-over 5% --fail-over-each 20% -o diff.md": 0,
}


@pytest.fixture(scope="session")
def shell() -> dict[str, str]:
    """The environment of a shell in which `ktrace` is that of this tree."""
    return with_program() | {"COLUMNS": "200"}


def reason(command: Command, part: str) -> str | None:
    """Why a part of a command line isn't run, None where it is."""
    word = next((word for word in part.split() if "=" not in word or word.startswith("-")), "")
    if word == "ktrace" or word.startswith("eval") or "$(ktrace" in part:
        return next((why for text, why in NOT_RUN.items() if text in part), None)
    return ELSEWHERE.get(word)


@pytest.mark.parametrize("page", [page for page, commands in COMMANDS.items() if commands])
def test_commands_run_and_print_what_is_shown(page: str, shell: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "samples").symlink_to(SAMPLES)
    problems = []
    for command in COMMANDS[page]:
        for part in command.parts:
            if reason(command, part) is not None:
                if "ktrace " in part and " IN" not in part:
                    parsed(part)
                continue
            if problem := run(command, part, page, tmp_path, shell):
                problems.append(f"{page}:{command.line}: {part}\n{problem}")
    assert not problems, "\n\n".join(problems)


def run(command: Command, part: str, page: str, folder: Path, environment: dict[str, str]) -> str:
    """Runs it in a folder with the files that it names; returns what is wrong, "" where all is as it should be."""
    words = shlex.split(part, comments=True)
    for place, word in enumerate(words):
        after_output = words[place - 1] in {"-o", ">", "--report"}
        if after_output and words[1] != "batch":
            remove(folder / word)
        elif not after_output:
            lay(page, word, folder)
            lay(page, word.partition("=")[0], folder)
            lay(page, word.removeprefix("@"), folder)
    for program in PIPES:
        if not shutil.which(program):
            part = re.sub(rf"\| {program} .*", "| cat", part, flags=re.S)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", part], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    out, err = done.stdout, done.stderr
    if command.shown:
        if any(same(command.shown, text) for text in (out, err, out + err, err + out)):
            return ""
        return f"prints (exit code {done.returncode}):\n{out}{err}"
    return "" if done.returncode == CODES.get(part, 0) else f"exit code {done.returncode}:\n{out[-500:]}{err}"


def remove(output: Path) -> None:
    """Removes the output of an earlier command; of a command that writes several parts, all of them."""
    for path in (output, *output.parent.glob(f"{output.name.partition('.')[0]}.[0-9][0-9][0-9].*")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def parsed(part: str) -> None:
    """Checks the options of a command that isn't run."""
    words = shlex.split(part[part.index("ktrace ") :].split(" |", maxsplit=1)[0], comments=True)
    words = words[: next((place for place, word in enumerate(words) if word in {">", "&", ";"}), len(words))]
    command = command_of(words[1])
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = {word for word in words if word.startswith("--") and word not in options}
    assert not unknown, part


def test_every_line_of_a_shell_block_is_run_or_has_a_reason() -> None:
    lines = [(command, part) for commands in COMMANDS.values() for command in commands for part in command.parts]
    assert len(lines) > 60
    unknown = [
        f"{command.page}:{command.line}: {part}"
        for command, part in lines
        if not re.match(r"(?:\w+=\S+ )*(?:\w+=\$\()?(?:ktrace |eval )", part) and reason(command, part) is None
    ]
    assert unknown == [], "neither ktrace nor in ELSEWHERE"


def test_most_commands_are_run() -> None:
    parts = [(command, part) for commands in COMMANDS.values() for command in commands for part in command.parts]
    ours = [(command, part) for command, part in parts if "ktrace " in part]
    assert sum(reason(command, part) is None for command, part in ours) > 0.7 * len(ours)


def test_a_synopsis_names_only_options_that_are_there() -> None:
    synopses = [each for entries in FOUND.values() for each in entries if isinstance(each, Synopsis)]
    assert len(synopses) > 6
    for synopsis in synopses:
        name = synopsis.text.split()[1]
        command = command_of(name)
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"--[a-z][\w-]*", synopsis.text)) <= options, synopsis.page
