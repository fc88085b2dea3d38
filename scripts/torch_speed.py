#!/usr/bin/env python3
"""Times in PyTorch of the stages that `acestep check` measures: the same shapes.

    python torch_speed.py --device cuda:0 --dtype bf16 --tasks tasks.json
    python torch_speed.py --device cpu --quick

The networks are written here from their description (README of this repository), as plain PyTorch:
scaled_dot_product_attention, grouped heads without expansion where it can, weights without weight norm.
Weights and inputs are random numbers of PyTorch's own: the time does not depend on the values. A task
is timed eagerly and compiled, and on a GPU both once more as a CUDA graph. Compiling takes longest: it
comes after all tasks were timed without. Standard output carries one JSON object a line:
{"torch": version}, {"begin": id}, {"row": {id, mode, wall_s, error}}.
"""
import argparse
import gc
import itertools
import json
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    sys.exit(f"PyTorch cannot be imported: {error}")

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def say(**line):
    print(json.dumps(line), flush=True)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-6)


def angles(positions, width, theta):
    """Cosines and sines of rotary positions, [L, width] each."""
    steps = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    turned = positions.float()[:, None] * (theta**-steps)[None]
    turned = torch.cat([turned, turned], -1)
    dtype = torch.get_default_dtype()
    return turned.cos().to(dtype), turned.sin().to(dtype)


