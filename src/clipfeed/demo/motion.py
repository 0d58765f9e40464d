"""Short films of coloured shapes that drift or circle over a still background: six motions, one look.

No single frame tells the motion. A shape begins anywhere on a torus (what leaves at one edge comes in at the opposite
one), all places being equally likely, and the motion only adds a shift to it, so that it is anywhere, equally likely,
at every later time too, whichever the motion. Looks, number of shapes, speed and length are drawn alike for every
motion. What is left to tell them apart is the change from frame to frame.

    class                    shift of a shape after t frames
    move_left, right         (0, -v t), (0, +v t)
    move_up, down            (-v t, 0), (+v t, 0)
    circle_left, right       counter-clockwise, clockwise on a circle through its start

Nothing here writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, IndexArray, MaskArray

__all__ = ["CLASSES", "FRAME_SIZE", "Film", "Shape", "draw_background", "draw_film", "render"]

FRAME_SIZE = (64, 80)
"""(height, width) of a film, pixels."""

_NUM_FRAMES = (24, 33)  # [least, most): clips of 8 frames see a shape move by 1.5 to 3.6 pixels
_NUM_SHAPES = (3, 6)
_SHAPE_SIDES = (11, 18)  # pixels
_SPEEDS = (0.5, 0.9)  # pixels a frame
_RADII = (7.0, 10.0)  # pixels; with these speeds a third of a turn to a whole one
_CIRCLE_SPEEDUP = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One thing that moves.

    Attributes:
        texture: (side, side, 3) uint8 its pixels.
        mask: (side, side) bool, where it covers the background.
        start: (row, column) of its upper left corner in the first frame.
        speed: Pixels a frame, above 0.
        radius: Of the circle that it follows if it circles, pixels.
        phase: Where on that circle it begins, radians.
    """

    texture: FrameArray = field(repr=False)
    mask: MaskArray = field(repr=False)
    start: tuple[int, int]
    speed: float
    radius: float
    phase: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """What is seen, before it moves.

    Attributes:
        background: (H, W, 3) uint8.
        shapes: From the rearmost to the foremost.
        num_frames: Length.
    """

    background: FrameArray = field(repr=False)
    shapes: tuple[Shape, ...]
    num_frames: int


def draw_background(rng: np.random.Generator) -> FrameArray:
    """Give a dim, softly textured picture, (H, W, 3) uint8."""
    tint = rng.uniform(60, 110, 3)
    return _to_pixels(tint + 50 * _soft_noise(rng, FRAME_SIZE, cells=6))


def draw_film(rng: np.random.Generator, background: FrameArray) -> Film:
    """Draw what is seen; the same whatever the motion will be."""
    num_frames = int(rng.integers(*_NUM_FRAMES))
    speed = float(rng.uniform(*_SPEEDS))
    shapes = tuple(_draw_shape(rng, speed) for _ in range(int(rng.integers(*_NUM_SHAPES))))
    return Film(background=background, shapes=shapes, num_frames=num_frames)


def render(film: Film, class_name: str) -> FrameArray:
    """Let a film's shapes move.

    Args:
        film: What is seen.
        class_name: One of `CLASSES`.

    Returns:
        (film.num_frames, H, W, 3) uint8 0..255 RGB. The first frame is the same for every class.
    """
    times = np.arange(film.num_frames)
    frames = np.repeat(film.background[np.newaxis], film.num_frames, axis=0)
    for shape in film.shapes:
        shifts = np.rint(_MOTIONS[class_name](shape, times)).astype(np.int64)  # whole pixels: no motion blurs a shape
        for frame, (top, left) in zip(frames, shifts + shape.start, strict=True):
            _paint(frame, shape, int(top), int(left))
    return frames


