"""What the decode package promises to those who build on it; the frames themselves are `contracts`' business."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

from clipfeed import decode
from clipfeed.decode import DecodedFrames, Decoder, LeanDecoder, PlainDecoder, make_decoder


@pytest.mark.parametrize("method", ["decode", "decode_chunks"])
@pytest.mark.parametrize("decoder", [PlainDecoder, LeanDecoder])
def test_decoders_have_the_protocols_signatures(decoder: type[Decoder], method: str) -> None:
    own, promised = (inspect.signature(getattr(owner, method)) for owner in (decoder, Decoder))
    assert [(p.name, p.kind, p.default) for p in own.parameters.values()] == [
        (p.name, p.kind, p.default) for p in promised.parameters.values()
    ]


def test_the_package_gives_what_others_need() -> None:
    assert decode.__all__ == [
        "DecodedFrames",
        "Decoder",
        "DecoderName",
        "LeanDecoder",
        "PlainDecoder",
        "make_decoder",
        "pixel_facts",
        "reformat_arguments",
    ]


def test_decoded_frames_print_without_their_pixels_and_pickle() -> None:
    decoded = DecodedFrames(frames=np.full((2, 3, 4, 3), 7, np.uint8), is_damaged=np.array([True, False]))
    assert repr(decoded) == "DecodedFrames(is_damaged=array([ True, False]))"
    assert decoded.num_corrupt == 1
    again = pickle.loads(pickle.dumps(decoded))
    assert again.is_damaged.tolist() == [True, False]
    np.testing.assert_array_equal(again.frames, decoded.frames)


def test_a_pickled_decoder_keeps_its_time_limit() -> None:
    assert repr(pickle.loads(pickle.dumps(PlainDecoder(timeout_seconds=5)))) == "PlainDecoder(timeout_seconds=5)"


@pytest.mark.parametrize(("name", "kind"), [("auto", LeanDecoder), ("plain", PlainDecoder)])
def test_a_name_makes_its_decoder(name: str, kind: type[Decoder]) -> None:
    decoder = make_decoder(name, timeout_seconds=7)
    assert type(decoder) is kind
    assert decoder.timeout_seconds == 7


@pytest.mark.parametrize("name", ["lean", "", None])
def test_a_name_of_no_decoder_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match=r"decoder=.*expected one of 'auto', 'plain'"):
        make_decoder(name)
