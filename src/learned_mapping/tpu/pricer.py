"""The process that prices batches of probes, started by `latency_tables.price`; it appends an answer per batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(folder: Path) -> None:
    from learned_mapping.tpu.hlo import parse_module
    from learned_mapping.tpu.hlo_probe import Probe, ProbeModule, Unprobeable
    from learned_mapping.tpu.pjrt_backend import Backend

    request = json.loads((folder / "batches.json").read_text())
    module = parse_module((folder / "module.txt").read_text())
    backend = Backend(request["topology"])
    done = 0
    for batch in request["batches"]:
        probes = ProbeModule(module, request["space"])
        names: list[str | None] = []
        for item in batch:
            probe = Probe(
                item["instruction"], frozenset(item["operands"]), frozenset(tuple(index) for index in item["results"])
            )
            try:
                names.append(probes.add(probe))
            except Unprobeable:
                names.append(None)
        entry = backend.compile(probes.text()).entry.by_name if any(names) else {}
        cycles = [entry[name].estimated_cycles if name in entry else None for name in names]
        with open(folder / "answers.jsonl", "a") as stream:
            stream.write(json.dumps({"cycles": cycles}) + "\n")
        done += len(batch)
        print(f"done {done}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
