//! Examples and explanations that `--help` prints after the flags. Lines of examples fit into 80
//! columns; everything else is wrapped to the terminal by clap.

use beamgen::strategy::StrategyName;

pub(super) const SHORT: &str = "More flags, explanations and examples: `--help`.";

pub(super) const TOP: &str = "\
Examples:
  beamgen solve                        bundled problems, bundled models
  beamgen solve problems.jsonl --out run.jsonl
                                       your file; every result is kept
  beamgen solve problems.jsonl --out run.jsonl --resume
                                       go on after an interruption
  beamgen bench --limit 100            compare search strategies
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
      go on where an interrupted run stopped
  beamgen solve - --json < problems.jsonl | jq .answer
      for programs
  beamgen solve problems.jsonl --generator DIR --prm DIR
      models in Hugging Face layout; a generator may be a GGUF file
  beamgen solve problems.jsonl --pair qwen2.5-math-1.5b
      published models by name; `beamgen models` lists them";

/// Examples, the table of strategies, and the input.
pub(super) fn solve() -> String {
    let strategies = StrategyName::help();
    format!("{SOLVE_EXAMPLES}\n\nStrategies:\n{strategies}\n{SOLVE_INPUT}")
}

const SOLVE_INPUT: &str = "\
FILE has one problem a line: plain text, or a JSON object with \"problem\" (or \"question\", \
\"prompt\" or \"input\") and, if known, \"answer\" and \"id\". An argument with a blank in it that names no file \
is a question.

Flags on search, sampling and models are also keys of the configuration file; \
configs/search/default.toml lists all keys. --set sets any of them: --set search.lookahead.steps=2.

The number before a step is its score, the reward model's probability that the step is right; ? marks a \
score below 0.9, ! one below 0.5. An answer is called a guess if nothing in the chain marks it as the \
answer; its last number was taken then. Ctrl-C, SIGTERM, SIGHUP or SIGQUIT \
ends the run with what is done; --resume continues it.";

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

A request's model is a preset: settings that are laid over those of the flags here. SIGTERM or Ctrl-C ends the \
server when what is at work is done; a second one ends it at once. docs/reference/http.md has the protocol.";

pub(super) const BENCH: &str = "\
Examples:
  beamgen bench --limit 100
      the usual strategies on bundled problems
  beamgen bench problems.jsonl --strategies best-of-n,beam --n 4,16,64
  beamgen bench problems.jsonl --scorers prm,orm --seeds 3 --json
  beamgen bench --config configs/bench/quick.toml --out quick
      tables, plots and all raw rows in the folder quick
  beamgen bench --config configs/bench/quick.toml --out quick --resume
      go on after an interruption
  beamgen bench --redraw quick
      draw the report again; nothing is run
  beamgen bench --pool solutions.jsonl --prm MODEL --checker arithmetic --out pool
      choose among solutions that exist already

A --config with [[run]] tables describes a whole bench: problem sets, runs, seeds and comparisons \
(examples are in configs/bench/). Any other --config holds settings for all strategies, as for \
`beamgen solve`. Where N is smaller than M, M is lowered to N.";

pub(super) const BENCH_ENGINE: &str = "\
Examples:
  beamgen bench-engine
      the bundled generator
  beamgen bench-engine --model DIR --dtype int8 --batch 1,64 --prefix 1024
  beamgen bench-engine --model model.gguf --no-sample --json > rows.jsonl

All sequences of a batch continue one prompt of --prefix tokens, which is read once. Every pass \
appends a token to each sequence and computes its logits; the next token is sampled at temperature \
0.8. This is the work that a search gives to the engine. The tokens of the prompt are arbitrary, so \
no tokenizer is needed.

GB/s: bytes of weights read by each pass, as a share of the memory's measured read bandwidth. \
GFLOP/s: multiply-adds (two operations each), as a share of the measured peak. Both limits are \
measured by the same process on the same threads.";

