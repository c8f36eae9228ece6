"""The SDK for Python with E2B_DOMAIN only. Programs without an SDK reach ports and files by their URLs."""

import os
import ssl
import time
import urllib.error
import urllib.request

from e2b import Sandbox

trusted = ssl.create_default_context()
if hasattr(ssl, "VERIFY_X509_STRICT"):
    trusted.verify_flags |= ssl.VERIFY_X509_STRICT


def send(url, body=None, headers={}):
    """@returns the status and the text of the response"""
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, context=trusted) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until_served(url):
    """The gateway answers 502 while nothing listens on the port."""
    while True:
        status, text = send(url)
        if status != 502:
            return status, text
        time.sleep(0.05)


assert "E2B_API_URL" not in os.environ and "E2B_SANDBOX_URL" not in os.environ
sandbox = Sandbox.create()
assert sandbox.commands.run("echo hello").stdout == "hello\n"
sandbox.files.write("/srv/page", "a page")
same = Sandbox.connect(sandbox.sandbox_id)
assert same.files.read("/srv/page") == "a page"

sandbox.commands.run("cd /srv && exec python3 -m http.server 8000", background=True)
assert until_served(f"https://{sandbox.get_host(8000)}/page") == (200, "a page")

url = sandbox.download_url("/srv/page", use_signature_expiration=60)
assert send(url) == (200, "a page"), url
boundary = "3d6b6a416f9b5"
form = (
    f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="sent"\r\n\r\n'
    f"sent by a URL\r\n--{boundary}--\r\n"
).encode()
headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
status, text = send(sandbox.upload_url("/srv/sent", use_signature_expiration=60), form, headers)
assert status == 200, text
assert sandbox.files.read("/srv/sent") == "sent by a URL"
assert sandbox.kill()
