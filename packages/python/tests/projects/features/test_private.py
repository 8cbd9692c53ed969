import os

import pytest
import redis


@pytest.mark.parametrize("number", range(40))
def test_each_test_begins_with_nothing(redouble, number):
    client = redouble.client()
    assert client.dbsize() == 0
    assert len(client.client_list()) == 1  # the powers are no clients of the test's
    for database in range(3):
        redis.Redis.from_url(f"{redouble.url}/{database}", single_connection_client=True).set("key", number)
    redouble.clock.freeze(number)
    client.config_set("maxmemory", 10_000_000)


def test_all_tests_share_one_server(redouble_server, redouble):
    assert redouble.port == redouble_server.port
    assert redouble.name in redouble_server.spaces()
    with open(os.environ["SERVERS"], "a") as servers:
        servers.write(f"{redouble_server.url}\n")


test_all_tests_share_one_server_2 = test_all_tests_share_one_server
test_all_tests_share_one_server_3 = test_all_tests_share_one_server
test_all_tests_share_one_server_4 = test_all_tests_share_one_server


@pytest.mark.redouble(instances=3)
def test_several_instances_are_a_server_of_the_tests_own(redouble, redouble_server):
    assert len(redouble.urls) == 3 and redouble_server.url not in redouble.urls
    redouble.instances[1].stop()
    with pytest.raises(redis.ConnectionError):
        redis.Redis.from_url(redouble.urls[1]).ping()
    redouble.instances[1].start(empty=True)
    assert redouble.instances[1].client().ping()
    redouble.instances[2].skew("20s")
    assert redouble.instances[2].clock.now() - redouble.instances[0].clock.now() > 19


@pytest.mark.redouble(compat="valkey-9.1")
def test_the_marker_says_which_server_it_is(redouble):
    assert redouble.client().info("server")["server_name"] == "valkey"


@pytest.mark.redouble(allow="* lock:* known", audit="warn")
def test_the_marker_allows_what_is_known(redouble):
    redouble.client(client_name="one").set("lock:a", "1", nx=True)
    redouble.client(client_name="two").set("lock:a", "2", nx=True)
    assert redouble.audit.findings(final=True) == []
    assert redouble.audit.findings(final=True, allowed=True)


@pytest.mark.redouble(load="seed.txt")
def test_the_marker_says_what_it_begins_with(redouble):
    client = redouble.client()
    assert client.get("tea") == b"green"
    client.delete("tea")


test_the_marker_says_what_it_begins_with_2 = test_the_marker_says_what_it_begins_with
