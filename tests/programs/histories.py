#!/usr/bin/env python3
"""Plays random histories of locks and data against a real server and says what was damaged.

    histories.py --seeds 0-399                          on a redis-server that is started for it
    histories.py --seeds 7 --show                       every command of history 7
    histories.py --seeds 0-99 --url URL[,URL]           on servers that are there already: FLUSHALL before each history
    histories.py --seeds 0-399 --out verdicts.jsonl     the verdicts as JSON lines

A history is two to four programs, each a process of its own with one to three connections. A program takes a lock, reads,
writes and releases, in one of many ways, right ones and wrong ones. A seed decides all of it: the ways, the connection
of each command, whose command comes next, who dies, and when time passes. Commands are sent one after the other.

Expiry is real. The leases of a history have one length, and when time passes the generator waits until all of them are
over. If the machine was so slow that a lease may have been over before, the history is played again with longer ones.
So a seed has one verdict, on any server.

The check knows nothing of an auditor. It follows which program was told that it holds, which hold is in the server, and
which version of the data a write was computed from. The verdict of a seed:

    damage   an update was lost, or two programs were inside at once and both wrote
    would    a program wrote without a guard when it did not hold the lock; harmful or not in this order
    sound    nothing in the programs can do harm, whatever the order: no error is due
    expected "error" if damage or would, "none" if sound, else "any": the mistake is there and did not strike
    what     the sentences
"""
import argparse
import dataclasses
import json
import os
import random
import socket
import sys
import time
import urllib.parse

from run import Server

GUARDED, OPEN = True, False

SET_IF_ABSENT = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0"
DELETE_IF = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXTEND_IF = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
COMPARE_AND_SET = """
local now = redis.call('get', KEYS[1])
if (now or '') ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2])
return 1"""

# The first way of each list is sound; the others are taken by deviations. Without an expiry, or with one that comes in a second
# command, a lock excludes everybody else, but a crash may leave it for ever: such a history is not called sound.
SOUND_TAKES, TAKES_WITHOUT_EXPIRY = ["set nx px", "script", "watch"], ["setnx pexpire", "hsetnx", "sadd", "lpop"]
WAYS = {
    "take": [
        *SOUND_TAKES, *TAKES_WITHOUT_EXPIRY,
        "exists set", "get set", "incr", "zcard zadd", "lock.foo", "lock.foo, reply ignored",
    ],
    "token": ["random", "name", "constant"],
    "check": ["none", "get"],
    "guard": ["none", "compare and set", "watch"],
    "renew": ["none", "script", "script, reply ignored", "pexpire", "set xx", "set"],
    "release": ["script", "watch", "get del", "del", "none"],
    "read": ["inside", "before the lock"],
    "write": ["inside", "after the release"],
    "refused": ["tries again", "goes on"],
    "name": ["one lock", "a lock of its own"],
    "work": ["string", "hash", "list", "incr"],
}  # fmt: skip
VALUE_LOCKS = ("set nx px", "script", "watch", "setnx pexpire", "exists set", "get set")
DEVIATIONS = ["take"] * 5 + ["token"] * 2 + ["renew"] * 2 + ["release"] * 2 + ["check", "guard", "read", "write", "refused", "name"]
NAMES = [("lock:{}", "stock:{}"), ("{}/mutex", "{}/doc"), ("{}:owner", "{}:data"), ("busy.{}", "sum.{}"), ("{}", "{}-rows")]


class Link:
    """One connection that speaks RESP2."""

    def __init__(self, url, name=None):
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port or 6379), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        if name:
            self.ask("CLIENT", "SETNAME", name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.input.close()
        self.socket.close()

    def ask(self, *words):
        data = [f"*{len(words)}\r\n".encode()]
        for word in map(lambda word: str(word).encode(), words):
            data.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(data))
        return self.reply()

    def reply(self):
        line = self.input.readline()
        if not line:
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise RuntimeError(rest)
        if int(rest) < 0:
            return None
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return self.input.read(int(rest) + 2)[:-2].decode()


