#!/bin/sh
# Stands in for redis-server in suites that start it themselves: `in_front.sh REDOUBLE SERVER ARGUMENTS` starts SERVER with
# the arguments on a socket of its own, and then is REDOUBLE in front of it, on the port that the arguments name. Neither
# outlives the other.
redouble=$1 server=$2
shift 2
case $1 in -v | --version) exec "$server" "$@" ;; esac
port=6379 socket='' directives='' before=''
for word; do
  case $before in
    --port) port=$word ;;
    --unixsocket) socket=$word ;;
  esac
  before=$word
done
place=$(mktemp -d) || exit
mkfifo "$place/alive" || exit
{
  "$server" "$@" --port 0 --unixsocket "$place/socket" &
  echo $! >"$place/server"
  wait $!
  if [ -e "$place/server" ]; then kill -9 $$; fi
} &
# The pipe ends with the program that this shell becomes, however that ends.
{
  read -r _ <"$place/alive"
  ended=$(cat "$place/server")
  rm -r "$place"
  kill -9 "$ended"
} >/dev/null 2>&1 &
exec 8>"$place/alive"
until [ -S "$place/socket" ]; do sleep 0.01; done
if [ -n "$socket" ]; then directives="--unixsocket $socket"; fi
# shellcheck disable=SC2086 # The directives are several words.
exec "$redouble" --bind 127.0.0.1 --port "$port" $directives --upstream "unix:$place/socket" --upstream-disposable yes
