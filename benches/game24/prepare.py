"""Writes the files of the Game of 24: python3 prepare.py GAMES OUT [--traces N N] [--seed S]

GAMES is game24.csv of princeton-nlp/tree-of-thought-llm (MIT): 1,362 games by difficulty. OUT gets:

  sft-1.jsonl   problems and traces of the training games: valid arithmetic, right and wrong ends
  sft-2.jsonl   more of them, with results up to 30
  label.jsonl   the training games in random order, for rollouts and reinforcement learning
  dev.jsonl     games 801 to 900, for choices; nothing is trained on them
  test.jsonl    games 901 to 1,000, for final rows

The training games are all others. The 458 quadruples of 1 to 13 that no rule makes 24 of have traces, too, all with a wrong end, so that the model says what it
reached and does not always say 24. Numbers are written in ascending order, as in the prompts of Tree of Thoughts.
"""

import argparse
import csv
import itertools
import json
import math
import pathlib
import random

from rules import moves, ways

DEV, TEST = range(801, 901), range(901, 1001)


def problem(numbers):
    return f"Make 24 of {' '.join(map(str, numbers))}."


def trace(random, numbers, right, largest):
    """
    A chain of legal steps: towards 24 (right), where a step's chance grows with the square of the ways that it leaves, or any steps. Results are up to `largest`,
    where that is possible. None if no such chain makes 24.
    """
    left, lines = list(numbers), []
    while len(left) > 1:
        choices = sorted(set(moves(left)))
        choices = [c for c in choices if c[3] <= largest] or choices
        weights = [ways((*rest, result), largest) ** 2 if right else 1 for *_, result, rest in choices]
        if not any(weights):
            return None
        a, op, b, result, rest = random.choices(choices, weights)[0]
        left = sorted([*rest, result])
        lines.append(f"{a} {op} {b} = {result} (left: {' '.join(map(str, left))})")
    lines.append(f"The answer is {left[0]}.")
    return "\n".join(lines)


def traces(random, count, solved, unsolvable, largest):
    """
    Problems with traces: eight of ten are right, one is wrong, and one is of a game without a solution. A trace may come again: there are only some 11,000 right ones,
    so traces that must differ would mostly be wrong.
    """
    found = []
    while len(found) < count:
        kind = random.choices(range(3), [8, 1, 1])[0]
        numbers = random.choice(unsolvable if kind == 2 else solved)
        if text := trace(random, numbers, kind == 0, largest[kind]):
            found.append({"problem": problem(numbers), "solution": text})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--traces", type=int, nargs=2, default=(6000, 10000), metavar="N")
    parser.add_argument("--seed", type=int, default=24)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)

    with open(args.games, encoding="utf-8", newline="") as file:
        games = {int(row["Rank"]): tuple(map(int, row["Puzzles"].split())) for row in csv.DictReader(file)}
    games = {rank: tuple(sorted(numbers)) for rank, numbers in games.items()}
    held = {games[rank] for rank in (*DEV, *TEST)}
    learnt = [numbers for numbers in games.values() if numbers not in held]
    unsolvable = sorted(set(itertools.combinations_with_replacement(range(1, 14), 4)) - set(games.values()))
    # Small numbers come last: they are easier to compute with, and nearly all games can be won with results up to 30.
    first = traces(rng, args.traces[0], learnt, unsolvable, [math.inf, 100, 100])
    second = traces(rng, args.traces[1], learnt, unsolvable, [30, 30, 30])

    def write(name, rows):
        with open(args.out / name, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{args.out / name}: {len(rows)}")

    def game(name, numbers):
        return {"id": f"g24-{name}", "problem": problem(numbers), "answer": "24"}

    write("sft-1.jsonl", first)
    write("sft-2.jsonl", second)
    write("label.jsonl", [game(f"train-{i}", numbers) for i, numbers in enumerate(rng.sample(learnt, len(learnt)))])
    for name, ranks in (("dev", DEV), ("test", TEST)):
        write(f"{name}.jsonl", [game(rank, games[rank]) for rank in ranks])


if __name__ == "__main__":
    main()