class Program:
    """A process with connections of its own, which sends what it is told to send."""

    def __init__(self, urls, connections, name):
        self.mine, theirs = socket.socketpair()
        self.process = os.fork()
        if self.process == 0:
            self.mine.close()
            self.serve(theirs.makefile("rw"), urls, connections, name)
        theirs.close()
        self.file = self.mine.makefile("rw")

    @staticmethod
    def serve(orders, urls, connections, name):
        try:
            links = [[Link(url, name) for _ in range(connections)] for url in urls]
            for order in orders:
                store, number, words = json.loads(order)
                orders.write(json.dumps(links[store][number].ask(*words)) + "\n")
                orders.flush()
        finally:
            os._exit(0)

    def ask(self, store, number, words):
        self.file.write(json.dumps([store, number, words]) + "\n")
        self.file.flush()
        answer = self.file.readline()
        if not answer:
            raise ConnectionError("a program has died")
        return json.loads(answer)

    def end(self):
        self.mine.shutdown(socket.SHUT_RDWR)
        self.file.close()
        self.mine.close()
        os.waitpid(self.process, 0)


@dataclasses.dataclass
class Hold:
    """From the moment at which a program believes that it holds until it does not any more."""

    program: str
    lock: str
    begin: int
    writes: list = dataclasses.field(default_factory=list)  # (step, key, guarded)


class Check:
    """What really happened. It is told of each effect, and sends no command."""

    def __init__(self):
        self.step = 0
        self.owners = {}  # lock: the holds that the server knows
        self.mortal = set()  # locks with an expiry
        self.writers = {}  # key: the program of each version
        self.holds, self.what = [], []
        self.damage = self.would = False
        self.lost = 0  # updates

    def took(self, hold, mortal, beside=False):
        self.owners[hold.lock] = (self.owners.get(hold.lock, []) if beside else []) + [hold]
        self.expires(hold.lock, mortal)

    def expires(self, lock, mortal):
        self.mortal.add(lock) if mortal else self.mortal.discard(lock)

    def gone(self, lock, hold=None):
        """The lock was deleted; of a lock with one entry for each holder, the entry of the hold."""
        left = [other for other in self.owners.get(lock, []) if hold is not None and other is not hold]
        self.owners[lock] = left

    def time_passes(self):
        for lock in self.mortal:
            self.owners[lock] = []
        self.mortal = set()

    def read(self, key):
        return len(self.writers.setdefault(key, []))

    def wrote(self, hold, key, based_on, guarded):
        """A write that the server has done; based_on is the version that was read, or None for INCR."""
        versions = self.writers.setdefault(key, [])
        if based_on is not None:
            lost = sorted({program for program in versions[based_on:] if program != hold.program})
            if lost:
                self.damage = True
                self.lost += 1
                self.what.append(f"step {self.step}: {hold.program} overwrites in {key} what {', '.join(lost)} wrote since its read")
        versions.append(hold.program)
        if not guarded and hold not in self.owners.get(hold.lock, []):
            self.would = True
            self.what.append(f"step {self.step}: {hold.program} writes {key} and does not hold {hold.lock}")
        hold.writes.append((self.step, key, guarded))

    def judge(self):
        spans = []
        for hold in self.holds:
            for key in {key for _, key, guarded in hold.writes if not guarded}:
                last = max(step for step, name, guarded in hold.writes if name == key and not guarded)
                spans.append((hold, key, hold.begin, last))
        for number, (one, key, begin, last) in enumerate(spans):
            for other, other_key, other_begin, other_last in spans[number + 1 :]:
                # Two locks that only the programs' authors take for one are seen by the updates that they lose.
                if (one.lock, key) != (other.lock, other_key) or one.program == other.program:
                    continue
                if max(begin, other_begin) <= min(last, other_last):
                    self.damage = True
                    pair = f"{one.program} (steps {begin}-{last}) and {other.program} (steps {other_begin}-{other_last})"
                    self.what.append(f"{pair} were inside at once and both wrote {key}")


