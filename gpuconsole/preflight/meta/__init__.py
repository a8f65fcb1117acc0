"""Real Paddle code on tensors without data: the `meta` tier.

The script and all of Paddle's Python run as they are; only Paddle's tensor class, its operators
and its backward engine are replaced, before Paddle's own modules see them. Memory is counted by
the lifetimes of CPython. It needs Paddle 3 and NumPy, nothing of gpuconsole, Python 3.9.

- `hook.install()` before Paddle is imported, `hook.ready(paddle, rules, backend)` after.
- `state.STATE` is what the modules share: the ledger, the flags, the choices that were made.
- `STATE.value_of(tensor, what)` returns an array for a tensor with unknown data (`what` is
  "numpy", "item", "tolist", "bool", "int", "float", "format", "an attribute", "a subscript");
  without it ones are given. `values.known` holds the data of small tensors that hang on nothing
  unknown.
- `STATE.choice(text)` records a choice that only data could decide.
- `STATE.ledger`: `tag(indices, kind)`, `cycle()`, `fetching(reader)`, `as_json()`;
  `tensor.data_ptr() - 1` is a block's index.
- `state.Unsupported` ends a run that is not followed exactly.
"""
