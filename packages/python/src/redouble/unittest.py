"""For test classes of the standard library: a private Redis for each test.

import unittest
from redouble.unittest import RedoubleMixin

class LockTests(RedoubleMixin, unittest.TestCase):
    def test_the_lock_expires(self):
        client = self.redouble.client()
        client.set("lock:tea", "token", nx=True, px=30_000)
        self.redouble.clock.advance("30.001s")
        self.assertIsNone(client.get("lock:tea"))
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any, ClassVar, Optional

from ._errors import FaultNotFired
from ._server import Server, Space

if TYPE_CHECKING:
    from unittest import TestCase as _Base
else:
    _Base = object

_servers: dict[tuple[int, str], Server] = {}


def _server(options: dict[str, Any]) -> Server:
    """One server of this process for all classes with the same options."""
    key = (os.getpid(), repr(sorted(options.items())))
    server: Optional[Server] = _servers.get(key)
    if server is None:
        server = _servers[key] = Server(**options)
        atexit.register(server.stop)
    return server.start()


class RedoubleMixin(_Base):
    """Gives each test ``self.redouble``, a :class:`redouble.Space` of its own, and fails it if a fault never fired.

    Works with ``unittest.TestCase``, ``IsolatedAsyncioTestCase`` and Django's classes; stands in front of them.
    """

    redouble: Space
    redouble_options: ClassVar[dict[str, Any]] = {}
    """The options of :class:`redouble.Server`, for example ``{"compat": "valkey-9.1"}``."""

    def setUp(self) -> None:
        self.redouble = _server(dict(self.redouble_options)).space()
        self.addCleanup(self._leave, self.redouble)
        if hasattr(self, "addAsyncCleanup"):
            self.addAsyncCleanup(self.redouble.aclose_clients)
        super().setUp()

    def _leave(self, space: Space) -> None:
        try:
            unfired = space.unfired_faults()
        finally:
            space.drop()
        if unfired:
            raise FaultNotFired(f"faults that never fired: {', '.join(unfired)}")
