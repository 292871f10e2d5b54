"""Recorded answers in place of a model: what was once replied is replied again, nothing else.

A recording is a folder of ``*.jsonl`` files, one object a line: ``system``, ``user``, ``max_tokens``, ``choices``,
``json_schema`` of the request and ``text``, ``prompt_tokens``, ``completion_tokens``, ``seconds``, ``finish_reason`` of
the completion. Belongs here: reading and writing that format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.models.protocols import Completion, Request


def record(path: Path, exchanges: Iterable[tuple[Request, Completion]]) -> None:
    """Write a recording of requests and what was replied to them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for request, completion in exchanges:
            stream.write(json.dumps({**asdict(request), **asdict(completion)}) + "\n")


class ReplayGenerator:
    """Replies what a recording holds for exactly the same request.

    ``folder``: Where the recording lies; all its ``*.jsonl`` files are read.
    ``model_id``: The model that was recorded.
    """

    def __init__(self, folder: str | Path, *, model_id: str = "replay") -> None:
        self._folder = Path(folder)
        files = sorted(self._folder.glob("*.jsonl"))
        if not files:
            raise ModelUnavailable(f"there is no recording in {self._folder}; put its *.jsonl files there")
        self.model_id = model_id
        self.revision = content_id([(path.name, file_id(path)) for path in files])[:12]
        self.parameters: dict[str, object] = {}
        self._replies: dict[Request, Completion] = {}
        for path in files:
            with path.open(encoding="utf-8") as stream:
                for number, line in enumerate(stream, start=1):
                    if line.strip():
                        self._read(path, number, line)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """The recorded completions, in the order asked."""
        missing = [request for request in requests if request not in self._replies]
        if missing:
            raise ModelUnavailable(
                f"the recording in {self._folder} has no answer to {len(missing)} of {len(requests)} requests, first "
                f"to the one that begins {missing[0].user[:60]!r}; record them with a model, or use the prompts and "
                f"the data of the recording"
            )
        return [self._replies[request] for request in requests]

    def _read(self, path: Path, number: int, line: str) -> None:
        try:
            row = json.loads(line)
            row["choices"] = tuple(row.get("choices", ()))
            request = Request(**{field.name: row[field.name] for field in fields(Request) if field.name in row})
            completion = Completion(**{field.name: row[field.name] for field in fields(Completion)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"no recorded exchange ({error})", file=path, line=number) from error
        self._replies[request] = completion
