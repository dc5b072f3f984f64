"""Computes which folders are packages: the given top-level folders install below `ktrace`. Builds `ktrace.native`."""

from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

GIVEN = ("converters", "schema", "proto")

core = find_packages(include=["ktrace", "ktrace.*"])
# The links ktrace/converters -> ../converters (and so on) make the same folders seen twice: count them once.
packages = [name for name in core if not name.startswith(tuple(f"ktrace.{folder}" for folder in GIVEN))]
package_dir = {"ktrace": "ktrace"}
for folder in GIVEN:
    packages += [f"ktrace.{folder}", *(f"ktrace.{folder}.{name}" for name in find_packages(folder))]
    package_dir[f"ktrace.{folder}"] = folder


class WithPages(build_py):
    """Puts the pages of docs/ that `ktrace mcp` hands out beside it: those of ktrace/analysis/answers/mcp/server.py."""

    def run(self) -> None:
        super().run()
        docs = Path("docs")
        for pattern in ("model.md", "glossary.md", "programs.md", "commands/query.md", "recipes/*.md"):
            for page in docs.glob(pattern):
                target = Path(self.build_lib, "ktrace/analysis/answers/mcp", page)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(page), str(target))


# Where it can't be compiled, pip says so in its log, and ktrace runs without it.
native = Extension(
    "ktrace.native.compiled",
    [f"ktrace/native/{name}.c" for name in ("events", "messages", "module", "nesting")],
    depends=[f"ktrace/native/{name}.h" for name in ("columns", "json_scan", "module", "texts")],
    py_limited_api=True,
    optional=True,
)

setup(
    packages=packages,
    package_dir=package_dir,
    ext_modules=[native],
    cmdclass={"build_py": WithPages},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
