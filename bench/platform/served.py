"""Requests to a served model: how near a stub server's answers come to as many at once as the profile allows.

``python -m bench.platform.served`` starts a stub in another process that answers every request after 50 ms, asks it
what a judge asks (2,000 statements, 64 under way, completions kept on disk), and prints the wall time over the ideal,
⌈2,000 / 64⌉ · 50 ms, and by how much memory grows from one round to the next. It fails if the ratio is over 1.3.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from bench.measuring import make_parser, resident
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.systems.kbloom.statement_judge import JUDGE

MODEL = "stub"
ALLOWED = 1.3


def _reply(body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


MODELS = _reply({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
COMPLETION = _reply(
    {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "wrong"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 5},
    }
)


async def _serve(ready: Connection, delay: float) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    await reader.readexactly(int(line.split(b":")[1]))
            if head.startswith(b"POST"):
                await asyncio.sleep(delay)
                writer.write(COMPLETION)
            else:
                writer.write(MODELS)

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def stub(ready: Connection, delay: float) -> None:
    """Speak the protocol on a free port of this machine until killed."""
    asyncio.run(_serve(ready, delay))


def main() -> None:
    """Ask and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--under-way", type=int, default=64)
    parser.add_argument("--milliseconds", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spawning = multiprocessing.get_context("spawn")
    receive, send = spawning.Pipe(duplex=False)
    server = spawning.Process(target=stub, args=(send, options.milliseconds / 1000), daemon=True)
    server.start()
    generator = OpenAIGenerator(MODEL, base_url=f"http://127.0.0.1:{receive.recv()}/v1", concurrency=options.under_way)
    ideal = math.ceil(options.requests / options.under_way) * options.milliseconds / 1000
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        cache = CompletionCache(Path(folder))
        for number in range(options.rounds):
            before, cpu, start = resident("VmRSS"), time.process_time(), time.perf_counter()
            statements = [f"statement {number} {place}" for place in range(options.requests)]
            verdicts = JUDGE.ask(LanguageModel(generator, cache), statements)
            seconds = time.perf_counter() - start
            assert verdicts == [False] * options.requests, verdicts[:3]
            ratios.append(seconds / ideal)
            print(
                f"round {number + 1}: {options.requests:,} requests, {options.under_way} under way: {seconds:.2f} s, "
                f"{seconds / ideal:.2f} × the ideal {ideal:.2f} s; {time.process_time() - cpu:.2f} s of CPU; "
                f"memory {before:.0f} → {resident('VmRSS'):.0f} MB"
            )
    server.kill()
    best = min(ratios)
    print(f"ratio {best:.2f} (best of {options.rounds}; allowed {ALLOWED})")
    sys.exit(best > ALLOWED)


if __name__ == "__main__":
    main()
