"""Notes on components in a few words: the times they look at, windows, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from nnet3.model.components.base import Component


def format_offsets(offsets: Sequence[int]) -> str:
    """Formats times relative to t: `t-1, t, t+1`, or `t-5 .. t+5` for many in a row."""
    step = offsets[1] - offsets[0] if len(offsets) > 1 else 0
    regular = all(after - before == step for before, after in pairwise(offsets))
    if len(offsets) > 5 and regular:
        every = f" every {step}" if step != 1 else ""
        return f"{_time(offsets[0])} .. {_time(offsets[-1])}{every}"
    return ", ".join(map(_time, offsets))


def _time(offset: int) -> str:
    return f"t{offset:+d}" if offset else "t"


def component_notes(component: Component) -> list[str]:
    """Returns short phrases for info and pictures on settings besides dimensions; most components have none."""
    notes = []
    for attribute, describe in _NOTES.items():
        value = getattr(component, attribute, None)
        if value is not None:
            notes.append(describe(value, component))
    parts = [note for note in notes if note]
    if component.test_mode:
        parts.append("test mode")
    return parts


def _convolution(model: Any, _: Component) -> str:
    times = sorted({time for time, _ in model.offsets})
    heights = sorted({height for _, height in model.offsets})
    required = list(model.required_time_offsets)
    needed = "" if times == required else f" (must have {format_offsets(required)})"
    stride = f", stride {model.height_subsample_out}" if model.height_subsample_out != 1 else ""
    return (
        f"{format_offsets(times)}{needed}; heights {','.join(map(str, heights))}{stride}; "
        f"{model.num_filters_in} -> {model.num_filters_out} filters, height {model.height_in} -> {model.height_out}"
    )


def _patches(layout: Any, component: Component) -> str:
    size = f"{layout.input_x_dim} x {layout.input_y_dim} x {layout.input_z_dim}"
    filters = f"{layout.filt_x_dim} x {layout.filt_y_dim}"
    number = getattr(component, "num_filters", 0)
    return f"{number} filters {filters}, strides {layout.filt_x_step} x {layout.filt_y_step}, over {size}"


def _sizes(sizes: Any, component: Component) -> str:
    """Describes an attention or a pooling."""
    if hasattr(sizes, "num_heads"):
        stride = sizes.time_stride
        times = [stride * step for step in range(-sizes.num_left, sizes.num_right + 1)]
        heads = f"{_count(sizes.num_heads, 'head')}, keys {sizes.key_dim}, values {sizes.value_dim}"
        return f"{format_offsets(times)}; {heads}"
    if hasattr(component, "steps") and hasattr(component, "input_dims"):
        window, steps, dims = (" x ".join(map(str, v)) for v in (sizes, component.steps, component.input_dims))
        return f"window {window}, strides {steps}, over {dims}"
    return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _extraction(period: int, component: Component) -> str:
    what = "mean and variance" if getattr(component, "include_variance", False) else "mean"
    return f"{what} over {period} frames, one each {getattr(component, 'input_period', 1)}"


def _pooling(right: int, component: Component) -> str:
    left, period = getattr(component, "left_context", 0), getattr(component, "input_period", 1)
    every = f" every {period}" if period != 1 else ""
    stddevs = ", standard deviations" if getattr(component, "output_stddevs", False) else ""
    return f"window {_time(-left)} .. {_time(right)}{every}{stddevs}"


def _composite(parts: Sequence[Component], _: Component) -> str:
    shown = []
    for part in parts:
        inner = ", ".join(component_notes(part))
        shown.append(part.type_name.removesuffix("Component") + (f" ({inner})" if inner else ""))
    return ", then ".join(shown)


_NOTES: dict[str, Callable[[Any, Component], str]] = {
    "time_offsets": lambda offsets, _: format_offsets(offsets),
    "model": _convolution,
    "layout": _patches,
    "sizes": _sizes,
    "output_period": _extraction,
    "right_context": _pooling,
    "num_log_count_features": lambda count, _: _count(count, "log-count") if count else "",
    "block_dim": lambda dim, component: f"blocks of {dim}" if dim != component.input_dim else "",
    "num_blocks": lambda count, _: _count(count, "block"),
    "num_repeats": lambda count, _: _count(count, "repeat"),
    "cell_dim": lambda dim, _: _count(dim, "cell"),
    "recurrent_dim": lambda dim, _: f"{dim} recurrent",
    "recurrence_interval": lambda interval, _: f"recurrence interval {interval}",
    "clipping_threshold": lambda threshold, _: f"clips at {threshold:g}",
    "dropout_proportion": lambda proportion, _: f"proportion {proportion:g}",
    "time_period": lambda period, _: f"same for {period} frames" if period else "",
    "time_mask_max_frames": lambda frames, component: (
        f"zeroes {getattr(component, 'zeroed_proportion', 0.0):g} in masks of up to {frames} frames"
    ),
    "target_rms": lambda rms, _: f"target rms {rms:g}" if rms != 1.0 else "",
    "parts": _composite,
}
"""Attribute -> function that describes it, for the components that have it."""
