"""HTTP with nothing but Python's own library, for clients that are not Python packages."""

import json
import urllib.error
import urllib.request
import uuid


class Client:
    """A server at an address."""

    def __init__(self, address):
        self.address = address

    def send(self, path, body=None, kind=None, method=None):
        """Returns status, headers and bytes."""
        request = urllib.request.Request(self.address + path, data=body, method=method)
        if kind:
            request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def get(self, path):
        """Returns the JSON of an answer."""
        return self._json(path, *self.send(path))

    def post(self, path, value):
        """Sends JSON; returns the JSON of the answer."""
        body = json.dumps(value).encode()
        return self._json(path, *self.send(path, body, "application/json", "POST"))

    def form(self, path, fields, files):
        """Sends a form as a browser does; files are name, file name, type and bytes."""
        boundary = uuid.uuid4().hex
        body = b""
        for name, value in fields.items():
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
            body += head.encode() + str(value).encode() + b"\r\n"
        for name, file, kind, content in files:
            head = (
                f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; '
                f'filename="{file}"\r\nContent-Type: {kind}\r\n\r\n'
            )
            body += head.encode() + content + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        return self._json(path, *self.send(path, body, kind, "POST"))

    @staticmethod
    def _json(path, status, headers, body):
        assert status == 200, (path, status, body[:300])
        return json.loads(body)
