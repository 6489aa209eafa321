"""Solves the problems of a data frame; its columns are recognised as the keys of files are."""

import beamgen
import pandas as pd

frame = pd.DataFrame([{"question": problem.text, "answer": problem.answer} for problem in beamgen.sample_problems()[:5]])
solver = beamgen.Solver(n=8)
frame["found"] = [result.answer for result in solver.solve_all(frame)]
print(frame[["answer", "found"]].to_string())
