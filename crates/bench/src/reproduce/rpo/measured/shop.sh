# The shop's processes, which descend from this one, so that one process names them all: PostgreSQL,
# and Apache with PHP twice, with the module that tells of requests (told) and without (untold).
# Each is in a session of its own: Apache ends all its process group.
trap 'kill -QUIT $postgres; kill $told $untold; wait; exit' TERM
setsid $AS "$POSTGRES" -D "$RUN/postgres/data" -k "$RUN/postgres" -h 127.0.0.1 \
    -p "$POSTGRES_PORT" -c shared_buffers=256MB -c fsync=off -c max_connections="$CONNECTIONS" &
postgres=$!
BOOKSTORE_RUN="$RUN/told" BOOKSTORE_LISTEN="127.0.0.1:$TOLD_PORT" \
    setsid apache2 -D FOREGROUND -D RPO -f "$BOOKSTORE/apache2.conf" &
told=$!
BOOKSTORE_RUN="$RUN/untold" BOOKSTORE_LISTEN="127.0.0.1:$UNTOLD_PORT" \
    setsid apache2 -D FOREGROUND -f "$BOOKSTORE/apache2.conf" &
untold=$!
wait
