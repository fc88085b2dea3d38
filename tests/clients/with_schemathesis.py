"""Calls the whole API as its description (OpenAPI) says it can be called: `with_schemathesis.py URL`.

No answer may be a server error that the description does not name, and each one has the status, the type
and the schema that the description says.
"""

import subprocess
import sys

CHECKS = "status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> int:
    url = sys.argv[1]
    # The log of acestep.cpp's API never ends.
    words = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--checks", CHECKS]
    words += ["--exclude-path", "/logs", "--max-examples", "20", "--phases", "examples,coverage,fuzzing"]
    words += ["--request-timeout", "30", "--seed", "1", "--no-shrink", "--warnings", "off", "--no-color"]
    words += ["--continue-on-failure", "--suppress-health-check", "all"] + sys.argv[2:]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