pub(super) const SHOW: &str = "\
Examples:
  beamgen solve --out run.jsonl --tree
  beamgen show run.jsonl
  beamgen show run.jsonl --id world-2026-1

Each step of a tree has its score, its text, its number and what became of it: the end of its chain, or \
the round in which it was pruned, its rank by chain score there and the cutoff. docs/reference/run-file.md lists \
all fields of the file.";

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

FILE has one chain a line, {\"id\": \"a\", \"problem\": \"...\", \"steps\": [\"...\", \"...\"]}, or is one \
JSON array of such objects; labelled chains of any format of `beamgen labels` do as well, and so does a whole answer as \"response\" in place of steps, which is cut at each line's end. Each line of output has the id, `scores` (one for each step, 0 to 1) and \
`score` (their aggregate), or `error` for a chain that the model cannot score.";

pub(super) const LABEL: &str = "\
Examples:
  beamgen label --limit 20 --out labels.jsonl
      bundled problems, bundled generator
  beamgen label problems.jsonl --generator DIR --chains 8 --rollouts 16 --out labels.jsonl
  beamgen label problems.jsonl --generator DIR --mode binary --out labels.jsonl
      the first error of each wrong chain, with few rollouts
  beamgen label problems.jsonl --generator DIR --prm DIR --chains 64 --mine 4 --out hard.jsonl
      hard examples: the wrong chains that the PRM rates highest, and right ones that it rates lowest
  beamgen label problems.jsonl --generator DIR --chains 16 --mixed --out labels.jsonl
      a weak generator: rollouts only where some chains are right
  beamgen label problems.jsonl --generator DIR --chains 16 --rollouts 0 --out outcomes.jsonl
      outcomes alone: for `train orm`, and for rules that need no rollouts
  beamgen label problems.jsonl --generator DIR --out labels.jsonl --resume
      go on after an interruption

The generator samples chains for each problem, and then further completions (rollouts) from behind their \
steps. Each line of FILE is a distinct chain; each of its steps has `rollouts`: n completions that came \
to their end, k of them with the right answer, and how many more a length limit cut, which are neither \
right nor wrong. `outcome` is whether the chain itself is right, and --mode binary sets `first_error`, \
the number of the first wrong step from 0, or -1. No token of a chain is read again for its rollouts. \
Steps without `rollouts` were not rolled out.

--budget-tokens limits the tokens sampled for one problem, its chains and all its rollouts together.";

pub(super) const CALIBRATE: &str = "\
Examples:
  beamgen label train.jsonl --generator DIR --out l.jsonl --chains 8
  beamgen calibrate --prm DIR --data l.jsonl
      the probability that this generator succeeds from here on, for each score
  beamgen solve problems.jsonl --generator DIR --prm DIR --score-as lower
      search by the low quantile of that probability
  beamgen solve other.jsonl --score-as lower --out run.jsonl
  beamgen calibrate --runs run.jsonl --out DIR/calibration.json
  beamgen solve problems.jsonl --score-as lower --max-error 0.05
      at most 5 % of the answers given are wrong

Targets are the shares of right rollouts (--rollout-label soft, the default here), or hard labels. A calibration is \
for one reward model and one policy: a generator and its temperature. A warning tells if it is used with another.";

pub(super) const EVAL_PRM: &str = "\
Examples:
  beamgen eval-prm --data processbench_gsm8k.json --prm DIR
  beamgen eval-prm --data gsm8k.json math.json --prm DIR --wrong-below 0.4
  beamgen problems --count 500 --steps > world.jsonl
  beamgen eval-prm --data world.jsonl
  beamgen eval-prm --data prmbench.jsonl prm800k.jsonl --prm DIR --report my-report
      all figures with intervals over problems, calibration, baselines, plots
  beamgen eval-prm --data labels.jsonl --prm DIR --probes
      what the model is blind to, and what it rewards
  beamgen eval-prm --redraw my-report
      the same from its raw scores

Data are chains as for `beamgen score`, each with a label: `label` is the index of the first wrong \
step counted from 0, or -1 if all are right (ProcessBench); `labels` is a list of true and false, one \
for each step. Labelled chains of any other format of `beamgen labels` do as well.";

pub(super) const TRAIN: &str = "\
Examples:
  beamgen train sft --from DIR --data gsm8k_train.jsonl --out my-generator
      a generator learns to write solutions like these
  beamgen train prm --from my-generator --data labels.jsonl --out my-prm
      a reward model learns to judge their steps
  beamgen train rl --from my-generator --problems gsm8k_train.jsonl --train lora=16 --out my-policy
      a generator learns from its own chains, by whether their answers are right
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
      fails of a checker, then the sure scores of a judge: docs/rewards/labels.md has all rules
  beamgen eval-prm --data processbench_gsm8k.json --prm my-prm
  beamgen solve problems.jsonl --generator my-generator --prm my-prm
      what came out

A chain is written and read as by `eval-prm` and `solve`, so labels stand exactly where scores are read. \
OUT/work/log.jsonl has the loss of every update, and the held-out loss, AUC and balanced accuracy.";

pub(super) const ORM: &str = "\
Examples:
  beamgen train orm --from my-generator --data labels.jsonl --train top=8 --out my-orm
  beamgen solve problems.jsonl --generator my-generator --prm my-orm --strategy best-of-n --aggregation last
      what came out

The label is the chain's `outcome`, read after its last step. Chains without one are left out. With --rule it is the \
lowest label of the chain's steps: --rule verdict,outcome makes a right answer with a step that fails a wrong one.";

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
      what came out

OUT/work/log.jsonl has the loss of every update. Setting MIMALLOC_PURGE_DELAY=-1 keeps large buffers \
between updates, which helps where the system is slow to hand out memory.";

pub(super) const RL: &str = "\
Examples:
  beamgen problems --count 4000 --split train --seed 1 > train.jsonl
  beamgen problems --count 200 --seed 2 > held-out.jsonl
  beamgen train rl --from bundled --problems train.jsonl --held-out-problems held-out.jsonl \\
        --learning-rate 5e-4 --out my-generator
      right answers alone (RLVR), on the bundled generator, in minutes
  beamgen train rl --from DIR --problems gsm8k_train.jsonl --train lora=16 --learning-rate 1e-4 --out my-generator
      adapters of a larger model
  beamgen train rl --from DIR --problems p.jsonl --reward both --prm DIR --out my-generator
      answers, and a reward model that says which step was wrong
  beamgen solve problems.jsonl --generator my-generator
      what came out

Chains are sampled from the policy's own distribution, to the end of the text. OUT/work/log.jsonl has all \
figures of every update and of every measurement of the held-out problems.";

pub(super) const ABACUS: &str = "\
Examples:
  beamgen train abacus --out my-abacus
      the bundled models
  beamgen train abacus --out my-abacus --resume
      go on after an interruption
  beamgen train abacus --quick --out /tmp/quick
      the whole pipeline on a small scale";

pub(super) const PROBLEMS: &str = "\
Example:
  beamgen problems --count 500 > held-out.jsonl
  beamgen bench held-out.jsonl
  beamgen problems --count 4000 --split train --solutions > train.jsonl
      for `beamgen train sft`
  beamgen problems --twins | beamgen solve -
      with how many are right on both of two twins";

pub(super) const COMPLETIONS: &str = "\
Examples:
  beamgen completions bash > ~/.local/share/bash-completion/completions/beamgen
  beamgen completions zsh > ~/.zfunc/_beamgen
  beamgen completions fish > ~/.config/fish/completions/beamgen.fish";

pub(super) const MAN: &str = "\
Examples:
  beamgen man solve | man -l -
  beamgen man --out ~/.local/share/man/man1";
