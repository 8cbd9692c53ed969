"""For Django's test command: its caches on Redis are private to the run, and to each process of ``--parallel``.

    # settings.py
    TEST_RUNNER = "redouble.django.RedoubleRunner"

Caches of ``django.core.cache.backends.redis``, of django-redis, and of every other backend with ``redis`` or ``valkey`` in
its name get the address of the server. The number of a database at the end of ``LOCATION`` is kept.
"""

from __future__ import annotations

import copy
import json
import os
import re
from typing import Any, ClassVar, Optional

from django.conf import settings
from django.test import override_settings
from django.test import runner as django_runner

from ._server import Server, Space

_ADDRESS = "REDOUBLE_DJANGO_SERVER"

# What this process uses. It must not be forgotten, for it changes the settings back when it is disabled.
_override: Optional[Any] = None


def _use(space: Space) -> None:
    """Point all caches to a space."""
    global _override
    caches = copy.deepcopy(settings.CACHES)
    for cache in caches.values():
        if re.search("redis|valkey", cache.get("BACKEND", ""), re.IGNORECASE):
            location = cache.get("LOCATION", "")
            first = location[0] if isinstance(location, (list, tuple)) and location else str(location)
            database = re.search(r"/(\d+)$", re.split("[,;]", first)[0])
            cache["LOCATION"] = space.url + (f"/{database.group(1)}" if database else "")
    if _override is not None:
        _override.disable()
    _override = override_settings(CACHES=caches)
    _override.enable()


def _init_worker(*args: Any, **kwargs: Any) -> None:
    django_runner._init_worker(*args, **kwargs)
    server = Server.at(json.loads(os.environ[_ADDRESS]))
    _use(server.space(f"django-worker-{django_runner._worker_id}"))


class _ParallelTestSuite(django_runner.ParallelTestSuite):  # type: ignore[misc]
    init_worker = _init_worker


class RedoubleRunner(django_runner.DiscoverRunner):  # type: ignore[misc]
    """Starts a server before the tests, and stops it after them."""

    parallel_test_suite = _ParallelTestSuite
    redouble_options: ClassVar[dict[str, Any]] = {}
    """The options of :class:`redouble.Server`."""

    def setup_test_environment(self, **kwargs: Any) -> None:
        super().setup_test_environment(**kwargs)
        self.redouble = Server(**self.redouble_options).start()
        os.environ[_ADDRESS] = json.dumps(self.redouble.address())
        _use(self.redouble.space("django"))

    def teardown_test_environment(self, **kwargs: Any) -> None:
        global _override
        if _override is not None:
            _override.disable()
            _override = None
        os.environ.pop(_ADDRESS, None)
        self.redouble.stop()
        super().teardown_test_environment(**kwargs)
