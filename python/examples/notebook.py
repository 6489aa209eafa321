"""A problem, the events of its search, its tree, and many problems at once; each part is a cell of a notebook."""

# %% The shortest way: bundled models, default settings.
import beamgen

solver = beamgen.Solver()
result = solver.solve(
    "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?"
)
for step in result.steps:
    print(f"{step.score:.3f}  {step.text}")
print("answer:", result.answer)

# %% In a notebook this line alone shows the tree of the search.
result

# %% Other settings for one problem: nothing is loaded again.
narrow = solver.solve(result.problem, n=4, m=2, seed=1)
print(f"N = 4: {narrow.answer} for {narrow.ledger.generated_tokens} tokens, N = 16: {result.ledger.generated_tokens}")

# %% What happens as it happens.
for event in solver.stream(beamgen.sample_problems()[0], n=8):
    if isinstance(event, beamgen.StepScored) and event.score > 0.95:
        print(f"  {event.score:.3f}  {event.text}")
    elif isinstance(event, beamgen.ChainPruned):
        print(f"  pruned: {event.text} ({event.pruned.reason if event.pruned else 'no reason'})")
    elif isinstance(event, beamgen.Result):
        print("answer:", event.answer)

# %% Many problems share forward passes; results come as they are done.
results = list(solver.solve_all(beamgen.sample_problems()[:20]))
print(sum(bool(result.correct) for result in results), "of", len(results), "right")

# %% Steps that are there already.
print(solver.score(result.problem, ["Mia has 34 pens: 34.", "Leo has 8 more pens than Mia: 34 - 8 = 26."]))
