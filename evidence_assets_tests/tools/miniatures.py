"""Files that the fuzz campaign corrupts: `python -m evidence_assets_tests.tools.miniatures` writes them again."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evidence_assets_tests.benchmarks.graphs import test_readers
from evidence_assets_tests.benchmarks.official import test_choice_readers, test_open_readers, test_table_readers
from evidence_assets_tests.benchmarks.official.contract import ReaderContract
from evidence_assets_tests.benchmarks.official.test_stark import write_stark_files
from tools.campaign.fuzz import MINIATURES

QUESTION_READERS = (test_choice_readers, test_open_readers, test_table_readers)


def find_contracts() -> list[type[ReaderContract]]:
    """The contracts of readers of questions, in an order that does not depend on which module was imported first."""
    modules = [module.__name__ for module in QUESTION_READERS]
    contracts = [contract for contract in ReaderContract.__subclasses__() if contract.__module__ in modules]
    return sorted(contracts, key=lambda contract: modules.index(contract.__module__))


def collect_miniatures() -> dict[str, Any]:
    """The valid files of every contract, as JSON values."""
    questions: list[Any] = []
    for contract in find_contracts():
        questions += [[contract.NAMES[0], split, files] for split, files, _ in contract.VALID_FILES]
    graphs = [
        [contract.name, {f"{number}.txt": text for number, text in enumerate(contract.files)}]
        for contract in test_readers.ReaderContract.__subclasses__()
    ]
    with TemporaryDirectory() as folder:
        write_stark_files(Path(folder))
        stark = {file.name: file.read_text(encoding="utf-8") for file in sorted(Path(folder).glob("*.json*"))}
    return {"questions": questions, "graphs": graphs, "stark": stark}


if __name__ == "__main__":
    MINIATURES.write_text(json.dumps(collect_miniatures(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
