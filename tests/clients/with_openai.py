"""The package `openai`: models, speech as a whole and in pieces, songs by chat."""

import base64
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none")

models = [model.id for model in client.models.list()]
assert "tiny" in models and "tiny-speech" in models, models
assert client.models.retrieve("tiny").owned_by == "acestep"

speech = {"model": "tiny-speech", "voice": "vivian", "input": "hello"}
whole = client.audio.speech.create(**speech, response_format="wav").read()
assert whole[:4] == b"RIFF" and len(whole) > 48_000, len(whole)

# The first samples come before the last ones are made.
speech["input"] = "slow words"
begin, first, length = time.monotonic(), None, 0
with client.audio.speech.with_streaming_response.create(**speech, response_format="pcm") as answer:
    assert answer.headers["x-job-id"]
    for piece in answer.iter_bytes():
        first = first or time.monotonic() - begin
        length += len(piece)
assert length == 48_000, length
assert time.monotonic() - begin - first > 1, first

try:
    client.audio.speech.create(**speech, speed=1.5)
    raise SystemExit("a speed of 1.5 was taken")
except openai.BadRequestError as error:
    assert error.body["param"] == "speed", error.body
try:
    client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "x"}])
    raise SystemExit("an unknown model was taken")
except openai.NotFoundError as error:
    assert error.body["code"] == "model_not_found", error.body

words = "<prompt>slow piano</prompt><lyrics>[inst]</lyrics>"
chat = {"model": "acestep/tiny", "messages": [{"role": "user", "content": words}]}
extra = {"batch_size": 2, "audio_config": {"format": "wav", "duration": 10}}
answer = client.chat.completions.create(**chat, extra_body=extra)
message = answer.choices[0].message
assert "slow piano" in message.content
songs = [song["audio_url"]["url"] for song in message.model_dump()["audio"]]
assert len(songs) == 2
assert base64.b64decode(songs[1].split(",", 1)[1])[:4] == b"RIFF"

text, songs, reason = "", [], None
for chunk in client.chat.completions.create(**chat, extra_body=extra, stream=True):
    choice = chunk.choices[0]
    text += choice.delta.content or ""
    songs += choice.delta.model_dump().get("audio") or []
    reason = choice.finish_reason or reason
assert (len(songs), reason) == (2, "stop"), (len(songs), reason)
assert "slow piano" in text