def rotate(x, rope):
    cos, sin = rope
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    def __init__(self, hidden, heads, kv_heads, width):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, width
        self.q = nn.Linear(hidden, heads * width, bias=False)
        self.k = nn.Linear(hidden, kv_heads * width, bias=False)
        self.v = nn.Linear(hidden, kv_heads * width, bias=False)
        self.o = nn.Linear(heads * width, hidden, bias=False)
        self.q_norm, self.k_norm = RmsNorm(width), RmsNorm(width)

    def queries(self, x, rope):
        q = self.q_norm(self.q(x).unflatten(-1, (self.heads, self.width))).transpose(1, 2)
        return q if rope is None else rotate(q, rope)

    def keys_values(self, x, rope):
        k = self.k_norm(self.k(x).unflatten(-1, (self.kv_heads, self.width))).transpose(1, 2)
        v = self.v(x).unflatten(-1, (self.kv_heads, self.width)).transpose(1, 2)
        return (k if rope is None else rotate(k, rope)), v

    def attend(self, q, k, v, mask=None, causal=False):
        if mask is not None:
            # With a mask the fast kernels want every head to have its own keys.
            group = self.heads // self.kv_heads
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        grouped = mask is None and self.heads != self.kv_heads
        x = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped
        )
        return self.o(x.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class QwenLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = c["hidden_size"]
        self.norm1, self.norm2 = RmsNorm(hidden), RmsNorm(hidden)
        heads = c["num_attention_heads"], c["num_key_value_heads"]
        self.attention = Attention(hidden, *heads, c["head_dim"])
        self.mlp = Mlp(hidden, c["intermediate_size"])

    def forward(self, x, rope, cache, place):
        normed = self.norm1(x)
        q = self.attention.queries(normed, rope)
        k, v = self.attention.keys_values(normed, rope)
        if cache is not None:
            for kept, new in zip(cache, (k, v)):
                kept.index_copy_(2, place, new)
            k, v = cache
        # One new token sees everything; a prompt sees what stands before.
        x = x + self.attention.attend(q, k, v, causal=x.shape[1] > 1)
        return x + self.mlp(self.norm2(x))


class Qwen(nn.Module):
    """The text encoder, and a language model's trunk with its embedding as head."""

    def __init__(self, c, scores=0):
        super().__init__()
        self.c, self.scores = c, scores
        self.embedding = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(QwenLayer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"])

    def forward(self, ids, positions, caches=None):
        rope = angles(positions, self.c["head_dim"], self.c["rope_theta"])
        x = self.embedding(ids)
        for index, layer in enumerate(self.layers):
            x = layer(x, rope, caches[index] if caches else None, positions)
        x = self.norm(x)
        if not self.scores:
            return x
        return F.linear(x[:, -1], self.embedding.weight[-self.scores :])


class TimeEmbedding(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.inner, self.outer = nn.Linear(256, hidden), nn.Linear(hidden, hidden)
        self.project = nn.Linear(hidden, 6 * hidden)

    def forward(self, t):
        steps = torch.arange(128, device=t.device, dtype=torch.float32) / 128
        turned = 1000 * t.float()[:, None] * (10_000.0**-steps)[None]
        wave = torch.cat([turned.cos(), turned.sin()], -1).to(t.dtype)
        hidden = self.outer(F.silu(self.inner(wave)))
        return hidden, self.project(F.silu(hidden)).unflatten(-1, (6, -1))


class DitLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = c["hidden_size"]
        heads = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.norm1, self.norm2, self.norm3 = (RmsNorm(hidden) for _ in range(3))
        self.own, self.cross = Attention(hidden, *heads), Attention(hidden, *heads)
        self.mlp = Mlp(hidden, c["intermediate_size"])
        self.table = nn.Parameter(torch.randn(1, 6, hidden) * 0.3)

    def forward(self, x, rope, mask, time, heard):
        shift1, scale1, gate1, shift2, scale2, gate2 = (self.table + time).chunk(6, 1)
        normed = self.norm1(x) * (1 + scale1) + shift1
        keys = self.own.keys_values(normed, rope)
        x = x + gate1 * self.own.attend(self.own.queries(normed, rope), *keys, mask=mask)
        x = x + self.cross.attend(self.cross.queries(self.norm2(x), None), *heard)
        return x + gate2 * self.mlp(self.norm3(x) * (1 + scale2) + shift2)


class Dit(nn.Module):
    def __init__(self, c, windows, encoder_width):
        super().__init__()
        self.c, self.windows = c, windows
        hidden, patch = c["hidden_size"], c["patch_size"]
        latent = c["audio_acoustic_hidden_dim"]
        self.enter = nn.Conv1d(c["in_channels"], hidden, patch, patch)
        self.leave = nn.ConvTranspose1d(hidden, latent, patch, patch)
        self.time, self.time_r = TimeEmbedding(hidden), TimeEmbedding(hidden)
        self.condition = nn.Linear(encoder_width, hidden)
        self.layers = nn.ModuleList(DitLayer(c) for _ in windows)
        self.norm = RmsNorm(hidden)
        self.table = nn.Parameter(torch.randn(1, 2, hidden) * 0.3)

    def attend_to(self, condition):
        condition = self.condition(condition)
        return [layer.cross.keys_values(condition, None) for layer in self.layers]

    def forward(self, x, context, t, heard):
        frames, patch = x.shape[1], self.c["patch_size"]
        x = F.pad(torch.cat([context, x], -1), (0, 0, 0, -frames % patch))
        x = self.enter(x.transpose(1, 2)).transpose(1, 2).contiguous()
        (hidden, time), (hidden_r, time_r) = self.time(t), self.time_r(t - t)
        hidden, time = hidden + hidden_r, time + time_r
        positions = torch.arange(x.shape[1], device=x.device)
        rope = angles(positions, self.c["head_dim"], self.c["rope_theta"])
        distance = (positions[:, None] - positions[None]).abs()
        masks = {reach: distance <= reach for reach in set(self.windows) if reach is not None}
        for layer, reach, source in zip(self.layers, self.windows, heard):
            x = layer(x, rope, masks.get(reach), time, source)
        shift, scale = (self.table + hidden[:, None]).chunk(2, 1)
        x = self.norm(x) * (1 + scale) + shift
        return self.leave(x.transpose(1, 2)).transpose(1, 2)[:, :frames]


class Snake(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(1, channels, 1))
        self.beta = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, x):
        return x + (self.beta.exp() + 1e-9).reciprocal() * (self.alpha.exp() * x).sin().pow(2)


class Residual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.steps = nn.Sequential(
            Snake(channels),
            nn.Conv1d(channels, channels, 7, padding=3 * dilation, dilation=dilation),
            Snake(channels),
            nn.Conv1d(channels, channels, 1),
        )

    def forward(self, x):
        return x + self.steps(x)


def decoder(c):
    """Oobleck's decoder: latents [B, C, T] to sound [B, 2, hop T]."""
    base = c["decoder_channels"]
    widths = [base] + [base * multiple for multiple in c["channel_multiples"]]
    parts = [nn.Conv1d(c["decoder_input_channels"], widths[-1], 7, padding=3)]
    for index in reversed(range(len(c["downsampling_ratios"]))):
        ratio, narrow, wide = c["downsampling_ratios"][index], widths[index], widths[index + 1]
        up = nn.ConvTranspose1d(wide, narrow, 2 * ratio, ratio, padding=(ratio + 1) // 2)
        parts += [Snake(wide), up] + [Residual(narrow, dilation) for dilation in (1, 3, 9)]
    parts += [Snake(base), nn.Conv1d(base, c["audio_channels"], 7, padding=3, bias=False)]
    return nn.Sequential(*parts)


class Clock:
    def __init__(self, device, quick):
        # A GPU is quick and its machine lent by the minute.
        self.device, self.least = device, 0.2 if quick else 0.5 if device.type == "cuda" else 2.0

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def once(self, work):
        start = time.perf_counter()
        result = work()
        self.wait()
        seconds = time.perf_counter() - start
        del result
        return seconds

    def best(self, work):
        for _ in range(3):
            # Compilers and libraries choose their kernels; a slow machine is asked only once.
            if self.once(work) > 10:
                break
        start, times = time.perf_counter(), []
        while len(times) < 3 or time.perf_counter() - start < self.least:
            times.append(self.once(work))
            if times[-1] > 30:
                break
        return min(times)


def graph(work, device):
    """`work`, recorded once and replayed; what it reads and writes stays where it is."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream(device).wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        result = work()

    def replay():
        recorded.replay()
        return result

    return replay


def prepare(task, device):
    """(network, its call given what to call, whether scores go to the host)."""
    kind, c = task["kind"], task.get("config")
    random = lambda *shape: torch.randn(*shape)
    if kind == "dit":
        net = Dit(c, task["windows"], task["encoder_width"]).eval()
        rows, frames, latent = task["batch"], task["frames"], c["audio_acoustic_hidden_dim"]
        heard = net.attend_to(random(rows, task["condition"], task["encoder_width"]))
        x, context = random(rows, frames, latent), random(rows, frames, 2 * latent)
        t = torch.full((rows,), 0.5)
        return net, lambda call: call(x, context, t, heard), False
    if kind == "vae":
        net = decoder(c).eval()
        tiles = [random(1, c["decoder_input_channels"], frames) for frames in task["tiles"]]
        return net, lambda call: [call(tile) for tile in tiles], False
    if kind in ("text-encoder", "lm-prefill"):
        net = Qwen(c, task.get("scores", 0)).eval()
        ids = torch.randint(0, c["vocab_size"], (1, task["tokens"]))
        positions = torch.arange(task["tokens"])
        return net, lambda call: call(ids, positions), kind == "lm-prefill"
    if kind == "lm-decode":
        net = Qwen(c, task["scores"]).eval()
        rows, before = task["rows"], task["before"]
        # Room for exactly the new token: everything in the cache is seen.
        kept = (rows, c["num_key_value_heads"], before + 1, c["head_dim"])
        caches = [(random(*kept), random(*kept)) for _ in net.layers]
        ids = torch.randint(0, c["vocab_size"], (rows, 1))
        position = torch.tensor([before])
        return net, lambda call: call(ids, position, caches), True
    return None


def rounds(device, wanted):
    """The ways of each round: layers that were compiled stay so."""
    gpu = device.type == "cuda"
    known = [["eager"] + ["graph"] * gpu, ["compile"] + ["compile+graph"] * gpu]
    chosen = [[way for way in ways if not wanted or way in wanted] for ways in known]
    return [ways for ways in chosen if ways]


def compiled(net):
    """`net` compiled: layer by layer where it has layers, which are alike and so compiled once."""
    torch._dynamo.reset()
    # Layers differ in their masks, and every network of a run is compiled in one process.
    torch._dynamo.config.recompile_limit = 64
    if not hasattr(net, "layers"):
        return torch.compile(net, dynamic=False)
    for layer in net.layers:
        layer.compile(dynamic=False)
    return net


def tidy(device):
    """Gives memory back: a graph keeps its own."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def timed(way, call, run, to_host, device, clock):
    work = lambda: run(call)
    if way.endswith("graph"):
        for _ in range(3):
            work()
        work = graph(work, device)
    return clock.best((lambda: work().float().cpu()) if to_host else work)


def measure(task, device, clock, ways):
    say(begin=task["id"])
    with torch.device(device):
        prepared = prepare(task, device)
    if prepared is None:
        return
    net, *rest = prepared
    call = None
    for way in ways:
        row = {"id": task["id"], "mode": way, "wall_s": None, "error": None}
        try:
            if call is None:
                call = compiled(net) if way.startswith("compile") else net
            row["wall_s"] = timed(way, call, *rest, device, clock)
        except Exception as error:  # whatever a compiler may throw is a result here
            row["error"] = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
        say(row=row)
        tidy(device)


def small():
    """Tasks that a processor does in moments, one of each kind."""
    qwen = {
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rope_theta": 1e6,
    }
    dit = dict(qwen, patch_size=2, in_channels=24, audio_acoustic_hidden_dim=8)
    vae = {
        "audio_channels": 2, "decoder_channels": 8, "decoder_input_channels": 8,
        "channel_multiples": [1, 2, 4], "downsampling_ratios": [2, 3, 5],
    }
    return [
        {"id": "dit", "kind": "dit", "config": dit, "windows": [5, None], "encoder_width": 48,
         "batch": 2, "frames": 31, "condition": 7},
        {"id": "vae", "kind": "vae", "config": vae, "tiles": [9, 7]},
        {"id": "text-encoder", "kind": "text-encoder", "config": qwen, "tokens": 9},
        {"id": "lm-prefill", "kind": "lm-prefill", "config": qwen, "tokens": 9, "scores": 100},
        {"id": "lm-decode", "kind": "lm-decode", "config": qwen, "rows": 2, "before": 11,
         "scores": 100},
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--tasks", help="a JSON list of tasks, as `acestep check` writes it")
    parser.add_argument("--ways", type=lambda text: text.split(","), help="only these, by commas")
    parser.add_argument("--quick", action="store_true", help="small tasks, to try this script")
    args = parser.parse_args()
    if args.tasks:
        with open(args.tasks, encoding="utf-8") as file:
            tasks = json.load(file)
    elif args.quick:
        tasks = small()
    else:
        parser.error("--tasks FILE or --quick")
    device = torch.device(args.device)
    if device.type == "cuda":
        # Graphs are recorded on the current device, whatever their tensors are on.
        torch.cuda.set_device(device)
    torch.set_default_dtype(DTYPES[args.dtype])
    # In f32 both programs compute in f32.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    say(torch=f"{torch.__version__} on {name}")
    clock = Clock(device, args.quick)
    with torch.no_grad():
        for ways, task in itertools.product(rounds(device, args.ways), tasks):
            try:
                measure(task, device, clock, ways)
            except Exception as error:
                text = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
                say(row={"id": task["id"], "mode": ways[0], "wall_s": None, "error": text})
            tidy(device)


if __name__ == "__main__":
    main()
