"""Asks all questions in all ways, and prints a table and the failures."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.agents.questions import questions
from tests.agents.ways import WAYS, Told, is_right


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="the results, an object for each question and way")
    options = parser.parse_args()
    rows, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        asked = list(questions(Path(folder)))
        for way, ask in WAYS.items():
            for question in asked:
                try:
                    told = ask(question)
                except Exception as error:  # an error is no answer, and is listed
                    told = Told(f"{type(error).__name__}: {error}", 1, 0)
                right = is_right(question, told.answer)
                rows.append({"way": way, "question": str(question), "right": right, **told._asdict()})
                if not right:
                    failures.append(f"{way}: {question} {told.answer}, not {question.true}")
    print("| way | right | calls | bytes |\n|---|---|---|---|")
    for way in WAYS:
        mine = [one for one in rows if one["way"] == way]
        right, calls, size = (sum(int(one[key]) for one in mine) for key in ("right", "calls", "bytes"))
        print(f"| {way} | {right} of {len(mine)} | {calls} | {size:,} |")
    print("", *failures, sep="\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
