"""Paper 2: which chip of a multi-chip module runs each op.

- The rules: `constraints` (definitions), `validate` (the independent judge), `partition` (the file).
- The constraint repair: `engine` (Algorithms 1 and 2, plain and in batches), `repair_kernel` (compiled), `repair_trace`
  (step by step, for the book), `cpsat` (the solver beside it). A repair knows a graph's edges, the chips and the rules,
  and no costs, no learner and no experiment; `tests/mcm/test_house.py` holds it to that.
- Without learning: `greedy`, `optimum`, `random_search`, `annealing`, `linear_cut`, `balanced_start`, `class_search`.
- Learning: `agent`; every method by name: `methods`, `learned_methods`, `silicon_methods`.
"""
