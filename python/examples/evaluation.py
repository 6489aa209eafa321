"""Measures how well a reward model finds the first wrong step, on chains of the bundled generator."""

import beamgen

chains = []
with beamgen.Solver(strategy="single", scorer="none") as solver:
    for result in solver.solve_all(beamgen.sample_problems()[:60]):
        steps = [step.text for step in result.steps]
        # The exact checker computes the bundled problems, so its verdicts can serve as labels.
        verdicts = beamgen.score(result.problem, steps, scorer="exact")
        wrong = [number for number, verdict in enumerate(verdicts) if verdict < 0.5]
        chains.append({"problem": result.problem, "steps": steps, "label": wrong[0] if wrong else -1})

evaluation = beamgen.evaluate_prm(chains)
print(f"{evaluation.accuracy_on_wrong:.0%} of the wrong chains are flagged at their first wrong step,")
print(f"{evaluation.accuracy_on_right:.0%} of the right ones nowhere: F1 {evaluation.f1:.3f}")
print(f"area under the ROC curve {evaluation.auc:.3f}, calibration error {evaluation.ece:.3f}")
for name, figure in evaluation.figures.items():
    print(f"  {name}: {figure.value:.3f} ({figure.low} to {figure.high})")
