"""Files of no set: ours are whole; of trained networks whole ones pass, damaged and pickled ones do
not."""

import numpy as np
from learned_mapping_builders.verify import verify_other_files


def test_a_damaged_network_is_found(tmp_path, monkeypatch):
    """Catches a check that takes any file of the right name."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    np.savez(tmp_path / "whole.npz", weights=np.ones(3))
    assert not verify_other_files().faults
    np.savez(tmp_path / "nan.npz", weights=np.array([1.0, np.nan]))
    np.savez(tmp_path / "pickled.npz", weights=np.array([{}], dtype=object))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:40])
    assert len(verify_other_files().faults) == 3


def test_our_own_files_are_of_a_schema_of_ours():
    """Catches a record of a training without a schema, which `lmap data verify` refuses."""
    assert verify_other_files().faults == ()
