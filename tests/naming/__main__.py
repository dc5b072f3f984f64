"""Prints how right the labels of real names are, and each that isn't: `python -m tests.naming operation`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "helpers")]

from naming.labelled import COLUMNS, measured, names  # noqa: E402


def main() -> None:
    """Prints a row for each column, then the disagreements of the columns that are named, else of all."""
    scores, wrong = measured()
    print(f"{len(names()):,} names\n| column | precision | recall | said | known |\n|---|--:|--:|--:|--:|")
    for column, score in scores.items():
        print(f"| {column} | {score.precision:.1f} | {score.recall:.1f} | {score.said:,} | {score.known:,} |")
    chosen = sys.argv[1:] or COLUMNS
    for column, right, said, name in wrong:
        if column in chosen:
            print(f"{column}\tis {right or '-'}\tsaid {said or '-'}\t{name}")


if __name__ == "__main__":
    main()
