"""Pictures with times: their numbers, which ones are needed, and when a route is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import av
import pytest

from clipfeed.decode import timed
from clipfeed.decode.route import NUM_LOOKED_AT, UnusualStreamError, Wanted
from clipfeed.decode.timed import NUM_ALWAYS_SENT, TimedPicture, timed_route_maker


class Letters:
    """Reads packets that hold a letter and an order: K is closed, R a reference, f free, and x one that is damaged."""

    num_reordered: int | None = None

    def __init__(self, extradata: bytes) -> None:
        self.num_left_out = 0

    def read(self, packet: bytes) -> TimedPicture[bytes]:
        letter, order = packet[:1], int.from_bytes(packet[1:3])
        if letter == b"?":
            raise EOFError
        return TimedPicture(order, letter not in b"fx", letter == b"K", letter)

    def check_left_out(self, packet: bytes, picture: TimedPicture[bytes]) -> None:
        if picture.header == b"x":
            raise UnusualStreamError("damaged")


class Stated(Letters):
    num_reordered = 2


def packets_of(
    kinds: str, places: Sequence[int] | None = None, times: Sequence[int] | None = None
) -> Iterator[av.Packet]:
    """Packets in decoding order; `places` says in which order they are shown, counted anew from each K."""
    places = range(len(kinds)) if places is None else places
    for number, (letter, place) in enumerate(zip(kinds, places, strict=True)):
        packet = av.Packet(letter.encode() + place.to_bytes(2) + bytes(40))
        packet.pts = 10 * place if times is None else times[number]
        yield packet


def route(
    packets: Iterator[av.Packet], wanted: set[int], reader: type[Letters] = Letters, *, saves_ends: bool = True
) -> list[tuple[int | None, list[int]]]:
    """Times of what is sent, and numbers of what must be shown from then on."""
    steps = timed_route_maker(reader)(packets, Wanted(numbers=wanted, last=max(wanted), saves_ends=saves_ends), b"")
    return [(packet and packet.pts, [frame.number for frame in foreseen]) for packet, foreseen in steps]


def sent(*arguments: object, **choices: object) -> list[int]:
    return [pts // 10 for pts, _ in route(*arguments, **choices) if pts is not None]


START = "K" + "R" * (NUM_ALWAYS_SENT - 1)


def test_numbers_are_ranks_of_times() -> None:
    kinds, places = "KRffRff", [0, 3, 1, 2, 6, 4, 5]
    steps = route(packets_of(kinds, places), {6})
    assert steps[0] == (0, list(range(7)))
    assert [pts for pts, _ in steps] == [0, 30, 10, 20, 60, 40, 50, None]
    assert all(not numbers for _, numbers in steps[1:])


def test_free_pictures_are_sent_only_if_wanted() -> None:
    kinds = START + "fRffR"
    assert sent(packets_of(kinds), {18, 20}) == [*range(16), 17, 18, 20]


def test_the_end_of_a_group_is_left_out() -> None:
    kinds = START + "RRRR" + "KRRR" + "KRR"
    assert sent(packets_of(kinds), {17, 21, 24}) == [*range(18), 20, 21, 24]


def test_a_group_without_a_wanted_frame_is_left_out() -> None:
    assert sent(packets_of(START + "KRR" + "KRR"), {20}) == [*range(16), 19, 20]


def test_reading_stops_at_a_closed_picture_behind_the_last_wanted_one() -> None:
    packets = packets_of(START + "RR" + "KRRRRR")
    assert sent(packets, {17})[-1] == 17
    assert len(list(packets)) == 5


def test_reading_stops_where_no_earlier_frame_can_come_any_more() -> None:
    packets = packets_of("K" + "R" * 99)
    assert sent(packets, {20})[-1] == 20
    assert len(list(packets)) == 100 - 20 - 1 - 17


def test_damage_in_what_is_left_out_is_looked_for() -> None:
    kinds = START + "fxRfR"
    assert sent(packets_of(kinds), {17, 20}) == [*range(16), 17, 18, 20]
    with pytest.raises(UnusualStreamError, match="damaged"):
        route(packets_of(kinds), {20})


@pytest.mark.parametrize(
    ("kinds", "places", "times"),
    [
        ("RRR", None, None),  # an open start
        ("KRR", None, [0, 10, 10]),  # times that are not apart
        ("KRR", [0, 2, 1], [0, 10, 20]),  # another order than the codec's
        ("KRR", [0, 1, 1], [0, 10, 20]),
        ("KRKR", [0, 1, 0, 1], [0, 20, 10, 30]),  # a closed picture before others
        ("KRR", None, [0, 10, None]),
        ("KR?", None, None),
        ("KR", None, None),  # fewer than are wanted
    ],
)
def test_what_is_in_doubt_is_refused(
    kinds: str, places: Sequence[int] | None, times: Sequence[int | None] | None
) -> None:
    with pytest.raises(UnusualStreamError):
        route(packets_of(kinds, places, times), {len(kinds) - 1 if kinds != "KR" else 2})


def test_pictures_out_of_order_further_than_the_first_ones_are_refused() -> None:
    """A decoder may not have learnt to wait for them."""
    later = START + "RRff"
    places = [*range(16), 17, 19, 16, 18]
    with pytest.raises(UnusualStreamError, match="further"):
        route(packets_of(later, places), {19})
    assert sent(packets_of(later, places), {19}, Stated)
    early = [0, 2, 3, 1, *range(4, 16), 17, 19, 16, 18]
    assert sent(packets_of(later, early), {19})


@pytest.mark.parametrize(("kind", "saves_ends"), [("R", False), ("R", True), ("f", False)])
def test_a_route_is_given_up_where_nothing_can_be_left_out(kind: str, saves_ends: bool) -> None:
    packets = packets_of("KR" + kind + "R" * 60)
    if kind == "R" and not saves_ends:
        with pytest.raises(UnusualStreamError, match="nothing"):
            route(packets, {50}, saves_ends=saves_ends)
        assert len(list(packets)) == 63 - NUM_LOOKED_AT - 1
    else:
        assert sent(packets, {50}, saves_ends=saves_ends)[-1] == 50


def test_no_more_packets_than_a_limit_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "MAX_HELD_BYTES", 43 * 30)
    assert sent(packets_of(("K" + "R" * 19) * 4, times=range(0, 800, 10)), {79})[-1] == 79
    with pytest.raises(UnusualStreamError, match="more packets"):
        route(packets_of("K" + "R" * 79), {79})
