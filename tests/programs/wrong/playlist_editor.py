"""Two people reorder a shared playlist at the same time.

The editor loads the list, changes it in memory and stores it by DEL and RPUSH in one MULTI. The transaction makes the
store atomic, but nothing watches the list, so a song that somebody else has added since the load disappears.
Keys: playlist:<id>:tracks. There is no lock. The lines marked ! are the evidence.
"""
import os
import subprocess
import sys

import redis

TRACKS = "playlist:88:tracks"


class Playlist:
    def __init__(self, client, key):
        self.client, self.key = client, key

    def load(self):
        return [track.decode() for track in self.client.lrange(self.key, 0, -1)]  # !

    def store(self, tracks):
        with self.client.pipeline(transaction=True) as pipe:
            pipe.delete(self.key).rpush(self.key, *tracks)
            pipe.execute()  # !


def edit(action, argument):
    playlist = Playlist(redis.Redis.from_url(os.environ["REDIS_URL"]), TRACKS)
    tracks = playlist.load()
    print("loaded", flush=True)
    sys.stdin.readline()
    if action == "add":
        tracks.append(argument)
    else:
        tracks.sort(key=lambda track: track == argument, reverse=True)
    playlist.store(tracks)


def editor(*arguments):
    return subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def main():
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    Playlist(client, TRACKS).store(["intro", "verse", "bridge"])

    adds, sorts = editor("add", "encore"), editor("first", "bridge")
    for process in (adds, sorts):
        assert process.stdout.readline() == "loaded\n"
    adds.communicate("save\n")
    sorts.communicate("save\n")

    tracks = [track.decode() for track in client.lrange(TRACKS, 0, -1)]
    if "encore" not in tracks:
        print(f"damage: the added song is gone, the list is {' '.join(tracks)}")


if __name__ == "__main__":
    edit(*sys.argv[1:]) if sys.argv[1:] else main()