def _draw_shape(rng: np.random.Generator, speed: float) -> Shape:
    side = int(rng.integers(*_SHAPE_SIDES))
    color = rng.uniform(170, 255, 3) * (rng.random(3) < 0.8)
    height, width = FRAME_SIZE
    return Shape(
        texture=_to_pixels(color + 120 * _soft_noise(rng, (side, side), cells=3)),
        mask=_OUTLINES[int(rng.integers(len(_OUTLINES)))](side),
        start=(int(rng.integers(height)), int(rng.integers(width))),
        speed=speed,
        radius=float(rng.uniform(*_RADII)),
        phase=float(rng.uniform(0, 2 * np.pi)),
    )


def _paint(frame: FrameArray, shape: Shape, top: int, left: int) -> None:
    """Put a shape onto a frame, around the edges if need be."""
    side = len(shape.mask)
    rows = (top + np.arange(side)) % frame.shape[0]
    columns = (left + np.arange(side)) % frame.shape[1]
    place = np.ix_(rows, columns)
    frame[place] = np.where(shape.mask[..., np.newaxis], shape.texture, frame[place])


# Outlines


def _disc(side: int) -> MaskArray:
    rows, columns = _centred(side)
    inside: MaskArray = rows**2 + columns**2 <= (side / 2) ** 2
    return inside


def _square(side: int) -> MaskArray:
    rows, columns = _centred(side)
    inside: MaskArray = np.maximum(np.abs(rows), np.abs(columns)) <= 0.42 * side
    return inside


def _diamond(side: int) -> MaskArray:
    rows, columns = _centred(side)
    inside: MaskArray = np.abs(rows) + np.abs(columns) <= 0.55 * side
    return inside


def _centred(side: int) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    offsets = np.arange(side) - (side - 1) / 2
    return offsets[:, np.newaxis], offsets[np.newaxis, :]


_OUTLINES: Sequence[Callable[[int], MaskArray]] = (_disc, _square, _diamond)


# Motions: (T,) times in frames -> (T, 2) shift in rows and columns

_Shifts: TypeAlias = NDArray[np.floating[Any]]


def _straight(rows: int, columns: int) -> Callable[[Shape, IndexArray], _Shifts]:
    def shift(shape: Shape, times: IndexArray) -> _Shifts:
        shifts: _Shifts = shape.speed * times[:, np.newaxis] * np.array([rows, columns])
        return shifts

    return shift


def _circular(direction: int) -> Callable[[Shape, IndexArray], _Shifts]:
    def shift(shape: Shape, times: IndexArray) -> _Shifts:
        angles = shape.phase + direction * _CIRCLE_SPEEDUP * shape.speed / shape.radius * times
        # Rows count downwards, so a growing angle turns clockwise on the screen.
        points = shape.radius * np.stack([np.sin(angles), np.cos(angles)], axis=1)
        shifts: _Shifts = points - points[0]
        return shifts

    return shift


_MOTIONS: dict[str, Callable[[Shape, IndexArray], _Shifts]] = {
    "circle_left": _circular(-1),
    "circle_right": _circular(+1),
    "move_down": _straight(1, 0),
    "move_left": _straight(0, -1),
    "move_right": _straight(0, 1),
    "move_up": _straight(-1, 0),
}

CLASSES = tuple(_MOTIONS)
"""The motions, in alphabetical order."""


# Textures


def _soft_noise(rng: np.random.Generator, size: tuple[int, int], *, cells: int) -> NDArray[np.float64]:
    """(*size, 3) noise in -0.5..0.5: random numbers on a coarse grid, bilinear between them."""
    grid = rng.random((cells, cells, 3)) - 0.5
    rows, columns = (_between(side, cells) for side in size)
    noise: NDArray[np.float64] = np.einsum("ia,abc,jb->ijc", rows, grid, columns)
    return noise


def _between(side: int, cells: int) -> NDArray[np.float64]:
    """(side, cells) weights of the two nearest grid points of each pixel; the grid closes on itself."""
    places = np.arange(side) * cells / side
    left = places.astype(np.int64)
    weights = np.zeros((side, cells))
    weights[np.arange(side), left] = 1 - (places - left)
    weights[np.arange(side), (left + 1) % cells] += places - left
    return weights


def _to_pixels(values: NDArray[np.float64]) -> FrameArray:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
