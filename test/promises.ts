/**
 * The test files that `npm test` runs besides the unit tests. `npm run test:all` runs all of them. A file belongs here if it proves a
 * promise or is the shortest walk through something that users have; its variants and faults are left to `test:all`.
 */

/** Files that prove each promise of Ramet. */
export const promises: Record<string, readonly string[]> = {
  "1. A checkpoint that says Succeeded can be cloned until it is deleted. A crash leaves all of it or garbage": [
    "test/cluster/controllers.test.ts",
    "test/contract/store/kill.test.ts",
    "test/contract/store/s3-kill.test.ts",
    "test/contract/cell/needs.test.ts",
  ],
  "2. A failed operation never harms the source, a clone or another checkpoint": [
    "test/cluster/checkpoint-rules.test.ts",
    "test/cluster/rollback-rules.test.ts",
  ],
  "3. Every operation can be repeated": [
    "test/cluster/client-api-requests.test.ts",
    "test/contract/backends/cell-backend.test.ts",
    "test/program/canceled.test.ts",
  ],
  "4. A clone has its own identity before it answers, and a version lists every Secret that its memory can hold": [
    "test/contract/cell/cell.test.ts",
    "test/hostile/sandboxes.test.ts",
    "test/cluster/named-snapshot.test.ts",
  ],
  "5. Every error says what failed, why and what to do. Nothing that a user asked for is skipped silently": [
    "test/cluster/first-day.test.ts",
    "test/cluster/ignored-fields.test.ts",
  ],
  "6. Data of one namespace cannot be reached from another": [
    "test/cluster/client-api-rights.test.ts",
    "test/hostile/api-keys.test.ts",
    "test/hostile/cell-pods.test.ts",
    "test/hostile/templates.test.ts",
  ],
  "7. A claim is one guarded write, and its path waits for nothing": [
    "test/cluster/claim.test.ts",
    "test/cluster/claim-controller.test.ts",
  ],
  "8. No client and no sandbox can stop a server that others use": [
    "test/hostile/gateway.test.ts",
    "test/hostile/output.test.ts",
    "test/hostile/strangers.test.ts",
  ],
  "9. An upgrade loses no snapshot and fails no claim": ["test/cluster/engines-upgrade.test.ts"],
  "10. A clone has the limits, rules, contents and Secrets of its own source or request": [
    "test/cluster/claim-real.test.ts",
    "test/cluster/egress.test.ts",
    "test/contract/cell/volumes.test.ts",
  ],
  "11. Files never count as memory, neither in a sandbox nor in its clones": [
    "test/contract/cell/files-on-disk.test.ts",
  ],
  "12. Status is data: what a program must know is a field": ["test/contract/kstatus/kstatus.test.ts"],
  "13. Output, events and data arrive whole or end with an error": [
    "test/contract/guest/guest.test.ts",
    "test/contract/cell/guest-api.test.ts",
  ],
};

/** One walk through each kind of object, each way to use Ramet, and each interface to other programs. */
export const walks: Record<string, readonly string[]> = {
  "Sandbox, SandboxTemplate": ["test/cluster/sandbox-rules.test.ts"],
  SandboxSet: ["test/cluster/sandbox-set.test.ts"],
  SandboxClaim: ["test/cluster/claim-controller.test.ts"],
  Checkpoint: ["test/cluster/checkpoint-parts.test.ts"],
  NamedSnapshot: ["test/cluster/named-snapshot.test.ts"],
  ClientSecret: ["test/cluster/credentials-e2b.test.ts"],
  ApiKey: ["test/cluster/key-cli.test.ts"],
  volumes: ["test/contract/backends/csi-backend.test.ts", "test/cluster/captured-volumes.test.ts"],
  "command line": ["test/cluster/cli.test.ts"],
  "local cluster": ["test/cluster/local.test.ts"],
  gateway: ["test/cluster/gateway.test.ts"],
  "beside other controllers": ["test/cluster/beside.test.ts"],
  "client E2B": ["test/clients/e2b-js.test.ts", "test/clients/e2b-python.test.ts"],
  "client AgentTier": ["test/clients/agenttier-python.test.ts"],
  "client ramet/client": ["test/clients/native.test.ts"],
  "client MCP": ["test/clients/mcp.test.ts"],
  "Helm chart and alerts": ["test/contract/chart/chart.test.ts", "test/contract/alerts/alerts.test.ts"],
  "program of a user": ["test/program/local-program.test.ts"],
  "program with an installation": ["test/program/install.test.ts", "test/program/stack.test.ts"],
  "program in a pull request": ["test/program/review.test.ts"],
  "package in a program": ["test/program/imports.test.ts"],
  "API server": [
    "test/contract/api/agreement.test.ts",
    "test/contract/api/crds.test.ts",
    "test/contract/kube/real-server.test.ts",
  ],
  backends: ["test/contract/backends/file-copy-backend.test.ts", "test/contract/backends/cell-keys.test.ts"],
  stores: [
    "test/contract/store/azure.test.ts",
    "test/contract/store/disk.test.ts",
    "test/contract/store/encryption.test.ts",
    "test/contract/store/gcs.test.ts",
    "test/contract/store/s3.test.ts",
  ],
  registries: ["test/contract/registry/look-up-image.test.ts"],
  "cell, guest and link": [
    "test/contract/cell/exec.test.ts",
    "test/contract/cell/loopback.test.ts",
    "test/contract/cell/restore-in-place.test.ts",
    "test/contract/cell/rights.test.ts",
    "test/contract/link/link.test.ts",
  ],
  "machine without a new Node": ["test/contract/old-node.test.ts"],
};

/** Faults that users have met, with the files that prove the right value. `npm run test:cases` runs these and the tests of the guest. */
export const cases: Record<string, readonly string[]> = {
  "connections to 127.0.0.1 after a restore, a stopped child, late output, a missing working directory": [
    "test/contract/cell/guest-commands.test.ts",
    "test/contract/cell/loopback.test.ts",
  ],
  "modes of copied files": ["test/cluster/first-day.test.ts"],
  "edges of files and commands": ["test/clients/e2b-js.test.ts", "test/clients/transfers.test.ts"],
  "odd variables, filters without entries, names and tags of snapshots": ["test/cluster/client-api-requests.test.ts"],
  "random numbers in clones": ["test/clients/code-interpreter.test.ts"],
};

/** The files of these cases. */
export const caseFiles: readonly string[] = [...new Set(Object.values(cases).flat())];

/** All files of promises and walks. */
export const provingFiles: readonly string[] = [
  ...new Set([...Object.values(promises), ...Object.values(walks)].flat()),
];
