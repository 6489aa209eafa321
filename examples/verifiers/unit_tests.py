"""Judges code by unit tests that it cannot fool: a JSON line in, a JSON line out.

    {"id": 17, "kind": "outcome", "problem": "...", "steps": ["..."], "answer": "...", "reference": "assert add(1, 2) == 3"}
    {"id": 17, "verdict": "right", "reason": "", "passed": 1, "total": 1}

The candidate is the last fence ```python of the steps. `reference` is Python with assertions; names that it neither
defines nor has built in are functions of the candidate. The two never share a process. Each runs in a sandbox of its own
(docs/rewards/sandbox.md), and this program carries calls and results between them, as plain data: numbers, strings, None,
lists, tuples, dicts and sets. So the candidate cannot end the tests, change what `assert` does, return an object that is
equal to everything, or read the tests.

`verdict` is `right` if the tests ran to their end and every assertion on the way held, `unknown` if the tests are at fault,
and otherwise `wrong`: a candidate that ends early, runs into a limit or returns something else than plain data is wrong.

Options: `--sandbox none` runs code without protection.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sandboxed import LIMITS, prefix  # noqa: E402

MAX_LINE = 1 << 20  # bytes of a call or a result

# Both sides have these two: plain data as JSON, with tags for what JSON lacks.
DATA = r'''
import json

def pack(value, depth=0):
    kind = type(value)
    if depth > 50:
        raise TypeError("data nested too deeply")
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple, set):
        return {kind.__name__: [pack(item, depth + 1) for item in value]}
    if kind is dict:
        return {"dict": [[pack(key, depth + 1), pack(item, depth + 1)] for key, item in value.items()]}
    raise TypeError(f"{kind.__name__} is not plain data")

def unpack(value):
    if not isinstance(value, dict):
        return value
    (kind, items), = value.items()
    if kind == "dict":
        return {unpack(key): unpack(item) for key, item in items}
    return {"list": list, "tuple": tuple, "set": set}[kind](unpack(item) for item in items)
'''

# The candidate's process: executes the code, then answers calls.
CANDIDATE = DATA + r'''
import os, sys

lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
null = os.open("/dev/null", os.O_RDWR)
os.dup2(null, 0), os.dup2(null, 1), os.dup2(null, 2)
space = {"__name__": "candidate"}

def answer(result):
    answers.write(json.dumps(result) + "\n")
    answers.flush()

try:
    exec(compile(json.loads(lines.readline()), "candidate", "exec"), space)
except BaseException as error:
    answer({"raised": type(error).__name__, "message": str(error)[:200]})
else:
    answer({"ready": True})
for line in lines:
    call = json.loads(line)
    try:
        given, named = unpack(call["given"]), unpack(call["named"])
        result = space[call["name"]](*given, **named)
        answer({"result": pack(result), "given": pack(given)})
    except BaseException as error:
        answer({"raised": type(error).__name__, "message": str(error)[:200]})
'''

# The tests' process: each assertion is a call of `check`, so that one that fails does not hide the next.
TESTS = DATA + r'''
import ast, builtins, os, sys

# What the tests print is not part of what they say here.
said = os.fdopen(os.dup(1), "w")
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
tests = json.loads(sys.stdin.readline())
held, faults, count = {}, [], 0

class Failed(Exception):
    """An exception of the candidate that is not built in."""

def say(what):
    print(json.dumps(what), file=said, flush=True)

def ask(name, given, named):
    say({"name": name, "given": pack(list(given)), "named": pack(dict(named))})
    reply = json.loads(sys.stdin.readline())
    if "raised" in reply:
        kind = getattr(builtins, str(reply["raised"]), None)
        known = isinstance(kind, type) and issubclass(kind, Exception)
        raise kind(reply.get("message")) if known else Failed(f"{reply['raised']}: {reply.get('message')}")
    for mine, theirs in zip(given, unpack(reply["given"])):
        # A function may change a list that it was given.
        if type(mine) is type(theirs) is list:
            mine[:] = theirs
        elif type(mine) is type(theirs) and type(mine) in (dict, set):
            mine.clear(), mine.update(theirs)
    return unpack(reply["result"])

def check(index, value):
    held[index] = held.get(index, True) and bool(value)

class Numbered(ast.NodeTransformer):
    def visit_Assert(self, node):
        global count
        count += 1
        call = ast.Call(ast.Name("__check", ast.Load()), [ast.Constant(count), node.test], [])
        return ast.copy_location(ast.Expr(call), node)

try:
    tree = ast.parse(tests)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    own |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler))}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {(name.asname or name.name).split(".")[0] for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom)) for name in node.names}
    space = {"__name__": "tests", "__check": check}
    for name in {node.id for node in names} - own:
        space[name] = lambda *given, _name=name, **named: ask(_name, given, named)
    statements = [ast.fix_missing_locations(Numbered().visit(statement)) for statement in tree.body]
    codes = [compile(ast.Module([statement], []), "tests", "exec") for statement in statements]
except (SyntaxError, ValueError, RecursionError) as error:
    say({"fault": f"{type(error).__name__}: {error}"})
    sys.exit()
for code in codes:
    try:
        exec(code, space)
    except Exception as error:
        faults.append(f"{type(error).__name__}: {error}"[:200])
# An assertion may stand where a right candidate never leads, such as after a call that has to raise.
total = max(count, len(held)) if faults else len(held)
say({"passed": sum(held.values()), "total": total, "written": count, "faults": faults[:1]})
'''


class Process:
    """A Python in a sandbox of its own, spoken to by lines."""

    def __init__(self, words, code, first):
        self.process = subprocess.Popen(
            [*words, sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        self.send(json.dumps(first))

    def send(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # It has ended, which the next line tells.

    def line(self):
        """The next line as JSON; None after the end, or for something else."""
        line = self.process.stdout.readline(MAX_LINE)
        try:
            value = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def end(self):
        """Ends it; the reason why it ended by itself."""
        try:
            self.process.stdin.close()
        except OSError:
            pass  # It has ended before it read everything.
        try:
            code = self.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            # The sandbox ends with this process, and the program with the sandbox.
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return LIMITS.get(code, f"exit code {code}")


def judge(words, code, tests):
    """Runs the tests against the code; verdict, reason, and the numbers of assertions."""
    candidate = Process(words, CANDIDATE, code)
    tester = Process(words, TESTS, tests)
    lost = candidate.line() is None
    report = None
    while report is None:
        said = tester.line()
        if said is None or "name" not in said:
            report = said or {}
            break
        candidate.send(json.dumps(said))
        answer = None if lost else candidate.line()
        if answer is None:
            lost = True
            answer = {"raised": "Ended", "message": "the candidate ended"}
        tester.send(json.dumps(answer))
    why_candidate, why_tests = candidate.end(), tester.end()
    passed, total = report.get("passed", 0), report.get("total", 0)
    if "total" in report and passed == total > 0 and not report["faults"]:
        return "right", "", passed, total
    if "fault" in report:
        return "unknown", f"the tests cannot be read: {report['fault']}", 0, 0
    if lost:
        return "wrong", f"the candidate ended early ({why_candidate})", passed, total
    if "total" not in report:
        return "unknown", f"the tests ended early ({why_tests})", 0, 0
    if report["written"] == 0:
        return "unknown", "the tests assert nothing", 0, 0
    if total == 0:
        return "wrong", "no assertion was reached", 0, 0
    return "wrong", next(iter(report["faults"]), f"{total - passed} assertions failed"), passed, total


def main(arguments):
    words = prefix(arguments, cpu=10, wall=20, processes=16, output=16 << 20)
    for line in sys.stdin:
        try:
            request = json.loads(line)
            identity, steps, tests = request["id"], request["steps"], request["reference"]
            text = "\n".join(steps)
        except (ValueError, KeyError, TypeError):
            continue  # not a request, so there is no id to answer
        codes = re.findall(r"^```python[ \t]*\n(.*?)^```[ \t]*$", text, re.MULTILINE | re.DOTALL)
        if request.get("kind", "outcome") != "outcome":
            verdict = "unknown", "judges outcomes only", 0, 0
        elif not isinstance(tests, str) or not tests.strip():
            verdict = "unknown", "no tests", 0, 0
        elif not codes:
            verdict = "wrong", "no code", 0, 0
        else:
            verdict = judge(words, codes[-1], tests)
        names = ("verdict", "reason", "passed", "total")
        print(json.dumps({"id": identity, **dict(zip(names, verdict))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
