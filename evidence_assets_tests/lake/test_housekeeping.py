"""Abandoned files of killed writers are deleted; files of active writers are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from evidence_assets.lake.atomic import is_abandoned, replacing_file, replacing_folder
from evidence_assets.lake.store import Lake, delete_abandoned_files, find_abandoned_files

WRITES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from evidence_assets.lake.atomic import replacing_file, replacing_folder
with replacing_file(Path(sys.argv[1]) / "t" / "x.parquet") as file, replacing_folder(Path(sys.argv[1]) / "i") as folder:
    file.write_text("half"); (folder / "vectors").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_of_killed_writers_are_deleted_and_those_of_active_writers_are_not(lake: Lake) -> None:
    process = subprocess.run([sys.executable, "-c", WRITES_AND_DIES, str(lake.root)], check=False)
    assert process.returncode == -9
    with replacing_file(lake.root / "t" / "y.parquet") as file, replacing_folder(lake.root / "j") as folder:
        file.write_text("new"), (folder / "vectors").write_text("new")
        assert not is_abandoned(file) and not is_abandoned(folder)
        abandoned = sorted(path.name.split(".")[1] for path in find_abandoned_files(lake))
        assert abandoned == ["i", "x"]
        delete_abandoned_files(lake)
        assert find_abandoned_files(lake) == []
    assert (lake.root / "t" / "y.parquet").read_text() == "new" and (lake.root / "j" / "vectors").read_text() == "new"


def test_two_writers_of_one_file_keep_their_temporary_files(tmp_path: Path) -> None:
    code = "import sys\nfrom pathlib import Path\nfrom evidence_assets.lake.atomic import replacing_file\n"
    code += "with replacing_file(Path(sys.argv[1])) as f:\n"
    code += " f.write_text('other'); print('on', flush=True); sys.stdin.read()"
    target = tmp_path / "x.parquet"
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdin is not None and writer.stdout is not None and writer.stdout.readline() == "on\n"
    with replacing_file(target) as file:
        file.write_text("own")
    assert target.read_text() == "own"
    writer.stdin.close()
    assert writer.wait(30) == 0
    assert target.read_text() == "other"
