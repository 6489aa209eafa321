"""The README's example: one problem with the bundled models."""

import beamgen

solver = beamgen.Solver()
result = solver.solve("Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?")
print(result.answer, [(step.text, step.score) for step in result.steps])
