import { parsePodTemplate } from "../../src/api/schema/pod-template.ts";
import { anyNode } from "../../src/controllers/nodes/plan-cpus.ts";
import { desiredEgress } from "../../src/controllers/origin/egress.ts";
import type { SandboxState } from "../../src/controllers/sandbox/state.ts";
import { noRestoredVolumes } from "../../src/controllers/volumes/restored-volumes.ts";

const template = parsePodTemplate({ spec: { containers: [{ name: "main", image: "python" }] } });

/** The state of a sandbox with these parts, of which nothing else is known. */
export function stateWith(parts: Partial<SandboxState> & Pick<SandboxState, "sandbox" | "pod" | "now">): SandboxState {
  return {
    foreignPod: undefined,
    stoppedBy: undefined,
    credentials: { credentials: undefined, digest: "none" },
    credentialsCall: undefined,
    template: { template, borrowed: false, contents: {}, pauseStrategy: undefined, volumeClaims: [] },
    cpus: anyNode,
    volumes: noRestoredVolumes,
    lostClaims: [],
    image: { state: "unresolved" },
    ignored: [],
    pullTimeoutInMilliseconds: undefined,
    rollback: undefined,
    origin: { kind: "new" },
    start: undefined,
    restoreInPlace: undefined,
    adoption: undefined,
    load: undefined,
    end: undefined,
    activity: undefined,
    egress: desiredEgress({ namespace: undefined, template: undefined, sandbox: parts.sandbox }, {}),
    egressCall: undefined,
    pauseCheckpoint: undefined,
    rolledBackPause: undefined,
    orphans: [],
    otherCheckpoint: undefined,
    slowInMilliseconds: 500,
    ...parts,
  };
}
