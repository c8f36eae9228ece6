import { z } from "zod";
import { kruise, specOf } from "../declared.ts";
import { defineRule } from "../rule.ts";

/** A zero too many in a review is a cluster full of sandboxes. */
export const boundedReplicas = defineRule({
  name: "ramet-bounded-replicas",
  description: "Sets and claims ask for no more sandboxes than are allowed.",
  remedy: "Ask for fewer, or have the bound raised.",
  settings: {
    mostReplicas: z.int().min(0).default(100).describe("How many sandboxes one set may hold, or one claim take."),
  },
  judge: (resource, { mostReplicas }) => {
    const spec = specOf(resource, kruise, "SandboxSet") ?? specOf(resource, kruise, "SandboxClaim");
    const replicas = spec?.["replicas"];
    return typeof replicas === "number" && replicas > mostReplicas
      ? [`replicas is ${replicas}; it may be up to ${mostReplicas}`]
      : [];
  },
});
