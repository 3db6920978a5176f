"""Files that mean harm: each costs little memory, runs nothing, and ends in one clear sentence."""

from __future__ import annotations

import ast
import bz2
import gzip
import json
import math
import pickle
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
from limited_memory import run_limited
from topic_probes import (
    AttentionResult,
    EmbeddingResult,
    ProbeReport,
    TopicLabels,
    TopicModel,
    cli,
    probe,
    probe_embedding,
    toy,
)
from topic_probes._errors import CorpusError
from topic_probes._folders import write_folder
from topic_probes.corpora import huggingface, jsonl, text_files
from topic_probes.probes import _resuming
from topic_probes.statistics._contextual import LayerPairs
from topic_probes.statistics._sums import AttentionSums

MEBIBYTE = 1 << 20
ALLOWED = 300 * MEBIBYTE
"""What a reader may take beyond its libraries; each file below unpacks to 1 GiB or more."""

needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited through /proc and RLIMIT_AS")


def sentence(error: BaseException) -> str:
    """Return the message of an error, which is one line of a length that can be read."""
    message = str(error)
    assert "\n" not in message
    assert 20 < len(message) < 700
    return message


# Corpora


def sparse(path: Path, begin: bytes, size: int = 1 << 30) -> None:
    """Write a file of that many bytes, zeros after the beginning, that takes no room."""
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(size)


