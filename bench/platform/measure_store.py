"""Milliseconds of each request to an S3 server on this machine: through obstore, which the lake uses, and through
pyarrow.

    python -m bench.platform.measure_store

It needs the extras ``cloud`` and ``dev``. The server is a program in Python: what is compared is the libraries, not
stores.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable

SMALL, LARGE = os.urandom(4 << 10), os.urandom(8 << 20)
VARIABLES = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def median_ms(deed: Callable[[int], object], times: int) -> float:
    """Of so many requests, one after another."""
    durations = []
    for number in range(times):
        began = time.perf_counter()
        deed(number)
        durations.append(time.perf_counter() - began)
    return 1000 * statistics.median(durations)


def main() -> int:
    import obstore
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= VARIABLES | {"AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/lakes", method="PUT"), timeout=30).close()
    store = obstore.store.from_url("s3://lakes/obstore", client_options={"allow_http": True})
    arrow = fs.S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1")

    def put(name: str, content: bytes) -> None:
        with arrow.open_output_stream(f"lakes/pyarrow/{name}") as stream:
            stream.write(content)

    def get(name: str) -> bytes:
        with arrow.open_input_file(f"lakes/pyarrow/{name}") as stream:
            return bytes(stream.read())

    rows: list[tuple[str, Callable[[int], object], Callable[[int], object], int]] = [
        ("put 4 KiB", lambda n: obstore.put(store, f"s/{n}", SMALL), lambda n: put(f"s/{n}", SMALL), 200),
        ("get 4 KiB", lambda n: obstore.get(store, f"s/{n}").bytes(), lambda n: get(f"s/{n}"), 200),
        ("put 8 MiB", lambda n: obstore.put(store, f"l/{n}", LARGE), lambda n: put(f"l/{n}", LARGE), 8),
        ("get 8 MiB", lambda n: obstore.get(store, f"l/{n}").bytes(), lambda n: get(f"l/{n}"), 8),
        ("head", lambda n: obstore.head(store, f"s/{n}"), lambda n: arrow.get_file_info(f"lakes/pyarrow/s/{n}"), 200),
        (
            "list 200",
            lambda n: obstore.list(store, "s").collect(),
            lambda n: arrow.get_file_info(fs.FileSelector("lakes/pyarrow/s", recursive=True)),
            10,
        ),
    ]
    print(f"{'ms':<12}{'obstore':>10}{'pyarrow':>10}")
    for name, our_ms, other, times in rows:
        print(f"{name:<12}{median_ms(our_ms, times):>10.2f}{median_ms(other, times):>10.2f}")
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
