import { cellPort } from "../../api/wire/cell-api.ts";
import type { Container, Handler, Volume } from "../../api/schema/pod-template.ts";
import type { NodePod } from "./pod.ts";
import { unsupportedHook } from "./hooks.ts";
import { fileVolumeKinds } from "./volume-files.ts";
import { unsupportedProbe } from "./probe-attempt.ts";

const volumeKinds = ["image", "emptyDir", "persistentVolumeClaim", ...fileVolumeKinds];

/** Why the local node cannot run a Pod as specified: one sentence that names the field. */
export function unsupported(pod: NodePod): string | undefined {
  const { containers, initContainers = [], volumes = [] } = pod.spec;
  const [container] = containers;
  if (container === undefined) return "spec.containers is empty";
  if (container.env?.some(({ name }) => name === "RAMET_CELL") !== true)
    return only("spec.containers[0].env", "runs only Ramet's sandboxes, and RAMET_CELL is not set");
  return (
    firstOf(volumes.entries(), volumeProblem) ??
    firstOf(containers.entries(), ([index, one]) => containerProblem(one, `spec.containers[${index}]`)) ??
    firstOf(initContainers.entries(), ([index, one]) =>
      containerProblem(one as Partial<Container>, `spec.initContainers[${index}]`),
    )
  );
}

function volumeProblem([index, volume]: [number, Volume]): string | undefined {
  const kind = Object.keys(volume).find((key) => key !== "name");
  if (kind === undefined || volumeKinds.includes(kind)) return undefined;
  return only(`spec.volumes[${index}].${kind}`, `supports only these kinds of volumes: ${volumeKinds.join(", ")}`);
}

function containerProblem(container: Partial<Container>, at: string): string | undefined {
  const { lifecycle } = container;
  for (const name of ["startupProbe", "readinessProbe", "livenessProbe"] as const) {
    const problem = container[name] && unsupportedProbe(container[name]);
    if (problem !== undefined) return only(`${at}.${name}.${problem.field}`, problem.why);
  }
  for (const name of ["postStart", "preStop"] as const) {
    const hook = lifecycle?.[name];
    const problem = hook && unsupportedHook(hook);
    if (problem !== undefined) return only(`${at}.lifecycle.${name}.${problem.field}`, problem.why);
  }
  return undefined;
}

/** Whether this is the probe of every cell's Pod (src/api/pod/cell-container.ts). The node reads the cell's state instead. */
export function isCellProbe({ httpGet }: Handler): boolean {
  return httpGet?.port === cellPort && httpGet["path"] === "/readyz";
}

function only(field: string, what: string): string {
  return `${field} is not supported: the local node ${what}`;
}

function firstOf<T>(values: Iterable<T>, find: (value: T) => string | undefined): string | undefined {
  for (const value of values) {
    const found = find(value);
    if (found !== undefined) return found;
  }
  return undefined;
}