def packed(pack: Callable[[bytes], bytes], begin: bytes, filling: bytes = b"a", repeats: int = 64) -> bytes:
    """Return a small compressed file that unpacks to the beginning and a gigabyte of one letter."""
    return pack(begin) + pack(filling * (16 * MEBIBYTE // len(filling))) * repeats


DUMP = b"<mediawiki><siteinfo><namespaces></namespaces></siteinfo><page><title>A cat</title><ns>0</ns><id>1</id>"
GOOD = b"<mediawiki><page><title>A cat</title><ns>0</ns><id>1</id><revision><text>A cat sat.</text></revision></page>"


def long_line(path: Path) -> None:
    sparse(path, b'{"text": "good"}\n{"text": "')


def long_line_of_numbers(path: Path) -> None:
    sparse(path, b"1 2 END\n3 4 ")


def gzip_bomb(path: Path) -> None:
    path.write_bytes(packed(gzip.compress, b'{"text": "good"}\n{"text": "'))


def bzip2_bomb(path: Path) -> None:
    path.write_bytes(packed(bz2.compress, b'{"text": "good"}\n{"text": "'))


def bomb_of_numbers(path: Path) -> None:
    path.write_bytes(packed(gzip.compress, b"1 2 END\n", b"1 "))


def endless_text(path: Path) -> None:
    path.write_bytes(packed(gzip.compress, GOOD + b"<page><title>B</title><revision><text>"))


def endless_comment(path: Path) -> None:
    path.write_bytes(packed(gzip.compress, GOOD + b"<!-- "))


def endless_attribute(path: Path) -> None:
    path.write_bytes(packed(gzip.compress, GOOD + b'<page a="'))


def endless_depth(path: Path) -> None:
    path.write_bytes(packed(gzip.compress, GOOD + b"<page>", b"<a>"))


def endless_names(path: Path) -> None:
    path.write_bytes(gzip.compress(GOOD + b"".join(b"<a%d/>" % number for number in range(1_000_000))))


def endless_namespaces(path: Path) -> None:
    begin, one = b"<mediawiki><siteinfo><namespaces>", b'<namespace key="%d">%d</namespace>'
    path.write_bytes(gzip.compress(begin + b"".join(one % (number, number) for number in range(1, 100_000))))


def billion_laughs(path: Path) -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    path.write_text(
        f'<!DOCTYPE m [<!ENTITY e0 "cat">{levels}]><mediawiki><page><title>&e11;</title></page></mediawiki>'
    )


def file_of_another(path: Path) -> None:
    path.write_text('<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/hostname">]><mediawiki><page>&x;</page></mediawiki>')


def endless_text_file(path: Path) -> None:
    sparse(path, b"A cat.")


def deep_json(path: Path) -> None:
    path.write_bytes(b'{"text": "good"}\n{"text": ' + b"[" * 20 * MEBIBYTE)


def long_number(path: Path) -> None:
    path.write_bytes(b'{"text": "good"}\n{"text": ' + b"1" * 20 * MEBIBYTE + b"}")


def many_fields(path: Path) -> None:
    path.write_bytes(b'{"text": "good"}\n{' + b",".join(b'"%d":0' % n for n in range(200_000)) + b"}")


BOMBS: list[tuple[Callable[[Path], None], str, int, str]] = [
    (long_line, "jsonl", 1, "line 2 must be at most 33,554,432 bytes long: one document a line is expected"),
    (gzip_bomb, "jsonl", 1, "line 2 must be at most"),
    (bzip2_bomb, "jsonl", 1, "line 2 must be at most"),
    (deep_json, "jsonl", 1, "line 2 is not JSON"),
    (long_number, "jsonl", 1, "line 2 is not JSON"),
    (many_fields, "jsonl", 1, "line 2 has no field 'text'"),
    (long_line_of_numbers, "token_id_file", 1, "line 2 must be at most"),
    (bomb_of_numbers, "token_id_file", 1, "line 2 must be at most"),
    (endless_text_file, "text_files", 0, "must be at most 33,554,432 bytes long: split it, or leave it out"),
    (endless_text, "wikipedia_dump", 1, "a text of more than 16,777,216 characters"),
    (endless_comment, "wikipedia_dump", 1, "a tag or comment of more than 1,048,576 bytes"),
    (endless_attribute, "wikipedia_dump", 1, "a tag or comment of more than 1,048,576 bytes"),
    (endless_depth, "wikipedia_dump", 1, "more than 64 deep"),
    (endless_names, "wikipedia_dump", 1, "more than 1,000 names"),
    (endless_namespaces, "wikipedia_dump", 0, "more than 10,000 namespaces"),
    (billion_laughs, "wikipedia_dump", 0, "document type declaration"),
    (file_of_another, "wikipedia_dump", 0, "document type declaration"),
]

READ_ALL = """
for name, path in CASES:
    n_read = 0
    try:
        for document in getattr(corpora, name)(path):
            n_read += 1
        print(json.dumps([n_read, "nothing was refused"]))
    except CorpusError as error:
        print(json.dumps([n_read, str(error)]))
"""


@needs_limits
def test_a_file_that_unpacks_to_gigabytes_costs_little_memory_and_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """Documents before the fault come out; the message names the file, and the line where there are lines."""
    cases = []
    for write, reader, _, _ in BOMBS:
        path = tmp_path / f"{write.__name__}.txt"
        write(path)
        cases.append((reader, str(path)))
    imports = (
        "import json, gensim.corpora.wikicorpus\nfrom topic_probes import corpora\n"
        f"from topic_probes._errors import CorpusError\nCASES = {cases!r}"
    )
    done = run_limited(imports, READ_ALL, n_bytes=ALLOWED)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (_, path), (_, _, n_good, reason), (n_read, message) in zip(cases, BOMBS, found, strict=True):
        assert reason in sentence(CorpusError(message)), path
        assert message.startswith(path)
        assert n_read == n_good, path


@needs_limits
def test_the_limit_of_memory_is_felt() -> None:
    """A reader that held a gigabyte would be seen: the same limit stops plain Python."""
    done = run_limited("", "len(b'a' * (1 << 30))", n_bytes=ALLOWED)
    assert "MemoryError" in done.stderr


def test_token_ids_beyond_64_bits_are_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "ids.jsonl"
    path.write_text(f'{{"token_ids": [1]}}\n{{"token_ids": [{10**30}]}}\n')
    with pytest.raises(
        CorpusError, match=r"line 2: token_ids of document '1' must be below 2\*\*63, got 1000"
    ) as caught:
        list(jsonl(path))
    sentence(caught.value)


def test_a_folder_of_texts_does_not_lead_out_of_itself(tmp_path: Path) -> None:
    """Links to folders are not followed, also not in circles; a link to a file elsewhere is refused by name."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.txt").write_text("other")
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "cat.txt").write_text("cat")
    for name in ("one", "two", "three"):  # each circle multiplies the paths by all others
        (folder / name).symlink_to(folder)
        (folder / "deep" / name).symlink_to(folder)
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    (folder / "again.txt").symlink_to(folder / "deep" / "cat.txt")
    assert [document.id for document in text_files(folder)] == ["again.txt", "deep/cat.txt"]
    (folder / "mine.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(CorpusError, match=r"mine\.txt is a link to a file outside of the folder") as caught:
        text_files(folder)
    sentence(caught.value)
    assert [document.text for document in text_files(folder / "mine.txt")] == ["secret"], "who names it wants it"
    (tmp_path / "link").symlink_to(folder / "deep")
    assert [document.id for document in text_files(tmp_path / "link")] == ["cat.txt"]


# What libraries underneath would run


class Bomb:
    """Unpickled, it makes a folder: a harmless stand-in for any code."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.mkdir, (self.mark,)


def test_the_bomb_goes_off_when_it_is_unpickled(tmp_path: Path) -> None:
    """Else the tests below would show nothing."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "mark")))
    assert (tmp_path / "mark").is_dir()


def test_a_gensim_file_is_not_opened_without_trust(tmp_path: Path) -> None:
    path = tmp_path / "lda.model"
    path.write_bytes(pickle.dumps(Bomb(tmp_path / "mark")))
    with pytest.raises(ValueError, match="pass trusted=True only if you trust the origin") as caught:
        TopicModel.from_gensim(path)
    sentence(caught.value)
    assert not (tmp_path / "mark").exists()


def test_the_builder_of_pickles_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.pkl"
    path.write_bytes(pickle.dumps(Bomb(tmp_path / "mark")))
    with pytest.raises(ValueError, match="reads pickles") as caught:
        list(huggingface("pandas", data_files=str(path)))
    sentence(caught.value)
    assert not (tmp_path / "mark").exists()


def test_weights_in_a_pickle_run_nothing(tmp_path: Path) -> None:
    """A folder with pytorch_model.bin, the format before safetensors."""
    from topic_probes import load_model

    model = helpers.tiny_bert()
    model.save_pretrained(tmp_path / "model")
    helpers.tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    (tmp_path / "model" / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(tmp_path / "mark")))
    with pytest.raises(Exception, match=r"."):
        load_model(tmp_path / "model")
    assert not (tmp_path / "mark").exists()


def calls_of(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def unsafe(source: str) -> list[str]:
    """Return what a source has of pickles, of code made of text, and of trust in the code of strangers."""
    faults = []
    tree = ast.parse(source)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        faults += [name for name in names if name.split(".")[0] in PICKLERS]
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Assign):
            pairs = [(target.slice, node.value) for target in node.targets if isinstance(target, ast.Subscript)]
        elif isinstance(node, ast.keyword) and node.arg:
            pairs = [(ast.Constant(node.arg), node.value)]
        for key, value in pairs:
            if isinstance(key, ast.Constant) and key.value in ("trust_remote_code", "allow_pickle"):
                faults += [] if isinstance(value, ast.Constant) and value.value is False else [str(key.value)]
    for name, call in calls_of(tree):
        if name in (
            "eval",
            "exec",
            "torch.load",
            "yaml.load",
            "os.system",
            "np.load",
            "numpy.load",
            "pd.read_pickle",
            "joblib.load",
        ):
            safe = any(
                word.arg == "weights_only" and getattr(word.value, "value", None) is True for word in call.keywords
            )
            faults += [] if name == "torch.load" and safe else [name]
    return faults


LOADERS = {
    *("eval", "exec", "os.system", "torch.load", "yaml.load", "np.load", "numpy.load", "pd.read_pickle", "joblib.load"),
}
PICKLERS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}


def test_nothing_in_the_package_unpickles_or_trusts_remote_code(repository: Path) -> None:
    """trust_remote_code is only ever False; the one way to a pickle is gensim's load, behind trusted=True."""
    files = sorted((repository / "topic_probes").rglob("*.py"))
    assert len(files) > 50
    assert {file.name: faults for file in files if (faults := unsafe(file.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "f(trust_remote_code=True)",
        "f(trust_remote_code=flag)",
        "options['trust_remote_code'] = True",
        "{'trust_remote_code': True}",
        "eval(text)",
    ],
)
def test_what_is_unsafe_is_seen(source: str) -> None:
    assert unsafe(source)


def test_what_is_safe_is_left_alone() -> None:
    assert unsafe("torch.load(path, weights_only=True)\noptions['trust_remote_code'] = False\nmodel.eval()") == []


# Saved folders


def topic_model(folder: Path) -> None:
    TopicModel(
        np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]),
        ("cat", "dog", "sun"),
        prior=np.array([0.5, 0.5]),
        word_counts=np.array([3, 2, 1]),
        n_tokens=6,
        coherences=np.array([-1.0, np.nan]),
    ).save(folder)


def attention_result(folder: Path) -> None:
    AttentionResult(
        totals=AttentionSums.empty((0, 1), 2, n_topics=3, n_permutations=4),
        tally={"n_documents": 0},
        visibility={0: "causal", 1: "causal"},
        unavailable_layers=(2,),
        options={"words": "whole"},
        seed=0,
    ).save(folder)


def embedding_result(folder: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 3))
    counts = {0: 5, 1: 6, 2: 7, 3: 8}
    probe_embedding(vectors, TopicLabels.from_dict({0: 0, 1: 0, 2: 1, 3: 1}), word_counts=counts).save(folder)


