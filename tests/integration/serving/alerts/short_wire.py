"""A TCP forwarder whose connections end after so many bytes, wherever in an event that is."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.integration.serving.cut import close_all, pump


class ShortWire:
    """Forwards 127.0.0.1:port to an address.

    `most()` is asked at each connection how many bytes of answers it carries; None: all of them.
    `ends`: the last bytes that each connection carried which was cut.
    """

    def __init__(self, to: str, most: Callable[[], int | None]) -> None:
        host, port = to.rsplit(":", 1)
        self._to, self._most = (host, int(port)), most
        self.ends: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Takes no more connections."""
        close_all([self._listener])

    @property
    def within_an_event(self) -> int:
        """How many connections were cut where no event ended."""
        # Each event is a chunk of the answer of its own, which ends behind its empty line.
        return sum(not one.endswith(b"\n\n\r\n") for one in self.ends)

    def _accept(self) -> None:
        # Ends when the listener is closed.
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                threading.Thread(target=pump, args=(near, far), daemon=True).start()
                answers = (far, near, self._most())
                threading.Thread(target=self._carry, args=answers, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, most: int | None) -> None:
        last, left = b"", most
        with suppress(OSError):
            while left != 0 and (data := source.recv(65536)):
                carried = data[:left]
                target.sendall(carried)
                last, left = (last + carried)[-4:], None if left is None else left - len(carried)
        # Noted before the client can know of it.
        if left == 0:
            self.ends.append(last)
        close_all([source, target])
