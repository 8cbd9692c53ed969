"""A client of the Redis protocol that can send commands and read replies, and nothing else."""

from __future__ import annotations

import os
import select
import socket
import threading
from typing import Any, Optional, Sequence, Union

from ._errors import CommandError, ConnectionLost, RedoubleError, TimedOut

Word = Union[str, bytes, int, float]


class Connection:
    """One connection, in version 2 of the protocol."""

    def __init__(self, host: str, port: int, timeout: Optional[float]):
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except OSError as error:
            raise ConnectionLost(f"{host}:{port} cannot be connected to: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def is_open(self) -> bool:
        """Return whether the server has kept the connection. Without a command nothing comes but its end."""
        return not select.select([self._socket], [], [], 0)[0]

    def run(self, commands: Sequence[Sequence[Word]], timeout: Optional[float]) -> list[Any]:
        """Send commands together, and return their replies. Errors are among them, not raised."""
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(b"".join(map(_request, commands)))
            return [self._reply() for _ in commands]
        except socket.timeout as error:
            raise ConnectionLost(f"no reply within {timeout:g} s") from error
        except OSError as error:
            raise ConnectionLost(f"the connection is lost: {error}") from error

    def _line(self) -> bytes:
        line = self._reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionLost("the server closed the connection")
        return line[:-2]

    def _reply(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return _text(rest)
        if kind == b"-":
            message = _text(rest)
            return TimedOut(message) if message.startswith("TIMEOUT ") else CommandError(message)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            length = int(rest)
            content = self._reader.read(length + 2)
            if len(content) != length + 2:
                raise ConnectionLost("the server closed the connection")
            return _text(content[:-2])
        if kind == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        raise RedoubleError(f"this is no Redis: it answered {line!r}")


def _request(words: Sequence[Word]) -> bytes:
    encoded = [word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape") for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)


def _text(content: bytes) -> str:
    # Bytes that are no UTF-8 come back as they were, if such a text is sent again.
    return content.decode("utf-8", "surrogateescape")


class Connections:
    """Connections to one port that are used again, from any thread, and not across a fork."""

    def __init__(self, host: str, port: int, password: str | None):
        self.host, self.port = host, port
        self._login: list[list[Word]] = []
        if password is not None:
            self._login = [["AUTH", "default", password]]
        self._idle: list[Connection] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def run(self, commands: Sequence[Sequence[Word]], timeout: Optional[float]) -> list[Any]:
        """Send commands together over a connection that nobody else uses meanwhile, and return their replies."""
        connection = self._take() or self._open(timeout)
        try:
            replies = connection.run(commands, timeout)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return replies

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection | None:
        with self._lock:
            if self._owner != os.getpid():
                # The parent process goes on using its connections.
                self._owner, self._idle = os.getpid(), []
            while self._idle:
                connection = self._idle.pop()
                if connection.is_open():
                    return connection
                connection.close()
        return None

    def _open(self, timeout: Optional[float]) -> Connection:
        connection = Connection(self.host, self.port, timeout)
        try:
            for reply in connection.run(self._login, timeout) if self._login else ():
                if isinstance(reply, CommandError):
                    raise reply
        except BaseException:
            connection.close()
            raise
        return connection
