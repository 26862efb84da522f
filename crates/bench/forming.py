#!/usr/bin/env python3
"""How cohorts form in the running server, beside what `rhythm model` simulates of the same rates.

For each policy and rate a server with one worker is started on the first processor and loaded from
the second by users who arrive whether or not it keeps up. What requests waited and the sizes of
their cohorts are the server's own figures, its CPU time that of all its threads. What requests
cost, which the simulation is told, are figures of this machine, taken as docs/scale.md says: CPU a
page at the lowest rate and at the highest, by the policy that waits for nobody. The simulation has
the mix that came. docs/scale.md, *Beside the running server*, says what such rows tell.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import time

from watching import OPEN, Server

# Pages of a visit, in the mean: the users' way through the bank.
PAGES_A_VISIT = 4.2


def figures(server):
    """What the server has counted, by page: requests, seconds that they waited, cohorts."""
    told = OPEN.open(server.admin + "/metrics").read().decode()

    def by_page(name):
        found = re.findall(rf'^{name}{{page="(\w+)"}} (\S+)', told, re.M)
        return {page: float(value) for page, value in found}

    return {
        "requests": by_page("rhythm_queue_wait_seconds_count"),
        "waited": by_page("rhythm_queue_wait_seconds_sum"),
        "cohorts": by_page("rhythm_cohort_size_count"),
        "lanes": by_page("rhythm_cohort_size_sum"),
    }


def measured(args, policy, delay, rate):
    server = Server(args, ["--cohort-policy", policy, "--cohort-delay", delay])
    visits = rate / PAGES_A_VISIT
    sessions = str(max(1000, int(rate * args.think_ms / 250)))

    def load(seconds):
        command = [args.rhythm, "load", server.url, "--rate", f"{visits:.0f}", "--no-files"]
        command += ["--think", f"{args.think_ms}ms", "--sessions", sessions]
        command += ["--no-validate", "--duration", f"{seconds}s"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stdout}{done.stderr}")

    try:
        load(2)
        before, cpu, begun = figures(server), server.cpu_times()[0], time.monotonic()
        load(args.seconds)
        took = time.monotonic() - begun
        after, cpu = figures(server), server.cpu_times()[0] - cpu
    finally:
        server.end()
    of = {
        name: {page: after[name][page] - before[name].get(page, 0) for page in after[name]}
        for name in after
    }
    sums = {name: sum(pages.values()) for name, pages in of.items()}
    return {
        "policy": policy,
        "delay": delay,
        "rate": sums["requests"] / took,
        "mix": ",".join(f"{count:.0f}" for count in of["requests"].values() if count > 0),
        "cohort": sums["lanes"] / sums["cohorts"],
        "waiting_us": sums["waited"] / sums["requests"] * 1e6,
        "cpu_us": cpu / sums["requests"] * 1e6,
    }


def simulated(args, of, costs):
    with tempfile.NamedTemporaryFile("r") as file:
        command = [args.rhythm, "model", "--rate", f"{of['rate']:.0f}", "--mix", of["mix"]]
        command += ["--policy", of["policy"], "--delay", of["delay"], "--json", file.name]
        for name, us in costs.items():
            command += [f"--{name}", f"{round(us * 1000)}ns"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        [row] = json.load(file)["rows"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rhythm", default="target/release/rhythm")
    parser.add_argument("--service", default="services/banking")
    parser.add_argument("--rates", type=int, nargs="+", default=[1000, 5000, 10000, 20000, 30000])
    parser.add_argument("--seconds", type=int, default=8, help="of each point")
    parser.add_argument("--think-ms", type=int, default=100)
    parser.add_argument("--cpus", type=int, nargs=2, default=[0, 1], help="the server and the rest")
    parser.add_argument("--json", help="a file for all that was measured")
    args = parser.parse_args()
    os.sched_setaffinity(0, {args.cpus[1]})
    policies = [("work-conserving", "2ms"), ("fixed", "2ms"), ("fixed", "10ms")]
    points = [
        measured(args, policy, delay, rate) for policy, delay in policies for rate in args.rates
    ]
    few, many = points[0]["cpu_us"], points[len(args.rates) - 1]["cpu_us"]
    costs = {"wake": max(few - many, 0), "read": many / 2, "answer": many / 2}
    told = " ".join(f"--{name} {us:.1f}us" for name, us in costs.items())
    print(f"Costs, of the first and the last work-conserving rate: {told}\n")
    print(
        "| policy, delay | pages/s | cohort, measured | simulated | error | waiting, measured "
        "| simulated | CPU a page, measured | simulated |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for point in points:
        row = point["simulated"] = simulated(args, point, costs)
        cohort, waiting = row["cohort"]["mean"], row["formation_us"]["mean"]
        print(
            f"| {point['policy']}, {point['delay']} | {point['rate']:,.0f} "
            f"| {point['cohort']:.3f} | {cohort:.3f} | {cohort / point['cohort'] - 1:+.1%} "
            f"| {point['waiting_us']:.0f} us | {waiting:.0f} us "
            f"| {point['cpu_us']:.1f} us | {row['cpu_us']:.1f} us |"
        )
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"costs_us": costs, "points": points}, file, indent=1)


if __name__ == "__main__":
    main()
