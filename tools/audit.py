"""What the project stands on: known weaknesses and licences of its dependencies, hashes of the weights it brings, an
SBOM.

    python tools/audit.py --bom build/sbom.json

Run by ``make audit``, in an environment with the extra ``audit``. The exit status is 1 where a dependency has a known
weakness or a licence that is not accepted, or where weights are others than stated. Where no index can be asked about
weaknesses, the script says so and does not fail.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from evidence_assets.models.inference import MINILM_PACKAGE, MINILM_SHA256, find_minilm_folder

PROJECT = "evidence-assets"
ACCEPTED = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Python-2\.0|MPL|Mozilla|Unlicense|CNRI|HPND|"
    r"0BSD|Zlib|CC0|BSL|Expat|Public Domain)\b",
    re.IGNORECASE,
)
BY_HAND: dict[str, str] = {}
"""Licences of packages whose metadata name none that is known here, as their own licence file states them."""


def dependencies(extras: frozenset[str] = frozenset({"deploy", "documents"})) -> list[metadata.Distribution]:
    """Every installed package that the project needs to run, itself left out."""
    distributions: dict[str, metadata.Distribution] = {}
    todo = [(PROJECT, extras)]
    while todo:
        name, requested_extras = todo.pop()
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in (*requested_extras, "")):
                continue
            key = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if key in distributions:
                continue
            try:
                distributions[key] = metadata.distribution(key)
            except metadata.PackageNotFoundError:
                continue  # of an extra that is not installed
            todo.append((key, frozenset(requirement.extras)))
    return [distributions[key] for key in sorted(distributions)]


def licence(package: metadata.Distribution) -> str:
    """What a package says of its licence: its expression, else its classifiers, else the first line of its field."""
    package_metadata = package.metadata
    if "License-Expression" in package_metadata:
        return package_metadata["License-Expression"]
    classified = [
        c.rpartition(" :: ")[2] for c in package_metadata.get_all("Classifier") or [] if c.startswith("License ::")
    ]
    field = next(iter((package_metadata.get_all("License") or [""])[0].strip().splitlines()), "")
    return "; ".join(classified) or BY_HAND.get(package_metadata["Name"], field)


def refused(packages: Sequence[metadata.Distribution]) -> Iterator[str]:
    """Packages whose licence is none of those accepted."""
    for package in packages:
        if not ACCEPTED.search(licence(package)):
            yield f"{package.metadata['Name']} {package.version}: licence {licence(package) or 'not stated'!r}"


def weaknesses(packages: Sequence[metadata.Distribution]) -> tuple[list[str], int]:
    """Known weaknesses of these packages, and of how many of them an index could say anything."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--desc", "off"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        audited = {row["name"].lower(): row for row in json.loads(process.stdout)["dependencies"]}
    except (ValueError, KeyError):
        print(process.stderr.strip()[-500:])
        return [], 0
    installed = [audited.get(re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower(), {}) for package in packages]
    vulnerable = [row for row in installed if "vulns" in row]
    return [f"{row['name']} {row['version']}: {v['id']}" for row in vulnerable for v in row["vulns"]], len(vulnerable)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Audit what the project stands on.")
    parser.add_argument("--bom", type=Path, help="write the software bill of materials there (CycloneDX, JSON)")
    options = parser.parse_args(arguments)
    packages = dependencies()
    weak, answered = weaknesses(packages)
    if answered:
        print(f"weaknesses: {len(weak)} known, in {answered} of {len(packages)} packages that the index knows")
    else:
        print(f"weaknesses: not known, because no index could be asked about any of the {len(packages)} packages")
    bad = list(refused(packages))
    counts = Counter(licence(package) for package in packages)
    print("licences: " + ", ".join(f"{count} {name}" for name, count in counts.most_common(8)) + ", …")
    find_minilm_folder()  # which refuses other weights
    print(f"weights: {MINILM_PACKAGE} has the SHA-256 {MINILM_SHA256}")
    if options.bom:
        options.bom.parent.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "cyclonedx_py",
            "environment",
            "--output-format",
            "JSON",
            "-o",
            str(options.bom),
        ]
        subprocess.run([*command, sys.executable], check=True, capture_output=True)
        print(f"SBOM: {len(json.loads(options.bom.read_text())['components'])} components in {options.bom}")
    for line in [*weak, *bad]:
        print(f"REFUSED {line}")
    return int(bool(weak or bad))


if __name__ == "__main__":
    sys.exit(main())
