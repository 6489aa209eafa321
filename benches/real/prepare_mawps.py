"""Parts of MAWPS for mawps.sh: python3 prepare_mawps.py DATA OUT MOST

DATA holds mawps.jsonl (input, target). No text is in two parts but for label.jsonl. OUT gets, with MOST problems each at most:
  rl.jsonl, rl-held.jsonl     the easy ones: at most two numbers, all of them and the answer whole and at most 30
  test.jsonl                  of the others: the measurement
  cal.jsonl                   labels of steps to calibrate by
  risk.jsonl, check.jsonl     runs that give thresholds, and runs that check them
  label.jsonl                 labels of steps to train reward models on: what is left, and rl.jsonl again
"""

import pathlib
import random
import re
import sys

from prepare import objects, write

PARTS = {"test": 150, "cal": 100, "risk": 250, "check": 250}
HELD = 80


def is_easy(problem, answer):
    numbers = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", problem)]
    return 0 < len(numbers) <= 2 and all(n == int(n) and n <= 30 for n in [*numbers, float(answer)])


def main(data, out, most):
    data, out, most = pathlib.Path(data), pathlib.Path(out), int(most)
    out.mkdir(parents=True, exist_ok=True)
    seen, easy, others = set(), [], []
    for i, row in enumerate(objects((data / "mawps.jsonl").read_text(encoding="utf-8"))):
        problem, answer = row["input"].strip(), str(row["target"])
        text = " ".join(problem.lower().split())
        if text not in seen:
            seen.add(text)
            part = easy if is_easy(problem, answer) else others
            part.append({"id": f"mawps-{i}", "problem": problem, "answer": answer})
    draw = random.Random(5)
    draw.shuffle(easy)
    draw.shuffle(others)
    parts = {"rl-held": easy[:HELD], "rl": easy[HELD:]}
    for name, count in PARTS.items():
        parts[name], others = others[:count], others[count:]
    parts["label"] = easy[HELD:] + others
    for name, problems in parts.items():
        write(out / f"{name}.jsonl", problems[:most])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
