"""Clients on raw sockets: some hold connections as long as they can, honest ones send receipts
and count the seconds."""

import asyncio
import contextlib
import gc
import json
import multiprocessing
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.unit.ingest.messages import encoded, pos

HALF = (
    b"POST /v1/events/pos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Half"
)
HALF_BODY = (
    b"POST /v1/events/pos HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
    b" application/json\r\nContent-Length: 9000\r\n\r\n"
)
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
TRICKLE_SECONDS = 1.0
PACE_SECONDS = 0.5
OPENED_A_SECOND = 500
_RECEIPTS = count(1)
Address = tuple[str, int]


@dataclass(frozen=True)
class Attack:
    """How many of each kind."""

    half_open: int
    trickled: int
    idle: int

    def clients(self) -> list[tuple[bytes, bytes]]:
        """What each sends first, and what it then sends every second."""
        return [
            *[(HALF, b"")] * self.half_open,
            *[(HALF_BODY, b"x")] * self.trickled,
            *[(WHOLE, b"")] * self.idle,
        ]


@dataclass
class Measured:
    """Seconds of every honest request, those that did not get 202, and the seconds for which
    each hostile connection lived."""

    beside: list[float] = field(default_factory=list)
    attacked: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    lived: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{len(self.lived):,} hostile connections, gone within {max(self.lived):.1f} s; p99 of"
            f" {len(self.attacked):,} honest requests {p99(self.attacked) * 1000:.0f} ms, of"
            f" {len(self.beside):,} at a gateway beside it {p99(self.beside) * 1000:.0f} ms"
        )


def address_of(place: str) -> tuple[str, int]:
    """Host and port of host:port."""
    host, port = place.rsplit(":", 1)
    return host, int(port)


