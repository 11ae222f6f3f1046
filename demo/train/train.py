"""Train the demo model and write demo/model. From the repository root:

    .venvs/engine/bin/python -m demo.train.train [--out DIR] [--seconds N]

Fixed seed and a fixed number of steps; --seconds only ends a run early, for a test of this script.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from demo.train.corpus import Book, any_setting, draw, draw_kind, read_book, seeded
from demo.train.encoding import Encoder, Example, answer_text, rendered_prompt
from demo.train.tokens import BEGIN, END, build_tokenizer

SEED = 20_260
CONTEXT = 8192
STEPS = 4200
WARM_UP = 60
PEAK_RATE = 2e-3
LOOK_BACK = 6.0
BATCH_TOKENS = 2048
TOOL_ROW_TOKENS, PLAIN_ROW_TOKENS = 960, 320
IGNORED = -100


def model_config(tokenizer: Tokenizer) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        rope_theta=10_000.0,
        initializer_range=0.09,  # 1 / sqrt(hidden_size): the usual 0.02 leaves attention flat for most of the run
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BEGIN),
        eos_token_id=tokenizer.token_to_id(END),
    )


# batches


@dataclass(frozen=True, slots=True)
class Row:
    """Several samples behind one head: each sees the head and itself, as if it stood alone."""

    head: list[int]
    examples: list[Example]  # with the head cut off their prompts

    @property
    def length(self) -> int:
        return len(self.head) + sum(len(e.prompt) + len(e.answer) for e in self.examples)


def draw_row(encoder: Encoder, book: Book, rng: random.Random) -> Row:
    setting = any_setting(rng)
    wanted = TOOL_ROW_TOKENS if setting.tools else PLAIN_ROW_TOKENS
    examples = [encoder.encode(draw(rng, book, setting)) for _ in range(2)]
    head = shared_head(examples[0].prompt, examples[1].prompt)
    while sum(len(e.prompt) + len(e.answer) - head for e in examples) + head < wanted:
        examples.append(encoder.encode(draw(rng, book, setting)))
        head = min(head, shared_head(examples[0].prompt, examples[-1].prompt))
    return Row(examples[0].prompt[:head], [Example(e.prompt[head:], e.answer) for e in examples])


def shared_head(first: list[int], second: list[int]) -> int:
    pairs = zip(first[:-1], second[:-1], strict=False)  # the last token of a prompt stays its own
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)) - 1)


def batches(encoder: Encoder, book: Book, rng: random.Random) -> Iterator[list[Row]]:
    """Rows of like length together, so that little is padding."""
    while True:
        pool = sorted((draw_row(encoder, book, rng) for _ in range(48)), key=lambda row: row.length)
        made: list[list[Row]] = [[]]
        for row in pool:
            if made[-1] and (len(made[-1]) + 1) * row.length > BATCH_TOKENS:
                made.append([])
            made[-1].append(row)
        rng.shuffle(made)
        yield from made


def tensors(rows: list[Row], rng: random.Random, gaps: bool) -> dict[str, torch.Tensor]:
    """Only answers are learned. Padding stands at the right and sees itself alone."""
    width = max(row.length for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    labels = torch.full_like(ids, IGNORED)
    positions = torch.zeros_like(ids)
    seen = torch.eye(width, dtype=torch.bool).repeat(len(rows), 1, 1, 1)
    for index, row in enumerate(rows):
        start = len(row.head)
        ids[index, :start] = torch.tensor(row.head)
        positions[index, :start] = torch.arange(start)
        seen[index, 0, :start, :start] = True
        for example in row.examples:
            end = start + len(example.prompt) + len(example.answer)
            ids[index, start:end] = torch.tensor(example.prompt + example.answer)
            labels[index, start + len(example.prompt) : end] = torch.tensor(example.answer)
            positions[index, start:end] = torch.arange(len(row.head), len(row.head) + end - start)
            if gaps and rng.random() < 0.3:  # a gap in the positions stands for a long text that costs nothing to read
                positions[index, start + rng.randrange(len(example.prompt)) : end] += rng.randrange(CONTEXT // 2)
            seen[index, 0, start:end, : len(row.head)] = True
            seen[index, 0, start:end, start:end] = True
            start = end
    seen &= torch.ones(width, width, dtype=torch.bool).tril()
    return {"input_ids": ids, "labels": labels, "position_ids": positions, "attention_mask": seen}


# the loop


def rate(step: int) -> float:
    """Linear warm-up, then flat, then linear to zero over the second half."""
    return min((step + 1) / WARM_UP, 1.0, 2 * (STEPS - step) / STEPS)


def look_back(model: Qwen2ForCausalLM) -> None:
    """Start the first two heads of the first layer on the previous token and the one before it.

    Copying needs such heads and another that builds on them, and from a random start most of the run passes
    before the first kind appears. Queries and keys have a bias, which rotates with the position: with the key's
    bias turned on by one position, query and key agree most at distance one.
    """
    config, attention = model.config, model.model.layers[0].self_attn
    size = config.hidden_size // config.num_attention_heads
    angles = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    with torch.no_grad():
        attention.k_proj.bias[:size] = LOOK_BACK * torch.cat((angles.cos(), angles.sin()))
        for head in (0, 1):
            turned = torch.cat(((head * angles).cos(), -(head * angles).sin()))
            attention.q_proj.bias[head * size : (head + 1) * size] = LOOK_BACK * turned


def answer_loss(model: Qwen2ForCausalLM, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Scores of the vocabulary only where an answer's token is predicted."""
    labels = batch.pop("labels")[:, 1:]
    states = model.model(**batch, use_cache=False).last_hidden_state[:, :-1]
    wanted = labels != IGNORED
    return torch.nn.functional.cross_entropy(model.lm_head(states[wanted]), labels[wanted])


