"""The package `litellm`: speech and a chat through its adapter of OpenAI."""

import os
import sys

# No list of prices from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

server = {"api_base": sys.argv[1] + "/v1", "api_key": "none"}
litellm.telemetry = False

answer = litellm.speech(
    model="openai/tiny-speech", voice="vivian", input="hello", response_format="wav", **server
)
assert answer.content[:4] == b"RIFF", answer.content[:16]

words = "<prompt>slow piano</prompt><lyrics>[inst]</lyrics>"
answer = litellm.completion(
    model="openai/tiny", messages=[{"role": "user", "content": words}], **server
)
assert "slow piano" in answer.choices[0].message.content
