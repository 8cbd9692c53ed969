"""Ice rink: teams book slots of a day, and give back those they do not need.

Right: HSETNX books, and its answer decides. A cancellation is a script that looks whose the slot is, and writes the
log in the same step. A slot in the log never has two teams.
"""
import os
import random
from multiprocessing import Barrier, Process

import redis

SLOTS, LOG = "rink:sunday", "rink:log"
HOURS = [f"{hour:02d}:00" for hour in range(8, 16)]
CANCEL = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], 'cancelled ' .. ARGV[1] .. ' ' .. ARGV[2])
return 1
"""


class Team(Process):
    def __init__(self, name, start):
        super().__init__()
        self.team, self.start_whistle = name, start

    def run(self):
        r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
        cancel, dice = r.register_script(CANCEL), random.Random(self.team)
        self.start_whistle.wait(15)
        for _ in range(3):
            booked = []
            for hour in dice.sample(HOURS, len(HOURS)):
                if r.hsetnx(SLOTS, hour, self.team):
                    r.rpush(LOG, f"booked {hour} {self.team}")
                    booked.append(hour)
            for hour in HOURS:
                if hour not in booked[:1]:  # also what is another's: the script says no
                    cancel(keys=[SLOTS, LOG], args=[hour, self.team])


if __name__ == "__main__":
    start = Barrier(3)
    teams = [Team(name, start) for name in ("Otters", "Stars", "Curling")]
    for team in teams:
        team.start()
    for team in teams:
        team.join()
    assert not any(team.exitcode for team in teams)

    r = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    owner, log = {}, r.lrange(LOG, 0, -1)
    for word, hour, team in map(str.split, log):
        if word == "booked":
            assert hour not in owner, (hour, owner[hour], team)
            owner[hour] = team
        else:
            assert owner.pop(hour) == team
    assert owner == r.hgetall(SLOTS)
    print(f"ok: {len(log)} bookings and cancellations, and no slot ever had two teams")
