"""What concerns the process: Ctrl-C, fork, threads at its end, examples and types."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import beamgen
import pytest
from conftest import PENS, ROOT

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def python(code: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)


INTERRUPTED = f"""
import signal, sys, time
# As at a terminal: a process that was started in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
import beamgen
solver = beamgen.Solver()
alone = solver.solve({PENS!r})
began = time.monotonic()
try:
    print("ready", flush=True)
    CALL
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("not interrupted", flush=True)
again = solver.solve({PENS!r})
print(again.steps == alone.steps, flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        # So many chains that it lasts.
        f"solver.solve({PENS!r}, n=8192, m=2, timeout=100)",
        f"list(solver.solve_all([{PENS!r}] * 100000, n=64))",
        f"list(solver.stream({PENS!r}, n=8192, m=2, timeout=100))",
        f"beamgen.bench([{{'problem': {PENS!r}, 'answer': '21'}}], seeds=100000, strategies=['beam'])",
        f"beamgen.evaluate_prm([{{'problem': {PENS!r}, 'steps': ['Mia has 34 pens: 34.'] * 20, 'label': -1}}] * 10000)",
    ],
)
def test_an_interrupt_ends_the_search_and_the_solver_goes_on(call: str) -> None:
    code = INTERRUPTED.replace("CALL", call)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=90)
    finally:
        process.kill()
    assert out.splitlines() == ["interrupted", "True"]
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_is_told_that_the_solver_is_not_its_own() -> None:
    code = f"""
import gc, os, warnings
import beamgen
warnings.simplefilter("ignore")
solver = beamgen.Solver()
stream = solver.stream({PENS!r}, n=4096, m=2)
next(stream)
child = os.fork()
if child == 0:
    told = 0
    for call in (lambda: solver.solve({PENS!r}), lambda: solver.score({PENS!r}, ["a"]), lambda: next(stream),
                 lambda: next(solver.solve_all([{PENS!r}])), solver.close):
        try:
            call()
        except beamgen.RunError as error:
            told += "belongs to process" in str(error) and "spawn" in str(error)
    own = beamgen.Solver()
    assert own.solve({PENS!r}).answer == "21"
    del solver, stream, own
    gc.collect()
    os._exit(told)
_, status = os.waitpid(child, 0)
stream.close()
print(os.waitstatus_to_exitcode(status), solver.solve({PENS!r}).answer)
"""
    done = python(code)
    assert (done.stdout, done.returncode) == ("5 21\n", 0), done.stderr


def test_the_interpreter_ends_while_a_thread_solves_with_a_scorer_in_python() -> None:
    code = f"""
import threading
import beamgen
solver = beamgen.Solver(scorer=lambda problem, steps: 0.5)
def work():
    try:
        solver.solve({PENS!r}, n=8192, m=2)
    except beamgen.RunError:
        pass
threading.Thread(target=work, daemon=True).start()
stream = solver.stream({PENS!r}, n=4096, m=2)
next(stream)
"""
    done = python(code)
    assert done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr)


HANGS = "trap '' TERM HUP INT QUIT; sleep 1000 & echo $PPID $$ $! >> {pids}; sleep 1001; sleep 1002"


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return ") Z " not in stat and ") X " not in stat


def gone_soon(pids: list[int]) -> bool:
    until = time.monotonic() + 20
    while any(map(runs, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(map(runs, pids))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_program_of_a_checker_ends_with_the_process(sent: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
import signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import beamgen
solver = beamgen.Solver(settings={{"checkers.commands": [{HANGS.format(pids=pids)!r}]}})
solver.solve({PENS!r})
"""
    # A folder with another package of this name is not looked at.
    (tmp_path / "beamgen").mkdir()
    (tmp_path / "beamgen" / "__init__.py").write_text("raise ImportError")
    # isolated, as that folder is the script's, too
    process = subprocess.Popen([sys.executable, "-I", "-c", code], cwd=tmp_path)
    try:
        until = time.monotonic() + 60
        while not pids.exists() or pids.read_text().count("\n") < 2:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        started = [int(pid) for pid in pids.read_text().split()]
        assert len(started) == 6 and all(map(runs, started))
        process.send_signal(sent)
        process.wait(timeout=10)
        assert gone_soon(started)
    finally:
        process.kill()


def test_the_program_of_a_checker_answers_and_lost_verdicts_are_counted() -> None:
    fails = """sed -u 's/^{"id":\\([0-9]*\\).*/{"id":\\1,"verdict":"fail"}/'"""
    with beamgen.Solver(settings={"checkers.commands": [fails]}) as solver:
        result = solver.solve(PENS)
        assert result.score == 0 and result.lost_verdicts == 0
    with beamgen.Solver(settings={"checkers.commands": ["exit 3"]}) as solver:
        result = solver.solve(PENS)
        assert result.lost_verdicts > 0 and result.to_dict()["lost_verdicts"] == result.lost_verdicts


def test_without_an_interpreter_a_launcher_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(beamgen.Error, match="beamgen-launcher.*install it"):
        beamgen.Solver(settings={"checkers.commands": ["exit 0"]})


def test_other_threads_run_while_one_solves(solver: beamgen.Solver) -> None:
    counted, stop = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    for seed in range(5):
        solver.solve(PENS, n=64, seed=seed)
    after = counted
    stop.set()
    thread.join()
    assert after > before + 5


def test_a_solver_is_freed_with_its_thread() -> None:
    code = f"""
import gc, os
import beamgen
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
for _ in range(5):
    solver = beamgen.Solver()
    solver.solve({PENS!r}, n=4)
    solver.close()
del solver
gc.collect()
import time
for _ in range(100):
    if threads() == before:
        break
    time.sleep(0.05)
print(threads() - before)
"""
    if not Path("/proc/self/task").exists():
        pytest.skip("threads are counted in /proc")
    assert python(code).stdout == "0\n"


@pytest.mark.parametrize("name", ["notebook.py", "own_scorer.py", "evaluation.py", "bench.py"])
def test_an_example_runs(name: str) -> None:
    if name == "bench.py" and importlib.util.find_spec("pandas") is None:
        pytest.skip("pandas is not installed")
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "right" in done.stdout


@pytest.mark.parametrize(("name", "printed"), [("shortest.py", "21 ["), ("own_generator.py", "found ")])
def test_a_short_example_prints_its_answer(name: str, printed: str) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith(printed), done.stdout + done.stderr


def test_the_example_of_a_bench_runs(program: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("pandas") is None:
        pytest.skip("pandas is not installed")
    flags = ["--strategies", "beam,majority", "--n", "4", "--limit", "6", "--out", str(tmp_path / "out")]
    subprocess.run([program, "bench", *flags], capture_output=True, check=True, timeout=120)
    example = [sys.executable, str(EXAMPLES / "bench_frame.py"), str(tmp_path / "out")]
    done = subprocess.run(example, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "beam" in done.stdout and "majority" in done.stdout and "12 rows" in done.stdout


def test_the_examples_of_the_readme_run() -> None:
    text = (ROOT / "python" / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    done = python(code)
    assert done.returncode == 0 and done.stdout.startswith("21 "), done.stderr
