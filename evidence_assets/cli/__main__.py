"""``python -m evidence_assets.cli``: the command ``evidence``."""

from evidence_assets.cli import main

main()
