import * as z from "zod";
import { parseTimeSpan } from "../../provider/handlers/time-span.ts";
import { defineRule, dynamicInputsOf, kruise, specOf } from "../rule.ts";

/** Makes sure that forgotten sandboxes end. */
export const boundedLifetimes = defineRule({
  name: "ramet-bounded-lifetimes",
  description: "Clones, sandboxes and claims must end within a maximum lifetime.",
  remedy: "Set lifetime of the SandboxClone, or shutdownTime of the Sandbox or SandboxClaim.",
  settings: {
    maxLifetime: z
      .string()
      .default("7 days")
      .describe('Maximum lifetime of a sandbox, such as "8 hours".')
      .transform((text) => ({ text, milliseconds: parseTimeSpan(text, "maxLifetime") })),
  },
  validate: (resource, { maxLifetime: { text: longest, milliseconds: most } }, now) => {
    const clone = dynamicInputsOf(resource, "SandboxClone");
    if (clone !== undefined) {
      const { lifetime } = WithLifetime.parse(clone);
      if (lifetime === undefined) return [`lifetime is not set; the maximum is ${longest}`];
      return parseTimeSpan(lifetime, "lifetime") > most ? [`lifetime is ${lifetime}; the maximum is ${longest}`] : [];
    }
    const spec = specOf(resource, kruise, "Sandbox") ?? specOf(resource, kruise, "SandboxClaim");
    if (spec === undefined) return [];
    const { shutdownTime } = WithShutdown.parse(spec);
    if (shutdownTime === undefined) return [`shutdownTime is not set; the maximum is ${longest} from now`];
    return Date.parse(shutdownTime) - now.getTime() > most
      ? [`shutdownTime is ${shutdownTime}; the maximum is ${longest} from now`]
      : [];
  },
});

const WithLifetime = z.object({ lifetime: z.string().optional() });
const WithShutdown = z.object({ shutdownTime: z.string().optional() });

/** Catches mistakes such as an additional zero, which would fill the cluster. */
export const boundedReplicas = defineRule({
  name: "ramet-bounded-replicas",
  description: "Sets and claims must not exceed the maximum number of sandboxes.",
  remedy: "Reduce the replicas, or ask for a higher maximum.",
  settings: {
    maxReplicas: z.int().min(0).default(100).describe("Maximum number of sandboxes of a set or a claim."),
  },
  validate: (resource, { maxReplicas }) => {
    const spec = specOf(resource, kruise, "SandboxSet") ?? specOf(resource, kruise, "SandboxClaim");
    const replicas = spec?.["replicas"];
    return typeof replicas === "number" && replicas > maxReplicas
      ? [`replicas is ${replicas}; the maximum is ${maxReplicas}`]
      : [];
  },
});
