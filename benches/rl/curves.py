"""Learning curves and tables of what run.sh beside this made: curves.py W (needs matplotlib, numpy).

Reads W/NAME-SEED/work/log.jsonl; writes W/curves.svg and .png, W/prm.svg and .png, and tables to the standard output.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np


def runs(folder):
    """By name: by seed, the updates and the measurements."""
    found = defaultdict(dict)
    for log in sorted(folder.glob("*-*/work/log.jsonl")):
        name, seed = log.parent.parent.name.rsplit("-", 1)
        lines = [json.loads(line) for line in log.open()]
        updates, measured = ([line for line in lines if line["kind"] == kind] for kind in ("update", "held-out"))
        if updates and measured:  # a run that was begun only has none
            found[name][int(seed)] = [updates, measured]
    return found


def curve(axis, seeds, kind, key, scale=1.0, **style):
    """The mean over seeds, and their range."""
    by_update = defaultdict(list)
    for lines in seeds.values():
        for line in lines[kind]:
            by_update[line["update"]].append(scale * line[key])
    updates = sorted(update for update, values in by_update.items() if len(values) == len(seeds))
    values = np.array([by_update[update] for update in updates])
    (line,) = axis.plot(updates, values.mean(axis=1), **style)
    if len(seeds) > 1:
        axis.fill_between(updates, values.min(axis=1), values.max(axis=1), color=line.get_color(), alpha=0.2, linewidth=0)


def finish(figure, axes, path):
    for axis in np.ravel(axes):
        axis.set_xlabel("updates")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    figure.tight_layout()
    for ending in ("svg", "png"):
        figure.savefig(f"{path}.{ending}", dpi=120)


def reached(lines, level):
    """The first measured update with that accuracy."""
    return next((line["update"] for line in lines if line["sampled"] >= level), None)


def table(found):
    print("| run | seeds | before | after | best | greedy after | 60 % at update | tokens a chain | cut | KL to the start | sampled/s | trained/s |")
    print("|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|")
    for name, seeds in found.items():
        updates = [lines[0] for lines in seeds.values()]
        held_out = [lines[1] for lines in seeds.values()]
        def percent(values):
            low, high = 100 * min(values), 100 * max(values)
            return f"{low:.1f}" if low == high else f"{100 * np.mean(values):.1f} ({low:.1f} to {high:.1f})"
        speed = lambda tokens, seconds: np.median([u[tokens] / max(u[seconds], 1e-9) for own in updates for u in own])
        last = [own[-1] for own in updates]
        at = ", ".join(str(reached(own, 0.6) or "-") for own in held_out)
        print(
            f"| {name} | {len(seeds)} | {percent([own[0]['sampled'] for own in held_out])}"
            f" | {percent([own[-1]['sampled'] for own in held_out])} | {percent([max(m['sampled'] for m in own) for own in held_out])}"
            f" | {percent([own[-1]['greedy'] for own in held_out])} | {at}"
            f" | {np.mean([u['length'] for u in last]):.0f} | {100 * np.mean([u['truncated'] for u in last]):.1f} %"
            f" | {np.mean([u['kl_reference'] for u in last]):.3f}"
            f" | {speed('rollout_tokens', 'rollout_seconds'):,.0f} | {speed('training_tokens', 'training_seconds'):,.0f} |"
        )
    worst = max(u["mismatch_max"] for seeds in found.values() for lines in seeds.values() for u in lines[0])
    print(f"\nEngine and trainer, largest difference in the log-probability of a step, all updates of all runs: {worst:.1e}")


def benches(folder):
    rows = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("bench-*/rows.jsonl")):
        for line in path.open():
            row = json.loads(line).get("row")
            if row:
                cell = rows[path.parent.name.removeprefix("bench-")][row["run"], row["n"]]
                cell.append((float(row["correct"]), row["ledger"]["generated_tokens"]))
    if not rows:
        return
    cells = list(next(iter(rows.values())))
    print("\n| strategy | N | " + " | ".join(f"{policy}, % | tokens" for policy in rows) + " |")
    print("|---|---:|" + "---:|---:|" * len(rows))
    for strategy, n in cells:
        shown = [np.mean(policy[strategy, n], axis=0) for policy in rows.values()]
        print(f"| {strategy} | {n} | " + " | ".join(f"{100 * right:.1f} | {tokens:,.0f}" for right, tokens in shown) + " |")


def main():
    folder = Path(sys.argv[1])
    found = runs(folder)
    table(found)
    benches(folder)
    of_outcomes = {name: seeds for name, seeds in found.items() if not name.startswith("prm-")}
    of_prm = {name: seeds for name, seeds in found.items() if name.startswith("prm-")}
    if of_outcomes:
        # Logs of older builds lack it.
        audited = all(line.get("unsound") is not None for seeds in of_outcomes.values() for own in seeds.values() for line in own[1])
        figure, axes = plt.subplots(1, 3 + audited, figsize=(13 + 4 * audited, 3.8))
        for name, seeds in of_outcomes.items():
            if audited:
                curve(axes[3], seeds, 1, "unsound", 100, label=name)
            curve(axes[0], seeds, 1, "sampled", 100, label=name)
            curve(axes[1], seeds, 0, "entropy", label=name)
            curve(axes[2], seeds, 0, "kl_reference", label=name)
        for axis, title in zip(axes, ("held-out accuracy of a single sample, %", "entropy, nats a token", "KL to the start, nats a token",
                                       "right samples with a wrong step, %")):
            axis.set_title(title, fontsize="medium")
        finish(figure, axes, folder / "curves")
    if of_prm:
        figure, axes = plt.subplots(1, 3, figsize=(13, 3.8))
        for name, seeds in of_prm.items():
            curve(axes[0], seeds, 1, "sampled", 100, label=name)
            curve(axes[1], seeds, 0, "reward", label=name)
            curve(axes[2], seeds, 0, "length", label=name)
        for axis, title in zip(axes, ("gold: held-out accuracy of a single sample, %", "reward of a chain", "tokens of a chain")):
            axis.set_title(title, fontsize="medium")
        finish(figure, axes, folder / "prm")


main()
