#!/usr/bin/env python3
"""Times a search over vLLM's servers: ours against search-and-learn's procedure over the very same server, and with and without
keeping a problem at one server. Prints tables in Markdown.

    benches/servers/measure.py --vllm VENV --models W/models --scripts ../shared/peers > table.md

VENV has vLLM for CPUs (the scripts' README), `--models` the folders of `make_models.py --preset small`. The engines take turns; a figure
is the median over all problems of all rounds, with the lowest and the highest. Seconds of processor time are per problem, of the client
(with the model it runs itself) and of all servers.
"""
import argparse
import http.server
import json
import os
import pathlib
import shutil
import signal
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
ap.add_argument("--vllm", type=pathlib.Path, required=True)
ap.add_argument("--models", type=pathlib.Path, required=True)
ap.add_argument("--scripts", type=pathlib.Path, default=ROOT.parent / "shared/peers")
ap.add_argument("--beamgen", type=pathlib.Path, default=ROOT / "target/release/beamgen", help="built with --features remote")
ap.add_argument("--problems", type=pathlib.Path, default=ROOT / "benches/peers/problems.jsonl")
ap.add_argument("--many", type=pathlib.Path, default=ROOT.parent / "shared/data/gsm8k_test.jsonl", help="problems of the second table")
ap.add_argument("--rounds", type=int, default=2)
ap.add_argument("--widths", default="16,64")
ap.add_argument("--tables", default="12", help="which of the two")
ap.add_argument("--share", type=int, default=20, help="problems of a row of the second table")
a = ap.parse_args()

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
STEPS, TOKENS, LIMIT = 6, 24, 5
GEN, PRM = a.models / "small-qwen2-gen", a.models / "small-qwen2-prm-tok"


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Server:
    def __init__(self, port, model, *flags):
        self.url, self.log = f"http://127.0.0.1:{port}", tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "2",
                       "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        libraries = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout.splitlines()
        preload = [line.split("=> ")[1] for line in libraries if "libtcmalloc_minimal.so.4 " in line][:1]
        preload += [str(a.vllm / "lib/libiomp5.so")] if (a.vllm / "lib/libiomp5.so").exists() else []
        environment["LD_PRELOAD"] = ":".join(preload)
        self.process = subprocess.Popen(
            [a.vllm / "bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--port", str(port), "--dtype", "float32",
             "--block-size", "32", "--enforce-eager", "--max-model-len", "4096", *flags],
            env=environment, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=2)
                return self
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{self.log.name}: the server ended\n" + pathlib.Path(self.log.name).read_text()[-3000:])
                time.sleep(1)
        sys.exit(f"{self.log.name}: the server does not come up")

    def counters(self):
        """Prompt tokens, those found in the cache, requests; seconds of processor time."""
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        total = lambda name: sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))
        counted = [total("vllm:prefix_cache_queries_total"), total("vllm:prefix_cache_hits_total"), total("vllm:request_success_total")]
        return [*counted, processor_time(self.process.pid)]

    def stop(self):
        os.killpg(self.process.pid, 9)