class Worker:
    """One program of a history: a generator of commands, told the replies."""

    def __init__(self, history, name, ways):
        self.history, self.check, self.chance = history, history.check, history.chance
        self.name, self.ways = name, ways
        self.pinned = None  # the connection of a transaction
        self.is_watched = False  # the data, over the pinned connection
        suffix = f":{name}" if ways["name"] == "a lock of its own" else ""
        self.lock, self.data = history.lock + suffix, history.data
        self.hold = None

    def locks(self, *words):
        return 0, words

    def store(self, *words):
        return self.history.data_store, words

    def run(self):
        for _ in range(self.chance.randint(1, 3)):
            yield from self.round()

    def round(self):
        ways = self.ways
        tokens = {"random": f"{self.chance.getrandbits(128):032x}", "name": self.name, "constant": "1"}
        self.token = tokens[ways["token"]]
        base = None
        if self.pinned is not None:  # the last round ended before its write
            yield self.store("UNWATCH")
            self.pinned, self.is_watched = None, False
        if ways["read"] == "before the lock":
            base = yield from self.read()
        self.hold = Hold(self.name, self.lock, 0)
        for _ in range(4):
            held = yield from self.take()
            if held or ways["refused"] == "goes on":
                break
            yield None
        else:
            return
        self.hold.begin = self.check.step
        self.check.holds.append(self.hold)
        if base is None:
            base = yield from self.read()
        if ways["renew"] != "none":
            if not (yield from self.renew()):
                return
        if ways["check"] == "get" and ways["take"] in VALUE_LOCKS:
            if (yield self.locks("GET", self.lock)) != self.token:
                return
        if ways["write"] == "inside":
            yield from self.write(base)
        yield from self.release()
        if ways["write"] == "after the release":
            yield from self.write(base)

    # -- taking ---------------------------------------------------------------------------------------------------

    def take(self):
        way, lease, took = self.ways["take"], self.history.lease, self.check.took
        if way == "set nx px":
            if (yield self.locks("SET", self.lock, self.token, "NX", "PX", lease)) != "OK":
                return False
            took(self.hold, mortal=True)
        elif way == "script":
            if (yield self.locks("EVAL", SET_IF_ABSENT, 1, self.lock, self.token, lease)) != 1:
                return False
            took(self.hold, mortal=True)
        elif way == "setnx pexpire":
            if (yield self.locks("SETNX", self.lock, self.token)) != 1:
                return False
            took(self.hold, mortal=False)
            if (yield self.locks("PEXPIRE", self.lock, lease)) == 1:
                self.check.expires(self.lock, True)
        elif way == "watch":
            return (yield from self.take_by_watch())
        elif way in ("exists set", "get set"):
            command = "EXISTS" if way == "exists set" else "GET"
            if (yield self.locks(command, self.lock)) not in (0, None):
                return False
            yield self.locks("SET", self.lock, self.token, "PX", lease)
            took(self.hold, mortal=True)
        elif way == "incr":
            if (yield self.locks("INCR", self.lock)) != 1:
                return False
            took(self.hold, mortal=False)
            if (yield self.locks("PEXPIRE", self.lock, lease)) == 1:
                self.check.expires(self.lock, True)
        elif way == "hsetnx":
            if (yield self.locks("HSETNX", self.lock, "item", self.token)) != 1:
                return False
            took(self.hold, mortal=False)
        elif way == "sadd":
            if (yield self.locks("SADD", self.lock, "item")) != 1:
                return False
            took(self.hold, mortal=False)
        elif way == "lpop":
            if (yield self.locks("LPOP", self.lock)) is None:
                return False
            took(self.hold, mortal=False)
        elif way == "zcard zadd":
            if (yield self.locks("ZCARD", self.lock)) > 0:
                return False
            yield self.locks("ZADD", self.lock, self.check.step, f"{self.name}-{self.token}")
            took(self.hold, mortal=False, beside=True)
        else:
            return (yield from self.take_as_documented_with_setnx())
        return True

    def take_by_watch(self):
        self.pinned = self.history.connection(self)
        yield self.locks("WATCH", self.lock)
        is_free = (yield self.locks("GET", self.lock)) is None
        if not is_free:
            yield self.locks("UNWATCH")
        else:
            yield self.locks("MULTI")
            yield self.locks("SET", self.lock, self.token, "PX", self.history.lease)
            is_free = (yield self.locks("EXEC")) is not None
            if is_free:
                self.check.took(self.hold, mortal=True)
        self.pinned = None
        return is_free

    def take_as_documented_with_setnx(self):
        # The value is a number of the generator's own clock, which moves by one lease when time passes.
        until = self.history.moment + 1
        if (yield self.locks("SETNX", self.lock, until)) == 1:
            self.check.took(self.hold, mortal=True)
            return True
        old = yield self.locks("GET", self.lock)
        if old is None or int(old) > self.history.moment:
            return False
        previous = yield self.locks("GETSET", self.lock, until)
        if previous != old and self.ways["take"] == "lock.foo":
            return False
        self.check.took(self.hold, mortal=True)
        return True

    # -- the work -------------------------------------------------------------------------------------------------

    def read(self):
        """Returns (version, value) of the data."""
        work = self.ways["work"]
        if work == "incr":
            return None, ""
        if self.ways["guard"] == "watch":
            self.pinned, self.is_watched = self.history.connection(self), True
            yield self.store("WATCH", self.data)
        words = {"string": ("GET", self.data), "hash": ("HGET", self.data, "sum"), "list": ("LRANGE", self.data, 0, -1)}[work]
        value = yield self.store(*words)
        return self.check.read(self.data), value

    def write(self, base):
        version, value = base
        work, guard, wrote = self.ways["work"], self.ways["guard"], self.check.wrote
        if work == "incr":
            yield self.store("INCR", self.data)
            wrote(self.hold, self.data, None, OPEN)
            return
        if work == "list":
            commands = [("DEL", self.data), ("RPUSH", self.data, *value, self.name)]
        elif work == "hash":
            commands = [("HSET", self.data, "sum", int(value or 0) + 1)]
        else:
            commands = [("SET", self.data, int(value or 0) + 1)]
        if guard == "compare and set" and work == "string":
            done = yield self.store("EVAL", COMPARE_AND_SET, 1, self.data, value or "", int(value or 0) + 1)
            if done == 1:
                wrote(self.hold, self.data, version, GUARDED)
        elif guard == "watch" or len(commands) > 1:
            if self.pinned is None:
                self.pinned, self.is_watched = self.history.connection(self), False
            yield self.store("MULTI")
            for command in commands:
                yield self.store(*command)
            if (yield self.store("EXEC")) is not None:
                wrote(self.hold, self.data, version, self.is_watched)
            self.pinned, self.is_watched = None, False
        else:
            yield self.store(*commands[0])
            wrote(self.hold, self.data, version, OPEN)

    # -- renewing and releasing -----------------------------------------------------------------------------------

    def renew(self):
        """Returns whether the program goes on."""
        way, lease = self.ways["renew"], self.history.lease
        if self.ways["take"] not in VALUE_LOCKS:
            return True
        if way in ("script", "script, reply ignored"):
            extended = yield self.locks("EVAL", EXTEND_IF, 1, self.lock, self.token, lease)
            return extended == 1 or way != "script"
        if way == "pexpire":
            yield self.locks("PEXPIRE", self.lock, lease)
            return True
        words = ("XX", "PX", lease) if way == "set xx" else ("PX", lease)
        if (yield self.locks("SET", self.lock, self.token, *words)) == "OK":
            self.check.took(self.hold, mortal=True)
        return True

    def release(self):
        take, way = self.ways["take"], self.ways["release"]
        gone = self.check.gone
        if way == "none":
            return
        if take == "hsetnx":
            yield self.locks("HDEL", self.lock, "item")
        elif take == "sadd":
            yield self.locks("SREM", self.lock, "item")
        elif take == "lpop":
            yield self.locks("RPUSH", self.lock, "token")
        elif take == "zcard zadd":
            yield self.locks("ZREM", self.lock, f"{self.name}-{self.token}")
            gone(self.lock, self.hold)
            return
        elif take not in VALUE_LOCKS or way == "del":
            yield self.locks("DEL", self.lock)
        elif way == "script":
            if (yield self.locks("EVAL", DELETE_IF, 1, self.lock, self.token)) != 1:
                return
        elif way == "get del":
            if (yield self.locks("GET", self.lock)) != self.token:
                return
            yield self.locks("DEL", self.lock)
        else:
            if not (yield from self.release_by_watch()):
                return
        gone(self.lock)

    def release_by_watch(self):
        was, self.pinned = self.pinned, self.history.connection(self, other_than=self.pinned)
        if was == self.pinned:  # EXEC and UNWATCH end every watch of the connection
            self.is_watched = False
        yield self.locks("WATCH", self.lock)
        deleted = False
        if (yield self.locks("GET", self.lock)) == self.token:
            yield self.locks("MULTI")
            yield self.locks("DEL", self.lock)
            deleted = (yield self.locks("EXEC")) is not None
        else:
            yield self.locks("UNWATCH")
        self.pinned = was
        return deleted


