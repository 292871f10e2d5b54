"""Prompts from a document: every printed part with all its words, in any layout, and nothing of ours unmarked."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from evidence_assets import systems
from evidence_assets.benchmarks.corpora import read_pages
from evidence_assets.experiment.answering import STYLES
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.printed_text import PLACEHOLDER
from evidence_assets.reasoning.prompt_import import (
    ImportedPart,
    PromptImport,
    import_prompts,
    read_printed_prompts,
    write_prompts,
)
from evidence_assets.reasoning.published_prompts import chain_request
from evidence_assets.reasoning.tasks import EvidenceItem, ExplainOption
from evidence_assets.reasoning.templates import Prompts
from evidence_assets_tests.reasoning.small_questions import make_question

assert STYLES, "its prompts are among the templates"
THESIS, BACKGROUND = (Path(__file__).with_name(f"printed_{name}.md") for name in ("thesis", "background"))
EXPLAIN = ExplainOption(
    make_question("What treats pain?", "aspirin"), "A", (EvidenceItem("e", "chunk", "d", "0:6", "A fact."),)
)


def import_text(text: str) -> PromptImport:
    return import_prompts(Path("copy.md"), [text], systems.load_templates())


def import_edited(file: Path, old: str, new: str) -> PromptImport:
    text = file.read_text(encoding="utf-8")
    assert old in text
    return import_text(text.replace(old, new))


def marked_texts(prompt: str) -> list[tuple[str, str]]:
    """Mark and text of each paragraph."""
    pairs = [each.split("\n", 1) for each in re.split(r"\n---\n|\n\n", prompt.removesuffix("\n"))]
    return [(mark.removeprefix("@"), text) for mark, text in pairs]


def paragraphs(prompt: str) -> dict[str, str]:
    """Text by mark; a mark that comes twice has both texts."""
    texts: dict[str, str] = {}
    for mark, text in marked_texts(prompt):
        texts[mark] = f"{texts[mark]}\n{text}" if mark in texts else text
    return texts


def problems(result: PromptImport) -> dict[str, ImportedPart]:
    return {part.part: part for part in result.parts if part.status not in ("placed", "not printed")}


def words(text: str) -> list[str]:
    return text.replace("*", " ").split()


@pytest.mark.parametrize(("file", "n_placed", "n_described"), [(THESIS, 86, 8), (BACKGROUND, 15, 0)])
def test_every_printed_part_is_placed_with_its_words(file: Path, n_placed: int, n_described: int) -> None:
    text = file.read_text(encoding="utf-8")
    result = import_text(text)
    assert not problems(result)
    assert (result.count("placed"), result.count("not printed")) == (n_placed, n_described)
    lines = text.splitlines()
    for part in result.parts:
        for number in re.findall(r"line (\d+)", part.place):
            assert lines[int(number) - 1].strip(), part


PRINTED = {
    "published_chain": ("You are a friend", "Set out here:"),
    "published_choice": ("You are an umpire", "Answer: <your_reply>"),
    "published_passages": ("You are a doctor's aide", "Explanation: <your reason with its finds>"),
    "entities": ("Think of all things", "Things:"),
    "triples": ("Think of all facts", "Facts:"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_no_word_of_a_print_is_lost_and_none_is_added(name: str) -> None:
    file = BACKGROUND if name in ("entities", "triples") else THESIS
    text = file.read_text(encoding="utf-8")
    start, end = PRINTED[name]
    begins = text.index(start)
    printed_text = text[begins : text.index(end, begins) + len(end)]
    printed_text = re.sub(r"(?m)^Figure .*$", "", printed_text)
    if file is BACKGROUND:
        printed_text = re.sub(r"(?m)^\d+", "", printed_text)
    fields = {
        field: placeholder
        for p in read_printed_prompts()
        if p.template == name
        for placeholder, field in p.placeholders.items()
    }
    printed = paragraphs(import_text(text).files[f"{name}.txt"])
    sent = " ".join(re.sub(r"^\?\w+ ", "", each) for mark, each in printed.items() if not mark.startswith("ours"))
    sent = re.sub(r"\$(\w+)", lambda match: fields[match[1]], sent)
    printed_text = PLACEHOLDER.sub(lambda match: re.sub(r"\W|_", "", match[1]).lower(), printed_text)
    assert words(sent) == words(printed_text)


def test_headings_marks_and_conditions_stay_with_their_parts() -> None:
    files = import_text(THESIS.read_text(encoding="utf-8")).files
    case = paragraphs(files["published_case.txt"])
    assert case["thesis 3.3.2, stage 2, role"] == "?claim You are a patient auditor of spreadsheets."
    assert (
        case["thesis 3.3.2, stage 2 and 4.3.2, claim or question"]
        == "?claim The remark: $question\n?option Asked: $question"
    )
    assert case["thesis 3.3.2, stage 2 and 4.3.2, table"] == "?table The sheet:\n$table"
    assert case["thesis 3.3.2, stage 2, SUPPORTS, facts"].endswith("as far as it has them"), "no full stop is printed"
    assert case["thesis 3.3.2, stage 2, NEI, rows"].startswith("?unsettled Go down")
    verdict = paragraphs(files["published_claim_verdict.txt"])
    assert verdict["thesis 3.3.2, stage 3, given"].count("\n- ") == 3
    assert verdict["thesis 3.3.2, stage 3, task 2, NEI"] == "- Leave the remark open (too little is there)."
    assert verdict["thesis 3.3.2, stage 3, task 1"] == "Work:\n1. Take in all of it."
    pick = paragraphs(files["published_verdict.txt"])
    assert pick["thesis 4.3.3, choice"] == "?cases Take the plea that needs the fewest cells and errs nowhere."
    assert paragraphs(files["published_verdict_several.txt"])["thesis 4.3.3, cells"] == pick["thesis 4.3.3, cells"]


def test_placeholders_of_one_field_lists_of_labels_and_examples_become_fields() -> None:
    result = import_text(THESIS.read_text(encoding="utf-8"))
    pick = paragraphs(result.files["published_verdict.txt"])
    assert pick["thesis 4.3.3, options"] == "?options What may be picked:\n$options"
    assert pick["thesis 4.3.3, explanations"] == "?cases Pleas:\n$cases"
    assert pick["thesis 4.3.3, output"] == "Verdict:\nGive one letter out of these: $labels."
    notes = {part.part: part.note for part in result.parts}
    assert notes["thesis 4.3.3, options"] == "{o_1}, {o_2}, {o_3}, {o_4} with their headings are $options"
    assert notes["thesis 3.3.2, stage 3, answer"] == "its list of labels is $labels"
    assert notes["thesis 7.3.4, format"] == "$labels is not printed"
    judge = paragraphs(result.files["judge.txt"])
    assert judge["thesis 5.4.2, precision, tuple and prompt sentence"].endswith("Would you sign the line: $statement")


def test_facts_come_before_and_after_the_form_of_the_answer() -> None:
    prompt = import_text(BACKGROUND.read_text(encoding="utf-8")).files["short_answer.txt"]
    marks = re.findall(r"@kaping-background 4\.2\.5, (.*)", prompt)
    assert marks == ["facts", "form of the answer", "facts", "question", "reply"]
    assert prompt.count("\n?facts ") == 2 and "\n(Be brief, no reasons, N/A where you are lost)\n" in prompt


def as_pages(text: str, width: int) -> list[str]:
    """The text as it is taken from a PDF: broken lines, no empty lines, running heads and page numbers."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("```")]
    broken = [each for line in lines for each in textwrap.wrap(line, width, break_on_hyphens=False)]
    starts = range(0, len(broken), 30)
    return ["\n".join(["CHAPTER 3. CHECKS", *broken[i : i + 30], str(100 + i)]) for i in starts]


@pytest.mark.parametrize("width", [55, 70, 90])
@pytest.mark.parametrize("file", [THESIS, BACKGROUND], ids=["thesis", "background"])
def test_the_layout_of_a_document_does_not_matter(file: Path, width: int) -> None:
    text = file.read_text(encoding="utf-8")
    result = import_prompts(Path("copy.pdf"), as_pages(text, width), systems.load_templates())
    assert result.files == import_text(text).files
    assert all(re.fullmatch(r"page \d+(, page \d+)*", part.place) for part in result.parts if part.status == "placed")


def test_what_is_not_printed_or_not_found_is_ours_and_marked() -> None:
    result = import_edited(THESIS, "\n7.3.4 The choice", "\nThe choice")
    assert {part.status for part in problems(result).values()} == {"not found"} and len(problems(result)) == 11
    assert "no such heading" in problems(result)["thesis 7.3.4, role"].note
    assert "published_choice.txt" not in result.files, "it would have our words alone"
    assert "published_question.txt" not in result.files
    for template in systems.load_templates():
        if text := result.files.get(f"{template.name}.txt"):
            our_texts = {part.text for part in template.parts}
            for mark, paragraph in marked_texts(text):
                if re.fullmatch(r"\?\w+ \$\w+", paragraph):
                    continue  # a placeholder alone
                is_ours = re.sub(r"^\?\w+ ", "", paragraph) in our_texts
                assert is_ours == mark.startswith("ours"), (mark, paragraph)
    bare = paragraphs(result.files["published_verdict.txt"])["ours, not printed: thesis 4.4.3, without CCoE"]
    assert bare.startswith("?bare Decide which single option")


@pytest.mark.parametrize(
    ("file", "old", "new", "statuses"),
    [
        # An item is missing: the parts before it are placed, those after it are not.
        (THESIS, "3. Compare the steps of the walks.\n", "", {"not found": 5}),
        # Another heading, so that its role is not at the beginning.
        (THESIS, "You are an umpire", "Be an umpire", {"not found": 1}),
        (THESIS, "Name every clash, gap and leap.", "Name every clash. Name every gap.", {"ambiguous": 3}),
        (THESIS, "Read what is asked, what may", "Read it all. Read what is asked, what may", {"ambiguous": 2}),
        (BACKGROUND, "Fig. 4.4: How the last", "A figure shows it.\n\nHow the last", {"ambiguous": 2}),
        (THESIS, "\n4.4 Trials", "\n4.3.3 Once More\n\nQuestion: {question}\n\n4.4 Trials", {"ambiguous": 9}),
        (THESIS, "the template: Would", "the sentence: Would", {"not found": 1}),
        (THESIS, "and signs or not.", "or a template: What of “this”.", {"ambiguous": 1}),
    ],
)
def test_another_form_is_reported(file: Path, old: str, new: str, statuses: dict[str, int]) -> None:
    result = import_edited(file, old, new)
    reported = [part.status for part in problems(result).values()]
    assert all(part.note for part in problems(result).values())
    assert {status: reported.count(status) for status in set(reported)} == statuses


def test_unknown_placeholders_and_dollar_signs_are_kept_and_reported(tmp_path: Path) -> None:
    result = import_edited(THESIS, "- Leave no step out.", "- Leave no step of {plan} out, for $5 or ${a}.")
    notes = {part.part: part.note for part in result.parts}
    assert notes["thesis 7.3.3, guideline 3"] == "no field for {plan}, {a}"
    write_prompts(result.files, tmp_path, replace_existing=False)
    request = chain_request(EXPLAIN, Prompts((tmp_path,)))
    assert "- Leave no step of {plan} out, for $5 or ${a}.\n" in request.user


def test_imported_prompts_are_sent_in_place_of_ours(tmp_path: Path) -> None:
    for file in (THESIS, BACKGROUND):
        write_prompts(import_text(file.read_text(encoding="utf-8")).files, tmp_path, replace_existing=False)
    prompts = Prompts((tmp_path,))
    prompts.check(systems.load_templates())
    request = chain_request(EXPLAIN, prompts)
    assert request.system.startswith("You are a friend of slow thinking. Walk from") and "@" not in request.system
    assert request.user.startswith("You have:\n- What is asked: <<< question")
    assert request.user.endswith("- Leave no step out.\n\nSet out here:")


def test_nothing_is_replaced_without_being_asked_and_no_link_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs")
    (folder / "b.txt").symlink_to(outside)
    with pytest.raises(BadInput, match=r"b\.txt: exists already.*--force"):
        write_prompts({"a.txt": "A", "b.txt": "B"}, folder, replace_existing=False)
    assert not (folder / "a.txt").exists()
    write_prompts({"a.txt": "A", "b.txt": "B"}, folder, replace_existing=True)
    assert outside.read_text() == "theirs" and (folder / "b.txt").read_text() == "B"
    assert {path.name for path in folder.iterdir()} == {"a.txt", "b.txt"}


def test_a_document_without_these_prompts_is_refused() -> None:
    with pytest.raises(BadInput, match=r"copy\.md: prints none of the prompts that the marks of thesis and kaping"):
        import_text("3.3.2 Cheese\n\nThere is cheese: {claim}\n")


def test_printed_prompts_name_templates_with_their_fields_and_sections() -> None:
    templates = {template.name: template for template in systems.load_templates()}
    for prompt in read_printed_prompts():
        template = templates[prompt.template]
        assert {*prompt.placeholders.values(), *prompt.conditions} <= template.fields, prompt
        marks = [part.source for part in template.parts if part.source]
        assert any(prompt.section in mark and mark.startswith(f"{prompt.document} ") for mark in marks)
        assert {f"{prompt.document} {prompt.section}, {part}" for part in prompt.parts} <= set(marks)


@pytest.fixture
def paper(dev_data: Path) -> Callable[[str], Path]:
    """A document beside the development datasets."""

    def find(number: str) -> Path:
        files = sorted((dev_data.parent / "papers").glob(f"{number}_*"))
        if not files:
            pytest.skip("the folder of EVIDENCE_DEV_DATA has no folder papers beside it")
        return files[0]

    return find


@pytest.mark.dev_data
@pytest.mark.parametrize(("number", "n_placed", "n_described"), [("000", 86, 8), ("004", 15, 0)])
def test_prompts_of_the_documents_are_placed(
    number: str, n_placed: int, n_described: int, paper: Callable[[str], Path]
) -> None:
    file = paper(number)
    result = import_prompts(file, read_pages(file), systems.load_templates())
    assert (result.count("placed"), result.count("not printed")) == (n_placed, n_described)
    assert len(result.parts) == n_placed + n_described
