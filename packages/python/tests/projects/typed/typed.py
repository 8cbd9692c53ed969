import datetime

import redouble


def test(redouble: redouble.Space) -> None:
    redouble.clock.advance("30s")
    with redouble.clock.freeze(datetime.datetime.now()) as clock:
        moment: float = clock.now()
    with redouble.fault("delay", 2, on="SET", times=1) as late:
        fired: int = late.fired
    sentences: list[str] = [finding.sentence for finding in redouble.audit.findings()]
    print(moment, fired, sentences)


with redouble.Server(instances=3, load=["seed.txt"]) as server:
    urls: list[str] = server.urls
