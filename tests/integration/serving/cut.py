"""A TCP forwarder that can be cut and mended: an unreachable node without stopping the one that
other tests use."""

import socket
import threading
from contextlib import suppress


class Wire:
    """Forwards 127.0.0.1:port to an address while it is whole; cutting it closes every
    connection and refuses new ones."""

    def __init__(self, to: str) -> None:
        host, port = to.rsplit(":", 1)
        self._to = (host, int(port))
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._serve()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        close_all([self._listener, *self._open])
        self._open.clear()

    def close(self) -> None:
        self.cut()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        # Ends when the listener is closed.
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._to)
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=(source, target), daemon=True).start()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Forwards one way until either side ends, and ends both."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    close_all([source, target])


def close_all(sockets: list[socket.socket]) -> None:
    """Ends connections and listeners, whoever waits for them."""
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
