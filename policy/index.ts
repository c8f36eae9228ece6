/** `ramet/policy`: guardrails for a policy pack of `@pulumi/policy`. */
export { guardrails, type GuardrailOptions } from "./guardrails.ts";
