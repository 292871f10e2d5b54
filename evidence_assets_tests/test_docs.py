"""Files, tests, variants and links that the documentation names exist, and its examples run."""

import re
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import yaml

from bench.measure_all import MEASURED_PAGES
from bench.result_files import TOKENS, Results
from bench.write_measured import MARK, PAGE, PAGE_OF_TEMPLATE, write_page, write_sources
from evidence_assets.experiment.variants import variants
from evidence_assets.reproduction.presets import presets
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.conftest import REPOSITORY, run_python
from tools.data_dictionary import dictionary

PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
EXAMPLE, READER = (
    (REPOSITORY / "docs" / f"add-a-{what}.md").read_text(encoding="utf-8") for what in ("system", "benchmark")
)
FILES = dict(
    re.findall(r"^`(evidence_assets/\S+)`\n\n```(?:python|yaml)\n(.*?)^```", EXAMPLE + READER, re.DOTALL | re.MULTILINE)
)
INVENTED = "lucky|mine|operas|quizbook|quiznight"


@pytest.mark.parametrize(
    "page", [*PAGES, REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"], ids=lambda p: p.stem
)
def test_files_and_links_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w<>-]+/)+[\w.-]+\.(?:py|yaml|csv|json|md|jsonl))`", text))
    files = {name for name in named if not re.search(f"<|data_lake|{INVENTED}", name)}
    modules = re.findall(r"python (?:-m )?bench[/.](\w+(?:\.\w+)*)", text)
    files |= {f"bench/{module.replace('.', '/').removesuffix('/py')}.py" for module in modules}
    missing = [f for f in files if not ((REPOSITORY / f).exists() or (REPOSITORY / "evidence_assets" / f).exists())]
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", text) if not (page.parent / link).exists()]
    assert not missing and not links


def named_tests(text: str) -> list[str]:
    """Tests that a text names as ``file::name``; each must exist."""
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", text)
    for file, name in named:
        code = (REPOSITORY / "evidence_assets_tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *def {name}\(", code, re.MULTILINE), f"{file} has no {name}"
    return [name for _, name in named]


def test_claims_about_the_papers_name_existing_tests_and_variants() -> None:
    text = (REPOSITORY / "docs" / "reproduction.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.count(" | ") == 3]
    claims = [row for row in rows if "shown by" not in row]
    assert len(claims) > 45
    for row in claims:
        assert named_tests(row), f"no test named in: {row}"
    variant_keys = {variant.key for variant in variants()}
    families = "|".join({place.partition("/")[0] for place in variant_keys})
    unknown = set(re.findall(rf"`((?:{families})/\w+)`", text)) - variant_keys
    assert not unknown
    assert set(re.findall(r"preset `(\w+)`", text)) <= presets().keys()


def test_the_pages_of_measurements_are_what_the_script_writes() -> None:
    for template, page in PAGE_OF_TEMPLATE.items():
        text = page.read_text(encoding="utf-8")
        assert text == write_page(template), f"{page.name} is old: run python -m bench.write_measured"
    assert len(PAGE.read_bytes()) <= 25_000


def test_the_hours_of_a_model_are_those_of_all_rows_of_a_command() -> None:
    first = Results("make measure-local", "1a2b", "2026-12-01", "x86_64", (TOKENS,), (("360,000, 104,400",), ("",)))
    second = replace(first, rows=(("720,000, 0",),))
    without_model = replace(first, command="make measure", columns=("accuracy",))
    assert write_sources([first, second, without_model]).splitlines() == [
        "`make measure-local`, 1a2b, 2026-12-01, x86_64, 4 hours of the model.",
        "`make measure`, 1a2b, 2026-12-01, x86_64.",
    ]


def test_every_measurement_and_result_file_is_on_the_page_and_lakes_are_made_before_use() -> None:
    marks = [mark for file in PAGE_OF_TEMPLATE for mark in MARK.findall(file.read_text(encoding="utf-8"))]
    names_on_page = {name for names, _ in marks for name in names.split()}
    assert names_on_page == {file.stem for file in (REPOSITORY / "bench" / "results").glob("*.json")}
    earlier_worlds = set()
    files = [page.measurements for page in MEASURED_PAGES.values()]
    measurements = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    for name, entry in chain.from_iterable(each.items() for each in measurements):
        assert name in names_on_page, name
        assert {place.partition(":")[0] for place in entry.get("answers", ())} <= earlier_worlds, name
        earlier_worlds.add(Path(entry.get("world", "sample")).stem)


def test_paths_on_a_card_have_the_date_of_their_figures_or_none() -> None:
    page = (REPOSITORY / "docs" / "served-model.md").read_text(encoding="utf-8")
    dates = re.findall(r"^\| .+? \| (2026-\d\d-\d\d|not run on a card yet)", page, re.MULTILINE)
    results = Results.read("gpu")
    assert set(dates) == {results.date, "not run on a card yet"} and len(dates) == 10
    unmeasured = ("transport", "vector index", "4 bits", "vLLM", "a card for each process")
    measured = [row[0] for row in results.rows]
    for path in unmeasured:
        assert not any(name.startswith(path) for name in measured), f"{path} has figures: give its date"
        assert re.search(rf"^\| {path}.* \| not run on a card yet \|$", page, re.MULTILINE), path


def test_claims_of_the_threat_model_name_existing_tests() -> None:
    text = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
    claims = re.findall(r"^- (.*(?:\n  .*)*)", text.partition("## Known limits")[0], re.MULTILINE)
    assert len(claims) > 25
    for claim in claims:
        assert named_tests(claim), f"no test named in: {claim}"


def test_the_examples_run(tmp_path: Path) -> None:
    shutil.copytree(
        REPOSITORY / "evidence_assets", tmp_path / "evidence_assets", ignore=shutil.ignore_patterns("__pycache__")
    )
    write_files(tmp_path, FILES)
    program = re.findall(r"<<'END'\n(.*?)^END", EXAMPLE, re.DOTALL | re.MULTILINE)[0]
    checks = """
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.lucky.system import LuckyChunks, LuckySettings
class Corpus:
    version = "v"
    def __len__(self):
        return 20
    def ids(self, positions):
        return [f"c{i}" for i in positions]
    texts = ids
question = Question("q", "b", "mcqa", "Which?", ("x", "y"))
first, again = (list(LuckyChunks(Corpus(), LuckySettings()).select([question])) for _ in range(2))
assert first == again and [len({p.text for p in first[0] if p.option == o}) for o in "AB"] == [5, 5]
from pathlib import Path
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.readers import read_questions
Path("dev.jsonl").write_text('{"id": "1", "question": "Which?", "choices": ["x", "y"], "answer": 1}')
assert [q.gold for q in read_questions(all_benchmarks()["quizbook"].reader, Path(), "dev")] == [("B",)]
Path("rounds").mkdir()
Path("rounds/dev.jsonl").write_text(READER_ROW)
(question,) = read_questions("quiznight", Path(), "dev")
assert (question.source_id, question.options, question.gold) == ("rivers-1", ("Rhine", "Tiber"), ("B",))
for name in [name for name in dir(TestQuizbook) if name.startswith("test_")]:
    getattr(TestQuizbook(), name)(Path(name))
"""
    contract = re.findall(r"```python\n(.*?)^```", READER, re.DOTALL | re.MULTILINE)[-1]
    quiz_round = " ".join(re.findall(r"`(\{\"round.*?\})`:", READER, re.DOTALL)[0].split())
    checks = checks.replace("READER_ROW", repr(quiz_round))
    environment = {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "EVIDENCE_PRESETS": ""}
    output = run_python("-c", program + contract + checks, cwd=tmp_path, env=environment)
    assert re.findall(r"```text\n(.*?)```", EXAMPLE, re.DOTALL)[0] in output
    assert len(FILES) == 7


def test_the_data_dictionary_is_current() -> None:
    page = (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == dictionary(), "docs/tables.md is old: run python tools/data_dictionary.py"
