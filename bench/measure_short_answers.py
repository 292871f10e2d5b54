"""What ``evidence ask`` answers from text, as stored by the assets, on any files in SQuAD's format.

    python -m bench.measure_short_answers /path/to/dev-v2.0.json …

Every article is a corpus of its paragraphs. Printed are the share of answerable questions that are answered, exact
match and F1 of the answers, and the share of unanswerable questions that are answered. The packaged weights were fitted
on the articles of EVIDENCE_DEV_DATA: measure others.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench.short_answer_questions import Outcome, build_lake, print_outcomes, read_squad, run_stages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--lake", type=Path, help="Lake to reuse; by default a temporary one.")
    options = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for file in options.files:
            corpora, questions = read_squad(file)
            for question, rows in run_stages(
                build_lake(options.lake or Path(folder), corpora), questions, "predictions"
            ):
                [row] = rows
                outcomes.append(Outcome(question, row["answer"], row["confidence"] or 0.0))
    print_outcomes("answers of the assets", outcomes, (0.0,))


if __name__ == "__main__":
    main()
