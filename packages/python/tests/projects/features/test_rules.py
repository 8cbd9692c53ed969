import threading

import pytest
import redis

import redouble as package


def test_the_lock_is_taken_and_the_reply_is_lost(redouble):
    client = redouble.client()
    with redouble.fault("close-after", on="SET", key="lock:tea", times=1) as lost:
        with pytest.raises(redis.ConnectionError):
            client.lock("lock:tea", timeout=30).acquire(blocking=False)
        assert lost.fired == 1
    assert client.exists("lock:tea")
    assert redouble.journal.count("SET", outcome="lost") == 1


def test_a_fault_that_never_fires_is_told_with_what_came_instead(redouble):
    with pytest.raises(package.FaultNotFired, match=r"(?s)on SET key lock:\* close-after.*GET lock:tea"):
        with redouble.fault("close-after", on="SET", key="lock:*"):
            redouble.client().get("lock:tea")
    with redouble.fault("close-after", on="SET", must_fire=False):
        pass
    with pytest.raises(ZeroDivisionError):
        with redouble.fault("close-after", on="SET"):
            1 / 0


def test_errors_and_delays_are_words_and_values(redouble):
    client = redouble.client()
    with redouble.fault("error", "OOM no memory", on="SET"):
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("key", "value")
    with redouble.fault("error READONLY no writes", on=["SET", "DEL"]):
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.delete("key")
    with redouble.fault("delay", 3600, on="GET") as late:
        redouble.clock.auto()
        assert client.get("key") is None
        redouble.clock.resume()
    assert late.fired == 1
    with redouble.fault("truncate", 1, on="GET"), pytest.raises(redis.ConnectionError):
        client.get("key")
    with pytest.raises(package.CommandError, match="was expected; received 'explode'"):
        redouble.fault("explode", on="SET")


def test_the_slower_client_comes_second_every_time(redouble):
    slow, fast = redouble.client(client_name="slow"), redouble.client(client_name="fast")
    took = []
    with redouble.gate("SET", client="slow") as door:
        thread = threading.Thread(target=lambda: took.append(slow.set("lock", "slow", nx=True, px=30_000)))
        thread.start()
        assert door.wait_for(1) == 1
        assert "SET lock slow" in door.held[0]
        assert fast.set("lock", "fast", nx=True, px=30_000)
        door.step()
        thread.join()
    assert took == [None]


def test_a_gate_that_nobody_reaches_is_told(redouble):
    with pytest.raises(package.GateNotReached, match="on SET"):
        with redouble.gate("SET"):
            redouble.client().get("key")
    with pytest.raises(package.TimedOut, match="holds 0 of 1"):
        with redouble.gate("SET") as door:
            door.wait_for(1, timeout=0.05)


def test_the_journal_has_every_command_with_its_reply(redouble):
    client = redouble.client()
    seq = redouble.journal.last_seq()
    client.set("order:1", "new")
    client.eval("return redis.call('GET', KEYS[1])", 1, "order:1")
    assert redouble.journal.wait_for("SET", 1, key="order:*", since=seq) == 1
    script = redouble.journal.entries("EVAL")[0]
    assert script.reply == '"new"' and script.children == (("GET", "order:1"),)
    with pytest.raises(package.TimedOut, match="0 of 1"):
        redouble.journal.wait_for("DEL", timeout=0.05)


def test_a_misused_lock_is_found_with_its_evidence(redouble):
    worker, other = redouble.client(client_name="worker"), redouble.client(client_name="other")
    assert worker.set("lock", "8fd1c5ab07e3", nx=True, px=30_000)
    assert not other.set("lock", "77aa0bc2d1ef", nx=True, px=30_000)
    assert redouble.audit.locks()[0].holders[0]["name"] == "worker"
    other.delete("lock")
    (finding,) = redouble.audit.findings(severity="error")
    assert finding.code == "blind-delete" and finding.evidence[-1].command == "DEL lock"
    with pytest.raises(package.LockMisuse, match="blind-delete"):
        redouble.audit.expect_clean()
    redouble.audit.allow("*", "lock", "this test wants it so")
    redouble.audit.expect_clean()


def test_the_report_is_a_page(redouble, tmp_path):
    redouble.client().set("lock", "8fd1c5ab07e3", nx=True, px=30_000)
    redouble.audit.allow("*", "lock", "it is")
    assert redouble.report(tmp_path / "page" / "report.html").read_text().lstrip().lower().startswith("<!doctype html")
    assert '"SET"' in redouble.journal.export(tmp_path / "journal.jsonl").read_text()


@pytest.mark.redouble(instances=3)
@pytest.mark.parametrize("stopped", range(3))
def test_findings_are_told_although_an_instance_is_stopped(redouble, stopped):
    redouble.instances[stopped].stop()
    living = redouble.instances[(stopped + 1) % 3]
    one, other = (living.client(client_name=name) for name in ("one", "other"))
    assert one.set("lock:r", "5f0c9a83b1d24e67b0c3d1a2f4e5d6c7", nx=True, px=1000)
    assert not other.set("lock:r", "5f0c9a83b1d24e67b0c3d1a2f4e5d6c8", nx=True, px=1000)
    other.delete("lock:r")
    assert "blind-delete" in {finding.code for finding in living.audit.findings(final=True)}


def test_a_clock_that_stood_goes_on_standing(redouble):
    with redouble.clock.freeze():
        with redouble.clock.freeze():
            pass
        assert redouble.clock.info().mode == "frozen"
    assert redouble.clock.info().mode == "running"


def test_what_is_no_command_is_refused(redouble):
    with pytest.raises(TypeError):
        redouble.execute()
    with pytest.raises(TypeError):
        redouble.execute("SET", "key", None)
