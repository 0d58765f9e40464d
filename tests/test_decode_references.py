"""Pictures that refer to the one or two references before them: their numbers, and which ones are needed."""

from __future__ import annotations

from collections.abc import Sequence

import av
import pytest

from clipfeed.decode import references
from clipfeed.decode.references import (
    B_PICTURE,
    I_PICTURE,
    P_PICTURE,
    DisplayOrder,
    Picture,
    needed,
    reference_route_maker,
)
from clipfeed.decode.route import NUM_LOOKED_AT, UnusualStreamError, Wanted

KINDS = {"I": I_PICTURE, "P": P_PICTURE, "B": B_PICTURE}


def pictures(kinds: str, *, is_ended: bool = True) -> list[Picture]:
    order: DisplayOrder[Picture] = DisplayOrder()
    for number, letter in enumerate(kinds):
        order.add(Picture(KINDS[letter], number))
    if is_ended:
        order.finish()
    return order.pictures


def test_b_pictures_are_shown_at_once_and_references_when_the_next_one_comes() -> None:
    assert [picture.number for picture in pictures("IPBBPBI")] == [0, 3, 1, 2, 5, 4, 6]
    assert [picture.number for picture in pictures("IPBP", is_ended=False)] == [0, 2, 1, None]


@pytest.mark.parametrize("kinds", ["P", "B", "IB"])
def test_a_start_without_references_is_refused(kinds: str) -> None:
    with pytest.raises(UnusualStreamError):
        pictures(kinds)


@pytest.mark.parametrize(
    ("kinds", "wanted", "expected"),
    [
        ("IPPPIPPP", {5}, [0, 4, 5]),  # the first one carries the headers
        ("IPPPIPPP", {1, 4}, [0, 1, 4]),  # the end of a group
        ("IPBPBPB", {2}, [0, 1]),  # B-pictures
        ("IPBPBPB", {3}, [0, 1, 3, 4]),  # one needs both its neighbours
        ("IPPIBBP", {3}, [0, 1, 2, 3, 4]),  # one behind an I-picture needs the group before
        ("IPPIBBP", {5}, [0, 3]),  # the I-picture itself does not
        ("IPPIBBP", set(), [0]),
    ],
)
def test_needed_are_the_wanted_and_what_they_refer_to(kinds: str, wanted: set[int], expected: list[int]) -> None:
    assert [picture.packet for picture in needed(pictures(kinds), wanted, num_always=1)] == expected


def test_the_first_pictures_are_always_needed() -> None:
    assert [picture.packet for picture in needed(pictures("IPBB" + "PBB" * 9), {24}, num_always=18)] == [
        *range(18), 19, 22,
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", [{4}, {9}, {6}, {7}, {2, 12}, set(range(14))])
def test_groups_may_be_decided_one_by_one(wanted: set[int]) -> None:
    kinds = "IPBBPBIBBPBPPIBP"
    whole = [picture.packet for picture in needed(pictures(kinds), wanted, num_always=0)]
    order: DisplayOrder[Picture] = DisplayOrder()
    kept: list[Picture] = []
    for number, letter in enumerate(kinds):
        order.add(Picture(KINDS[letter], number))
        group, num_before = order.take_finished_groups(wanted)
        kept += needed(group, wanted, num_always=0, num_before=num_before)
    order.finish()
    kept += needed(order.pictures, wanted, num_always=0)
    assert [picture.packet for picture in kept] == whole


class Letters:
    """Reads packets that hold the letters of their pictures' kinds."""

    num_always_sent = 1
    keeps_references = False

    def __init__(self, extradata: bytes) -> None:
        self._num_packets = 0

    def read(self, packet: bytes) -> Sequence[Picture]:
        self._num_packets += 1
        return [Picture(KINDS[chr(letter)], self._num_packets - 1) for letter in packet[:1]]

    def part_of(self, picture: Picture, packet: av.Packet) -> av.Packet:
        return packet


class AllReferences(Letters):
    keeps_references = True


def route(
    kinds: str, wanted: set[int], reader: type[Letters] = Letters, **choices: bool
) -> list[tuple[str, list[int]]]:
    """What is sent, letter by letter, and which numbers may be shown from then on."""
    packets = (av.Packet(letter.encode() + bytes(40)) for letter in kinds)
    goal = Wanted(numbers=wanted, last=max(wanted), **{"saves_ends": True, **choices})
    steps = reference_route_maker(reader)(packets, goal, b"")
    return [
        (chr(bytes(packet)[0]) if packet else "", [frame.number for frame in foreseen]) for packet, foreseen in steps
    ]


def test_a_reference_is_foreseen_when_the_next_one_is_sent() -> None:
    assert route("IPBPBPP", {4}) == [("I", []), ("P", [0]), ("P", [2]), ("", [4])]
    assert route("IPBPBPP", {2, 3}) == [("I", []), ("P", [0]), ("P", [2]), ("B", [3]), ("", [])]


def test_without_b_pictures_a_frame_may_come_at_once() -> None:
    assert route("IPPIP", {1, 3}) == [("I", [0]), ("P", [1]), ("I", [3]), ("", [])]


def test_nothing_is_read_behind_the_last_wanted_frame() -> None:
    packets = iter([av.Packet(letter.encode() + bytes(40)) for letter in "IPPPPPPP"])
    goal = Wanted(numbers={2}, last=2, saves_ends=True)
    assert len(list(reference_route_maker(Letters)(packets, goal, b""))) == 4
    assert len(list(packets)) == 4


def test_all_references_are_sent_where_a_decoder_needs_them() -> None:
    sent = [letter for letter, _ in route("IPBPIBPBP", {7}, AllReferences)]
    assert sent == ["I", "P", "P", "I", "P", ""]


def test_the_reference_that_a_last_b_picture_needs_is_sent() -> None:
    for reader in (Letters, AllReferences):
        assert route("IPBPBP", {3}, reader)[-2:] == [("B", [3]), ("", [])]
        assert [letter for letter, _ in route("IPBPBP", {3}, reader)] == ["I", "P", "P", "B", ""]


def test_a_stream_that_ends_too_early_is_refused() -> None:
    with pytest.raises(UnusualStreamError, match="fewer frames"):
        route("IPP", {5})


@pytest.mark.parametrize(("kinds", "saves_ends"), [("IP" + "P" * 50, False), ("IPB" + "P" * 50, True)])
def test_a_route_is_given_up_where_nothing_can_be_left_out(kinds: str, saves_ends: bool) -> None:
    read = []

    def noted() -> object:
        for letter in kinds:
            read.append(letter)
            yield av.Packet(letter.encode() + bytes(40))

    goal = Wanted(numbers={45}, last=45, saves_ends=saves_ends)
    steps = reference_route_maker(Letters)(noted(), goal, b"")
    if saves_ends:
        assert len(list(steps)) == 46
        return
    with pytest.raises(UnusualStreamError, match="nothing"):
        next(steps)
    assert len(read) == NUM_LOOKED_AT + 1


def test_packets_that_are_not_needed_are_dropped_and_too_many_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MAX_HELD_BYTES", 41 * 20)
    kinds = "IPPPP" * 20
    assert [letter for letter, _ in route(kinds, {97})] == ["I", "I", "P", "P", ""]
    with pytest.raises(UnusualStreamError, match="more packets"):
        route("I" + "P" * 60, {50})
