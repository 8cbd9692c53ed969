from django.core.cache import caches
from django.test import SimpleTestCase

from redouble.unittest import RedoubleMixin


class CacheTests(SimpleTestCase):
    def test_djangos_own_cache_is_here(self):
        cache = caches["default"]
        cache.set("tea", "green", 30)
        self.assertEqual(cache.get("tea"), "green")
        self.assertIn("space.django", cache._servers[0])
        self.assertTrue(cache._servers[0].endswith("/2"))


class LockTests(SimpleTestCase):
    def test_django_redis_is_here(self):
        with caches["locks"].lock("tea", timeout=30):
            self.assertTrue(caches["locks"].client.get_client().dbsize())
        self.assertIn("space.django", str(caches["locks"]._server))


class PrivateTests(RedoubleMixin, SimpleTestCase):
    def test_a_test_has_a_space_of_its_own(self):
        self.assertEqual(self.redouble.client().dbsize(), 0)


class LocalTests(SimpleTestCase):
    def test_other_caches_stay_as_they_are(self):
        self.assertEqual(type(caches["local"]).__name__, "LocMemCache")
