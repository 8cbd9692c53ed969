"""Gives the workers of pytest-xdist the server, which the first one who asks lets the controller start."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any, Optional

import pytest


class Broker:
    """A plugin of the controller: answers each connection with one line of JSON."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._run: Optional[Any] = None
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = list(self._socket.getsockname()[:2])
        self._thread = threading.Thread(target=self._serve, name="redouble-broker", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.sendall(json.dumps(self._answer()).encode() + b"\n")
                except OSError:
                    pass  # the worker has ended meanwhile

    def _answer(self) -> dict[str, Any]:
        try:
            if self._run is None:
                from ._pytest_run import Run

                self._run = Run(self._config, self._config.option)
            address: dict[str, Any] = self._run.server().address()
            return address
        except Exception as error:  # the worker tells it
            return {"error": str(error)}

    def pytest_unconfigure(self) -> None:
        # A blocked accept does not notice that its socket is closed.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
        if self._run is not None:
            self._run.pytest_unconfigure()


def ask(address: list[Any]) -> dict[str, Any]:
    """Ask the broker for the server."""
    with socket.create_connection((address[0], address[1]), 60.0) as connection:
        with connection.makefile("rb") as reader:
            answer: dict[str, Any] = json.loads(reader.readline())
    return answer
