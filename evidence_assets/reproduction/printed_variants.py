"""What the papers print about our variants, from ``printed_variants.yaml`` by ``family/name``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evidence_assets import profiles
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import StrictModel
from evidence_assets.reproduction.presets import is_enabled
from evidence_assets.reproduction.published_figures import PublishedName, PublishedTiming

PRINTED_VARIANTS_FILE = Path(__file__).with_name("printed_variants.yaml")


class PrintedVariant(StrictModel):
    """The printed figures of a variant and the presets that load it."""

    figures: tuple[PublishedName, ...] = ()
    """Names of the published figures to compare scores with."""
    times: tuple[PublishedTiming, ...] = ()
    """Names of the published times to compare stages with."""
    difference_note: str = ""
    """Differences from the published run, beyond models and data."""
    presets: tuple[str, ...] = ()
    """Presets of the variant; without presets it is always loaded."""
    load_by_default: bool = False
    """Load the variant even if none of its presets is enabled."""

    load_in: tuple[str, ...] = ()
    """Profiles that load the variant even if none of its presets is enabled, as their graphs read its harvest."""

    @property
    def is_enabled(self) -> bool:
        """Whether the variant is part of the asset graph."""
        is_in_profile = bool(self.load_in) and profiles.load().is_any_of(self.load_in)
        return is_enabled(self.presets) or self.load_by_default or is_in_profile


NOT_PRINTED = PrintedVariant()


@cache
def printed_variants(file: Path = PRINTED_VARIANTS_FILE) -> dict[str, PrintedVariant]:
    """The printed variants by ``family/name``."""
    try:
        return TypeAdapter(dict[str, PrintedVariant]).validate_python(read_yaml_mapping(file))
    except ValidationError as error:
        first = error.errors()[0]
        field_path = ".".join(map(str, first["loc"]))
        raise BadInput(first["msg"], file=file, field=field_path) from error