def contextual_result(folder: Path) -> None:
    EmbeddingResult(LayerPairs.empty((-1, 0, 1)), None, "residual stream", 4, {}, {"n_documents": 1}).save(folder)


def _train(**options: Any) -> Any:
    model = toy.TopicTransformer(4)
    return toy.train(model, [[0, 1], [2, 3]], steps=2, batch_size=2, labels=[0, 0, 1, 1], progress=False, **options)


def toy_run(folder: Path) -> None:
    _train().save(folder)


def toy_checkpoint(folder: Path) -> None:
    _train(checkpoint=folder)


STATES = [[1, 2, 3, 5]] * 4


def _probe(folder: Path, **options: Any) -> Any:
    labels = TopicLabels.from_dict({word: word % 2 for word in range(8)})
    return probe(
        toy.TopicTransformer(8), STATES, labels, n_permutations=2, progress=False, checkpoint=folder, **options
    )


def checkpoint(folder: Path) -> None:
    """The state alone, which is a folder inside that of the checkpoint."""
    with tempfile.TemporaryDirectory() as place:
        _probe(Path(place))
        shutil.copytree(Path(place) / "state-000000000004", folder)


def go_on(state: Path) -> Any:
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(state, Path(place) / "state-000000000004", symlinks=True)
        return _probe(Path(place), resume=True)


SAVERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
    "topic model": (topic_model, TopicModel.load),
    "attention result": (attention_result, AttentionResult.load),
    "embedding result": (embedding_result, EmbeddingResult.load),
    "contextual result": (contextual_result, EmbeddingResult.load),
    "toy run": (toy_run, toy.ToyRun.load),
    "checkpoint": (checkpoint, go_on),
    "toy checkpoint": (toy_checkpoint, lambda folder: _train(checkpoint=folder, resume=True)),
}


@pytest.fixture(scope="module")
def saved_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name, (save, _) in SAVERS.items():
        folders[name] = tmp_path_factory.mktemp("saved") / "folder"
        save(folders[name])
    return folders


@pytest.fixture(params=list(SAVERS))
def saved(request: pytest.FixtureRequest, saved_folders: dict[str, Path], tmp_path: Path) -> tuple[Path, Any]:
    """A fresh copy of a saved folder of each kind, and what loads it."""
    shutil.copytree(saved_folders[request.param], tmp_path / "saved")
    return tmp_path / "saved", SAVERS[request.param][1]


def head_of(path: Path) -> tuple[dict[str, Any], bytes]:
    content = path.read_bytes()
    (n_head,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + n_head]), content[8 + n_head :]


def write_head(path: Path, head: Any, data: bytes) -> None:
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def first_array(head: dict[str, Any]) -> str:
    """The name of the array that comes first in the file, so that places can be moved."""
    return min((name for name in head if name != "__metadata__"), key=lambda name: head[name]["data_offsets"])


def largest_array(head: dict[str, Any]) -> str:
    return max((name for name in head if name != "__metadata__"), key=lambda name: math.prod(head[name]["shape"]))


def a_billion_rows(path: Path) -> None:
    head, data = head_of(path)
    name = largest_array(head)
    head[name]["shape"][0] = 10**9
    write_head(path, head, data)


def a_billion_rows_and_their_bytes(path: Path) -> None:
    """Sparse, so that the head and the length of the file agree."""
    head, data = head_of(path)
    last = max((name for name in head if name != "__metadata__"), key=lambda name: head[name]["data_offsets"])
    start = head[last]["data_offsets"][0]
    width = {"F64": 8, "I64": 8, "F32": 4}[head[last]["dtype"]]
    head[last] |= {"shape": [10**9], "data_offsets": [start, start + width * 10**9]}
    write_head(path, head, data)
    with path.open("r+b") as file:
        file.truncate(8 + len(json.dumps(head)) + start + width * 10**9)


def a_head_longer_than_the_file(path: Path) -> None:
    path.write_bytes(struct.pack("<Q", 2**62) + path.read_bytes()[8:])


def a_head_of_a_gigabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 1 << 30))
        file.truncate(1 << 31)


def a_head_that_nests(path: Path) -> None:
    text = b"[" * 100_000
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def another_type(path: Path) -> None:
    head, data = head_of(path)
    name = largest_array(head)
    head[name]["dtype"] = {"F64": "I64", "I64": "F64", "F32": "I32"}[head[name]["dtype"]]
    write_head(path, head, data)


def another_shape(path: Path) -> None:
    head, data = head_of(path)
    name = next(name for name in sorted(head) if name != "__metadata__" and len(head[name]["shape"]) > 0)
    head[name]["shape"] = [1, *head[name]["shape"]]
    write_head(path, head, data)


def an_array_too_many(path: Path) -> None:
    head, data = head_of(path)
    head["stowaway"] = {"dtype": "F64", "shape": [0], "data_offsets": [len(data), len(data)]}
    write_head(path, head, data)


def overlapping_arrays(path: Path) -> None:
    head, data = head_of(path)
    names = [name for name in head if name != "__metadata__"]
    one = max(names, key=lambda name: head[name]["data_offsets"])
    start, stop = head[one]["data_offsets"]
    head[one]["data_offsets"] = [start - 8, stop - 8]
    write_head(path, head, data)


def bytes_too_many(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 8)


