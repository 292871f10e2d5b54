"""Which peers are installed."""

from __future__ import annotations

from importlib.metadata import distributions, version
from importlib.util import find_spec


def missing(*modules: str) -> str:
    """Why a peer cannot run here; empty if it can."""
    absent = [name for name in modules if find_spec(name.partition(".")[0]) is None or find_spec(name) is None]
    return f"no module {' or '.join(absent)}; run `make peers`" if absent else ""


def versions(*packages: str) -> str:
    """Name and version of the installed packages."""
    installed = {distribution.name for distribution in distributions()}
    return ", ".join(f"{package} {version(package)}" for package in packages if package in installed)
