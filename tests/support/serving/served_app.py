"""An application of this process on a real socket, for whoever asks by HTTP."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """host:port of the application within the block."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Already here: who asks before the server has begun waits, and is not refused.
        listener.listen()
        host, port = listener.getsockname()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"{host}:{port}"
        finally:
            server.should_exit = True
            thread.join(20)
