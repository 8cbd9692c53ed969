import importlib.util

import pytest

import redouble as package


def test_the_powers_need_no_client_library(redouble):
    assert importlib.util.find_spec("redis") is None
    assert redouble.execute("SET", "key", "value", "PX", 1000) == "OK"
    redouble.clock.advance(2)
    assert redouble.execute("GET", "key") is None
    with redouble.fault("error", "OOM no memory", on="SET"):
        with pytest.raises(package.CommandError) as error:
            redouble.execute("SET", "key", b"\xff\x00")
    assert error.value.code == "OOM"
    assert redouble.journal.count("SET") == 2


def test_a_client_is_missed_in_words(redouble):
    with pytest.raises(package.ClientLibraryMissing, match="pip install redis"):
        redouble.client()
    with pytest.raises(ImportError, match="pip install redis"):
        redouble.async_client()


def test_a_server_without_pytest():
    with package.Server(compat="redis-8.4", password="secret word", args=["--maxmemory", "10mb"]) as server:
        assert server.execute("CONFIG", "GET", "maxmemory") == ["maxmemory", "10485760"]
        assert server.redis_version.startswith("8.4") and server.version[0].isdigit()
        with server.space("a/b c") as space:
            space.execute("SET", "key", "value")
            assert server.execute("EXISTS", "key") == 0
            assert server.spaces() == ["a/b c"]
        assert server.spaces() == []
        url, process = server.url, server.pid
        again = package.Server.connect(url)
        assert again.execute("PING") == "PONG"
    assert process is not None and server.pid is None
    with pytest.raises(package.RedoubleError, match="not started"):
        server.execute("PING")
    with pytest.raises(package.ServerDied, match="FATAL CONFIG"):
        package.Server(args=["--nonsense", "1"]).start()
