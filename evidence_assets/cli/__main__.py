"""``python -m evidence_assets.cli``: the same door as the command ``evidence``."""

from evidence_assets.cli import main

main()
