import type { Container, PodTemplateSpec } from "../schema/pod-template.ts";

/** The last part of the repository of the image that injects envd (OpenKruise Agents and ACS). */
const imageName = "agent-runtime";
/** The script with which the main container starts the injected envd. */
const startScript = "envd-run.sh";

/** The parts of a template with which OpenKruise Agents and ACS inject envd into a sandbox. */
interface AgentRuntime {
  /** The names of init containers. */
  containers: readonly string[];
  hasHook: boolean;
}

/**
 * The template without the parts that inject envd: every sandbox has the guest, which serves envd's interface at the same
 * port. The start script would find this port in use, and its sidecar needs an image that may not exist here.
 */
export function withoutAgentRuntime(template: PodTemplateSpec): PodTemplateSpec {
  const { containers: names, hasHook } = agentRuntime(template);
  if (names.length === 0) return template;
  const { initContainers = [], containers } = template.spec;
  return {
    ...template,
    spec: {
      ...template.spec,
      initContainers: initContainers.filter(({ name }) => !names.includes(name)),
      containers: hasHook
        ? containers.map((container, index) => (index === 0 ? withoutHook(container) : container))
        : containers,
    },
  };
}

/** Names the parts of a template that were skipped, and why; undefined: none. */
export function skippedRuntime(template: PodTemplateSpec): string | undefined {
  const { containers, hasHook } = agentRuntime(template);
  if (containers.length === 0) return undefined;
  const sidecars = containers.map((name) => `the init container ${name}`);
  const parts = [...sidecars, ...(hasHook ? [`the postStart hook that runs ${startScript}`] : [])];
  return (
    `Skipped ${parts.join(" and ")}: every sandbox has Ramet's guest, which serves the interface of envd. ` +
    "Remove them from the template, or keep them for clusters with OpenKruise Agents"
  );
}

function agentRuntime({ spec }: PodTemplateSpec): AgentRuntime {
  const containers = (spec.initContainers ?? []).filter(injectsEnvd).map(({ name }) => name);
  return { containers, hasHook: containers.length > 0 && startsEnvd(spec.containers[0]) };
}

export function injectsEnvd(container: Readonly<Record<string, unknown>>): boolean {
  const { image, restartPolicy } = container;
  if (typeof image !== "string" || restartPolicy !== "Always") return false;
  const repository = image.split("@", 1)[0]?.replace(/:[^/:]*$/, "");
  return repository?.split("/").at(-1) === imageName;
}

function startsEnvd(container: Container | undefined): boolean {
  const command = container?.lifecycle?.postStart?.exec?.command ?? [];
  return command.some((word) => word.includes(startScript));
}

function withoutHook(container: Container): Container {
  const { lifecycle, ...rest } = container;
  const { postStart: _, ...hooks } = lifecycle ?? {};
  return Object.keys(hooks).length === 0 ? rest : { ...rest, lifecycle: hooks };
}
