"""Every decoder of the package keeps the contract."""

from __future__ import annotations

from clipfeed.decode import LeanDecoder, PlainDecoder
from clipfeed.testing import DecoderTests


class TestPlainDecoder(DecoderTests):
    def make_decoder(self) -> PlainDecoder:
        return PlainDecoder()


class TestLeanDecoder(DecoderTests):
    def make_decoder(self) -> LeanDecoder:
        return LeanDecoder()
