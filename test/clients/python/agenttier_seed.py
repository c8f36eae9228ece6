"""The example of AgentTier's page "Sandbox cloning", with the calls that its client has: the page's `client.sandboxes` does not exist."""

import os

from agenttier import AgentTierClient

client = AgentTierClient(os.environ["AGENTTIER_API_URL"])
assert not hasattr(client, "sandboxes")

# Take a clone of an existing sandbox
clone = client.get_sandbox("my-sandbox").clone(name="my-sandbox-of-python")

# Wait for the clone to be Running
clone.wait_until_running(timeout=180)
assert clone.files.read("/workspace/file") == b"workspace"
