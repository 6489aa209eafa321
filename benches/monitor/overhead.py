"""The time that monitoring takes from a server under load.

    python3 benches/monitor/overhead.py PROGRAM [ROUNDS] [REQUESTS]

Two servers run: one with a reference, whose /metrics is read once a second, and one without. Each round (20 by default)
sends REQUESTS (200) fresh problems by 16 clients to both, in turn, and prints the ratio of their seconds; the last line is
the median, with the least and the greatest ratio of nine tenths of the rounds. A third of the rounds have a server without a
reference in both places, which shows the noise.
"""

import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

program = str(pathlib.Path(sys.argv[1]).resolve())
rounds, requests = (int(word) for word in [*sys.argv[2:], *["20", "200"][len(sys.argv) - 2 :]])
place = pathlib.Path(tempfile.mkdtemp())


def run(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True, cwd=place).stdout


def texts(seed):
    lines = run("problems", "--count", str(requests), "--seed", str(seed)).splitlines()
    return [json.loads(line)["problem"] for line in lines]


def started(*flags):
    server = subprocess.Popen([program, "serve", "--port", "0", *flags], cwd=place, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "listening on" in line:
            return server, line.split()[-1]
    sys.exit("the server has ended")


def seconds(url, problems, scraped):
    done = threading.Event()

    def scrape():
        while not done.wait(1):
            urllib.request.urlopen(f"{url}/metrics").read()

    def ask(text):
        data = json.dumps({"messages": [{"role": "user", "content": text}], "seed": 1}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            reply.read()

    if scraped:
        threading.Thread(target=scrape, daemon=True).start()
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, problems))
    spent = time.monotonic() - began
    done.set()
    return spent


def summary(name, ratios):
    ratios = sorted(ratios)
    cut = len(ratios) // 20
    least, most = ratios[cut], ratios[-1 - cut]
    print(f"{name}: median {statistics.median(ratios):.4f}, {least:.4f} to {most:.4f}, {len(ratios)} rounds")


(place / "reference.jsonl").write_text(run("problems", "--count", "500", "--seed", "1"))
run("solve", "reference.jsonl", "--quiet", "--out", "runs.jsonl")
(place / "few.jsonl").write_text(run("problems", "--count", "40", "--seed", "2"))
run("label", "few.jsonl", "--chains", "4", "--out", "labels.jsonl")
run("calibrate", "--data", "labels.jsonl", "--runs", "runs.jsonl", "--out", "calibration.json")
servers = [started("--reference", "calibration.json"), started(), started()]
(_, watched), (_, plain), (_, other) = servers
try:
    ratios = {"watched": [], "noise": []}
    for at in range(rounds):
        problems = texts(100 + at)
        name, url = ("noise", other) if at % 3 == 2 else ("watched", watched)
        pair = [(url, name == "watched"), (plain, False)]
        # The order changes from round to round, so that a slow spell does not always meet the same one.
        spent = [seconds(url, problems, scraped) for url, scraped in (pair if at % 2 else pair[::-1])]
        first, second = spent if at % 2 else spent[::-1]
        ratios[name].append(first / second)
        print(f"{name}: {first:.2f} s, {second:.2f} s without, ratio {first / second:.4f}", flush=True)
    for name, values in ratios.items():
        summary(name, values)
finally:
    for server, _ in servers:
        server.terminate()
        server.wait()
