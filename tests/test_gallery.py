"""The gallery has every picture of the docs, and the badges of README say what the package says."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from ktrace.cli import COMMANDS

ROOT = Path(__file__).parents[1]
GALLERY = (ROOT / "docs/gallery.md").read_text("utf-8")


def test_every_picture_is_there_with_a_line_of_a_command() -> None:
    shown = re.findall(r"^`([^`\n]+)`.*\n\n!\[.*\]\(images/(.*)\)$", GALLERY, re.MULTILINE)
    assert {picture for _, picture in shown} == {path.name for path in (ROOT / "docs/images").glob("*.png")}
    assert {line.split()[1] for line, _ in shown if line.startswith("ktrace ")} <= set(COMMANDS)


def test_samples_that_it_names_are_there() -> None:
    samples = re.findall(r"samples/[^\s`]+", GALLERY)
    assert len(samples) > 8
    assert [name for name in samples if not (ROOT / name).is_file()] == []


def test_badges_are_true() -> None:
    package = configparser.ConfigParser()
    package.read(ROOT / "setup.cfg", "utf-8")
    lowest = package["options"]["python_requires"].removeprefix(">=")
    assert f": {lowest} and later<" in (ROOT / "docs/images/python.svg").read_text("utf-8")
    assert f": {package['metadata']['license']}<" in (ROOT / "docs/images/licence.svg").read_text("utf-8")
