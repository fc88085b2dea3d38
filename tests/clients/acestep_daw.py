"""The calls of ACE-Step-DAW, in its order and with its fields (src/services/aceStepApi.ts, commit 2bebdd2)."""

import json
import sys
import time

from calls import Client

# Through its proxy the application asks below `/api`.
server = Client(sys.argv[1] + "/api")

status, _, _ = server.send("/health")
assert status == 200
inventory = server.get("/v1/model_inventory")["data"]
[model] = [model for model in inventory["models"] if model["is_default"]]
assert model["is_loaded"] and "lego" in model["supported_task_types"], model
assert server.get("/v1/stats")["data"]["queue_maxsize"] > 0
started = server.post("/v1/init", {"model": model["name"], "slot": 1, "init_llm": False})
assert started["data"]["loaded_model"] == model["name"], started
assert server.post("/create_random_sample", {"sample_type": "custom_mode"})["data"]["caption"]
wish = {"query": "a song of the sea", "instrumental": False, "vocal_language": "en"}
assert server.post("/v1/create_sample", wish)["data"]["caption"]
better = {"prompt": "rain", "lyrics": "la", "param_obj": json.dumps({"bpm": 90, "key": "C major"})}
assert server.post("/format_input", better)["data"]["lyrics"]


def task(fields, source=b"RIFF....WAVE"):
    """Releases a task as a form, and asks every moment; returns the bytes and the item."""
    files = [("src_audio", "src_audio.wav", "audio/wav", source)] if source else []
    fields = {name: value for name, value in fields.items() if value is not None}
    # Browsers write true and false.
    fields = {n: str(v).lower() if isinstance(v, bool) else v for n, v in fields.items()}
    released = server.form("/release_task", fields, files)["data"]
    assert released["status"] == "queued" and released["queue_position"] >= 1, released
    while True:
        [entry] = server.post("/query_result", {"task_id_list": [released["task_id"]]})["data"]
        items = json.loads(entry["result"])
        assert isinstance(items[0]["progress"], (int, float)) and items[0]["stage"], items
        if entry["status"] == 2:
            raise SystemExit(f"failed: {items}")
        if entry["status"] == 1:
            break
        time.sleep(0.1)
    status, headers, body = server.send(items[0]["file"])
    assert (status, headers["Content-Type"]) == (200, "audio/wav")
    assert items[0]["metas"]["bpm"] and items[0]["seed_value"], items
    return body, items[0]


common = {
    "lyrics": "[Verse]\nla", "audio_duration": 10, "inference_steps": 8, "guidance_scale": 7.0,
    "shift": 3.0, "batch_size": 1, "audio_format": "wav", "thinking": False,
    "model": model["name"], "seed": 7, "use_random_seed": False, "negative_prompt": "noise",
}
song, item = task({
    "task_type": "text2music", "prompt": "piano", "bpm": None, "key_scale": "",
    "time_signature": "", "use_cot_caption": True, "vocal_language": "unknown", **common,
})
assert song[:4] == b"RIFF"
region = {"repainting_start": 2, "repainting_end": 5, "instruction": "again", "global_caption": ""}
task({"task_type": "repaint", "prompt": "piano", "repaint_mode": "balanced", **region, **common}, song)
lego = {"task_type": "lego", "track_name": "drums", "prompt": "drums", "chunk_mask_mode": "auto"}
task({**lego, **region, **common, "global_caption": "a whole band"}, song)
# A result of the server as the source, by the name that the server gave.
place = item["file"].split("path=", 1)[1].replace("%2F", "/")
assert not place.startswith("/")
task({**lego, **region, **common, "src_audio_path": place}, None)
task({"task_type": "cover", "caption": "jazz", "audio_cover_strength": 0.5, **common}, song)

[unknown] = server.post("/query_result", {"task_id_list": ["gone"]})["data"]
assert unknown["status"] == 2 and "unknown" in unknown["result"], unknown
