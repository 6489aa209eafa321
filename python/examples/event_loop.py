"""Searches in an event loop: several at once, and one after another as they end."""

import asyncio
import contextlib

import beamgen


async def main() -> None:
    solver, problems = beamgen.Solver(n=8), beamgen.sample_problems()[:5]
    results = await asyncio.gather(*(solver.asolve(problem) for problem in problems))
    print([result.answer for result in results])
    async with contextlib.aclosing(solver.asolve_all(problems, as_completed=True)) as coming:
        async for result in coming:
            print(result.id, result.answer)


asyncio.run(main())
