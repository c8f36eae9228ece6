import type { ManifestDraft } from "../../../src/store/manifest.ts";

/** A value of the draft's environment, which must never reach the store. */
export const secret = "hunter2-never-at-rest";

/** Creates a manifest draft as a cell does after a capture. */
export function draft(changes: Partial<ManifestDraft> = {}): ManifestDraft {
  return {
    contents: ["memory", "filesystem"],
    cutAt: "2026-11-21T12:00:00.000Z",
    engine: { name: "gvisor", version: "release-20260831.0", platform: "systrap", architecture: "amd64" },
    templateDigest: "sha256:template",
    container: {
      name: "main",
      image: "python",
      command: ["python3"],
      args: ["-i"],
      env: [{ name: "API_KEY", value: secret }],
      user: { uid: 0, gid: 0 },
      ports: [8000],
      readOnlyRoot: false,
      mounts: [],
      resources: {},
    },
    image: { name: "python" },
    consistency: "quiesced",
    ...changes,
  };
}