def a_shape_below_zero(path: Path) -> None:
    head, data = head_of(path)
    head[first_array(head)]["shape"] = [-1, -1]
    write_head(path, head, data)


def not_finite(path: Path) -> None:
    """Infinity in every array of floating point."""
    head, data = head_of(path)
    kinds = {"F64": np.float64, "F32": np.float32}
    written = bytearray(data)
    for name, said in head.items():
        if name != "__metadata__" and said["dtype"] in kinds:
            start, stop = said["data_offsets"]
            array = np.frombuffer(data[start:stop], dtype=kinds[said["dtype"]]).copy()
            array[:1] = np.inf
            written[start:stop] = array.tobytes()
    write_head(path, head, bytes(written))


def a_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb(path.parent / "mark")))


def an_archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, sums=np.zeros(10**6))


ARRAY_DAMAGES = [
    a_billion_rows,
    a_billion_rows_and_their_bytes,
    a_head_longer_than_the_file,
    a_head_of_a_gigabyte,
    a_head_that_nests,
    another_type,
    another_shape,
    an_array_too_many,
    overlapping_arrays,
    bytes_too_many,
    a_shape_below_zero,
    not_finite,
    a_pickle,
    an_archive,
]


@pytest.mark.parametrize("damage", ARRAY_DAMAGES)
def test_arrays_are_judged_before_they_are_used(saved: tuple[Path, Any], damage: Callable[[Path], None]) -> None:
    """Shape, type, size and finiteness, in every format that is saved."""
    folder, load = saved
    damage(folder / "arrays.safetensors")
    with pytest.raises(ValueError, match=r"is damaged") as caught:
        load(folder)
    sentence(caught.value)
    assert not (folder / "mark").exists()


def facts_without(*names: str) -> Callable[[dict[str, Any]], Any]:
    return lambda facts: {key: value for key, value in facts.items() if key not in names}


DESCRIPTION_DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another format": lambda facts: {**facts, "format": 2},
    "a format that only equals one": lambda facts: {**facts, "format": True},
    "another kind": lambda facts: {**facts, "kind": "recipe"},
    "a kind that is no text": lambda facts: {**facts, "kind": ["topic model"]},
    "a list": lambda facts: [facts],
    "no options": facts_without("options", "settings"),  # as a checkpoint calls them
    "options of another kind": lambda facts: {**facts, "options": "many"},
}


@pytest.mark.parametrize("damage", list(DESCRIPTION_DAMAGES))
def test_a_description_is_judged_before_it_is_used(saved: tuple[Path, Any], damage: str) -> None:
    folder, load = saved
    path = folder / "description.json"
    path.write_text(json.dumps(DESCRIPTION_DAMAGES[damage](json.loads(path.read_text(encoding="utf-8")))))
    with pytest.raises((ValueError, FileExistsError)) as caught:
        load(folder)
    sentence(caught.value)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"", b'{"kind": "\\ud800"}'])
def test_a_description_that_is_no_json_object_is_one_sentence(saved: tuple[Path, Any], content: bytes) -> None:
    folder, load = saved
    (folder / "description.json").write_bytes(content)
    with pytest.raises((ValueError, FileExistsError)) as caught:
        load(folder)
    sentence(caught.value)


@pytest.mark.parametrize("name", ["description.json", "arrays.safetensors"])
def test_a_link_out_of_a_saved_folder_is_refused(saved: tuple[Path, Any], name: str) -> None:
    """The folder itself may be a link: it is what was asked for."""
    folder, load = saved
    (folder.parent / "link").symlink_to(folder)
    load(folder.parent / "link")
    (folder / name).rename(folder.parent / name)
    (folder / name).symlink_to(folder.parent / name)
    with pytest.raises(ValueError, match="is a link that leads out of") as caught:
        load(folder)
    sentence(caught.value)


