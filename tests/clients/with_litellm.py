"""The package `litellm`: speech through its adapter of OpenAI.

Its chat refuses the songs of ACE-Step's adapter: it takes one sound as an object, no list.
"""

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
