"""Greenhouses: controllers start with default settings, and one console changes them.

Right: a controller puts a default by SET NX and reads what is there then, so that a late start does not undo what
the console has set. Only the console sets and deletes; a deleted setting is the default again for whoever comes
next.
"""
import os
import threading

import redis

DEFAULTS = {"temperature": "21", "humidity": "70", "lamps": "off"}


def key(setting):
    return f"greenhouse:config:{setting}"


class Controller(threading.Thread):
    def __init__(self, number, looked=None, go_on=None):
        super().__init__(name=f"controller-{number}")
        self.looked, self.go_on, self.settings = looked, go_on, {}

    def run(self):
        with redis.from_url(os.environ["REDIS_URL"], decode_responses=True, client_name=self.name) as r:
            for setting, default in DEFAULTS.items():
                if r.get(key(setting)) is None:
                    if self.looked:
                        self.looked.set()
                        self.go_on.wait(15)  # a slow start
                    r.set(key(setting), default, nx=True)
                self.settings[setting] = r.get(key(setting)) or default


def started(*controllers):
    for controller in controllers:
        controller.start()
    for controller in controllers:
        controller.join()
    return [controller.settings for controller in controllers]


def main():
    console = redis.from_url(os.environ["REDIS_URL"], decode_responses=True, client_name="console")
    looked, go_on = threading.Event(), threading.Event()
    late = Controller(0, looked, go_on)
    late.start()
    assert looked.wait(15)
    first = started(*(Controller(number) for number in range(1, 4)))
    console.set(key("temperature"), "24")
    console.mset({key("humidity"): "65", key("lamps"): "on"})
    go_on.set()
    late.join()
    console.delete(key("lamps"))
    after = started(*(Controller(number) for number in range(4, 7)))

    assert first == [DEFAULTS] * 3, first
    assert late.settings == {"temperature": "24", "humidity": "65", "lamps": "on"}, late.settings
    assert after == [{"temperature": "24", "humidity": "65", "lamps": "off"}] * 3, after
    print("ok: the late controller has what the console set, and the deleted setting is the default again")


if __name__ == "__main__":
    main()
