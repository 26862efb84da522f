# Loads servers with wrk in turn, and prints each run, then medians; sourced by the scripts beside
# it, which set: servers, rounds, seconds, connections (counts), the arrays pid, url and cookie by
# server, and what database_cpu prints (ticks; 0 where there is none).
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
    echo
    echo "medians"
    for c in $connections; do
        for server in $servers; do
            median() {
                awk -v c="$c" -v s="$server" -v f="$1" '$1 == c && $2 == s { print $f }' \
                    "$results" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
            }
            echo "$c $server: $(median 3) req/s, p50 $(median 6) us, p99 $(median 9) us," \
                "cpu $(median 12) us/req, database $(median 15) us/req"
        done
    done
    rm -f "$results"
}
