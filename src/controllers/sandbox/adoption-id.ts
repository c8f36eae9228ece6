import { initRequestDigest } from "../../api/names/init-request.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";

/** Under which the hand-over of what a sandbox asks for by now is known: another request is another hand-over. */
export function adoptionId(sandbox: Sandbox, pod: Pod): string {
  return `${pod.metadata.uid}/${initRequestDigest(sandbox) ?? ""}`;
}

/** Whether the guest has been given another environment than the one that is asked for. */
export function wantsAdoption(sandbox: Sandbox): boolean {
  return initRequestDigest(sandbox) !== sandbox.status?.ramet?.initRequest;
}
