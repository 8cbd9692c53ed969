SECRET_KEY = "only for tests"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
TEST_RUNNER = "redouble.django.RedoubleRunner"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://cache.example:6379/2"},
    "locks": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": ["redis://cache.example:6379/3"]},
    "local": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