class History:
    def __init__(self, seed, urls, lease):
        self.chance = random.Random(seed)
        self.seed, self.urls, self.lease = seed, urls, lease
        self.check, self.moment, self.log = Check(), 0, []
        pattern, resource = self.chance.choice(NAMES), self.chance.choice(["order-7", "item42", "tenant_a", "reports"])
        self.lock, self.data = (name.format(resource) for name in pattern)
        self.data_store = 1 if len(urls) > 1 and self.chance.random() < 0.25 else 0
        self.connections = self.chance.choice([1, 1, 2, 3])
        self.pauses = self.chance.choice([0, 0, 0, 1, 1, 2])
        self.dies = self.chance.random() < 0.15
        self.named = self.chance.random() < 0.5
        self.bursts = self.chance.choice([[1], [1, 1, 2], [1, 2, 3, 6]])
        self.plan()

    def plan(self):
        """Decides how each program works: soundly but for the deviations."""
        ways = {trait: choices[0] for trait, choices in WAYS.items()}
        ways["work"] = self.chance.choice(WAYS["work"])
        ways["take"] = self.chance.choice(SOUND_TAKES * 4 + TAKES_WITHOUT_EXPIRY)
        if self.pauses and self.chance.random() < 0.65:
            ways["guard"], ways["work"] = self.chance.choice([("compare and set", "string"), ("watch", ways["work"])])
        ways["renew"] = self.chance.choice(["none", "none", "script"])
        count = self.chance.choice([2, 2, 3, 4])
        programs = [dict(ways) for _ in range(count)]
        for _ in range(self.chance.choice([0, 0, 1, 1, 2, 3])):
            trait = self.chance.choice(DEVIATIONS)
            way = self.chance.choice(WAYS[trait][1:])
            # Programs that exclude each other agree on the way of taking.
            is_shared = trait in ("take", "token") or self.chance.random() < 0.7
            for program in programs if is_shared else [self.chance.choice(programs)]:
                program[trait] = way
        for program in programs:
            if program["guard"] == "compare and set":
                program["work"] = "string"
        kinds = {program["work"] for program in programs}
        if len(kinds) > 1:  # one key has one type
            for program in programs:
                program["work"] = "string"
        if not self.pauses and any(ways != programs[0] or ways["token"] != "random" for ways in programs):
            self.pauses = self.chance.choice([0, 1, 2])
        if any(ways["renew"] not in ("none", "script") or ways["release"] not in ("script", "watch") for ways in programs):
            self.pauses = max(self.pauses, self.chance.choice([0, 1, 1, 2]))
        if "lock.foo" in programs[0]["take"]:
            self.pauses, self.dies = max(self.pauses, 1), self.chance.random() < 0.5
        self.programs = programs

    def connection(self, worker, other_than=None):
        """A free connection of the worker's pool; the data may watch one while the lock is released over another."""
        free = [number for number in range(self.connections) if number != other_than]
        return self.chance.choice(free or [0])

    def is_sound(self):
        def sound(ways):
            guarded = ways["guard"] != "none" and ways["work"] != "incr"
            return (
                ways["take"] in SOUND_TAKES
                and ways["token"] == "random"
                and ways["renew"] in ("none", "script")
                and ways["release"] in ("script", "watch")
                and (ways["read"], ways["write"]) == ("inside", "inside")
                and (ways["refused"], ways["name"]) == ("tries again", "one lock")
                and (guarded or not self.pauses)
            )

        return all(map(sound, self.programs))

    def send(self, program, worker, store, words):
        number = worker.pinned if worker.pinned is not None else self.connection(worker)
        self.check.step += 1
        answer = program.ask(store, number, words)
        self.log.append(f"{self.check.step:3} {worker.name}/{number} {' '.join(str(word).split(chr(10))[0] for word in words)} -> {answer}")
        return answer

    def prepare(self):
        # Over connections that are closed before the programs fork: nobody is to share one.
        for number, url in enumerate(self.urls):
            with Link(url) as link:
                link.ask("FLUSHALL")
                if number == 0 and self.programs[0]["take"] == "lpop":
                    for name in {worker.lock for worker in self.workers()}:
                        link.ask("RPUSH", name, "token")

    def play(self):
        """Returns the verdict, or None if the machine was too slow for the leases."""
        self.prepare()
        programs = {}
        for worker in self.workers():
            programs[worker.name] = (Program(self.urls, self.connections, worker.name if self.named else None), worker)
        try:
            in_time = self.interleave(programs)
        finally:
            for program, _ in programs.values():
                program.end()
        if not in_time:
            return None
        with Link(self.urls[self.data_store]) as link:
            self.compare(link)
        self.check.judge()
        return self.verdict()

    def workers(self):
        if not hasattr(self, "made"):
            self.made = [Worker(self, f"svc-{number}", ways) for number, ways in enumerate(self.programs, 1)]
        return self.made

    def interleave(self, programs):
        # A reply is told to its program at once, which then has its next command ready: its turn comes later.
        running = {name: [program, worker, worker.run(), None] for name, (program, worker) in programs.items()}
        for turn in running.values():
            turn[3] = next(turn[2])
        pauses, death = self.pauses, self.chance.randint(3, 20) if self.dies else None
        turns, since = 0, time.monotonic()
        while running:
            turns += 1
            if pauses and any(self.check.owners.values()) and self.chance.random() < 0.25:
                pauses -= 1
                if time.monotonic() - since > self.lease / 2000:
                    return False
                time.sleep((self.lease + 5) / 1000)
                self.check.time_passes()
                self.moment += 1
                self.log.append("    -- all leases are over --")
                since = time.monotonic()
            name = self.chance.choice(sorted(running))
            if turns == death and len(running) > 1:
                running.pop(name)[0].mine.shutdown(socket.SHUT_RDWR)
                self.log.append(f"    -- {name} dies --")
                continue
            # One program often does several commands before another one comes.
            for _ in range(self.chance.choice(self.bursts)):
                program, worker, commands, command = running[name]
                answer = None if command is None else self.send(program, worker, *command)
                try:
                    running[name][3] = commands.send(answer)
                except StopIteration:
                    del running[name]
                    break
                if command is None:
                    break
        return time.monotonic() - since <= self.lease / 2000

    def compare(self, link):
        """Each write counts up by one, so the data on the server tell by themselves whether an update was lost."""
        words = {"list": ("LLEN", self.data), "hash": ("HGET", self.data, "sum")}.get(self.programs[0]["work"], ("GET", self.data))
        counted, written = int(link.ask(*words) or 0), len(self.check.writers.get(self.data, []))
        assert counted < written if self.check.lost else counted == written, (self.seed, counted, written)

    def verdict(self):
        check, sound = self.check, self.is_sound()
        assert not (sound and (check.damage or check.would)), (self.seed, check.what)
        return {
            "seed": self.seed,
            "damage": check.damage,
            "would": check.would,
            "sound": sound,
            "expected": "error" if check.damage or check.would else "none" if sound else "any",
            "locks": sorted({worker.lock for worker in self.workers()}),
            "data": [self.data],
            "stores": 2 if self.data_store else 1,
            "what": check.what,
            "ways": self.programs,
        }