@pytest.mark.parametrize(
    ("kind", "fact", "value"),
    [
        ("topic model", "vocabulary", ["cat", "dog"]),
        ("topic model", "vocabulary", ["cat", "cat", "dog"]),
        ("topic model", "vocabulary", "cat"),
        ("topic model", "n_tokens", -1),
        ("topic model", "history", {"pass": 1}),
        ("attention result", "layers", ["0"]),
        ("attention result", "layers", ["0", "../../1"]),
        ("attention result", "layers", {"0": 0}),
        ("attention result", "tally", {"n_documents": -1}),
        ("attention result", "tally", {"n_documents": "many"}),
        ("attention result", "visibility", {"0": 3}),
        ("attention result", "seed", 10**40),
        ("embedding result", "n_words", "many"),
        ("embedding result", "n_words", None),
        ("embedding result", "layers", [0, 1]),
        ("contextual result", "layers", [0, 1]),
        ("contextual result", "layers", ["a", "b", "c"]),
        ("toy run", "model", {"n_words": 10**9}),
        ("toy run", "columns", ["loss"]),
        ("toy run", "columns", ["../step"]),
        ("toy checkpoint", "step", 10**9),
        ("toy checkpoint", "best", "__import__('os')"),
    ],
)
def test_a_fact_that_does_not_fit_is_one_sentence(
    saved_folders: dict[str, Path], tmp_path: Path, kind: str, fact: str, value: Any
) -> None:
    """No fact is taken for what it is not, and none decides alone how much memory is taken."""
    shutil.copytree(saved_folders[kind], tmp_path / "saved")
    path = tmp_path / "saved" / "description.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(value, dict) and isinstance(facts.get(fact), dict) and fact == "model":
        value = {**facts[fact], **value}
    path.write_text(json.dumps({**facts, fact: value}))
    with pytest.raises(ValueError, match=r".") as caught:
        SAVERS[kind][1](tmp_path / "saved")
    sentence(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda description, arrays: arrays["trained/sums"].fill(np.nan), "'trained/sums' must be finite"),
        (lambda description, arrays: arrays.pop("untrained/counts"), "'untrained/counts'"),
        (lambda description, arrays: arrays.update({"trained/sums": np.ones((1, 1, 1, 1))}), "must have shape"),
        (lambda description, arrays: arrays.update({"trained/n_rows": np.ones((1, 256))}), "trained/n_rows"),
        (lambda description, arrays: description["state"].pop("halved"), "halved"),
        (lambda description, arrays: description["state"].update(counters={}), "trained/"),
        (
            lambda description, arrays: description["state"]["counters"]["trained"].update(visibility={"0": 3}),
            "mapping",
        ),
        (lambda description, arrays: description["settings"].update(layers=7), "int"),
        (lambda description, arrays: description.update(tally={"n_documents": -1}), "tally"),
    ],
)
def test_a_forged_state_with_a_right_checksum_is_judged(
    saved_folders: dict[str, Path], tmp_path: Path, change: Callable[..., Any], says: str
) -> None:
    """What it lacks or garbles is an error in words before a number of it is used."""
    description, arrays = _resuming.read_state(saved_folders["checkpoint"])
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(description, arrays)
    checksum = _resuming._checksum(description, arrays)
    write_folder(
        tmp_path / "forged", kind="checkpoint", description={**description, "checksum": checksum}, arrays=arrays
    )
    with pytest.raises(ValueError, match=says) as caught:
        go_on(tmp_path / "forged")
    sentence(caught.value)


@pytest.mark.parametrize(
    ("name", "kind"), [("n_rows", np.int64), ("counts", np.float64), ("curve.weights", np.float64)]
)
def test_counts_below_zero_are_refused(saved_folders: dict[str, Path], tmp_path: Path, name: str, kind: type) -> None:
    shutil.copytree(saved_folders["attention result"], tmp_path / "saved")
    path = tmp_path / "saved" / "arrays.safetensors"
    head, data = head_of(path)
    start, _ = head[name]["data_offsets"]
    write_head(path, head, data[:start] + kind(-1).tobytes() + data[start + 8 :])
    with pytest.raises(ValueError, match=f"'{name}' must not be negative"):
        AttentionResult.load(tmp_path / "saved")


LOAD_ALL = """
for path in PATHS:
    try:
        AttentionResult.load(path)
        print("nothing was refused")
    except ValueError as error:
        print(error)
"""


@needs_limits
def test_a_saved_result_that_promises_gigabytes_costs_little_memory(
    saved_folders: dict[str, Path], tmp_path: Path
) -> None:
    damages = [a_billion_rows, a_billion_rows_and_their_bytes, a_head_of_a_gigabyte, a_head_longer_than_the_file]
    paths = []
    for damage in damages:
        shutil.copytree(saved_folders["attention result"], tmp_path / damage.__name__)
        damage(tmp_path / damage.__name__ / "arrays.safetensors")
        paths.append(str(tmp_path / damage.__name__))
    shutil.copytree(saved_folders["attention result"], tmp_path / "long")
    sparse(tmp_path / "long" / "description.json", b'{"kind": "')
    paths.append(str(tmp_path / "long"))
    imports = f"import numpy, safetensors.numpy\nfrom topic_probes.statistics import AttentionResult\nPATHS = {paths!r}"
    done = run_limited(imports, LOAD_ALL, n_bytes=ALLOWED)
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    assert len(messages) == len(paths)
    assert all("is damaged" in message for message in messages), messages


# Reports, and what is written


def report(folder: Path, **options: Any) -> ProbeReport:
    attention_result(folder / "attention")
    one = ProbeReport(AttentionResult.load(folder / "attention"), None)
    return ProbeReport(one.attention, None, one, **options)


