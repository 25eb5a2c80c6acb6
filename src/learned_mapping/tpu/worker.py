"""The compiler's own process, started by `tpu_compiler`: reads a request, compiles, leaves the dumps."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(folder: Path) -> None:
    import jax
    import jax.export
    from jax.experimental import topologies

    request = json.loads((folder / "request.json").read_text())
    exported = jax.export.deserialize(bytearray((folder / "function.bin").read_bytes()))
    topology = topologies.get_topology_desc(platform="tpu", topology_name=request["topology"])
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    abstract = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in exported.in_avals]
    arguments, keywords = jax.tree.unflatten(exported.in_tree, abstract)
    jitted = jax.jit(exported.call, donate_argnums=tuple(request["donate"]))
    options = {"xla_dump_to": str(folder / "dumps"), "xla_dump_hlo_as_text": True}
    jitted.lower(*arguments, **keywords).compile(compiler_options=options)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
