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
        # For services whose command cannot be given, as those of GitHub Actions. Quotes hold words together; nothing is run.
        rest="${REDOUBLE_ARGS:-} " word='' begun='' quote=''
        while [ -n "$rest" ]; do
            char=${rest%"${rest#?}"}
            rest=${rest#?}
            case $quote in
                "$char") quote='' ;;
                ?) word=$word$char ;;
                *)
                    case $char in
                        [[:space:]])
                            [ -z "$begun" ] || set -- "$@" "$word"
                            word='' begun=''
                            ;;
                        \' | \") quote=$char begun=1 ;;
                        *) word=$word$char begun=1 ;;
                    esac
                    ;;
            esac
        done
        if [ -n "$quote" ]; then
            echo "REDOUBLE_ARGS: a quote has no end: $REDOUBLE_ARGS" >&2
            exit 1
        fi
        # What the image of Valkey reads, which splits it at blanks.
        set -- "$@" ${VALKEY_EXTRA_FLAGS:-}
        ;;
esac

exec "$@"
