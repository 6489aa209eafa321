"""PRM-guided search decoding: solve problems step by step with a generator and a process reward model.

    >>> import beamgen
    >>> solver = beamgen.Solver()
    >>> result = solver.solve("Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. "
    ...                       "How many pens does Kim have?")
    >>> result.answer, result.steps[-1].text
    ('21', 'The answer is 21.')

That solver has the models that every build carries, which know problems like this one only. Others are folders in
Hugging Face layout, GGUF files, or names on a hub: ``Solver(generator=..., prm=...)``, ``Solver(pair=...)``.
"""

from beamgen._annotate import Annotation, AnnotationView, RatedStep, annotate
from beamgen._beamgen import __version__
from beamgen._bench import Bench, BenchAggregation, BenchCell, BenchRow, bench
from beamgen._calibration import Calibration, calibrate
from beamgen._check import Checked, CheckRow, check
from beamgen._errors import Error, ForeignProblemWarning, InputError, RunError
from beamgen._evaluation import Evaluation, Figure, evaluate_prm
from beamgen._events import (
    ChainExpanded,
    ChainFinished,
    ChainPruned,
    Event,
    Restarted,
    Started,
    StepClosed,
    StepMerged,
    StepPartlyScored,
    StepPaused,
    StepScored,
)
from beamgen._label import Labels, label
from beamgen._mend import Cost, Found, Guarded, Refined, Round, Version
from beamgen._monitor import Drift, Monitoring, MonitorRow, monitor
from beamgen._plan import Plan, plan
from beamgen._problem import Problem, load_problems, sample_problems
from beamgen._rerank import Reranking, Selector, rerank
from beamgen._result import Answer, Ledger, Node, Outcome, Pruned, Result, Step, Unsound
from beamgen._reward_model import RewardModel, score
from beamgen._settings_table import BenchSettings, SearchSettings, Settings
from beamgen._solver import Results, Solver

__all__ = [
    "Annotation",
    "AnnotationView",
    "Answer",
    "Bench",
    "BenchAggregation",
    "BenchCell",
    "BenchRow",
    "BenchSettings",
    "Calibration",
    "ChainExpanded",
    "ChainFinished",
    "ChainPruned",
    "CheckRow",
    "Checked",
    "Cost",
    "Drift",
    "Error",
    "Evaluation",
    "Event",
    "Figure",
    "ForeignProblemWarning",
    "Found",
    "Guarded",
    "InputError",
    "Labels",
    "Ledger",
    "MonitorRow",
    "Monitoring",
    "Node",
    "Outcome",
    "Plan",
    "Problem",
    "Pruned",
    "RatedStep",
    "Refined",
    "Reranking",
    "Restarted",
    "Result",
    "Results",
    "RewardModel",
    "Round",
    "RunError",
    "SearchSettings",
    "Selector",
    "Settings",
    "Solver",
    "Started",
    "Step",
    "StepClosed",
    "StepMerged",
    "StepPartlyScored",
    "StepPaused",
    "StepScored",
    "Unsound",
    "Version",
    "__version__",
    "annotate",
    "bench",
    "calibrate",
    "check",
    "evaluate_prm",
    "label",
    "load_problems",
    "monitor",
    "plan",
    "rerank",
    "sample_problems",
    "score",
]
