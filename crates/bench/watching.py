#!/usr/bin/env python3
"""What it costs a server to be watched: CPU a request with nobody watching, with a dashboard that
is polled each second, and with traces of 1 % of the requests and a collector that swallows them.

Traces need a server of their own, and two processes of one program differ, too: by how much, a
third tells that is watched by nobody, and all three are started anew a few times. All take turns,
so that what else the machine does falls on each of them; a turn's CPU time is that of all threads
of the server's process, its requests are those that it has counted meanwhile. One processor has the
server, another the load, the poller and the collector.

With --instructions each is run once by callgrind, which counts instructions, not time, those of the
kernel left out: what noise hides is seen there. The server is slow then, so that what happens each
second, such as a poll, is told as so many a poll.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Student's t at 97.5 % for 1, 2, ... degrees of freedom.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Collector(BaseHTTPRequestHandler):
    """Takes spans, and keeps nothing but how many bytes came."""

    swallowed = 0

    def do_POST(self):
        Collector.swallowed += len(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """`rhythm serve` with one worker, on the first processor."""

    def __init__(self, args, flags, under=()):
        ports = [free_port(), free_port()]
        self.url, self.admin = (f"http://127.0.0.1:{port}" for port in ports)
        places = zip(("--listen", "--admin"), (f"127.0.0.1:{port}" for port in ports))
        command = [*under, args.rhythm, "serve", args.service, "--workers", "1", *flags]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command + [word for place in places for word in place],
            preexec_fn=lambda: os.sched_setaffinity(0, {args.cpus[0]}),
            stderr=self.log,
        )
        deadline = time.monotonic() + 60
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                self.log.seek(0)
                raise SystemExit(f"{command} does not serve: {self.log.read().decode()}")
            time.sleep(0.1)

    def is_ready(self):
        try:
            return OPEN.open(self.admin + "/readyz").status == 200
        except OSError:
            return False

    def cpu_times(self):
        """Seconds, of all threads and of the one of the admin listener; to a nanosecond."""
        total, admin = 0, 0
        tasks = f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            took = int(open(f"{tasks}/{task}/schedstat").read().split()[0]) / 1e9
            total += took
            if open(f"{tasks}/{task}/comm").read().startswith("admin"):
                admin += took
        return total, admin

    def counted(self):
        """Requests for pages since the start."""
        told = OPEN.open(self.admin + "/metrics").read().decode()
        return sum(map(int, re.findall(r"^rhythm_requests_total\{.*\} (\d+)", told, re.M)))

    def end(self):
        self.process.terminate()
        self.process.wait()


def poll(server, is_over, polls):
    while not is_over.wait(1):
        polls.append(len(OPEN.open(server.admin + "/dashboard.json").read()))


def turn(args, server, is_polled):
    """Microseconds of CPU a request while it is loaded for a while, and what else was seen."""
    command = [args.rhythm, "load", server.url, "--sessions", str(args.sessions)]
    command += ["--duration", f"{args.seconds}s", *args.load]
    is_over, polls, swallowed = threading.Event(), [], Collector.swallowed
    poller = threading.Thread(target=poll, args=(server, is_over, polls))
    begun, (cpu, admin), counted = time.monotonic(), server.cpu_times(), server.counted()
    if is_polled:
        poller.start()
    load = subprocess.run(command, capture_output=True, text=True)
    is_over.set()
    if is_polled:
        poller.join()
    # What is on its way to the collector is part of what it costs.
    time.sleep(1.5)
    took, now = time.monotonic() - begun, server.cpu_times()
    cpu, admin, counted = now[0] - cpu, now[1] - admin, server.counted() - counted
    if load.returncode != 0:
        raise SystemExit(f"{command}: {load.stdout}{load.stderr}")
    return {
        "cpu_us": cpu / counted * 1e6,
        "admin_share": admin / took,
        "requests": counted,
        "polls": len(polls),
        "collected_bytes": Collector.swallowed - swallowed,
    }


def take_turns(args, traces, seen):
    """Starts the three, and has all ways take turns."""
    servers = []
    try:
        # Each is known before the next is started, which may fail.
        for flags in ([], traces, []):
            servers.append(Server(args, flags))
        ways = {"off": (servers[0], False), "polled": (servers[0], True)}
        ways |= {"traced 1 %": (servers[1], False), "off, another": (servers[2], False)}
        # What is loaded first has cold caches; it is not counted.
        for server in servers:
            turn(args, server, False)
        for number in range(args.rounds):
            order = list(ways.items())
            shift = number % len(order)
            for way, (server, is_polled) in order[shift:] + order[:shift]:
                seen[way].append(turn(args, server, is_polled))
    finally:
        for server in servers:
            server.end()


def instructions(args, flags, is_polled):
    """Of the server while it is loaded, and its requests and polls meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        counts = folder + "/counts"
        under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}"]
        server = Server(args, flags, under)
        try:
            begin = ["callgrind_control", "-z", str(server.process.pid)]
            subprocess.run(begin, check=True, capture_output=True)
            turned = turn(args, server, is_polled)
        finally:
            server.end()
        totals = re.findall(r"^totals: (\d+)", open(counts).read(), re.M)
    return sum(map(int, totals)), turned["requests"], turned["polls"]


