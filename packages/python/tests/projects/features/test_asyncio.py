import asyncio

import pytest


@pytest.mark.asyncio
async def test_a_coroutine_waits_for_a_gate_and_holds_up_nobody(redouble):
    client = redouble.async_client()
    await client.set("key", "value")
    with redouble.gate("GET") as door:
        reply = asyncio.ensure_future(client.get("key"))
        assert await door.wait_for_async(1) == 1
        door.step()
        assert await reply == b"value"
    assert await redouble.journal.wait_for_async("GET", 1, key="key") == 1


@pytest.mark.anyio
async def test_anyio_runs_it_too(redouble):
    client = redouble.async_client(decode_responses=True)
    await client.set("key", "value")
    redouble.clock.advance(1)
    assert await client.get("key") == "value"


@pytest.fixture
def anyio_backend():
    return "asyncio"
