"""One corpus, several processes: each reads a share of the documents, and all end with the same sums.

Document number i is of process i mod n. Every process goes through the whole corpus and leaves out the documents of
the others before they are tokenised, which costs little beside a model. So a document keeps the number, and with it
the id, that it has in one process; what cannot be split evenly is no special case, and a share may be empty. (This
is also how ``datasets.distributed.split_dataset_by_node`` splits a stream whose files cannot be dealt out.)

What makes the result that of one process, up to the rounding of float64 sums:

- a row's numbers do not depend on the rows beside it, and groups of documents are made from ids alone (but the model
  rounds by how far a row is padded: in single precision, ratios differ by some 1e-10);
- sums and tallies are added up at the end, and the widest reach is kept of each site;
- the reach is learned from rows, and decides how a later row is counted where attention is saturated. So all
  processes first learn from the batch with which one process would begin, and then count their own documents.

The last point is exact wherever a pattern shows what a query may see. Where it does not, and later documents widen
the reach, the order of documents matters, as it does in one process; ``visibility=`` stated by the caller ends that.

All must read the same documents: at the end they compare how many there were, and a digest of them.

Processes tell each other JSON and arrays. No pickle is sent or read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._errors import DistributedError
from ..statistics._sums import AttentionSums
from ..tokens._reader import ReadingTally
from ._counting import PatternCounter
from ._running import visibility_facts
from ._settings import differences
from ._visibility import Visibility

_NAMES = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells each process that it starts."""


class Processes:
    """The processes of ``torch.distributed``'s default group, as one of them sees them.

    Raises:
        RuntimeError: if there is no such group.
    """

    def __init__(self) -> None:
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(
                "distributed=True needs the processes to know of each other: call "
                "torch.distributed.init_process_group first, or start them by torchrun -m topic_probes probe"
            )
        self._dist = dist
        self.rank = dist.get_rank()
        self.n = dist.get_world_size()
        # Tensors travel on the GPU under nccl, and on the CPU under all else.
        self._device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")

    def share(self, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what each process says, in order of rank; facts are plain JSON values."""
        told = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8).to(self._device)
        sizes = self._gather(torch.tensor([len(told)], device=self._device))
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=self._device)
        padded[: len(told)] = told
        return [
            json.loads(one[: int(size)].cpu().numpy().tobytes())
            for one, size in zip(self._gather(padded), sizes, strict=True)
        ]

    def add_up(self, array: np.ndarray) -> np.ndarray:
        """Return the sum of an array over all processes; all get the same."""
        tensor = torch.from_numpy(np.array(array)).to(self._device)
        with self._connected():
            self._dist.all_reduce(tensor)
        return tensor.cpu().numpy()

    def require_alike(self, settings: Mapping[str, Any]) -> None:
        """Raise ValueError in all processes if one was called in another way than the first.

        Args:
            settings: plain JSON values.
        """
        told = self.share(settings)
        for rank, other in enumerate(told):
            found = differences(told[0], other, "in process 0", f"in process {rank}")
            if found:
                raise ValueError(f"all processes must probe alike: {found}; call probe with the same arguments in all")

    def require_one_corpus(self, n_documents: int, digest: str) -> None:
        """Raise ValueError in all processes if one has read other documents than the first.

        Args:
            n_documents: how many this one went through, its own and those of others.
            digest: of all of them, in order.
        """
        told = self.share({"n": n_documents, "digest": digest})
        for rank, other in enumerate(told):
            if other != told[0]:
                how = (
                    f"process 0 read {told[0]['n']} documents, and process {rank} {other['n']}"
                    if other["n"] != told[0]["n"]
                    else f"those of process {rank} are others than those of process 0, or in another order"
                )
                raise ValueError(f"all processes must read the same documents: {how}; no process has a result")

    def all_or_none(self, work: Callable[[], None]) -> None:
        """Do some work in every process, and raise in all of them if it failed in one.

        Raises:
            DistributedError: if it failed elsewhere; in the process where it failed, its own error.
        """
        failure: Exception | None = None
        try:
            work()
        except Exception as error:
            failure = error
        told = self.share({"failure": None if failure is None else f"{type(failure).__name__}: {failure}"})
        if failure is not None:
            raise failure
        for rank, other in enumerate(told):
            if other["failure"]:
                raise DistributedError(
                    f"process {rank} of {self.n} failed, so no process has a result ({other['failure']})"
                )

    def reduce(self, counter: PatternCounter) -> None:
        """Put the sums of all processes, and the widest reach of each site, in place of one's own."""
        shape = None if counter.totals is None else counter.totals.sums.shape
        told = self.share({"n_heads": None if shape is None else shape[1], "visibility": visibility_facts(counter)})
        for site, seen in counter.visibility.items():
            if isinstance(seen, Visibility):
                known = [Visibility(**one["visibility"][site.name]) for one in told]
                counter.visibility[site] = widest(known)
        n_heads = next((one["n_heads"] for one in told if one["n_heads"] is not None), None)
        if n_heads is None:
            return
        own = counter.totals
        if own is None:  # a share without documents
            measures = counter.measures
            own = AttentionSums.empty(
                counter.sites, n_heads, n_topics=measures.n_topics, n_permutations=measures.n_permutations
            )
        summed = {name: self.add_up(array) for name, array in own.to_arrays().items()}
        counter.totals = AttentionSums.from_arrays(counter.sites, summed)

    def reduce_tally(self, tally: ReadingTally) -> ReadingTally:
        """Return what became of the documents of all processes."""
        told = self.share(tally.as_dict())
        return ReadingTally(**{name: sum(one[name] for one in told) for name in told[0]})

    def _gather(self, tensor: Tensor) -> list[Tensor]:
        found = [torch.empty_like(tensor) for _ in range(self.n)]
        with self._connected():
            self._dist.all_gather(found, tensor)
        return found

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Say in a sentence what a broken connection means."""
        try:
            yield
        except RuntimeError as error:
            raise DistributedError(
                f"process {self.rank} of {self.n} lost the others, of which one has probably died: start all of them "
                f"again, with resume=True if there is a checkpoint ({str(error).splitlines()[0]:.120})"
            ) from error


def widest(known: list[Visibility]) -> Visibility:
    """Return what is known of a site when all of them is known of it.

    Examples:
        >>> str(widest([Visibility(longest=4, back=3), Visibility(longest=20, back=4)]))
        'causal, window of 5'
    """
    return Visibility(
        stated=known[0].stated,
        longest=max(one.longest for one in known),
        back=max(one.back for one in known),
        ahead=max(one.ahead for one in known),
        warned=any(one.warned for one in known),
    )


@contextmanager
def torchrun_processes() -> Iterator[Processes | None]:
    """Yield the processes that torchrun started; None if this one was started alone.

    Joins them by nccl if each has a GPU of its own, else by gloo, and leaves them when the block ends. A group that
    exists already is used, and kept.

    Raises:
        ValueError: if torchrun's environment variables are not all there.
    """
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        yield Processes()
        return
    if "WORLD_SIZE" not in os.environ and "RANK" not in os.environ:
        yield None
        return
    missing = [name for name in _NAMES if name not in os.environ]
    if missing:
        raise ValueError(
            f"processes started together need {', '.join(_NAMES)}, missing {', '.join(missing)}: use torchrun"
        )
    local = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
    one_each = (
        torch.cuda.is_available() and int(os.environ.get("LOCAL_WORLD_SIZE", local + 1)) <= torch.cuda.device_count()
    )
    if one_each:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if one_each else "gloo")
    try:
        yield Processes()
    finally:
        dist.destroy_process_group()
