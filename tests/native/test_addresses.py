"""Addresses of arrays are those that NumPy says."""

from __future__ import annotations

import numpy as np

from nnet3.base.native.addresses import address_of, addresses_of


def test_arrays_of_all_kinds() -> None:
    """Also of arrays that are read-only, have gaps or no numbers."""
    whole = np.arange(12.0).reshape(3, 4)
    fixed = whole.copy()
    fixed.flags.writeable = False
    arrays = [whole, whole[1:], whole[:, 1], fixed, fixed[:0], whole[2, 3:], np.zeros(4, bool), np.zeros(0, np.int32)]
    assert [address_of(array) for array in arrays] == [array.ctypes.data for array in arrays]
    assert addresses_of(arrays).tolist() == [array.ctypes.data for array in arrays]
