"""Plans to add a benchmark from the published files of a known dataset (``evidence add benchmark --reader``)."""

from __future__ import annotations

from pathlib import Path

from evidence_assets.benchmarks.dataset_info import DatasetInfo, find_dataset
from evidence_assets.benchmarks.declared_benchmarks import FAMILY_OF_TASK
from evidence_assets.benchmarks.readers import PASSAGES, read_passages, read_questions
from evidence_assets.cli.add_benchmark import BenchmarkPlan, NumberedQuestion, add_sources, check_new_name
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import reject_outside_links


def plan_published_benchmark(
    name: str,
    reader: str,
    published: Path,
    *,
    corpus: str | None = None,
    graph: Path | None = None,
    split: str | None = None,
    folder: Path | None = None,
) -> BenchmarkPlan:
    """Read all questions of the published files in a folder and plan to copy it, without writing.

    A dataset with passages brings its own corpus, unless ``corpus`` names another; without a graph, questions that
    need one are then scored as retrieval. Raises BadInput with file, line and
    field of the first error; an unknown reader's error lists all.
    """
    check_new_name(name, folder)
    info = find_dataset(reader)
    if info.task is None:
        raise BadInput(f"{info.title} has no questions: use another --reader, or --corpus or --graph for its files")
    if not published.is_dir():
        raise BadInput("with --reader, --questions is the folder of the published files", file=published)
    reject_outside_links(published)
    split = split or _find_split(info, published)
    questions: list[NumberedQuestion] = [(0, question) for question in read_questions(reader, published, split)]
    has_passages = reader in PASSAGES and corpus is None
    needs_graph = FAMILY_OF_TASK[info.task] in ("graph", "search")
    task = "retrieval" if has_passages and needs_graph and graph is None else info.task
    plan = BenchmarkPlan(name, FAMILY_OF_TASK[task], task, split, reader=reader)
    plan.counts["questions"] = len(questions)
    plan.note = info.count_note(split, len(questions))
    if has_passages:
        plan.corpus, plan.counts["documents"] = name, sum(1 for _ in read_passages(reader, published, split))
    add_sources(plan, questions, published, None if has_passages else corpus, graph)
    for file in sorted(path for path in published.rglob("*") if path.is_file()):
        plan.copies[f"published/{file.relative_to(published).as_posix()}"] = file
    return plan


def _find_split(info: DatasetInfo, folder: Path) -> str:
    """The test split if its files are there and its answers public, else the first such split."""
    public = [split for split in dict.fromkeys(("test", "dev", *info.splits)) if split in set(info.splits)]
    public = [split for split in public if split not in info.hidden]
    for split in public:
        try:
            info.find_files(folder, split)
        except BadInput:
            continue
        return split
    info.find_files(folder, public[0])  # its error says which files are missing
    return public[0]
