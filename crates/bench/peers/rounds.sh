# Loads servers with wrk in turn, and prints each run, then medians and how Rhythm's compare to each
# of the others'; sourced by the scripts beside it, which set: servers, rounds, seconds, connections
# (counts), the arrays pid, url and cookie by server, and what database_cpu prints (ticks; 0 where
# there is none).
agent='Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0'

require_wrk() {
    if ! command -v wrk >/dev/null; then
        echo "$(basename "$0"): needs wrk (Debian: apt-get install wrk)" >&2
        exit 1
    fi
}

# The ticks of the processor that a process has taken.
cpu() { awk '{print $14 + $15}' "/proc/$1/stat"; }

database_cpu() { echo 0; }

# One run of a server: a line with its figures.
load() {
    local server=$1 c=$2 before asked out after script=()
    case ${url[$server]##*/} in *N*) script=(-s crates/bench/peers/keys.lua) ;; esac
    before=$(cpu "${pid[$server]}") asked=$(database_cpu)
    out=$(taskset -c 1 wrk -t1 -c"$c" -d"${seconds}s" --latency "${script[@]}" \
        -H "Cookie: rhythm_session=${cookie[$server]:-}" \
        -H "User-Agent: $agent" \
        -H 'Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' \
        -H 'Accept-Language: en-US,en;q=0.5' "${url[$server]}")
    after=$(cpu "${pid[$server]}")
    awk -v c="$c" -v s="$server" -v ticks=$((after - before)) \
        -v database=$(($(database_cpu) - asked)) '
        function us(t) { return t ~ /ms$/ ? t * 1000 : t ~ /us$/ ? t + 0 : t * 1000000 }
        /50%/ { p50 = us($2) }
        /99%/ { p99 = us($2) }
        /requests in/ { n = $1 }
        /Requests\/sec/ { rps = $2 }
        /Non-2xx|Socket errors/ { bad = " " $0 }
        END {
            printf "%d %-7s %9.0f req/s  p50 %7.0f us  p99 %7.0f us", c, s, rps, p50, p99
            printf "  cpu %6.2f us/req  database %6.2f us/req%s\n", \
                ticks * 10000 / n, database * 10000 / n, bad
        }
    ' <<<"$out"
}

# All servers in turn, and the medians.
compare_all() {
    local results c round server
    results=$(mktemp)
    for c in $connections; do
        for round in $(seq "$rounds"); do
            for server in $servers; do load "$server" "$c" | tee -a "$results"; done
        done
    done
    awk -v servers="$servers" -v connections="$connections" '
        function median(key, v, n, i, j, t) {
            n = split(seen[key], v, " ")
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
                    t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
                }
            return v[int((n + 1) / 2)]
        }
        function ratio(one, other) { return other > 0 ? sprintf("%.2f", one / other) : "-" }
        BEGIN { fields = split("3 6 9 12 15", at, " ") }
        { for (f = 1; f <= fields; f++) seen[$1, $2, at[f]] = seen[$1, $2, at[f]] " " $at[f] }
        END {
            many = split(servers, server, " ")
            rows = split(connections, c, " ")
            print "\nmedians"
            for (row = 1; row <= rows; row++) for (s = 1; s <= many; s++) {
                for (f = 1; f <= fields; f++)
                    m[c[row], server[s], f] = median(c[row] SUBSEP server[s] SUBSEP at[f])
                printf "%s %s: %s req/s, p50 %s us, p99 %s us, cpu %s us/req, database %s us/req\n",
                    c[row], server[s], m[c[row], server[s], 1], m[c[row], server[s], 2],
                    m[c[row], server[s], 3], m[c[row], server[s], 4], m[c[row], server[s], 5]
            }
            for (row = 1; row <= rows; row++) for (s = 1; s <= many; s++) {
                if (server[s] == "rhythm") continue
                printf "%s rhythm / %s:", c[row], server[s]
                split("req/s p50 p99 cpu database", name, " ")
                for (f = 1; f <= fields; f++)
                    printf " %s %s", name[f],
                        ratio(m[c[row], "rhythm", f], m[c[row], server[s], f])
                print ""
            }
        }
    ' "$results"
    rm -f "$results"
}