@pytest.mark.parametrize(
    "parts",
    [
        ["../attention"],
        ["attention", ".."],
        ["/etc"],
        ["attention", "a/b"],
        "baseline",
        {"attention": 1},
        [1],
        None,
    ],
)
def test_the_parts_of_a_report_are_names_in_its_folder(tmp_path: Path, parts: Any) -> None:
    report(tmp_path).save(tmp_path / "report")
    path = tmp_path / "report" / "report.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "parts": parts}))
    with pytest.raises(ValueError, match="is damaged") as caught:
        ProbeReport.load(tmp_path / "report")
    sentence(caught.value)


@pytest.mark.parametrize("part", ["attention", "baseline"])
def test_a_part_of_a_report_that_lies_elsewhere_is_refused(tmp_path: Path, part: str) -> None:
    report(tmp_path).save(tmp_path / "report")
    (tmp_path / "report" / part).rename(tmp_path / "elsewhere")
    (tmp_path / "report" / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link that leads out of") as caught:
        ProbeReport.load(tmp_path / "report")
    sentence(caught.value)


def test_a_report_that_is_its_own_baseline_ends(tmp_path: Path) -> None:
    """A link to the folder itself would otherwise be followed until the system stops it."""
    report(tmp_path).save(tmp_path / "report")
    shutil.rmtree(tmp_path / "report" / "baseline")
    (tmp_path / "report" / "baseline").symlink_to(tmp_path / "report")
    with pytest.raises(ValueError, match="its baseline has a baseline") as caught:
        ProbeReport.load(tmp_path / "report")
    sentence(caught.value)


def run_folder(folder: Path) -> None:
    """What `topic-probes probe` leaves, of a model that reads token ids."""
    labels = TopicLabels.from_dict({0: 0, 1: 0, 2: 1, 3: 1})
    documents = [[0, 1, 2, 3], [3, 1, 0]]
    probe(toy.TopicTransformer(4), documents, labels, baseline=None, n_permutations=2, progress=False).save(folder)
    TopicModel(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]), ("cat", "dog", "sun")).save(folder / "topics")
    (folder / "run.toml").write_text('command = "probe"\ntop_k = 1\nmin_share = 0.5\n')
    (folder / "examples.json").write_text("[]")


PASSAGE = {"title": "a", "words": ["cat"], "gaps": ["", ""], "topics": [[0]], "heads": []}
HEAD = {"stack": "", "layer": 0, "head": 0, "attention": [[1.0]]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "its brackets nest too deep"),
        (b"{", "Expecting property name"),
        (b"\xff", "decode byte 0xff"),
        (b"", "Expecting value"),
        (b"1" * 10_000, "digits"),
        (b'{"a": 1}', "examples must be a list"),
        (b"[1]", "number 0 has not"),
        (json.dumps([{**PASSAGE, "topics": [[{}]], "heads": [HEAD]}]).encode(), "dict"),
        (json.dumps([{**PASSAGE, "topics": [[math.inf]], "heads": [HEAD]}]).encode(), "infinity"),
        (json.dumps([{**PASSAGE, "heads": [{**HEAD, "layer": []}]}]).encode(), "list"),
        (json.dumps([{**PASSAGE, "heads": [{**HEAD, "attention": [["x"]]}]}]).encode(), "'x'"),
    ],
)
def test_passages_of_a_run_are_judged_before_they_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    """In one line that names the file; no page is written."""
    run_folder(tmp_path / "run")
    (tmp_path / "run" / "examples.json").write_bytes(content)
    assert cli.main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "page.html")]) == 2
    message = sentence(ValueError(capsys.readouterr().err.rstrip("\n")))
    assert message.startswith(f"topic-probes: {tmp_path / 'run' / 'examples.json'} is damaged (")
    assert said in message
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("name", ["examples.json", "run.toml", "topics"])
def test_what_a_page_is_made_of_does_not_lead_out_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run_folder(tmp_path / "run")
    arguments = ["report", str(tmp_path / "run"), "--html", str(tmp_path / "page.html")]
    assert cli.main(arguments) == 0
    (tmp_path / "page.html").unlink()
    (tmp_path / "run" / name).rename(tmp_path / name)
    (tmp_path / "run" / name).symlink_to(tmp_path / name)
    assert cli.main(arguments) == 2
    message = sentence(ValueError(capsys.readouterr().err.rstrip("\n")))
    assert f"{name} is a link that leads out of {tmp_path / 'run'}" in message
    assert not (tmp_path / "page.html").exists()


OPTIONS = [
    b"a = " + b"[" * 100_000,
    b"a = ",
    b"\xff",
    b'top_k = "many"\nmin_share = "most"',
    b"top_k = -1\nmin_share = nan",
    b"top_k = true\nmin_share = [1]",
    b"#" + b"a" * (2 * MEBIBYTE),
]


