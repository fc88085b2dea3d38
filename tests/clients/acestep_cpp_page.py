"""The calls of acestep.cpp's page, with its fields (tools/webui/src/lib/api.ts, commit fa33775)."""

import json
import sys
import time

from calls import Client

server = Client(sys.argv[1])
BOUNDARY = b"--ace-batch-boundary"


def finished(answer):
    """Asks as the page does, and returns type and bytes of the result."""
    while True:
        state = server.get(f"/job?id={answer['id']}")["status"]
        if state == "done":
            break
        assert state == "running", state
        time.sleep(0.1)
    status, headers, body = server.send(f"/job?id={answer['id']}&result=1")
    assert status == 200, (status, body)
    return headers["Content-Type"], body


def parts(answer):
    """Splits a result as the page does: by the places of the boundary and the first empty line."""
    kind, body = finished(answer)
    assert kind == "multipart/mixed; boundary=ace-batch-boundary", kind
    list_ = []
    for part in body.split(BOUNDARY)[1:-1]:
        head, content = part[2:-2].split(b"\r\n\r\n", 1)
        list_.append((head.splitlines()[0].split(b": ", 1)[1].decode(), content))
    return list_


props = server.get("/props")
default = props["default"]
assert props["models"]["dit"] and props["models"]["lm"], props
assert props["presets"]["turbo"]["inference_steps"] == 8
assert props["presets"]["sft"]["guidance_scale"] == 7 and default["dcw_mode"] == "low"

# Inspire, format, compose.
request = {**default, "caption": "rain", "synth_model": props["models"]["dit"][0]}
for mode in ["inspire", "format"]:
    kind, body = finished(server.post("/lm", {**request, "lm_mode": mode}))
    assert kind == "application/json" and json.loads(body)[0]["lyrics"], body
kind, body = finished(server.post("/lm", {**request, "lm_batch_size": 2}))
songs = json.loads(body)
assert len(songs) == 2 and songs[0]["audio_codes"], songs

# Synthesize: one request, an array, and an array within a form.
made = parts(server.post("/synth", {**songs[0], "output_format": "wav16"}))
assert [kind for kind, _ in made] == ["audio/wav", "application/octet-stream"]
sound, latents = made[0][1], made[1][1]
assert sound[:4] == b"RIFF" and len(latents) % 256 == 0
batch = [{**song, "output_format": "wav16", "synth_batch_size": 2} for song in songs]
assert len(parts(server.post("/synth", batch))) == 8
body = json.dumps([{**song, "task_type": "cover"} for song in batch]).encode()
files = [
    ("request", "request.json", "application/json", body),
    ("src_latents", "src.latents", "application/octet-stream", latents),
    ("ref_audio", "ref.audio", "audio/wav", sound),
]
assert len(parts(server.form("/synth", {}, files))) == 8

# Understand, and the VAE both ways.
options = ("request", "request.json", "application/json", b'{"lm_model": ""}')
source = ("audio", "input.audio", "audio/wav", sound)
told = parts(server.form("/understand", {}, [source, options]))
assert json.loads(told[0][1])[0]["caption"], told
kind, encoded = finished(server.form("/vae", {}, [source, options]))
assert kind == "application/octet-stream" and len(encoded) % 256 == 0
options = ("request", "request.json", "application/json", b'{"output_format": "wav16"}')
source = ("src_latents", "src.vae", "application/octet-stream", encoded)
kind, decoded = finished(server.form("/vae", {}, [source, options]))
assert kind == "audio/wav" and decoded[:4] == b"RIFF"

# Cancel, and a failure with its reason.
slow = server.post("/synth", {"caption": "long", "output_format": "wav16"})
status, _, _ = server.send(f"/job?id={slow['id']}&cancel=1", b"", None, "POST")
assert status == 200
while (state := server.get(f"/job?id={slow['id']}")["status"]) == "running":
    time.sleep(0.1)
assert state == "cancelled", state
bad = server.post("/synth", {"caption": "fail", "output_format": "wav16"})
while (state := server.get(f"/job?id={bad['id']}"))["status"] == "running":
    time.sleep(0.1)
assert state == {"status": "failed", "error": "the caption says so"}, state
