#!/bin/sh
# What the container runs: the arguments of `docker run`, of `command:` and the like, as the image of Redis takes them.
set -e

[ $# -gt 0 ] || set -- redis-server
case "$1" in
    # Flags, or a configuration file: they are the server's.
    -* | *.conf) set -- redis-server "$@" ;;
    # The subcommands need no `redouble` in front of them.
    run | explore | audit | report | explain | cli | help) set -- redouble "$@" ;;
esac

case "$1" in
    redis-server | valkey-server | */redis-server | */valkey-server)
        # For services whose command cannot be given, as those of GitHub Actions. Quotes in it hold words together.
        eval "set -- \"\$@\" ${REDOUBLE_ARGS:-}"
        # What the image of Valkey reads, which splits it at blanks.
        set -- "$@" ${VALKEY_EXTRA_FLAGS:-}
        ;;
esac

exec "$@"
