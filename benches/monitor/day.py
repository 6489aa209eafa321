"""A simulated day of a server that is watched: calm requests raise no alarm, shifted ones do.

    python3 benches/monitor/day.py PROGRAM [CALM] [SHIFTED] [GENERATOR]

Makes a reference of 500 searches, serves CALM fresh problems of the same kind (5,000 by default) to 16 clients, and then
SHIFTED (600) requests of each kind of shift: problems of seven people, and chains sampled at a temperature of 1.5. Last,
SHIFTED problems are solved with GENERATOR under the same reward model, and `beamgen monitor` compares the run. After each 500 requests it prints the largest statistic as a
share of its bound, and the quantities above a bound.
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

program = sys.argv[1]
calm, shifted = (int(word) for word in [*sys.argv[2:4], *["5000", "600"][len(sys.argv[2:4]) :]])
others = [str(pathlib.Path(word).resolve()) for word in sys.argv[4:5]]
prm = pathlib.Path(__file__).resolve().parents[2] / "models/abacus/prm"
place = pathlib.Path(tempfile.mkdtemp())


def run(*arguments, stdin=None):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, cwd=place, input=stdin)
    return done.stdout


def problems(count, seed, *flags):
    lines = run("problems", "--count", str(count), "--seed", str(seed), *flags).splitlines()
    return [json.loads(line)["problem"] for line in lines]


(place / "reference.jsonl").write_text(run("problems", "--count", "500", "--seed", "1"))
run("solve", "reference.jsonl", "--quiet", "--out", "runs.jsonl")
(place / "few.jsonl").write_text(run("problems", "--count", "40", "--seed", "2"))
run("label", "few.jsonl", "--chains", "4", "--out", "labels.jsonl")
run("calibrate", "--data", "labels.jsonl", "--runs", "runs.jsonl", "--out", "calibration.json")


def started(*flags):
    server = subprocess.Popen(
        [program, "serve", "--port", "0", "--reference", "calibration.json", *flags],
        cwd=place, stderr=subprocess.PIPE, text=True,
    )
    for line in server.stderr:
        print("server:", line.strip())
        if "listening on" in line:
            return server, line.split()[-1]
    sys.exit("the server has ended")


def ask(text, **own):
    body = {"messages": [{"role": "user", "content": text}], "beamgen": own}
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        reply.read()


def drift():
    text = urllib.request.urlopen(f"{url}/metrics").read().decode()
    found = dict(re.findall(r"^(beamgen_drift_\S+) (\S+)$", text, re.M))
    value = lambda name, quantity: float(found[f'beamgen_drift_{name}{{model="beamgen",quantity="{quantity}"}}'])
    quantities = re.findall(r'^beamgen_drift_psi{model="beamgen",quantity="(\w+)"}', text, re.M)
    most = max(
        (value(of, quantity) / value(f"{of}_bound", quantity), f"{of} of {quantity}")
        for of in ("psi", "ks")
        for quantity in quantities
    )
    return most, [quantity for quantity in quantities if value("alarm", quantity)]


def serve(name, texts, **own):
    alarms = 0
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for at in range(0, len(texts), 500):
            list(pool.map(lambda text: ask(text, **own), texts[at : at + 500]))
            (share, which), above = drift()
            alarms += bool(above)
            print(f"{name} {at + len(texts[at : at + 500])}: {share:.2f} of its bound ({which}); above: {', '.join(above) or '-'}")
    print(f"{name}: {len(texts)} requests in {time.monotonic() - began:.0f} s, alarms at {alarms} of {-(-len(texts) // 500)} readings")
    return alarms


server, url = started()
try:
    assert serve("calm", problems(calm, 3)) == 0
    assert serve("seven people", problems(shifted, 4, "--min-people", "7", "--max-people", "7")) > 0
    assert serve("calm again", problems(1000, 5)) <= 2  # the window still has shifted requests at first
    assert serve("temperature 1.5", problems(shifted, 6), temperature=1.5) > 0
finally:
    server.terminate()
    server.wait()
for other in others:
    # `--prm bundled` is for the bundled generator only; this one writes with the same tokens.
    models = ["--generator", other, "--prm", str(prm), "--prm-format", "step-token"]
    # A server knows its models and refuses the reference of others. Their run files can be compared all the same.
    refused = subprocess.run(
        [program, "serve", "--port", "0", "--reference", "calibration.json", *models], cwd=place, capture_output=True, text=True
    )
    print(refused.stderr.splitlines()[-1])
    assert refused.returncode == 2
    (place / "others.jsonl").write_text(run("problems", "--count", str(shifted), "--seed", "7"))
    run("solve", "others.jsonl", *models, "--quiet", "--out", "others-run.jsonl")
    compared = subprocess.run(
        [program, "monitor", "calibration.json", "others-run.jsonl"], cwd=place, capture_output=True, text=True
    )
    print(compared.stdout + compared.stderr)
    assert compared.returncode == 1
