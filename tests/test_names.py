"""What file names say: HMDB51's fields, UCF101's group, and nothing where they say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from clipfeed.names import (
    HMDB51_CLASSES,
    Hmdb51Name,
    Ucf101Name,
    group_of,
    group_videos,
    parse_hmdb51,
    parse_ucf101,
    scheme_of,
)

# HMDB51


def test_an_hmdb51_name_gives_all_its_fields() -> None:
    assert parse_hmdb51("April_09_brush_hair_u_nm_np1_ba_goo_0.avi", "brush_hair") == Hmdb51Name(
        source="April_09",
        class_name="brush_hair",
        body="u",
        camera="nm",
        num_people=1,
        view="ba",
        quality="goo",
        clip_number=0,
    )


@pytest.mark.parametrize(
    ("name", "folder", "source"),
    [
        ("x_kick_ball_f_cm_np2_fr_med_3.avi", "kick_ball", "x"),
        ("x_kick_ball_f_cm_np2_fr_med_3.avi", None, "x"),
        ("x_kick_ball_f_cm_np2_fr_med_3", "kick_ball", "x"),
        ("x_kick_ball_f_cm_np2_fr_med_3.avi.mp4", "kick_ball", "x"),
        ("x_kick_ball_f_cm_np2_fr_med_3.avi", "Kick Ball", "x"),
        ("x_kick_ball_f_cm_np2_fr_med_3.avi", "football", "x"),
        ("a/b/x_kick_ball_f_cm_np2_fr_med_3.avi", "kick_ball", "x"),
        ("x_draw_sword_f_cm_np10_fr_med_12.avi", "draw_sword", "x"),
        ("x_draw_sword_f_cm_np0_fr_med_12.avi", "sword", "x_draw"),
        ("x_sword_exercise_f_cm_np1_fr_med_0.avi", None, "x"),
        ("20060723sfjffbartsinger_wave_f_cm_np1_ba_med_0.avi", "wave", "20060723sfjffbartsinger"),
        ("A_Beautiful_Mind_2_eat_h_nm_np1_fr_goo_0.avi", "eat", "A_Beautiful_Mind_2"),
        ("#1_&_[x]_(y)!_run_f_nm_np1_le_bad_0.avi", "run", "#1_&_[x]_(y)!"),
        ("日本_run_f_nm_np1_le_bad_0.avi", "run", "日本"),
        ("x_move_left_f_nm_np1_le_bad_0.avi", "move_left", "x"),
        ("İx_İz_f_nm_np1_le_bad_0.avi", "İz", "İx"),
        ("x_jump_l_nm_np1_ri_goo_0.AVI", None, "x"),
    ],
)
def test_the_class_folder_says_where_the_source_ends(name: str, folder: str | None, source: str) -> None:
    parsed = parse_hmdb51(name, folder)
    assert parsed is not None
    assert parsed.source == source


@pytest.mark.parametrize(
    "name",
    [
        "holiday.mp4", "x_run_f_nm_np1_le_bad.avi", "x_run_f_nm_np1_le_bad_0_copy.avi", "x_run_q_nm_np1_le_bad_0.avi",
        "x_run_f_nm_np_le_bad_0.avi", "x_run_f_nm_np1_le_bad_٣.avi", "_f_nm_np1_le_bad_0.avi", "", ".avi",
        "v_Run_g01_c02.avi", "x_run_f_nm_np1_le_bad_0/clip.avi",
    ],
)  # fmt: skip
def test_other_names_are_not_taken_for_hmdb51(name: str) -> None:
    assert parse_hmdb51(name, "run") is None


def test_a_name_without_source_is_a_group_of_its_own() -> None:
    names = ["run_f_nm_np1_le_bad_0.avi", "run_f_nm_np1_le_bad_1.avi", "brush_hair_f_nm_np1_le_bad_1.avi"]
    assert [parse_hmdb51(name).source for name in names] == ["", "", ""]
    assert [group_of(name, None) for name in names] == names


# UCF101


def test_a_ucf101_name_gives_class_group_and_clip() -> None:
    expected = Ucf101Name(class_name="ApplyEyeMakeup", group_number=8, clip_number=2)
    assert parse_ucf101("ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c02.avi") == expected
    assert parse_ucf101("v_ApplyEyeMakeup_g08_c02") == expected
    assert parse_ucf101("v_ApplyEyeMakeup_g08_c02.avi.webm") == expected


def test_the_class_that_is_spelled_in_two_ways_is_one_class() -> None:
    odd = parse_ucf101("HandstandPushups/v_HandStandPushups_g01_c01.avi")
    even = parse_ucf101("HandstandPushups/v_HandstandPushups_g01_c02.avi")
    assert odd is not None
    assert even is not None
    assert odd.class_name == even.class_name == "HandstandPushups"
    assert group_of("v_HandStandPushups_g01_c01.avi") == group_of("v_HandstandPushups_g01_c02.avi")


@pytest.mark.parametrize(
    "name",
    ["v_Run_g1_c02.avi", "v_Run_g001_c02.avi", "v__g01_c01.avi", "Run_g01_c02.avi", "v_Run_g01_c02_x.avi", "v_g01"],
)
def test_other_names_are_not_taken_for_ucf101(name: str) -> None:
    assert parse_ucf101(name) is None
    assert scheme_of(name) is None


# Groups


def test_hmdb51_groups_are_sources_across_classes() -> None:
    run = group_of("run/TheFilm_run_f_cm_np1_fr_med_3.avi", "run")
    walk = group_of("walk/TheFilm_walk_f_cm_np1_fr_med_0.avi", "walk")
    assert run == walk == "TheFilm"


def test_ucf101_groups_are_class_and_group() -> None:
    keys = ["Archery/v_Archery_g04_c01.avi", "Archery/v_Archery_g04_c02.avi", "Biking/v_Biking_g04_c01.avi"]
    assert [group_of(key, key.split("/")[0]) for key in keys] == ["Archery/g04", "Archery/g04", "Biking/g04"]


def test_a_name_that_says_nothing_is_its_own_group() -> None:
    assert group_of("run/holiday.mp4", "run") == "run/holiday.mp4"


def test_a_group_depends_on_its_own_name_only() -> None:
    keys = ["run/TheFilm_run_f_cm_np1_fr_med_3.avi", "v_Run_g01_c01.avi", "x.mp4"]
    together = group_videos(keys, ["run", None, None]).groups
    assert together == tuple(
        group_videos([key], [name]).groups[0] for key, name in zip(keys, ["run", None, None], strict=True)
    )


def test_hmdb51_is_recognised_and_said() -> None:
    keys = [f"run/Film{film}_run_f_cm_np1_fr_med_{clip}.avi" for film in range(3) for clip in range(4)]
    grouping = group_videos(keys, ["run"] * 12)
    assert grouping.scheme == "hmdb51"
    assert grouping.describe() == "groups: 12 of 12 files have HMDB51 names, by source across classes; 3 groups"


def test_ucf101_is_recognised_and_said() -> None:
    grouping = group_videos([f"v_Run_g{group:02d}_c{clip:02d}.avi" for group in (1, 2) for clip in (1, 2, 3)])
    assert grouping.scheme == "ucf101"
    assert grouping.describe() == "groups: 6 of 6 files have UCF101 names, by class and group; 2 groups"


def test_names_that_say_nothing_are_said_to_say_nothing() -> None:
    grouping = group_videos(["a.mp4", "b.mp4"])
    assert grouping.scheme is None
    assert grouping.groups == ("a.mp4", "b.mp4")
    assert "say nothing of a source, so each of 2 files is a group of its own" in grouping.describe()


def test_a_mixed_folder_is_read_file_by_file() -> None:
    keys = ["v_Run_g01_c01.avi", "v_Run_g01_c02.avi", "F_run_f_cm_np1_fr_med_3.avi", "a.mp4"]
    grouping = group_videos(keys)
    assert grouping.groups == ("Run/g01", "Run/g01", "F", "a.mp4")
    assert (grouping.num_hmdb51, grouping.num_ucf101, grouping.scheme) == (1, 2, "ucf101")
    assert "1 other files are groups of their own; 3 groups" in grouping.describe()


def test_as_many_class_names_as_keys_are_needed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        group_videos(["a.mp4", "b.mp4"], ["run"])


# The published lists


@pytest.fixture(scope="module")
def hmdb51(shared: Path) -> list[tuple[str, str]]:
    """(class, name) of all 6,766 clips."""
    return [
        (listing.name.removesuffix("_test_split1.txt"), line.split()[0])
        for listing in sorted((shared / "splits/hmdb51").glob("*_test_split1.txt"))
        for line in listing.read_text().splitlines()
        if line.strip()
    ]


@pytest.mark.shared
def test_every_published_hmdb51_name_is_read(hmdb51: list[tuple[str, str]]) -> None:
    assert len(hmdb51) == 6766
    parsed = [(folder, parse_hmdb51(name, folder)) for folder, name in hmdb51]
    assert all(fields is not None and fields.class_name == folder for folder, fields in parsed)
    assert {folder for folder, _ in parsed} == set(HMDB51_CLASSES)
    sources = {fields.source for _, fields in parsed if fields}
    assert len(sources) == 1407
    assert len({(folder, fields.source) for folder, fields in parsed if fields}) == 2291


@pytest.mark.shared
def test_a_flat_folder_of_hmdb51_gives_the_same_groups(hmdb51: list[tuple[str, str]]) -> None:
    assert [group_of(name) for _, name in hmdb51] == [group_of(f"{folder}/{name}", folder) for folder, name in hmdb51]


@pytest.mark.shared
def test_every_published_ucf101_name_is_read(shared: Path) -> None:
    lists = [shared / f"splits/ucf101/{kind}list01.txt" for kind in ("train", "test")]
    keys = [line.split()[0] for listing in lists for line in listing.read_text().splitlines() if line.strip()]
    assert len(keys) == 13320
    parsed = [parse_ucf101(key) for key in keys]
    assert all(
        fields is not None and fields.class_name == key.split("/")[0] for key, fields in zip(keys, parsed, strict=True)
    )
    assert len({group_of(key) for key in keys}) == 101 * 25