@pytest.mark.parametrize("content", OPTIONS)
def test_options_of_a_run_that_are_damaged_cost_no_page(tmp_path: Path, content: bytes) -> None:
    """Words are then labelled as ever, and shown if the report says that they were."""
    run_folder(tmp_path / "run")
    (tmp_path / "run" / "run.toml").write_bytes(content)
    assert cli.main(["report", str(tmp_path / "run"), "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize("content", OPTIONS)
def test_damaged_options_are_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Neither by --resume nor by --config."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_bytes(content)
    (tmp_path / "texts.txt").write_text("cat dog sun")
    topic_model(tmp_path / "topics")
    arguments = ["probe", str(tmp_path / "model"), "--topics", str(tmp_path / "topics")]
    arguments += ["--corpus", str(tmp_path / "texts.txt"), "--resume", "-o", str(tmp_path / "run")]
    for more in ([], ["--config", str(tmp_path / "run" / "run.toml")]):
        assert cli.main([*arguments, *more]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "run.toml" in error or "--min-share" in error or "--top-k" in error
        assert (tmp_path / "run" / "run.toml").read_bytes() == content


@needs_limits
def test_a_gigabyte_beside_a_report_costs_little_memory(tmp_path: Path) -> None:
    run_folder(tmp_path / "run")
    path = tmp_path / "run" / "examples.json"
    sparse(path, b'["')
    imports = (
        "from topic_probes import cli\nfrom topic_probes.probes import ProbeReport\n"
        "import topic_probes.report._page, pandas\n"
        f"ARGUMENTS = {['report', str(tmp_path / 'run'), '--html', 'no.html']!r}"
    )
    done = run_limited(imports, "print(cli.main(ARGUMENTS))", n_bytes=ALLOWED)
    assert done.stdout == "2\n", done.stderr
    assert f"{path} is damaged (it must be at most 67,108,864 bytes long)" in done.stderr


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"[]", b'{"kind": [], "files": [[]]}'])
def test_a_list_of_files_that_is_none_makes_no_folder_a_demos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "summary.json").write_bytes(content)
    assert cli.main(["demo", "-o", str(tmp_path)]) == 2
    assert "is not an earlier demo alone" in sentence(ValueError(capsys.readouterr().err.rstrip("\n")))


HOSTILE_NAMES = ["../../outside", "/outside", "a/../../b", "..", "a\0b", "\ud800", "-rf", "con:", "\n"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_do_not_become_paths(tmp_path: Path, name: str) -> None:
    """Topics, corpora and models may be called anything: what is saved lies in the folder, and comes back."""
    inside = tmp_path / "deep" / "inside"
    inside.mkdir(parents=True)
    before = listing(tmp_path)
    model = TopicModel(np.array([[1.0]]), (name,), options={"corpus": name, "model_name": name})
    model.save(inside / "topics")
    assert TopicModel.load(inside / "topics").vocabulary == (name,)
    one = report(inside / "source").attention
    named = AttentionResult(one.totals, one.tally, one.visibility, (), {"model": name, "corpus": name}, 0)
    ProbeReport(named, None).save(inside / "report")
    assert ProbeReport.load(inside / "report").attention.options["model"] == name
    new = listing(tmp_path) - before
    assert all(path.startswith("deep/inside/") for path in new), new


def listing(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_saving_into_a_link_of_a_stranger_touches_nothing_outside(tmp_path: Path) -> None:
    """A saved folder with links in it is not replaced, and what they point to is left alone."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    topic_model(tmp_path / "saved")
    (tmp_path / "saved" / "extra").symlink_to(tmp_path / "precious")
    with pytest.raises(FileExistsError, match="choose another folder"):
        topic_model(tmp_path / "saved")
    (tmp_path / "saved" / "extra").unlink()
    (tmp_path / "saved" / "arrays.safetensors").unlink()
    (tmp_path / "saved" / "arrays.safetensors").symlink_to(tmp_path / "precious" / "file")
    topic_model(tmp_path / "saved")
    assert (tmp_path / "precious" / "file").read_text() == "mine"
    assert not (tmp_path / "saved" / "arrays.safetensors").is_symlink()


def test_what_cannot_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topic_probes._folders.LONGEST_DESCRIPTION", 100)
    with pytest.raises(ValueError, match="must be described in at most 100 bytes"):
        write_folder(tmp_path / "saved", kind="thing", description={"words": ["cat"] * 100}, arrays={})
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_does_not_say_how_many_documents_is_refused(
    saved_folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(saved_folders["attention result"], tmp_path / "saved")
    path = tmp_path / "saved" / "description.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "tally": {}}))
    with pytest.raises(ValueError, match="n_documents of its tally"):
        AttentionResult.load(tmp_path / "saved")
