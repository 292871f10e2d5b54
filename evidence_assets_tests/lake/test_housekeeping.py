"""What killed writers leave is told from what is being written, and swept up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from evidence_assets.lake.atomic import is_abandoned, replacing_file, replacing_folder
from evidence_assets.lake.housekeeping import delete_abandoned_files, find_abandoned_files
from evidence_assets.lake.store import Lake

WRITES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from evidence_assets.lake.atomic import replacing_file, replacing_folder
with replacing_file(Path(sys.argv[1]) / "t" / "x.parquet") as file, replacing_folder(Path(sys.argv[1]) / "i") as folder:
    file.write_text("half"); (folder / "vectors").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_is_swept_up_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "data_lake")
    killed = subprocess.run([sys.executable, "-c", WRITES_AND_DIES, str(lake.root)], check=False)
    assert killed.returncode == -9
    with replacing_file(lake.root / "t" / "y.parquet") as file, replacing_folder(lake.root / "j") as folder:
        file.write_text("new"), (folder / "vectors").write_text("new")
        assert not is_abandoned(file) and not is_abandoned(folder)
        left = sorted(path.name.split(".")[1] for path in find_abandoned_files(lake))
        assert left == ["i", "x"]
        delete_abandoned_files(lake)
        assert find_abandoned_files(lake) == []
    assert (lake.root / "t" / "y.parquet").read_text() == "new" and (lake.root / "j" / "vectors").read_text() == "new"


def test_two_writers_of_one_file_do_not_take_each_others_away(tmp_path: Path) -> None:
    waits = "import sys\nfrom pathlib import Path\nfrom evidence_assets.lake.atomic import replacing_file\n"
    waits += "with replacing_file(Path(sys.argv[1])) as f:\n"
    waits += " f.write_text('other'); print('on', flush=True); sys.stdin.read()"
    target = tmp_path / "x.parquet"
    other = subprocess.Popen(
        [sys.executable, "-c", waits, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None and other.stdout is not None and other.stdout.readline() == "on\n"
    with replacing_file(target) as file:
        file.write_text("own")
    assert target.read_text() == "own"
    other.stdin.close()
    assert other.wait(30) == 0
    assert target.read_text() == "other"
