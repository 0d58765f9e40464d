"""What the decode package promises to those who build on it; the frames themselves are `contracts`' business."""

from __future__ import annotations

import inspect
import pickle

import numpy as np

from clipfeed import decode
from clipfeed.decode import DecodedFrames, Decoder, PlainDecoder


def test_the_plain_decoder_has_the_protocols_signature() -> None:
    own = inspect.signature(PlainDecoder.decode)
    promised = inspect.signature(Decoder.decode)
    assert [(p.name, p.kind, p.default) for p in own.parameters.values()] == [
        (p.name, p.kind, p.default) for p in promised.parameters.values()
    ]


def test_the_package_gives_what_others_need() -> None:
    assert decode.__all__ == ["DecodedFrames", "Decoder", "LeanDecoder", "PlainDecoder", "reformat_arguments"]


def test_decoded_frames_print_without_their_pixels_and_pickle() -> None:
    decoded = DecodedFrames(frames=np.full((2, 3, 4, 3), 7, np.uint8), num_corrupt=1)
    assert repr(decoded) == "DecodedFrames(num_corrupt=1)"
    again = pickle.loads(pickle.dumps(decoded))
    assert again.num_corrupt == 1
    np.testing.assert_array_equal(again.frames, decoded.frames)


def test_a_pickled_decoder_keeps_its_time_limit() -> None:
    assert repr(pickle.loads(pickle.dumps(PlainDecoder(timeout_seconds=5)))) == "PlainDecoder(timeout_seconds=5)"