def processor_time(root):
    """Of a process and those below it."""
    parents, times = {}, {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        pid = int(entry.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        times[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    todo, total = [root], 0
    while todo:
        pid = todo.pop()
        todo += parents.get(pid, [])
        total += times.get(pid, 0)
    return total


def used(servers, run):
    """What `run` returns, its own processor time, and what the servers counted meanwhile."""
    before, children = [s.counters() for s in servers], os.times()
    result = run()
    after, mine = [s.counters() for s in servers], os.times()
    own = mine.children_user + mine.children_system - children.children_user - children.children_system
    return result, own, [sum(x[i] - y[i] for x, y in zip(after, before)) for i in range(4)]


def beamgen(*flags, problems=None, limit=LIMIT, in_flight=1, n=16, steps=STEPS):
    command = [a.beamgen, "solve", problems or a.problems, "--config", ROOT / "configs/search/fixed-length.toml", "-n", n, "-m", 4,
               "--max-steps", steps, "--set", f"generator.step_tokens={TOKENS}", "--temperature", "0.8", "--set",
               f"generator.system_prompt={SYSTEM}", "--in-flight", in_flight, "--limit", limit, "--json", "--quiet", *flags]
    command = [str(word) for word in command]
    begin = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {ran.returncode}\n{ran.stderr}")
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    seconds = [line["ledger"]["seconds"] for line in lines if "ledger" in line and "id" in line]
    return seconds, lines, time.monotonic() - begin


def search_and_learn(url, n):
    """Its script over a server: a module `vllm` whose LLM asks that server."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(pathlib.Path(__file__).parent / "vllm_over_http.py", pathlib.Path(folder) / "vllm.py")
        ran = subprocess.run(
            [str(a.vllm / "bin/python"), str(a.scripts / "sal_pipeline.py"), "--backend", "vllm", "--gen", str(GEN), "--prm", str(PRM),
             "--n", str(n), "--beam-width", "4", "--max-steps", str(STEPS), "--step-tokens", str(TOKENS), "--problems", str(a.problems),
             "--limit", str(LIMIT)],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder, "SERVER_URL": url, "HF_HUB_OFFLINE": "1"})
    if ran.returncode != 0:
        sys.exit(f"sal_pipeline.py: exit {ran.returncode}\n{ran.stderr[-3000:]}")
    result = json.loads([line for line in ran.stdout.splitlines() if line.startswith("{")][-1])
    say({name: result[name] for name in ["seconds_per_problem", "gen_seconds", "prm_seconds", "other_seconds"]})
    return result


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def first_table(generator, scorer):
    local = ["--threads", 2, "--dtype", "f32"]
    ours = {
        "beamgen, generator there, PRM here": ["--generator-url", generator.url, "--prm", PRM, *local],
        "beamgen, both there": ["--generator-url", generator.url, "--prm-url", scorer.url, "--prm", PRM],
        "beamgen, both here": ["--generator", GEN, "--prm", PRM, *local],
    }
    print(f"| N | what | seconds a problem | processor: client | processor: servers | requests | prompt tokens | cached there |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for n in map(int, a.widths.split(",")):
        rows = {}
        for turn in range(a.rounds):
            for name in ["search-and-learn, generator there, PRM here", *ours]:
                say(f"round {turn + 1}, N = {n}: {name}")
                if name in ours:
                    run = lambda: beamgen(*ours[name], n=n)[0]
                    problems = LIMIT
                else:
                    run = lambda: search_and_learn(generator.url, n)
                    problems = LIMIT + 1  # it warms up with one
                result, own, counted = used([generator, scorer], run)
                seconds = result if isinstance(result, list) else result["seconds"]
                rows.setdefault(name, []).append((seconds, own / problems, [x / problems for x in counted]))
        for name, runs in rows.items():
            seconds = [second for run in runs for second in run[0]]
            mean = lambda pick: statistics.mean(pick(run) for run in runs)
            asked, hit, requests, server = (mean(lambda run: run[2][i]) for i in range(4))
            cached = f"{hit / asked:.0%}" if asked else ""
            print(f"| {n} | {name} | {spread(seconds)} | {mean(lambda run: run[1]):.2f} | {server:.2f} | {requests:.0f} | {asked:.0f} | {cached} |",
                  flush=True)


class Balancer(http.server.BaseHTTPRequestHandler):
    """Gives each request to the next server, as a router does that knows nothing of problems."""
    protocol_version = "HTTP/1.1"
    urls, turn = [], 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        Balancer.turn += 1
        request = urllib.request.Request(self.urls[Balancer.turn % len(self.urls)] + self.path, data=body or None,
                                         headers={"Content-Type": "application/json"}, method=self.command)
        try:
            with urllib.request.urlopen(request) as answer:
                status, data, kind = answer.status, answer.read(), answer.headers.get("Content-Type")
        except urllib.error.HTTPError as error:
            status, data, kind = error.code, error.read(), error.headers.get("Content-Type")
        self.send_response(status)
        self.send_header("Content-Type", kind or "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST

    def log_message(self, *_):
        pass


class Threads(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 512


def second_table(servers):
    Balancer.urls = [server.url for server in servers]
    balancer = Threads(("127.0.0.1", 0), Balancer)
    threading.Thread(target=balancer.serve_forever, daemon=True).start()
    rotating = f"http://127.0.0.1:{balancer.server_port}"
    print("| two generators | seconds in all | requests a problem | prompt tokens a problem | cached there |")
    print("|---|---:|---:|---:|---:|")
    pinned = ",".join(server.url for server in servers)
    for turn in range(a.rounds):
        for name, url in [("a problem stays with one", pinned), ("each request goes to the next", rotating)]:
            say(f"round {turn + 1}: {name}")
            # Other problems each time: those of before are cached.
            flags = ["--generator-url", url, "--prm", PRM, "--dtype", "f32", "--threads", 2, "--seed", turn]
            with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as part:
                begin = a.share * (2 * turn + (url == rotating))
                part.writelines(open(a.many).readlines()[begin:begin + a.share])
                part.flush()
                run = lambda: beamgen(*flags, problems=part.name, limit=a.share, in_flight=4, steps=8)[2]
                seconds, _, (asked, hit, requests, _) = used(servers, run)
            print(f"| {name} | {seconds:.1f} | {requests / a.share:.0f} | {asked / a.share:.0f} | {hit / asked:.1%} |", flush=True)


# Ended from outside, it ends its servers, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
generator = ("--enable-prompt-tokens-details",)
servers = [Server(8100, GEN, *generator)]
try:
    if "1" in a.tables:
        servers.append(Server(8110, PRM, "--runner", "pooling", "--pooler-config", '{"task": "classify"}'))
        for server in servers:
            server.wait()
        first_table(*servers)
        servers.pop().stop()
        print()
    if "2" in a.tables:
        servers.append(Server(8101, GEN, *generator))
        for server in servers:
            server.wait()
        second_table(servers)
finally:
    for server in servers:
        server.stop()
