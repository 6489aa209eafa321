"""The bundled pair on the CPU and on the card: scores of the same chains, and what a search makes of the same problems.

    python3 benches/gpu/parity.py BEAMGEN [PROBLEMS]

Exits with 1 if float32 scores differ by more than 1e-4, or accuracies by more than chance.
"""

import json
import math
import subprocess
import sys
import tempfile

beamgen, count = sys.argv[1], int((sys.argv[2:] or [200])[0])
EXACT = ["--dtype", "f32", "--kv-dtype", "f32"]


def ran(*args):
    return subprocess.run([beamgen, *args], check=True, text=True, stdout=subprocess.PIPE).stdout


def scores(chains, device, flags):
    lines = ran("score", chains, "--device", device, *flags).splitlines()
    return [score for line in lines for score in json.loads(line)["scores"]]


def right(problems, device, flags):
    lines = ran("solve", problems, "--device", device, "--json", "--quiet", *flags).splitlines()
    return json.loads(lines[-1])["summary"]["correct"]


failed = False
with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as chains, tempfile.NamedTemporaryFile("w", suffix=".jsonl") as problems:
    chains.write(ran("problems", "--steps", "--count", str(count), "--seed", "9"))
    problems.write(ran("problems", "--count", str(count), "--seed", "9"))
    chains.flush(), problems.flush()
    for name, flags, most in [("float32", EXACT, 1e-4), ("as checkpoint and device have it", [], None)]:
        cpu, cuda = (scores(chains.name, device, flags) for device in ("cpu", "cuda"))
        worst = max(abs(a - b) for a, b in zip(cpu, cuda, strict=True))
        print(f"PRM scores, {name}: {len(cpu)} steps, largest difference {worst:.2e}")
        failed |= most is not None and worst > most
        cpu, cuda = (right(problems.name, device, flags) for device in ("cpu", "cuda"))
        # Two independent samples, to be on the safe side.
        p = (cpu + cuda) / (2 * count)
        chance = 1.96 * math.sqrt(2 * count * p * (1 - p))
        print(f"solve, {name}: {cpu} of {count} right on the cpu, {cuda} on the card (chance: {chance:.0f})")
        failed |= abs(cpu - cuda) > max(chance, 1)
sys.exit(failed)
