//! Examples and explanations that `--help` prints after the flags. Lines of examples should have at
//! most 80 columns. clap wraps the other lines to the terminal's width.

use beamgen::strategy::StrategyName;

pub(super) const SHORT: &str = "More flags, explanations and examples: `--help`.";

pub(super) const TOP: &str = "\
Examples:
  beamgen solve
      bundled problems, bundled models
  beamgen solve problems.jsonl --out run.jsonl
      your file; save all results
  beamgen solve problems.jsonl --out run.jsonl --resume
      resume after an interruption
  beamgen bench --limit 100
      compare search strategies
  beamgen solve 'Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. How many pens does Kim have?'

Exit codes: 0 done, 1 the run failed, 2 wrong usage or input.";

const SOLVE_EXAMPLES: &str = "\
Examples:
  beamgen solve
      bundled problems, bundled models
  beamgen solve problems.jsonl -n 32 -m 4 --seed 7
      a wider beam on a file of your own
  beamgen solve problems.jsonl --strategy majority --scorer none
      no reward model: the most frequent answer
  beamgen solve --strategy mcts --set search.mcts.exploration=2
      a key of one strategy
  beamgen solve problems.jsonl --out run.jsonl --resume
      resume after an interruption
  beamgen solve - --json < problems.jsonl | jq .answer
      JSON lines for programs
  beamgen solve problems.jsonl --generator DIR --prm DIR
      models in Hugging Face layout; a generator may be a GGUF file
  beamgen solve problems.jsonl --pair qwen2.5-math-1.5b
      published models by name; `beamgen models` lists them";

pub(super) fn solve() -> String {
    let strategies = StrategyName::help();
    format!("{SOLVE_EXAMPLES}\n\nStrategies:\n{strategies}\n{SOLVE_INPUT}")
}

const SOLVE_INPUT: &str = "\
FILE has one problem a line: plain text, or a JSON object with \"problem\" (or \"question\", \
\"prompt\" or \"input\") and, if known, \"answer\" and \"id\". An argument that contains a blank and is not the name of \
a file is a question.

Flags on search, sampling and models are also keys of the configuration file; \
configs/search/default.toml lists all keys. --set sets any key: --set search.lookahead.steps=2.

The number before a step is its score, the reward model's probability that the step is right; ? marks a \
score below 0.9, ! a score below 0.5. An answer is called a guess if nothing in the chain marks it as the \
answer; then it is the chain's last number. Ctrl-C, SIGTERM, SIGHUP or SIGQUIT ends the run and keeps its \
finished problems; --resume continues it.";

pub(super) const SERVE: &str = "\
Examples:
  beamgen serve
      the bundled pair on http://127.0.0.1:8080
  beamgen serve --port 9000 --in-flight 64 --queue 512
      more problems at once
  beamgen serve --pair qwen2.5-math-1.5b --presets my-presets.toml
      other models, other presets
  BEAMGEN_API_KEY=... beamgen serve --host 0.0.0.0
      for other machines, with a key

A request's model is a preset: settings that replace those of the flags. After SIGTERM or Ctrl-C the server \
finishes running requests, and then exits; a second signal ends it at once. After SIGUSR1 it reads the files \
of presets and keys again. docs/reference/http.md describes the \
protocol.";

pub(super) const BENCH: &str = "\
Examples:
  beamgen bench --limit 100
      the usual strategies on bundled problems
  beamgen bench problems.jsonl --strategies best-of-n,beam --n 4,16,64
  beamgen bench problems.jsonl --scorers prm,orm --seeds 3 --json
  beamgen bench --config configs/bench/quick.toml --out quick
      tables, plots and all raw rows in the folder quick
  beamgen bench --config configs/bench/quick.toml --out quick --resume
      resume after an interruption
  beamgen bench --redraw quick
      redraw the report; no search is run
  beamgen bench --pool solutions.jsonl --prm MODEL --checker arithmetic --out pool
      choose among existing solutions