def count(args, traces):
    """What it costs in instructions, as a table."""
    seen = {"off": instructions(args, [], False), "traced 1 %": instructions(args, traces, False)}
    seen["polled"] = instructions(args, [], True)
    off, requests, _ = seen["off"]
    print("| way | instructions a request | of off | requests | instructions a poll |")
    print("|---|---|---|---|---|")
    for way, (all_of_it, served, polls) in seen.items():
        # A poll's are told by themselves.
        of_poll = (all_of_it - off / requests * served) / polls if polls else None
        told = f"{of_poll:,.0f}" if of_poll else "-"
        ratio = "-" if polls else f"{all_of_it / served / (off / requests):.4f}"
        print(f"| {way} | {all_of_it / served:,.0f} | {ratio} | {served} | {told} |")


def beside_both(costs, way, rounds):
    """In times of the mean of the two that nobody watches: the mean and half of its 95 %
    interval, of each start's mean, since processes of one program differ more than its turns."""
    both = zip(costs["off"], costs["off, another"])
    ratios = [us / statistics.fmean(off) for us, off in zip(costs[way], both)]
    starts = [statistics.fmean(ratios[at : at + rounds]) for at in range(0, len(ratios), rounds)]
    mean = statistics.fmean(starts)
    if len(starts) < 2:
        return f"{mean:.3f}"
    within = STUDENT[min(len(starts), len(STUDENT) + 1) - 2] * statistics.stdev(starts)
    return f"{mean:.3f} ± {within / len(starts) ** 0.5:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rhythm", default="target/release/rhythm")
    parser.add_argument("--service", default="services/banking")
    parser.add_argument("--rounds", type=int, default=5, help="of turns, for each three servers")
    parser.add_argument("--starts", type=int, default=3, help="times that three are started")
    parser.add_argument("--seconds", type=int, default=10, help="of each turn")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--cpus", type=int, nargs=2, default=[0, 1], help="the server and the rest")
    parser.add_argument("--json", help="a file for all that was measured")
    parser.add_argument("--instructions", action="store_true", help="count these, by callgrind")
    parser.add_argument("load", nargs="*", help="more flags of `rhythm load`, behind --")
    args = parser.parse_args()
    os.sched_setaffinity(0, {args.cpus[1]})
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    traces = ["--otlp", f"http://127.0.0.1:{collector.server_port}", "--trace-sample", "1%"]
    if args.instructions:
        return count(args, traces)
    seen = {"off": [], "polled": [], "traced 1 %": [], "off, another": []}
    for _ in range(args.starts):
        take_turns(args, traces, seen)
    costs = {way: [it["cpu_us"] for it in turns] for way, turns in seen.items()}
    # Neighbors in time are compared: the quartiles.
    ratios = {
        way: statistics.quantiles([us / off for us, off in zip(costs[way], costs["off"])])
        for way in costs
    }
    print(
        "| way | CPU us a request | from, to | of off | its middle half | of both that are off "
        "| admin thread, of a core | requests | polls | spans, bytes |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for way, turns in seen.items():
        us = costs[way]
        totals = [sum(it[key] for it in turns) for key in ("requests", "polls", "collected_bytes")]
        print(
            f"| {way} | {statistics.median(us):.2f} | {min(us):.2f}, {max(us):.2f} "
            f"| {ratios[way][1]:.3f} | {ratios[way][0]:.3f} to {ratios[way][2]:.3f} "
            f"| {beside_both(costs, way, args.rounds)} "
            f"| {statistics.median(it['admin_share'] for it in turns):.3%} "
            f"| {' | '.join(map(str, totals))} |"
        )
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"arguments": vars(args), "turns": seen}, file, indent=1)


if __name__ == "__main__":
    main()
