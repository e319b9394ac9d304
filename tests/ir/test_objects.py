"""While many objects are made nobody searches for garbage; afterwards all is as it was."""

from __future__ import annotations

import gc

import pytest

from nnet3.engine.ir.objects import many_objects


def test_no_search_for_garbage_within() -> None:
    assert gc.isenabled()
    with many_objects():
        assert not gc.isenabled()
        with many_objects():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer one is not at its end"
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="in the middle"), many_objects():
        raise ValueError("in the middle")
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with many_objects():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
