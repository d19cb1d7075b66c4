"""A system that keeps stock, on loopback: three addresses, and faults as they are drawn.

Of the calls half do not arrive, and of those that change something half have no answer. Somebody
else writes beside it, where `others_write`.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from inventory.movements.movement import lane_key
from tests.support.sources.inventory_book import InventoryBook

Json = dict[str, Any]
FEW = 5


@dataclass
class FaultyInventory:
    """The system; `happened` counts its faults, `bodies` has the bytes that came under a key."""

    random: Random
    others_write: bool = False
    is_well: bool = False
    book: InventoryBook = field(default_factory=InventoryBook)
    happened: Counter[str] = field(default_factory=Counter)
    bodies: dict[str, set[bytes]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def has_failed(self) -> bool:
        """Whether it has lost some calls and some answers."""
        return min(self.happened["calls lost"], self.happened["answers lost"]) > FEW

    def react(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Take a call, or be away; answer it, or not."""
        with self.lock:
            self.happened["calls"] += 1
            if not self.is_well and self.random.random() < 0.5:
                self.happened["calls lost"] += 1
                handler.close_connection = True
                return
            # What lies about a shelf does not wait for us.
            if self.others_write and handler.command != "GET" and self.random.random() < 0.3:
                told = json.loads(body)
                lane = lane_key(told["store_id"], told["item_id"])
                self.book.write_by_others(lane, -1000)
            status, answer = self._answer(handler, body)
            if not self.is_well and handler.command != "GET" and self.random.random() < 0.5:
                self.happened["answers lost"] += 1
                handler.close_connection = True
                return
        content = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Json]:
        place = urlsplit(handler.path)
        if handler.command == "GET" and place.path == "/levels":
            asked = parse_qs(place.query)
            told = self.book.look(lane_key(asked["store_id"][0], asked["item_id"][0]))
            return 200, {"quantity_milli": told.quantity, "version": told.version}
        if handler.command == "GET":
            reference = unquote(place.path.removeprefix("/references/"))
            return (200 if reference in self.book.references else 404), {}
        told = json.loads(body)
        if handler.command == "PUT":
            return self._set(handler, told), {}
        self._adjust(handler, told, body)
        return 200, {}

    def _set(self, handler: BaseHTTPRequestHandler, told: Json) -> int:
        movement, lane = told["movement_id"], lane_key(told["store_id"], told["item_id"])
        version = handler.headers["if-match"]
        if version is None:
            self.book.put(movement, lane, told["quantity_milli"])
            return 200
        is_set = self.book.put_if(movement, lane, told["quantity_milli"], version)
        self.happened["versions moved"] += not is_set
        return 200 if is_set else 412

    def _adjust(self, handler: BaseHTTPRequestHandler, told: Json, body: bytes) -> None:
        movement, lane = told["movement_id"], lane_key(told["store_id"], told["item_id"])
        key = handler.headers["idempotency-key"]
        self.bodies.setdefault(movement, set()).add(body)
        if "level_milli" in told:
            self.book.put(movement, lane, told["level_milli"], key)
        else:
            self.book.adjust(movement, lane, told["delta_milli"], key)


@contextmanager
def served(inventory: FaultyInventory) -> Iterator[int]:
    """The port at which it answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            inventory.react(self, body)

        do_PUT = do_POST

        def do_GET(self) -> None:
            inventory.react(self, b"")

        def log_message(self, *_words: object) -> None:
            """Nothing: a test says what it has seen."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
