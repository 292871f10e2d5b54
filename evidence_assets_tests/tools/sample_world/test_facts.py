"""The facts of the sample world, and that their tellings suit a small masked language model."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tools.sample_world.articles import sentences_of, write_articles
from tools.sample_world.chains import Chain, KnownFacts, Step, question_text, wrong_options
from tools.sample_world.facts import load_world, read_triples
from tools.sample_world.tables import count, difference, load_tables, superlative, trend
from tools.sample_world.wording import fill, statement, with_article

WORLD = load_world()
TOLD = [fact for fact in WORLD.facts if fact.told]


def test_every_fact_says_where_it_can_be_checked() -> None:
    for fact in WORLD.facts:
        assert fact.check and "{" not in fact.check, fact


def test_names_in_prompted_relations_have_one_or_two_words() -> None:
    for relation in WORLD.prompted():
        for fact in WORLD.by_relation[relation]:
            for name in (fact.head, fact.tail):
                assert re.fullmatch(r"[A-Za-z]+( [A-Za-z]+)?", name), fact


def test_functional_relations_have_one_tail() -> None:
    for relation, entry in WORLD.relations.items():
        if entry.get("functional"):
            heads = Counter(fact.head for fact in WORLD.by_relation[relation])
            assert max(heads.values()) == 1, (relation, heads.most_common(2))


def test_no_symmetric_fact_is_given_both_ways() -> None:
    for relation, entry in WORLD.relations.items():
        if entry.get("symmetric"):
            pairs = [frozenset((fact.head, fact.tail)) for fact in WORLD.by_relation[relation]]
            assert len(set(pairs)) == len(pairs), relation


def test_told_four_times_in_four_wordings_of_which_one_at_most_is_the_prompts() -> None:
    stated = sentences_of(write_articles(WORLD, TOLD, []))
    for relation in WORLD.prompted():
        prompt = WORLD.relations[relation]["prompt"]
        facts = [fact for fact in WORLD.by_relation[relation] if fact.told]
        matching = 0
        for fact in facts:
            texts = [str(row["text"]) for row in stated[fact.triple]]
            wordings = range(len(WORLD.relations[relation]["wordings"]))
            used = {n for n in wordings for text in texts if statement(WORLD, fact, n).lower() in text.lower()}
            assert len(set(texts)) >= 4 and len(used) >= 4, fact
            filled = prompt.replace("<HEAD>", fact.head).replace("<TAIL>", fact.tail)
            pattern = rf"\b{re.escape(filled.lower())}\b"
            hits = sum(bool(re.search(pattern, text.lower())) for text in texts)
            assert hits <= 1, (fact, texts)
            matching += hits
        # the prompt has to be at home in the corpus, or nothing can be extracted with it
        assert matching >= 0.3 * len(facts), relation


def test_a_wrong_option_is_never_a_fact_held_out_or_doubtful() -> None:
    known = KnownFacts(WORLD, TOLD)
    for relation in WORLD.prompted():
        tails = sorted({fact.tail for fact in WORLD.by_relation[relation]})
        for tail in tails:
            for wrong in wrong_options(known, Chain(tail, (Step(relation, False),)), [], 4):
                assert not WORLD.holds(wrong, relation, tail)
                assert (wrong, relation, tail) not in WORLD.doubtful


def test_chains_follow_forwards_and_backwards_and_never_return() -> None:
    known = KnownFacts(WORLD, WORLD.facts)
    back_and_forth = Chain("tahini", (Step("is_an_ingredient_of", True), Step("is_an_ingredient_of", False)))
    answers = known.follow(back_and_forth)
    assert set(answers) == {"chickpeas"}
    assert answers["chickpeas"] == [
        [("tahini", "is_an_ingredient_of", "hummus"), ("chickpeas", "is_an_ingredient_of", "hummus")]
    ]
    text = question_text(WORLD, back_and_forth)
    assert text == "What has to be bought to produce the product prepared with tahini?"


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("axe", "an axe"),
        ("hammer", "a hammer"),
        ("snow", "snow"),
        ("Moon", "the Moon"),
        ("the thing", "the thing"),
        ("uranium", "uranium"),
        ("unicycle", "a unicycle"),
        ("tophi", "tophi"),
    ],
)
def test_articles_before_names(name: str, phrase: str) -> None:
    assert with_article(WORLD, name) == phrase


def test_verbs_agree_with_plural_heads() -> None:
    assert fill(WORLD, "{h} point{s} to {t}", "tophi", "gout") == "tophi point to gout"
    assert (
        fill(WORLD, "{h} {is} typical in {t}", "chorea", "Huntington disease")
        == "chorea is typical in Huntington disease"
    )


def test_a_malformed_fact_file_names_its_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("## may_treat\tsomewhere\naspirin fever\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.tsv, line 2"):
        read_triples(bad)


def test_fact_groups_run_both_ways_and_override_the_check(tmp_path: Path) -> None:
    good = tmp_path / "good.tsv"
    good.write_text("## r\tsee {Tail}\na\t>\tb; c\nd\t<\te\tbook\n", encoding="utf-8")
    assert read_triples(good) == [("a", "r", "b", "see B"), ("a", "r", "c", "see C"), ("e", "r", "d", "book")]


def test_findings_follow_from_the_cells() -> None:
    """Work out the answers again from the tables, for every table that allows the operation."""
    checked: dict[str, int] = defaultdict(int)
    for table in load_tables():
        for turn in range(6):
            key = f"test {turn}"
            found = superlative(table, key)
            if found:
                column = found.cells[0][1]
                best = max if re.search("the (greatest|latest) value", found.question) else min
                values = {row[0]: float(row[column]) for row in table.rows}
                assert values[found.answer] == best(values.values())
                checked["superlative"] += 1
            found = difference(table, key)
            if found:
                one, two = (float(table.rows[row][column]) for row, column in found.cells)
                assert float(found.answer) == pytest.approx(abs(one - two), abs=0.006)
                assert found.answer not in found.wrong
                checked["difference"] += 1
            found = count(table, key)
            if found and "'" in found.question.split("have ")[1][:1]:
                value = found.question.split("have '")[1].split("'")[0]
                assert int(found.answer) == sum(table.rows[row][column] == value for row, column in found.cells)
                checked["count"] += 1
            found = trend(table, key)
            if found:
                one, two = sorted({column for _, column in found.cells})
                pairs = sorted((float(row[one]), float(row[two])) for row in table.rows)
                falling = [b for _, b in pairs] == sorted((b for _, b in pairs), reverse=True)
                assert ("falls" in found.answer) == falling
                checked["trend"] += 1
    assert min(checked[name] for name in ("superlative", "difference", "count", "trend")) >= 20
