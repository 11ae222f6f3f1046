"""Timing by CUDA-graph replay: several calls over distinct inputs in one graph, median over replays."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

REPLAYS = 15
SLOW_REPLAYS = 5
INPUT_SETS = 8


def capture(calls: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """One graph of all calls, after a warm-up on a side stream (compilation, allocation)."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def replay_us(graph: torch.cuda.CUDAGraph, calls: int, replays: int = REPLAYS) -> float:
    """Microseconds a call: median over replays of (graph time / calls)."""
    for _ in range(3):
        graph.replay()
    times: list[float] = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)


def median_us(calls: Sequence[Callable[[], object]], replays: int = REPLAYS) -> float:
    return replay_us(capture(calls), len(calls), replays)


def memory_gb_per_s(words: int = 1 << 29) -> float:
    """Read plus write bandwidth of one elementwise pass over 4 GiB."""
    buffer = torch.empty(2 * words, dtype=torch.int32, device="cuda")
    micros = median_us([lambda: torch.add(buffer[:words], 1, out=buffer[words:])] * 3)
    return 8 * words / micros / 1000
