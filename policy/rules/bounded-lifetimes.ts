import * as z from "zod";
import { parseTimeSpan } from "../../provider/handlers/time-span.ts";
import { defineRule, dynamicInputsOf, kruise, specOf } from "../rule.ts";

/** Sandboxes that somebody forgot end by themselves. */
export const boundedLifetimes = defineRule({
  name: "ramet-bounded-lifetimes",
  description: "Clones, sandboxes and claims say when they end, and that is not too far away.",
  remedy: "Set lifetime of the SandboxClone, or shutdownTime of the Sandbox or SandboxClaim.",
  settings: {
    maxLifetime: z
      .string()
      .default("7 days")
      .describe('How long a sandbox may live, like "8 hours".')
      .transform((text) => ({ text, milliseconds: parseTimeSpan(text, "maxLifetime") })),
  },
  validate: (resource, { maxLifetime: { text: longest, milliseconds: most } }, now) => {
    const clone = dynamicInputsOf(resource, "SandboxClone");
    if (clone !== undefined) {
      const { lifetime } = WithLifetime.parse(clone);
      if (lifetime === undefined) return [`lifetime is not set; it may be up to ${longest}`];
      return parseTimeSpan(lifetime, "lifetime") > most ? [`lifetime is ${lifetime}; it may be up to ${longest}`] : [];
    }
    const spec = specOf(resource, kruise, "Sandbox") ?? specOf(resource, kruise, "SandboxClaim");
    if (spec === undefined) return [];
    const { shutdownTime } = WithShutdown.parse(spec);
    if (shutdownTime === undefined) return [`shutdownTime is not set; it may be up to ${longest} from now`];
    return Date.parse(shutdownTime) - now.getTime() > most
      ? [`shutdownTime is ${shutdownTime}; it may be up to ${longest} from now`]
      : [];
  },
});

const WithLifetime = z.object({ lifetime: z.string().optional() });
const WithShutdown = z.object({ shutdownTime: z.string().optional() });

/** A zero too many in a review is a cluster full of sandboxes. */
export const boundedReplicas = defineRule({
  name: "ramet-bounded-replicas",
  description: "Sets and claims ask for no more sandboxes than are allowed.",
  remedy: "Ask for fewer, or have the bound raised.",
  settings: {
    maxReplicas: z.int().min(0).default(100).describe("How many sandboxes one set may hold, or one claim take."),
  },
  validate: (resource, { maxReplicas }) => {
    const spec = specOf(resource, kruise, "SandboxSet") ?? specOf(resource, kruise, "SandboxClaim");
    const replicas = spec?.["replicas"];
    return typeof replicas === "number" && replicas > maxReplicas
      ? [`replicas is ${replicas}; it may be up to ${maxReplicas}`]
      : [];
  },
});
