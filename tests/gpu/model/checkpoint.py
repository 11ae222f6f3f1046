"""Write the tiny model in the published checkpoint's layout, and read it back as transformers' weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from gpu.model import experts
from gpu.model.formats import from_fp8, from_mxfp4, to_fp8
from gpu.model.names import Name, names
from gpu.model.shape import Shape

PLAIN = {"bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32}
DENSE = "model-dense.safetensors"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def stored(name: Name, value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """What the checkpoint holds for one of transformers' tensors."""
    if name.format == "fp8":
        quantised, scale = to_fp8(value.float())
        yield name.own, quantised.cpu()
        yield name.own.removesuffix("weight") + "scale", scale.cpu()
    else:
        yield name.own, value.to(PLAIN[name.format]).contiguous().cpu()


def write(shape: Shape, weights: Mapping[str, torch.Tensor], tokenizer: Path, out: Path, device: str) -> int:
    """`weights`: transformers' names. Returns the tensors' bytes, which the index names too."""
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    sizes = [save(out, DENSE, {k: v for n in names(shape) for k, v in stored(n, weights[n.theirs])}, files)]
    sizes += [
        save(out, f"model-experts-{layer}.safetensors", routed_tensors(shape, layer, device), files)
        for layer in range(shape.layers)
    ]
    index = {"metadata": {"total_size": sum(sizes)}, "weight_map": files}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    (out / "config.json").write_text(json.dumps(shape.config(), indent=1))
    for file in TOKENIZER:
        shutil.copy(tokenizer / file, out / file)
    return sum(sizes)


def save(out: Path, file: str, tensors: dict[str, torch.Tensor], files: dict[str, str]) -> int:
    """Bytes of the tensors; a file that is there already (experts never change) is kept."""
    if file == DENSE or not (out / file).exists():
        save_file(tensors, str(out / f"{file}.new"))
        (out / f"{file}.new").replace(out / file)
    files.update(dict.fromkeys(tensors, file))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def routed_tensors(shape: Shape, layer: int, device: str) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for matrix in ("w1", "w2", "w3"):
        codes, scales = (part.cpu() for part in experts.packed(shape, layer, matrix, device))
        for number in range(shape.experts):
            own = f"layers.{layer}.ffn.experts.{number}.{matrix}"
            tensors[f"{own}.weight"], tensors[f"{own}.scale"] = codes[number].clone(), scales[number].clone()
    return tensors


def dense(folder: Path, shape: Shape) -> Iterator[tuple[str, torch.Tensor]]:
    """(transformers' name, float32 or integer tensor) of all but the routed experts, as the engine sees them."""
    with safe_open(str(folder / DENSE), "pt") as file:
        for name in names(shape):
            value = file.get_tensor(name.own)
            if name.format == "fp8":
                value = from_fp8(value, file.get_tensor(name.own.removesuffix("weight") + "scale"))
            yield name.theirs, value if name.format == "i32" else value.float()


def routed(
    folder: Path, shape: Shape, layer: int, device: str, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' gate_up_proj and down_proj of a layer, read from the files."""
    found: dict[str, list[torch.Tensor]] = {"w1": [], "w2": [], "w3": []}
    with safe_open(str(folder / f"model-experts-{layer}.safetensors"), "pt", device=device) as file:
        for number in range(shape.experts):
            for matrix, values in found.items():
                own = f"layers.{layer}.ffn.experts.{number}.{matrix}"
                codes, scales = file.get_tensor(f"{own}.weight"), file.get_tensor(f"{own}.scale")
                values.append(from_mxfp4(codes, scales).to(dtype))
    first, down, third = (torch.stack(found[name]) for name in ("w1", "w2", "w3"))
    return torch.cat((first, third), dim=1), down