def train(model: Qwen2ForCausalLM, encoder: Encoder, book: Book, seconds: float) -> int:
    rng = seeded(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    source, started, seen, mean = batches(encoder, book, rng), time.monotonic(), 0, 0.0
    for step in range(STEPS):
        batch = {
            name: tensor.to(model.device) for name, tensor in tensors(next(source), rng, gaps=step > STEPS // 2).items()
        }
        seen += batch["input_ids"].numel()
        loss = answer_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        model.zero_grad(set_to_none=True)
        mean = loss.item() if step == 0 else 0.95 * mean + 0.05 * loss.item()
        elapsed = time.monotonic() - started
        if step % 50 == 0:
            print(f"step {step:5d}  loss {mean:.4f}  {seen / elapsed:6.0f} tokens/s  {elapsed:4.0f} s", flush=True)
        if elapsed > seconds:
            return step + 1
    return STEPS


# what is written


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """bfloat16 halves the files; serving and reference both widen it to float32 again."""
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def shipped_tokenizer(book: Book) -> Tokenizer:
    rng = seeded(SEED)
    prompts = [rendered_prompt(draw(rng, book)) + answer_text(draw(rng, book)) for _ in range(500)]
    return build_tokenizer(book, SEED, prompts)


def fast_tokenizer(encoder: Encoder) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=encoder.tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=END,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def report(model: Qwen2ForCausalLM, encoder: Encoder, book: Book, count: int = 500) -> None:
    """Per kind of sample: how often the whole answer, token by token, is the model's greedy choice."""
    rng = seeded(SEED + 1)
    right: dict[str, list[bool]] = {}
    for _ in range(count):
        kind, sample = draw_kind(rng, book)
        example = encoder.encode(sample)
        with torch.no_grad():
            logits = model(torch.tensor([example.prompt + example.answer], device=model.device)).logits[0]
        chosen = logits[len(example.prompt) - 1 : -1].argmax(-1).tolist()
        right.setdefault(kind, []).append(chosen == example.answer)
    for kind, results in sorted(right.items()):
        print(f"{kind:12s} {sum(results):4d} of {len(results):4d} whole answers right")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the demo model.")
    parser.add_argument("--out", type=Path, default=Path("demo/model"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--device", default="cpu", help="the shipped model was trained on the CPU")
    options = parser.parse_args()
    torch.manual_seed(SEED)
    book = read_book()
    encoder = Encoder(shipped_tokenizer(book))
    model = Qwen2ForCausalLM(model_config(encoder.tokenizer))
    look_back(model)
    model.to(options.device)
    size = sum(p.numel() for p in model.parameters())
    print(f"{size / 1e6:.2f} M parameters, {encoder.tokenizer.get_vocab_size()} tokens", flush=True)
    steps = train(model, encoder, book, options.seconds)
    save(model, fast_tokenizer(encoder), options.out)
    print(f"{steps} steps")
    report(model.float().eval(), encoder, book)


if __name__ == "__main__":
    main()
