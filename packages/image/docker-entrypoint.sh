#!/bin/sh
# What the container runs: the arguments of `docker run`, of `command:` and the like, as the image of Redis takes them.
set -e

case "${1:-redis-server}" in
    # Flags, or a configuration file: they are the server's.
    -* | *.conf) set -- redis-server "$@" ;;
    # The subcommands need no `redouble` in front of them.
    run | explore | audit | report | explain | cli | help) set -- redouble "$@" ;;
esac

case "$1" in
    redis-server | valkey-server | */redis-server | */valkey-server | redouble)
        # For services whose command cannot be given, as those of GitHub Actions. Quotes in it hold words together.
        if [ "$1" != redouble ]; then
            eval "set -- \"\$@\" ${REDOUBLE_ARGS:-}"
            # What the image of Valkey reads.
            [ -z "${VALKEY_EXTRA_FLAGS:-}" ] || set -- "$@" $VALKEY_EXTRA_FLAGS
        fi
        ;;
esac

exec "$@"