def play(seed, urls):
    lease = 120
    while lease < 5_000:
        history = History(seed, urls, lease)
        verdict = history.play()
        if verdict is not None:
            return history, verdict
        lease *= 2
    sys.exit(f"seed {seed}: the machine is too slow")


def seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds, default=seeds("0-399"), help="7 or 0-399")
    parser.add_argument("--url", help="servers that are there already, with commas: the second one is for data")
    parser.add_argument("--server", default="redis-server", help="the binary to start")
    parser.add_argument("--out", help="a file for the verdicts")
    parser.add_argument("--show", action="store_true", help="print the commands")
    options = parser.parse_args()

    servers = [] if options.url else [Server(options.server), Server(options.server)]
    urls = options.url.split(",") if options.url else [server.url for server in servers]
    out = open(options.out, "w") if options.out else sys.stdout
    counts = {"error": 0, "none": 0, "any": 0}
    try:
        for seed in options.seeds:
            history, verdict = play(seed, urls)
            counts[verdict["expected"]] += 1
            if options.show:
                print("\n".join(history.log))
            print(json.dumps(verdict), file=out, flush=True)
    finally:
        for server in servers:
            server.stop()
    print(f"{sum(counts.values())} histories: {counts}", file=sys.stderr)


if __name__ == "__main__":
    main()