def p99(seconds: Sequence[float]) -> float:
    """The 99th of a hundred, ascending."""
    return sorted(seconds)[min(len(seconds) - 1, len(seconds) * 99 // 100)]


async def measured(
    gateways: Sequence[Address], attack: Attack, most_seconds: float, senders: int = 100
) -> Measured:
    """Honest senders at two gateways for as long as a hostile connection of the first lives, at
    most `most_seconds`.

    Nobody attacks the second: what the machine's other work costs in the same seconds is seen
    there. The hostile clients have a process of their own, and the collector does not look through
    what the tests have loaded: an honest sender waits for the server alone.
    """
    gc.freeze()
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as elsewhere:
            await asyncio.get_running_loop().run_in_executor(elsewhere, int)
            return await _measured(gateways, attack, most_seconds, senders, elsewhere)
    finally:
        gc.unfreeze()


async def _measured(
    gateways: Sequence[Address],
    attack: Attack,
    most_seconds: float,
    senders: int,
    elsewhere: ProcessPoolExecutor,
) -> Measured:
    result = Measured()
    # A producer's first words with the brokers are nobody's everyday.
    for number in range(20):
        for address in gateways:
            await posted(address, encoded(pos(operation_id=f"warm-{number}")))
    holding = asyncio.get_running_loop().run_in_executor(
        elsewhere, all_held, gateways[0], attack, most_seconds
    )
    places = list(zip(gateways, (result.attacked, result.beside), strict=True))
    sending = [
        asyncio.create_task(_honest(*places[number % 2], result.failed))
        for number in range(senders)
    ]
    result.lived = await holding
    for sender in sending:
        sender.cancel()
    for outcome in await asyncio.gather(*sending, return_exceptions=True):
        if not isinstance(outcome, asyncio.CancelledError):
            result.failed.append(repr(outcome))
    return result


async def _honest(address: tuple[str, int], seconds: list[float], failed: list[str]) -> None:
    """Sends a receipt twice a second for ever, each on a connection of its own: it has to get in
    beside the others."""
    await asyncio.sleep(PACE_SECONDS * (next(_RECEIPTS) % 50) / 50)
    while True:
        began = time.perf_counter()
        status = await posted(address, encoded(pos(operation_id=f"honest-{next(_RECEIPTS)}")))
        seconds.append(time.perf_counter() - began)
        if status != 202:
            failed.append(str(status))
        await asyncio.sleep(PACE_SECONDS)


async def posted(
    address: tuple[str, int], body: bytes, media_type: str = "application/json"
) -> int:
    """Status of a request on a connection of its own; 0 when it was closed without an answer."""
    head = (
        "POST /v1/events/pos HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
        f" {media_type}\r\nContent-Length: {len(body)}\r\n"
    )
    return (await asked(address, f"{head}Connection: close\r\n\r\n".encode() + body))[0]


async def asked(address: tuple[str, int], request: bytes) -> tuple[int, bytes]:
    """Status and body of what is answered on a connection of its own."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await reader.read(-1)
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), body


def all_held(address: tuple[str, int], attack: Attack, most_seconds: float) -> list[float]:
    """Seconds until the server ended each of the attack's connections."""

    async def hold() -> list[float]:
        return await asyncio.gather(
            *(
                held(address, n / OPENED_A_SECOND, kind, most_seconds)
                for n, kind in enumerate(attack.clients())
            )
        )

    return asyncio.run(hold())


async def held(
    address: tuple[str, int], after: float, kind: tuple[bytes, bytes], most_seconds: float
) -> float:
    """Seconds until the server ended a connection that was opened `after` seconds."""
    first, more = kind
    await asyncio.sleep(after)
    reader, writer = await asyncio.open_connection(*address)
    began = time.monotonic()
    writer.write(first)
    while time.monotonic() - began < most_seconds:
        with contextlib.suppress(TimeoutError, ConnectionError):
            if not await asyncio.wait_for(reader.read(65536), TRICKLE_SECONDS):
                break
        if writer.is_closing():
            break
        if more:
            writer.write(more)
    writer.close()
    return time.monotonic() - began


async def loop_lags(address: tuple[str, int]) -> tuple[int, int]:
    """How often the gateway's event loop woke up at all, and how often within 100 ms, since its
    start."""
    _, text = await asked(
        address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    values = dict(
        line.rsplit(" ", 1) for line in text.decode().splitlines() if not line.startswith("#")
    )
    name = "tally_gateway_loop_lag_seconds"
    return (
        round(float(values[f"{name}_count"])),
        round(float(values[f'{name}_bucket{{le="0.1"}}'])),
    )


async def slowest_health(
    address: tuple[str, int], during: Coroutine[Any, Any, Any]
) -> tuple[Any, float, float]:
    """What `during` returned, the most seconds that /healthz took beside it, asked every 10 ms on
    one connection, and how many seconds `during` took."""
    reader, writer = await asyncio.open_connection(*address)
    task = asyncio.create_task(during)
    slowest, started = 0.0, time.perf_counter()
    while not task.done():
        began = time.perf_counter()
        writer.write(WHOLE)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        slowest = max(slowest, time.perf_counter() - began)
        await asyncio.sleep(0.01)
    writer.close()
    return task.result(), slowest, time.perf_counter() - started


def bombs() -> dict[str, tuple[str, bytes]]:
    """Bodies that are large in what they make rather than in bytes, with their media type."""
    json_type, ndjson = "application/json", "application/x-ndjson"
    days = [
        pos(
            transaction_id=n,
            happened_at=f"{2000 + n // 336:04}-{1 + n // 28 % 12:02}-{1 + n % 28:02}T12:00:00Z",
        )
        for n in range(8_000)
    ]
    mail = ("a" * 60 + "." + "b" * 3) * 14_000
    line = {"item": "x", "price": 1, "amount": 1}
    return {
        "10,000 days": (ndjson, _lines(days)[: 5 * 1024 * 1024]),
        "10,000 stores": (
            ndjson,
            _lines([pos(operation_id=f"s{n}") for n in range(9_999)])[: 5 * 1024 * 1024],
        ),
        "10,000 good receipts": (
            ndjson,
            _lines([pos(operation_id="bulk", transaction_id=n) for n in range(9_999)])[
                : 5 * 1024 * 1024
            ],
        ),
        "e-mail": (json_type, encoded(pos(note=mail))),
        "five e-mails": (ndjson, _lines([pos(transaction_id=n, note=mail) for n in range(5)])),
        "{} × 1.7 million": (ndjson, b"{}\n" * 1_700_000),
        "{} × 10,000": (ndjson, b"{}\n" * 10_000),
        "empty lines": (ndjson, b"x" + b"\n" * 5_000_000),
        "5 × 1 MB": (ndjson, _lines([pos(transaction_id=n, note="x" * 990_000) for n in range(5)])),
        "many lines": (
            ndjson,
            _lines([pos(transaction_id=n, transactions=[line] * 20_000) for n in range(5)]),
        ),
        "deep": (json_type, b'{"a":' * 150_000 + b"1" + b"}" * 150_000),
        "wide": (json_type, json.dumps({**pos(), **{f"f{n}": n for n in range(60_000)}}).encode()),
        "long item": (json_type, encoded(pos(transactions=[{**line, "item": mail}]))),
        "long ids": (json_type, encoded(pos(operation_id=mail))),
        "long loyalty id": (json_type, encoded(pos(loyalty_id=mail, happened_at=mail))),
        "long number": (json_type, encoded(pos())[:-1] + b',"n":' + b"9" * 900_000 + b"}"),
    }


def _lines(messages: Sequence[dict[str, Any]]) -> bytes:
    return b"\n".join(encoded(message) for message in messages)
