"""Writes traces of the Game of 24 with thoughts: python3 think.py GAMES OUT [--traces N] [--seed S]

A thought tries ways, each closed by "No." or "Yes.", until one makes 24; the answer repeats that one. Of ten traces two have an empty thought and two a thought
that is cut anywhere, so that the model answers whatever a budget leaves of its thought. Such a thought stands in the problem, after which think.jinja opens no
other: the model learns the answer after it, not to end its own thoughts there. GAMES is game24.csv; the games 801 to 1,000 have no traces.
"""

import argparse
import csv
import json
import pathlib
import random

from prepare import DEV, TEST, problem, trace
from rules import moves, ways

CLOSE = "</think>\n\n"


def attempt(random, numbers, largest=30):
    """Three legal steps. Those that leave more ways to 24 are likelier, but any may come."""
    left, lines = list(numbers), []
    while len(left) > 1:
        choices = sorted(set(moves(left)))
        choices = [c for c in choices if c[3] <= largest] or choices
        weights = [ways((*rest, result), largest) + 0.2 for *_, result, rest in choices]
        a, op, b, result, rest = random.choices(choices, weights)[0]
        left = sorted([*rest, result])
        lines.append(f"{a} {op} {b} = {result} (left: {' '.join(map(str, left))})")
    return "\n".join(lines), left[0] == 24


def thought(random, numbers, most=8):
    """Ways that fail, then one that does not, and that one; None if none of `most` makes 24."""
    tried, text = set(), ""
    while len(tried) < most:
        lines, is_right = attempt(random, numbers)
        if lines in tried:
            continue
        tried.add(lines)
        text += f"{lines}\n{'Yes' if is_right else 'No'}.\n"
        if is_right:
            return text, lines
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--traces", type=int, default=2400)
    parser.add_argument("--seed", type=int, default=24)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with open(args.games, encoding="utf-8", newline="") as file:
        games = {int(row["Rank"]): tuple(sorted(map(int, row["Puzzles"].split()))) for row in csv.DictReader(file)}
    held = {games[rank] for rank in (*DEV, *TEST)}
    learnt = [numbers for numbers in games.values() if numbers not in held]
    with open(args.out, "w", encoding="utf-8") as file:
        count = 0
        while count < args.traces:
            numbers = rng.choice(learnt)
            found = thought(rng, numbers)
            if found is None:
                continue
            text, right = found
            kind = rng.choices(["whole", "empty", "cut"], [6, 2, 2])[0]
            prompt, text, answer = problem(numbers), text + CLOSE, right + "\nThe answer is 24."
            if kind != "whole":
                answer = trace(rng, numbers, True, 30)
                if answer is None:
                    continue
                # A thought that is turned off is closed on a line of its own.
                cut = "\n" if kind == "empty" else text[: rng.randrange(len(text) - len(CLOSE))]
                prompt, text = f"{prompt}\n<think>\n{cut}{CLOSE.rstrip()}\n", ""
            file.write(json.dumps({"problem": prompt, "solution": text + answer}) + "\n")
            count += 1
    print(f"{args.out}: {count}")


if __name__ == "__main__":
    main()
