export type { Manifest } from "../runtime/manifests.ts";
export type { Right } from "../runtime/rights.ts";
