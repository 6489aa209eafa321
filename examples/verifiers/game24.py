"""Verifies chains of the Game of 24 by the puzzle's own rules, and checks single steps.

    beamgen solve games.jsonl --verifier 'python3 examples/verifiers/game24.py' --verifier-open
    beamgen solve games.jsonl --checker-command 'python3 examples/verifiers/game24.py'    # vetoes illegal steps

A problem is "Make 24 of 4 9 10 13." A step is "13 - 9 = 4 (left: 4 4 10)". Every line is checked: its two numbers
are left, its arithmetic is right, and it says what is left. The last step may be a sentence, such as "The answer is 24."
"""

import json
import re
import sys
from fractions import Fraction

NUMBER = r"-?\d+(?:/[1-9]\d*)?"
STEP = re.compile(rf"({NUMBER}) ([-+*/]) ({NUMBER}) = ({NUMBER}) \(left: ({NUMBER}(?: {NUMBER})*)\)")


def fault(problem, steps, whole=True):
    """The first fault of a chain; None if it makes 24 or, where it is not whole, if every step so far is legal."""
    left = sorted(Fraction(number) for number in re.findall(r"\d+", problem.split(" of ")[1]))
    steps = [step.strip() for step in steps]
    moves = steps[:-1] if steps and not STEP.fullmatch(steps[-1]) else steps
    for at, step in enumerate(moves, 1):
        found = STEP.fullmatch(step)
        if not found:
            return f"step {at} is not a step of the game"
        first, second, result = (Fraction(found[group]) for group in (1, 3, 4))
        rest = list(left)
        for number in (first, second):
            if number not in rest:
                return f"step {at}: {number} is not left"
            rest.remove(number)
        if found[2] == "/" and second == 0:
            return f"step {at} divides by 0"
        value = {"+": first + second, "-": first - second, "*": first * second, "/": first / (second or 1)}[found[2]]
        if value != result:
            return f"step {at}: {first} {found[2]} {second} is {value}, not {result}"
        left = sorted([*rest, value])
        if sorted(Fraction(number) for number in found[5].split()) != left:
            return f"step {at}: left are {' '.join(map(str, left))}"
    told = re.findall(NUMBER, steps[-1]) if len(moves) < len(steps) else []
    if not whole and moves is steps:
        return None
    if len(left) > 1:
        return f"{len(left)} numbers are left"
    if told and Fraction(told[-1]) != left[0]:
        return f"left is {left[0]}, not {told[-1]}"
    return None if left == [24] or not whole else f"it makes {left[0]}"


def main():
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request["id"]}
        try:
            whole = request.get("kind") == "outcome"
            reason = fault(request["problem"], request["steps"], whole)
            right, wrong = ("right", "wrong") if whole else ("pass", "fail")
            answer |= {"verdict": wrong, "reason": reason} if reason else {"verdict": right}
        except (ArithmeticError, IndexError, ValueError) as error:
            cannot_tell = "unknown" if request.get("kind") == "outcome" else "abstain"
            answer |= {"verdict": cannot_tell, "reason": f"not a Game of 24: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
