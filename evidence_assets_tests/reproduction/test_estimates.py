"""Facts of plans, compared with the pages and measurements that they are from."""

import json
import re
from math import ceil

import pytest

from evidence_assets.reasoning.model_calls import PROMPTED_TASKS
from evidence_assets.reasoning.templates import PACKAGED
from evidence_assets.reproduction.estimates import USABLE_BYTES, count_cards, facts
from evidence_assets.reproduction.table_plans import measurements
from evidence_assets_tests.conftest import REPOSITORY
from tools.sample_tasks import build_tasks


def measured_tokens() -> dict[str, tuple[int, int]]:
    """Tokens read and written by thirty inputs of each task, as benches wrote them."""
    rows = []
    for name in ("local_replies", "local_long_replies", "local_checks", "local_yes_no_replies"):
        rows += json.loads((REPOSITORY / f"bench/results/{name}.json").read_text())["rows"]
    pairs = {task: tokens.replace(",", "").split() for task, *_, tokens in rows}
    return {task: (int(read), int(written)) for task, (read, written) in pairs.items()}


def test_tokens_of_tasks_are_those_measured() -> None:
    assert {name: (task.read, task.written) for name, task in facts().tasks.items()} == measured_tokens()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(facts().tasks))
def test_the_longest_prompt_and_the_limit_are_those_of_the_samples_inputs(name: str) -> None:
    """The longest prompt has the tokens of its characters, at the mean of all thirty."""
    task = facts().tasks[name]
    requests = [PROMPTED_TASKS[name].build_request(each, PACKAGED) for each in build_tasks(name)]
    characters = [len(request.system) + len(request.user) for request in requests]
    assert task.longest == ceil(task.read * max(characters) / sum(characters))
    assert task.limit == max(request.max_tokens for request in requests)


def test_served_models_have_the_sizes_of_the_page_on_deployment() -> None:
    text = (REPOSITORY / "docs/deploy.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| ")]
    cells = {row[1]: row[2:5] for row in rows if len(row) == 6}
    served = [size for size in facts().models.values() if size.cache][:3]
    assert [f"{size.weights / 1e9:.1f}" for size in served] == cells["weights, GB"]
    assert [f"{size.cache:,}" for size in served] == cells["key-value cache, bytes of a token"]
    parameters = [map(float, re.findall(r"[\d.]+", cell)) for cell in cells["parameters in layers · embeddings"]]
    computed = [(layers * (4 + 20 / 128) + embeddings * 16) / 8 for layers, embeddings in parameters]
    assert [size.weights / 1e9 for size in served] == pytest.approx(computed, abs=0.15)


def test_a_model_is_divided_into_a_power_of_two_cards() -> None:
    assert [count_cards(share * USABLE_BYTES // 2) for share in (1, 2, 3, 4, 5, 9)] == [1, 1, 2, 2, 4, 8]


def test_measurements_are_those_of_their_page() -> None:
    """Each text is in its section, and its seconds and memory are in the texts."""
    for measurement in (each for group in measurements().values() for each in group):
        page, _, section = measurement.page.partition("#")
        sections = (REPOSITORY / "docs" / page).read_text().split("\n## ")
        [text] = [each for each in sections if slug(each.partition("\n")[0]) == section]
        assert all(result in text for result in measurement.results), measurement
        quoted = " ".join(measurement.results)
        assert measurement.mebibytes is None or f"{measurement.mebibytes:,}" in quoted, measurement
        if measurement.seconds is not None:
            assert measurement.seconds == pytest.approx(sum(map(read_seconds, measurement.results))), measurement


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def read_seconds(result: str) -> float:
    """Seconds of a row, by the clock where it has both, or of a text with minutes; else the first decimal number."""
    if minutes := re.search(r"(\d+) minutes", result):
        return float(minutes[1]) * 60
    match = re.search(r"([\d.]+) / [\d.]+", result) or re.search(r"\| (\d+\.\d+) \|", result)
    assert match, result
    return float(match[1])