A --config with [[run]] tables describes a whole bench: problem sets, runs, seeds and comparisons \
(examples are in configs/bench/). Any other --config holds settings for all strategies, as for \
`beamgen solve`. If N is smaller than M, M is lowered to N.";

pub(super) const BENCH_ENGINE: &str = "\
Examples:
  beamgen bench-engine
      the bundled generator
  beamgen bench-engine --model DIR --dtype int8 --batch 1,64 --prefix 1024
  beamgen bench-engine --model model.gguf --no-sample --json > rows.jsonl

All sequences of a batch continue the same prompt of --prefix tokens, which is computed once. Every pass \
appends a token to each sequence and computes its logits; the next token is sampled at temperature \
0.8. A search gives the same work to the engine. The prompt's tokens are arbitrary, so no tokenizer is \
needed.

GB/s: bytes of weights read by each pass, as a share of the memory's measured read bandwidth. \
GFLOP/s: multiply-adds (two operations each), as a share of the measured peak. Both limits are \
measured by the same process on the same threads.";

pub(super) const SHOW: &str = "\
Examples:
  beamgen solve --out run.jsonl --tree
  beamgen show run.jsonl
  beamgen show run.jsonl --id world-2026-1

Each step of a tree has its score, its text, its number and its fate: the end of its chain, or the round \
that pruned it, with its rank by chain score there and the cutoff. docs/reference/run-file.md lists all fields \
of the file.";

pub(super) const MODELS: &str = "\
Examples:
  beamgen models
      models in the cache, pairs, and models known to work
  beamgen models --pair qwen2.5-math-1.5b
      the memory that a pair needs
  beamgen models --generator model.gguf --prm Qwen/Qwen2.5-Math-PRM-7B
      the memory that this pair needs
  beamgen models --generator DIR --prm DIR --dtype bf16
  beamgen models --write bundled abacus
      the bundled models as folders";

pub(super) const SCORE: &str = "\
Examples:
  beamgen score chains.jsonl > scores.jsonl
      with the bundled reward model
  beamgen score chains.jsonl --prm DIR --aggregation min

