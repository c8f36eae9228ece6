import type { InvalidObject } from "./invalid-objects.ts";

const kind = "NamedSnapshot";
const from = { template: { name: "python" } };
const ofStep = (name: string, step: object, message: RegExp): InvalidObject => ({
  name: `a NamedSnapshot with a step that ${name}`,
  kind,
  spec: { from, recipe: [{ run: "true" }, step] },
  message,
});
const tree = "0".repeat(64);
const oneAction = /spec\.recipe\[1\]: .*exactly one of run, copy/;

/** Snapshots with one invalid value each. */
export const invalidSnapshots: InvalidObject[] = [
  { name: "a NamedSnapshot without from", kind, spec: {}, message: /spec\.from: Required value/ },
  {
    name: "a NamedSnapshot without a source",
    kind,
    spec: { from: {} },
    message: /spec\.from: .*exactly one of template, snapshot, sandbox and checkpoint/,
  },
  {
    name: "a NamedSnapshot of two sources",
    kind,
    spec: { from: { ...from, sandbox: { name: "a" } } },
    message: /spec\.from: .*exactly one of template, snapshot, sandbox and checkpoint/,
  },
  {
    name: "a NamedSnapshot of a version and a digest",
    kind,
    spec: { from: { snapshot: { name: "a", version: 1, digest: `sha256:${"0".repeat(64)}` } } },
    message: /spec\.from\.snapshot\.digest: .*exclude each other/,
  },
  {
    name: "a NamedSnapshot with volumes that its contents do not select",
    kind,
    spec: { from, volumes: ["data"] },
    message: /spec\.volumes: .*add volumes to contents/,
  },
  {
    name: "a NamedSnapshot of memory alone",
    kind,
    spec: { from, contents: ["memory"] },
    message: /spec\.contents: .*contents must have filesystem/,
  },
  {
    name: "a NamedSnapshot that keeps no version",
    kind,
    spec: { from, keepVersions: 0 },
    message: /spec\.keepVersions: .*greater than or equal to 1/,
  },
  {
    name: "a NamedSnapshot whose name is too long",
    kind,
    metadata: { name: "a".repeat(41) },
    spec: { from },
    message: /metadata\.name must be a DNS label of at most 40/,
  },
  ofStep("has no action", {}, oneAction),
  ofStep("has two actions", { run: "a", start: "b" }, oneAction),
  ofStep("sets two settings", { env: { A: "1" }, user: "a" }, oneAction),
  ofStep("has an empty command", { run: "" }, /spec\.recipe\[1\]\.run: .*at least 1 chars/),
  ofStep(
    "copies as two users",
    { copy: { path: "/a", content: "" }, user: "a" },
    /to set the owner of a copied file, use copy\.user/,
  ),
  ofStep("sets a directory without a command", { user: "a", cwd: "/a" }, /spec\.recipe\[1\]\.cwd: .*workdir step/),
  ofStep(
    "sets a time limit without a command",
    { start: "a", timeoutSeconds: 1 },
    /spec\.recipe\[1\]\.timeoutSeconds: /,
  ),
  ofStep("copies no content", { copy: { path: "/a" } }, /spec\.recipe\[1\]\.copy: .*exactly one of content/),
  ofStep(
    "copies two contents",
    { copy: { path: "/a", content: "", configMapKeyRef: { name: "a", key: "b" } } },
    /exactly one of content/,
  ),
  ofStep(
    "fetches a URL without a digest",
    { copy: { path: "/a", url: "https://a.b/c" } },
    /url and sha256 must be set together/,
  ),
  ofStep(
    "fetches a local file",
    { copy: { path: "/a", url: "file:///etc/passwd", sha256: "0".repeat(64) } },
    /copy\.url: /,
  ),
  ofStep(
    "waits for two conditions",
    { waitFor: { port: 1, file: "/a" } },
    /spec\.recipe\[1\]\.waitFor: .*exactly one of port, file and command/,
  ),
  ofStep(
    "sets a variable with an invalid name",
    { env: { "a-b": "1" } },
    /spec\.recipe\[1\]\.env: .*do not start with a digit/,
  ),
  ofStep("copies a tree and text", { copy: { path: "/a", tree, content: "x" } }, /copy must have exactly one of/),
  ofStep("copies a tree with another digest", { copy: { path: "/a", tree: "0" } }, /spec\.recipe\[1\]\.copy\.tree/),
  ofStep(
    "copies a part of no tree",
    { copy: { path: "/a", content: "x", treePath: "b" } },
    /treePath is allowed only with tree/,
  ),
  ofStep(
    "copies from outside of a tree",
    { copy: { path: "/a", tree, treePath: "b/../../c" } },
    /treePath must be a relative path/,
  ),
  ofStep("sets a shell without a command", { workdir: "/a", shell: "bash" }, /shell is allowed only with run or start/),
  ofStep(
    "sets a shell to wait for a port",
    { waitFor: { port: 1, shell: "bash" } },
    /shell is allowed only with command/,
  ),
];
