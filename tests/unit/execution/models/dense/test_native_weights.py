"""The order of outputs in which gate and up are packed."""

import pytest

pytest.importorskip("okibi._native", reason="the C++ part was not built")
from okibi.execution.models.dense.native_weights import PANEL_OUTPUTS, panel_places


@pytest.mark.parametrize("inner", [1, 15, 16, 17, 48, 100])
def test_panels_of_gate_and_up_alternate(inner: int):
    panels: list[list[str]] = []
    for start in range(0, inner, PANEL_OUTPUTS):
        ids = range(start, start + PANEL_OUTPUTS)
        panels.append([f"gate {i}" if i < inner else "" for i in ids])
        panels.append([f"up {i}" if i < inner else "" for i in ids])
    expected = [name for panel in panels for name in panel]
    placed = [""] * len(expected)
    for kind, places in zip(("gate", "up"), panel_places(inner), strict=True):
        for index, place in enumerate(places.tolist()):
            placed[place] = f"{kind} {index}"
    assert placed == expected
