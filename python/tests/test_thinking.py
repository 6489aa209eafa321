"""Thoughts before answers: the first line of the bundled model stands for one."""

import beamgen

PROBLEM = "Mia has 3 pens. Leo has 4 more pens than Mia. Leo buys as many pens again. Tell the number of pens of Leo."
THINKS = {
    "generator.thinking.open": ".",
    "generator.thinking.close": "\n",
    "generator.thinking.message": "",
    "generator.thinking.answer_reserve": 30,
}


def test_a_thought_is_apart_from_the_answer() -> None:
    with beamgen.Solver(settings=THINKS, strategy="single", seed=3) as solver:
        result = solver.solve(PROBLEM, tree=True)
        assert result.tree is not None
        node = result.tree[1]
        assert node.thought is not None and node.thinking
        assert result.steps[0].thought == node.thinking.strip()
        assert node.spoken.strip() == result.steps[0].text
        assert node.text.startswith(node.thinking) and node.text.endswith(node.spoken)
        assert result.ledger.thought_tokens == node.thought["tokens"]
        words = len(node.thinking.split())
        thought = f"<details><summary class=\"bgn-why\">thought: {words} words</summary>"
        assert f'{thought}<span class="bgn-text">{node.thinking.strip()}</span></details>' in result._repr_html_()
        short = solver.solve(PROBLEM, tree=True, thinking_budget=2)
        assert short.tree is not None and short.tree[1].thought is not None
        assert short.tree[1].thought["forced"] > 0
        assert short.ledger.thought_tokens == 2
        off = solver.solve(PROBLEM, tree=True, thinking_budget=0)
        assert off.tree is not None and off.tree[1].thought is None
        assert off.ledger.thought_tokens == 0
    template = {**THINKS, "generator.chat_template_kwargs": {"enable_thinking": False}}
    with beamgen.Solver(settings=template, strategy="single", seed=3) as solver:
        # The bundled model's template does not name the variable.
        assert solver.solve(PROBLEM).steps == result.steps
