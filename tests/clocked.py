"""A run by itself: ``python clocked.py PROBLEM METHOD FILE SECONDS OPTIONS JUMP``, its account as
JSON.

Its clock jumps by `JUMP` seconds whenever a kernel is first compiled or loaded, JAX traces or
compiles, or a module is imported: what a budget pays for stands in its seconds, however busy the
machine is. With a jump of 0 nothing is new.
"""

import json
import sys
import time
import types

events: list[str] = []


class Imports:
    """The first of `sys.meta_path`; finds nothing."""

    @staticmethod
    def find_spec(name, *_):
        events.append(f"import {name}")


def main(name: str, method: str, file: str, seconds: str, options: str, jump: str) -> None:
    import jax
    from numba.core.dispatcher import Dispatcher

    from learned_mapping import budget
    from learned_mapping.problem import problem, solve

    first = Dispatcher.compile

    def compile_or_load(dispatcher, signature):
        events.append(dispatcher.py_func.__qualname__)
        return first(dispatcher, signature)

    def compiled(event, *_, **__):
        if event.startswith("/jax/core/compile/"):
            events.append(event)

    Dispatcher.compile = compile_or_load
    jax.monitoring.register_event_duration_secs_listener(compiled)
    sys.meta_path.insert(0, Imports)
    cpu = not float(jump)
    if not cpu:
        budget.time = types.SimpleNamespace(
            perf_counter=lambda: time.process_time() + float(jump) * len(events)
        )
    chosen, since = problem(name), time.perf_counter()
    task = chosen.task(chosen.read(file), **json.loads(options))
    rules = method.endswith("+")  # as a user has it who does not say --alone
    result = solve(
        chosen,
        task,
        method.rstrip("+"),
        seconds=float(seconds),
        cpu=cpu,
        alone=not rules,
        strict=True,
    )
    wall = time.perf_counter() - since
    print(
        json.dumps(
            {
                "samples": result.samples,
                "seconds": result.seconds,
                "wall": wall,
                "events": events[-9:],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
