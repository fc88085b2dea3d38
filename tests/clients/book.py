"""The curl commands of the book's pages about the server, as they stand there."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from calls import Client

BOOK = pathlib.Path(__file__).resolve().parents[2] / "book/src"
PAGES = ("serve.md", "clients.md")


def is_whole(command):
    """True for a command that the next line does not continue."""
    if command.rstrip().endswith(("\\", "|")):
        return False
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


def commands(page):
    """The commands with curl of a page."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        command = ""
        for line in block.splitlines():
            command += line + "\n"
            if is_whole(command):
                if command.startswith("curl "):
                    yield command.strip()
                command = ""


def id_of(answer):
    """The id of the job that an answer names, or None."""
    try:
        value = json.loads(answer)
    except ValueError:
        return None
    if value.get("object") == "audio.voice":
        return value.get("job_id")
    data = value.get("data")
    return (data.get("task_id") if isinstance(data, dict) else None) or value.get("id")


def main(url):
    client = Client(url)
    model = client.get("/v1/audio/models")["models"][0]["id"]
    voice = client.get("/v1/audio/voices")["voices"][0]["id"]
    job, number = "none", 0
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "me.wav").write_bytes(b"a recording")
        for page in PAGES:
            for command in commands((BOOK / page).read_text()):
                here = re.sub(r"(http://)?127\.0\.0\.1:8001", url, command)
                here = here.replace("qwen3-tts-0.6b-custom", model).replace('"ryan"', f'"{voice}"')
                here = re.sub(r"\bID\b", job, here)
                here = re.sub(r"\| aplay.*", "", here, flags=re.DOTALL)
                here = here.replace("curl ", "curl --fail-with-body -sS ", 1)
                done = subprocess.run(["bash", "-c", here], cwd=folder, capture_output=True, check=False)
                assert done.returncode == 0, f"{command}\n{done.stdout[:500]}\n{done.stderr[:500]}"
                file = re.search(r"-o (\S+)", command)
                size = os.path.getsize(pathlib.Path(folder, file[1])) if file else len(done.stdout)
                assert size > 10, f"{command}: {size} bytes"
                number += 1
                job = id_of(done.stdout) or job
                while client.get(f"/v1/jobs/{job}").get("state") in ("queued", "running"):
                    time.sleep(0.05)
    assert number >= 13, f"only {number} commands were found"


main(sys.argv[1])
