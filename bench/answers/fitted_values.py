"""Files of fitted weights and thresholds, beside the code that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml


def write_values(file: Path, values: Mapping[str, Any], command: str, **provenance: Any) -> None:
    """Write values with the command, the day and their provenance: data, halves and score."""
    today = datetime.now(UTC).date().isoformat()
    content = {"provenance": {"command": command, "date": today, **provenance}, "values": dict(values)}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    file.write_text(f"# Output of `{command}`.\n{text}", encoding="utf-8")
    print(f"wrote {file}; if values changed, raise VERSION of the code that reads them")
