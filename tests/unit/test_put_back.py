"""What a save that was killed leaves beside a folder: it is put back or cleared away, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

import topic_probes as tp
from topic_probes import _folders
from topic_probes._folders import whole_folder
from topic_probes._locks import locked

KILLED = "process 1 on a-machine\n"


def save(folder: Path, text: str) -> None:
    with whole_folder(folder, kind="a text", replaceable=lambda path: (path / "text").is_file()) as new:
        (new / "text").write_text(text)


def leave(folder: Path, *parts: str, holder: str = KILLED, name: str = "abcdef_1") -> Path:
    """Make what a killed save has left: ``new`` and ``old`` as far as it came."""
    workshop = folder.parent / f".{folder.name}-{name}"
    workshop.mkdir(exist_ok=True)
    for part in parts:
        (workshop / part).mkdir(parents=True)
        (workshop / part / "text").write_text(part)
    (workshop / "lock").write_text(holder)
    return workshop


def test_between_its_two_moves_the_earlier_one_comes_back(tmp_path: Path) -> None:
    """A save that then fails leaves it there; one that ends well replaces it."""
    leave(tmp_path / "saved", "new", "old")
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "saved", kind="a", replaceable=lambda _: True):
        _ = 1 / 0
    assert (tmp_path / "saved" / "text").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    leave(tmp_path / "other", "new", "old")
    save(tmp_path / "other", "third")
    assert (tmp_path / "other" / "text").read_text() == "third"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "saved"]


def test_loading_finds_it(tmp_path: Path) -> None:
    """A saved part and a report; through a link, too."""
    topics = tp.TopicModel.from_matrix([[0.5, 0.5]], ["cat", "dog"])
    topics.save(tmp_path / "real")
    workshop = leave(tmp_path / "real", "new")
    (tmp_path / "real").rename(workshop / "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert tp.TopicModel.load(tmp_path / "link").vocabulary == ("cat", "dog")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]

    labels = tp.TopicLabels.from_dict({0: 0, 1: 0, 2: 1, 3: 1})
    report = tp.probe(tp.toy.TopicTransformer(4), [[0, 1, 2, 3]] * 4, labels, baseline=None, progress=False)
    report.save(tmp_path / "report")
    workshop = leave(tmp_path / "report", "new")
    (tmp_path / "report").rename(workshop / "old")
    assert tp.ProbeReport.load(tmp_path / "report").attention.tally == report.attention.tally


def test_a_save_that_was_killed_elsewhere_is_cleared_away(tmp_path: Path) -> None:
    """Before its moves, or after them: the folder that is there is the right one."""
    for number, parts in enumerate((("new",), ("old",), ())):
        save(tmp_path / "saved", "mine")
        workshop = leave(tmp_path / "saved", *parts)
        save(tmp_path / "saved", f"next {number}")
        assert not workshop.exists()
        assert (tmp_path / "saved" / "text").read_text() == f"next {number}"


def test_a_save_of_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    """In the moment between its moves, too; and one whose lock does not say yet whose it is."""
    workshop = leave(tmp_path / "saved", "new", "old", name="alive_01")
    young = leave(tmp_path / "saved", "new", holder="", name="young_01")
    with locked(workshop / "lock", "the save"):
        save(tmp_path / "saved", "mine")
        assert (workshop / "old" / "text").read_text() == "old"
    assert young.exists()
    assert (tmp_path / "saved" / "text").read_text() == "mine"


def test_an_earlier_one_that_something_else_has_replaced_stays(tmp_path: Path) -> None:
    workshop = leave(tmp_path / "saved", "new", "old")
    (tmp_path / "saved").mkdir()
    save(tmp_path / "saved", "mine")
    assert (workshop / "old" / "text").read_text() == "old"


def test_where_nobody_can_say_whether_a_process_lives_the_place_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On drives without locks nothing is moved or deleted."""
    workshop = leave(tmp_path / "saved", "new", "old")
    monkeypatch.setattr(_folders, "try_lock", lambda _: None)
    with pytest.raises(FileNotFoundError, match=r"saved is missing, .* what was there lies in .*old, move it back"):
        tp.TopicModel.load(tmp_path / "saved")
    with pytest.raises(FileNotFoundError, match="move it back"):
        save(tmp_path / "saved", "mine")
    assert (workshop / "old" / "text").read_text() == "old"
    (workshop / "old").rename(tmp_path / "saved")
    save(tmp_path / "saved", "mine")
    assert (workshop / "new").exists()


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """Names alike, links, and folders with something more in them."""
    (tmp_path / "precious" / "old").mkdir(parents=True)
    (tmp_path / "precious" / "lock").write_text(KILLED)
    (tmp_path / ".saved-linked_1").symlink_to(tmp_path / "precious")
    inside = leave(tmp_path / "saved", name="linked_2")
    (inside / "old").symlink_to(tmp_path / "precious")
    foreign = leave(tmp_path / "saved", "new", "old", name="foreign1")
    (foreign / "thesis.tex").write_text("years of work")
    other = leave(tmp_path / "saved", "new", "old", name="holidays-2024")
    with pytest.raises(FileNotFoundError, match="is not a saved topic model"):
        tp.TopicModel.load(tmp_path / "saved")
    save(tmp_path / "saved", "mine")
    assert (tmp_path / "precious" / "old").is_dir()
    assert (foreign / "old" / "text").read_text() == (other / "old" / "text").read_text() == "old"


def interrupted_after(monkeypatch: pytest.MonkeyPatch, moves: set[int], before: frozenset[int] = frozenset()) -> None:
    """Let Ctrl-C come when some of the moves are just made, or about to be."""
    move, made = Path.replace, []

    def replace(self: Path, target: Path) -> Path:
        made.append(target)
        if len(made) in before:
            raise KeyboardInterrupt
        found = move(self, target)
        if len(made) in moves:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Path, "replace", replace)


@pytest.mark.parametrize(("move", "left"), [(1, "earlier"), (2, "later")])
def test_ctrl_c_when_a_move_was_just_made_loses_nothing(
    move: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "saved", "earlier")
    with monkeypatch.context() as patched:
        interrupted_after(patched, {move})
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path / "saved", "later")
    assert (tmp_path / "saved" / "text").read_text() == left
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_ctrl_c_a_second_time_leaves_it_for_the_next_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "saved", "earlier")
    with monkeypatch.context() as patched:
        interrupted_after(patched, {1}, before=frozenset({2}))
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path / "saved", "later")
    assert not (tmp_path / "saved").exists()
    with pytest.raises(ZeroDivisionError), whole_folder(tmp_path / "saved", kind="a", replaceable=lambda _: True):
        _ = 1 / 0
    assert (tmp_path / "saved" / "text").read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