FILE has one chain a line, {\"id\": \"a\", \"problem\": \"...\", \"steps\": [\"...\", \"...\"]}, or is a \
JSON array of such objects. It may also have labelled chains in any format of `beamgen labels`, or whole \
answers: \"response\" in place of steps, which is split into lines. Each line of output has the id, `scores` \
(one for each step, 0 to 1) and `score` (their aggregate), or `error` for a chain that the model cannot score.";

pub(super) const LABEL: &str = "\
Examples:
  beamgen label --limit 20 --out labels.jsonl
      bundled problems, bundled generator
  beamgen label problems.jsonl --generator DIR --chains 8 --rollouts 16 --out labels.jsonl
  beamgen label problems.jsonl --generator DIR --mode binary --out labels.jsonl
      the first error of each wrong chain, with few rollouts
  beamgen label problems.jsonl --generator DIR --prm DIR --chains 64 --mine 4 --out hard.jsonl
      hard examples: wrong chains with the PRM's highest scores, and right ones with its lowest
  beamgen label problems.jsonl --generator DIR --chains 16 --mixed --out labels.jsonl
      a weak generator: rollouts only where some chains are right
  beamgen label problems.jsonl --generator DIR --chains 16 --rollouts 0 --out outcomes.jsonl
      outcomes only: for `train orm`, and for rules that need no rollouts
  beamgen label problems.jsonl --generator DIR --out labels.jsonl --resume
      resume after an interruption

The generator samples chains for each problem, and then continuations after their steps (rollouts). Each \
line of FILE is a distinct chain. Each of its steps has `rollouts`: n finished rollouts, k of them with the \
right answer, and the number of rollouts that a length limit cut, which count as neither. `outcome` is \
whether the chain itself is right. --mode binary sets `first_error`, the index of the first wrong step from \
0, or -1. Rollouts share the KV cache of their chain, so its tokens are not computed again. Steps without \
`rollouts` were not rolled out.

--budget-tokens limits the tokens sampled for a problem, for chains and rollouts together.";

pub(super) const CALIBRATE: &str = "\
Examples:
  beamgen label train.jsonl --generator DIR --out l.jsonl --chains 8
  beamgen calibrate --prm DIR --data l.jsonl
      for each score, the probability that this generator reaches the right answer
  beamgen solve problems.jsonl --generator DIR --prm DIR --score-as lower
      search by the low quantile of that probability
  beamgen solve other.jsonl --score-as lower --out run.jsonl
  beamgen calibrate --runs run.jsonl --out DIR/calibration.json
  beamgen solve problems.jsonl --score-as lower --max-error 0.05
      at most 5 % of the returned answers are wrong

Targets are the shares of right rollouts (--rollout-label soft, the default here), or hard labels. A calibration is \
valid for one reward model and one policy (a generator and its temperature). A search with another model or policy \
prints a warning.";

pub(super) const EVAL_PRM: &str = "\
Examples:
  beamgen eval-prm --data processbench_gsm8k.json --prm DIR
  beamgen eval-prm --data gsm8k.json math.json --prm DIR --wrong-below 0.4
  beamgen problems --count 500 --steps > world.jsonl
  beamgen eval-prm --data world.jsonl
  beamgen eval-prm --data prmbench.jsonl prm800k.jsonl --prm DIR --report my-report
      all figures with intervals over problems, calibration, baselines, plots
  beamgen eval-prm --data labels.jsonl --prm DIR --probes
      errors that the model does not notice, and flaws that it rewards
  beamgen eval-prm --redraw my-report
      write the report again from its raw scores

Data are chains as for `beamgen score`, each with a label: `label` is the index of the first wrong \
step counted from 0, or -1 if all steps are right (ProcessBench); `labels` is a list with true or false \
for each step. Labelled chains in any other format of `beamgen labels` can be used, too.";

pub(super) const TRAIN: &str = "\
Examples:
  beamgen train sft --from DIR --data gsm8k_train.jsonl --out my-generator
      a generator, from solutions
  beamgen train prm --from my-generator --data labels.jsonl --out my-prm
      a process reward model, from labelled steps
  beamgen train rl --from my-generator --problems gsm8k_train.jsonl --train lora=16 --out my-policy
      a generator, from its own chains and the answers of problems
  beamgen train abacus --quick --out /tmp/quick
      the bundled models from scratch, on a small scale";

pub(super) const PRM: &str = "\
Examples:
  beamgen train prm --from my-generator --data labels.jsonl --train top=8 --out my-prm
      the last eight layers and a head, on the labels of `beamgen label`
  beamgen train prm --from DIR --data phase2_train.jsonl --alternatives --neutral positive --out my-prm
      PRM800K
  beamgen train prm --from DIR --data labels.jsonl --rollout-label soft --prm-format skywork-o1-open-prm --out my-prm
      a value head that learns the share of right rollouts
  beamgen train prm --from DIR --data judged.jsonl --rule verdict,judge:0.9 --out my-prm
      a checker's fails, then a judge's sure scores; docs/rewards/labels.md has all rules
  beamgen eval-prm --data processbench_gsm8k.json --prm my-prm
  beamgen solve problems.jsonl --generator my-generator --prm my-prm
      search with the trained model

Training writes chains exactly as `eval-prm` and `solve` do, so a label is at the token where its score is \
read. OUT/work/log.jsonl has the loss of every update, and the held-out loss, AUC and balanced accuracy.";

pub(super) const ORM: &str = "\
Examples:
  beamgen train orm --from my-generator --data labels.jsonl --train top=8 --out my-orm
  beamgen solve problems.jsonl --generator my-generator --prm my-orm --strategy best-of-n --aggregation last
      search with the trained model

The label of a chain is its `outcome`, at the end of its last step. Chains without an outcome are left out. With \
--rule, the label is the lowest label of the chain's steps: --rule verdict,outcome labels a chain 0 if a step \
fails, even if its answer is right.";

pub(super) const SFT: &str = "\
Examples:
  beamgen problems --count 4000 --split train --solutions > train.jsonl
  beamgen train sft --from bundled --data train.jsonl --out my-generator
      the bundled generator, on right solutions
  beamgen train sft --from DIR --data gsm8k_train.jsonl --out my-generator
      all weights of a checkpoint
  beamgen train sft --from model.gguf --data train.jsonl --train top=10 \\
        --restrict-vocabulary --epochs 3 --out my-generator
      the last ten layers: many times cheaper on a CPU
  beamgen solve problems.jsonl --generator my-generator --prm DIR
      search with the trained generator

OUT/work/log.jsonl has the loss of every update. MIMALLOC_PURGE_DELAY=-1 in the environment keeps large \
buffers between updates; this helps on systems that allocate memory slowly.";

pub(super) const RL: &str = "\
Examples:
  beamgen problems --count 4000 --split train --seed 1 > train.jsonl
  beamgen problems --count 200 --seed 2 > held-out.jsonl
  beamgen train rl --from bundled --problems train.jsonl --held-out-problems held-out.jsonl \\
        --learning-rate 5e-4 --out my-generator
      rewards by right answers only (RLVR), on the bundled generator, in minutes
  beamgen train rl --from DIR --problems gsm8k_train.jsonl --train lora=16 --learning-rate 1e-4 --out my-generator
      adapters of a larger model
  beamgen train rl --from DIR --problems p.jsonl --reward both --prm DIR --out my-generator
      answers, and a reward model's scores of the steps
  beamgen solve problems.jsonl --generator my-generator
      search with the trained generator

Chains are sampled from the policy's own distribution (temperature 1, all tokens), to the end-of-text token. \
OUT/work/log.jsonl has all figures of every update and of every measurement of the held-out problems.";

pub(super) const ADAPT: &str = "\
Examples:
  beamgen adapt --generator my-policy --prm my-prm --problems train.jsonl --out my-prm-2
      a policy after reinforcement learning: labels by completions
  beamgen adapt --generator my-policy --prm models/abacus/prm --problems train.jsonl --checker exact --out my-prm-2
      the bundled world: labels by its checker
  beamgen adapt --generator DIR --prm DIR --problems p.jsonl --replay labels.jsonl --out my-prm-2
      learn from the old labelled chains again, so that the old generator is judged as before

The problems are split. Chains of the generator on the held-out ones are labelled and scored: if the area under the ROC \
curve of their steps reaches --area, no adaptation is needed. Otherwise chains of the other problems are labelled, as many as \
are needed, the reward model is trained further on them, and both are measured on the held-out problems. The new one is \
written if its area is larger, the 95 % interval of the difference says so, and a search with it is not right less often. Each step is a command of this program, which is \
shown, and whose files are in OUT/work.";

pub(super) const ABACUS: &str = "\
Examples:
  beamgen train abacus --out my-abacus
      the bundled models
  beamgen train abacus --out my-abacus --resume
      resume after an interruption
  beamgen train abacus --quick --out /tmp/quick
      the whole pipeline on a small scale";

pub(super) const PROBLEMS: &str = "\
Example:
  beamgen problems --count 500 > held-out.jsonl
  beamgen bench held-out.jsonl
  beamgen problems --count 4000 --split train --solutions > train.jsonl
      for `beamgen train sft`
  beamgen problems --twins | beamgen solve -
      the summary counts pairs of twins that are both right";

pub(super) const COMPLETIONS: &str = "\
Examples:
  beamgen completions bash > ~/.local/share/bash-completion/completions/beamgen
  beamgen completions zsh > ~/.zfunc/_beamgen
  beamgen completions fish > ~/.config/fish/completions/beamgen.fish";

pub(super) const MAN: &str = "\
Examples:
  beamgen man solve | man -l -
  beamgen man --out ~/.local/share/man/man1";
