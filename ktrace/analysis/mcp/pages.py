"""Pages of the documentation as resources: the model, the glossary, findings, the views of SQL, the recipes.

An installed ktrace has them beside this module (setup.py puts them there), a checkout in docs/.
"""

from __future__ import annotations

from pathlib import Path

_INSTALLED = Path(__file__).parent / "docs"
_FOLDER = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[3] / "docs"

#: The pages; setup.py has the same.
_PATTERNS = ("model.md", "glossary.md", "programs.md", "commands/query.md", "recipes/*.md")

#: What the address of a page begins with.
PREFIX = "ktrace://docs/"


def pages() -> dict[str, Path]:
    """The pages by their addresses: ktrace://docs/recipes/too-large.md."""
    found = [path for pattern in _PATTERNS for path in sorted(_FOLDER.glob(pattern))]
    return {f"{PREFIX}{path.relative_to(_FOLDER).as_posix()}": path for path in found}


def title(page: Path) -> str:
    """The first heading of a page."""
    return page.read_text("utf-8").partition("\n")[0].lstrip("# ")
